"""From our words to MCP's: tools as a client lists them, and results as it gets them. Pure.

Follows the schema of the protocol, revisions 2024-11-05 to 2026-07-28. Before the last one, what is structured is an
object; other values are told as content alone.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final, assert_never

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from turnwired.domain.message import (
    AttachmentRef,
    Blob,
    Content,
    Data,
    OpaqueBlock,
    Reasoning,
    ResourceLink,
    Text,
    ToolCall,
    ToolResult,
    ToolResultStatus,
)
from turnwired.domain.tool import Tool

_BLOCK: Final[TypeAdapter[types.ContentBlock]] = TypeAdapter(types.ContentBlock)
_NO_URI: Final = "turnwire:blob"


def tool_to_mcp(tool: Tool, *, modern: bool) -> types.Tool:
    """A tool as ``tools/list`` tells it. ``modern``: to a client of the revision 2026-07-28."""
    hints = tool.annotations
    output = _structure_of(tool, modern=modern)
    return types.Tool(
        name=tool.ref.routed_name,
        title=tool.title or None,
        description=tool.description,
        input_schema={"type": "object", **json.loads(tool.given_schema_json or tool.input_schema_json)},
        output_schema=output,
        annotations=types.ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
    )


def result_to_mcp(result: ToolResult, *, promised: bool, modern: bool) -> types.CallToolResult:
    """A settled call as ``tools/call`` answers it. Whatever is not OK is an error in MCP's words.

    A client holds a result against the structure that the tool ``promised``, and takes one without it for a fault of
    the protocol. So a call that ran without giving it, because the result was too long perhaps, is told as an error.
    """
    failed = result.status is not ToolResultStatus.OK
    value = result.structured_json
    if value is None and len(result.content) == 1 and isinstance(only := result.content[0].content, Data):
        value = only.json  # what a tool gives as JSON alone, such as a Python function a dictionary
    structured: Any = None if value is None else json.loads(value)
    if not modern and not isinstance(structured, dict):
        structured = None
    content = [_block(part.content) for part in result.content]
    if promised and structured is None and not failed:
        words = "The tool ran, but its result does not come in the structure that the tool promises:"
        content.insert(0, types.TextContent(text=words))
        failed = True
    return types.CallToolResult(content=content, structured_content=structured, is_error=failed)


def _structure_of(tool: Tool, *, modern: bool) -> dict[str, Any] | None:
    """The schema of results as far as this revision has a place for it."""
    schema: Any = None if tool.output_schema_json is None else json.loads(tool.output_schema_json)
    if not isinstance(schema, dict):
        return None
    return schema if modern or schema.get("type") == "object" else None


def _block(content: Content) -> types.ContentBlock:
    match content:
        case Text(text) | Reasoning(text) | Data(text):
            return types.TextContent(text=text)
        case Blob(media_type, data, uri):
            encoded = base64.b64encode(data).decode("ascii")
            kind = media_type.partition("/")[0].lower()
            if kind == "image" and not uri:
                return types.ImageContent(data=encoded, mime_type=media_type)
            if kind == "audio" and not uri:
                return types.AudioContent(data=encoded, mime_type=media_type)
            plain = _text(media_type, data)
            if plain is not None:
                return types.EmbeddedResource(
                    resource=types.TextResourceContents(uri=uri or _NO_URI, mime_type=media_type, text=plain)
                )
            blob = types.BlobResourceContents(uri=uri or _NO_URI, mime_type=media_type or None, blob=encoded)
            return types.EmbeddedResource(resource=blob)
        case ResourceLink(uri, name, media_type):
            return types.ResourceLink(uri=uri, name=name or uri, mime_type=media_type or None)
        case OpaqueBlock(_, value):
            try:
                return _BLOCK.validate_json(value)  # of MCP, as it came: from a server behind us to a client before us
            except ValidationError:
                return types.TextContent(text=value)
        case AttachmentRef(attachment_id):
            return types.TextContent(text=f"[attachment {attachment_id}]")
        case ToolCall() | ToolResult():
            raise TypeError("the result of a tool holds no calls and no results")
        case _:
            assert_never(content)


def _text(media_type: str, data: bytes) -> str | None:
    """The bytes as the text that they say they are."""
    if not media_type.startswith(("text/", "application/json")):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
