"""From MCP's words to ours: listed tools and call results, taken as they came, before any validation but our own.

Follows the schema of the protocol, revisions 2024-11-05 to 2026-07-28. What it does not know is kept, not dropped.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final, cast

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import MAX_RESULT_PARTS, Blob, Content, OpaqueBlock, Part, ResourceLink, Text
from turnwired.domain.text import clean_text
from turnwired.domain.tool import Tool, ToolAnnotations, ToolRef, ToolSource
from turnwired.tools.port import ToolOutput
from turnwired.tools.result import json_of

MAX_NAME: Final = 256
"""Characters of a tool's name; the protocol's own advice is 128."""
_Object = Mapping[str, object]


def tool_of(server_id: str, entry: object) -> Tool | Failure:
    """A listed tool, or why the entry cannot be offered."""
    if not isinstance(entry, dict):
        return left_out(server_id, "", "an entry of its tool list is no object")
    fields = cast("_Object", entry)
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        return left_out(server_id, "", "a tool in its list has no name")
    if len(name) > MAX_NAME or not name.isprintable():
        why = f"its name has more than {MAX_NAME} characters, or some that cannot be printed"
        return left_out(server_id, clean_text(name[:MAX_NAME]), why)
    schema = fields.get("inputSchema")
    if not isinstance(schema, dict):
        return left_out(server_id, name, "it has no input schema")
    if _object(fields.get("execution")).get("taskSupport") == "required":
        return left_out(server_id, name, "it can only be called as a task, which is not supported")
    hints = _object(fields.get("annotations"))
    output = fields.get("outputSchema")
    return Tool(
        ref=ToolRef(routed_name=name, native_name=name, source=ToolSource.MCP, server_id=server_id),
        description=clean_text(_string(fields.get("description"))),
        input_schema_json=json_of(schema),
        output_schema_json=json_of(output) if isinstance(output, dict) else None,
        title=clean_text(_string(fields.get("title")) or _string(hints.get("title"))),
        annotations=ToolAnnotations(
            read_only=_flag(hints.get("readOnlyHint")),
            destructive=_flag(hints.get("destructiveHint")),
            idempotent=_flag(hints.get("idempotentHint")),
            open_world=_flag(hints.get("openWorldHint")),
        ),
    )


def left_out(server_id: str, name: str, why: str) -> Failure:
    """The report of a tool that cannot be offered."""
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.TOOL_QUARANTINED,
        message=f"tool {name!r} of {server_id!r} is left out: {why}",
        origin=f"{server_id}/{name}",
    )


def output_of(result: _Object) -> ToolOutput:
    """The result of ``tools/call``. Not an answer to the question asked: an error result that says so."""
    if result.get("resultType", "complete") != "complete":
        words = "the server asks for more before it answers than can be given here"
        failure = Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, words, origin_code=_string(result.get("resultType")))
        return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)
    blocks = result.get("content")
    # One more than a result may have, so that it is seen to be cut: there may be a million.
    read = blocks[: MAX_RESULT_PARTS + 1] if isinstance(blocks, list) else []
    content = tuple(Part("", block_of(block)) for block in read)
    structured = result.get("structuredContent")
    return ToolOutput(
        content=content,
        structured_json=None if structured is None else json_of(structured),
        is_error=result.get("isError") is True,
    )


def block_of(block: object) -> Content:
    """One content block; a kind or a form that is not known comes back word for word."""
    fields = _object(block)
    match fields:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(media_type)}:
            decoded = _bytes(data)
            if decoded is not None:
                return Blob(media_type, decoded)
        case {"type": "resource_link", "uri": str(uri)}:
            return ResourceLink(uri, _string(fields.get("name")), _string(fields.get("mimeType")))
        case {"type": "resource", "resource": {"uri": str(uri)}} if uri.startswith("ui://"):
            return OpaqueBlock("mcp/ui", json_of(block))  # an interface, for whoever can show it
        case {"type": "resource", "resource": {"text": str(text)}}:
            return Text(text)
        case {"type": "resource", "resource": {"blob": str(data), **rest}}:
            decoded = _bytes(data)
            if decoded is not None:
                return Blob(_string(rest.get("mimeType")), decoded, _string(rest.get("uri")))
        case _:
            pass
    return OpaqueBlock(f"mcp/{_string(fields.get('type')) or 'unknown'}", json_of(block))


def _bytes(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _object(value: object) -> _Object:
    return cast("_Object", value) if isinstance(value, dict) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
