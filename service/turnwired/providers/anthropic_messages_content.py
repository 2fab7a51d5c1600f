"""Canonical messages and tools as the JSON of the Messages wire. Pure and deterministic: prompt caches live from that.

What the model wrote goes back in the order in which it came, and what only its provider understands goes back to that
provider alone, word for word. Source: Anthropic API reference, "Messages", request body.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from turnwired.domain.message import (
    Blob,
    Message,
    OpaqueBlock,
    Part,
    Reasoning,
    Role,
    ToolCall,
    ToolResult,
    ToolResultStatus,
)
from turnwired.domain.tool import Tool
from turnwired.providers.given_back import given_back
from turnwired.providers.parts import arguments_object, how_it_ended, is_text, plain_text, refused
from turnwired.providers.profiles import InputKind, Profile, PromptCache
from turnwired.providers.schema_adaptation import adapted, for_tools

_WIRE = "the Messages wire"
CACHE_HERE = {"type": "ephemeral"}
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")

_Block = dict[str, Any] | msgspec.Raw


def encode_system(blocks: Sequence[str], profile: Profile) -> bytes:
    """System blocks as text blocks joined by commas; b"" for none.

    With breakpoints the last one ends what the cache keeps: the tools, which come before it, and all of them.
    """
    encoded: list[dict[str, Any]] = [{"type": "text", "text": block} for block in blocks if block.strip()]
    if encoded and profile.prompt_cache is PromptCache.BREAKPOINTS:
        encoded[-1]["cache_control"] = CACHE_HERE
    return b",".join(msgspec.json.encode(block) for block in encoded)


def encode_message(message: Message, profile: Profile) -> bytes:
    """One message object; b"" for a message without content.

    Raises InvalidRequest naming the part when the wire has no place for it.
    """
    match message.role:
        case Role.SYSTEM:
            return _message("user", _instructions(message))
        case Role.USER:
            return _message("user", [block for part in message.parts for block in _user_part(part, profile)])
        case Role.ASSISTANT:
            return _message("assistant", _assistant(message, profile))
        case Role.TOOL:
            return _message("user", [_tool_result(part, profile) for part in message.parts])


def encode_tools(tools: Sequence[Tool], profile: Profile) -> bytes:
    """The ``tools`` array, in the given order."""
    adaptations = for_tools(profile.schema_adaptations)
    encoded: list[dict[str, Any]] = []
    for tool in tools:
        named = {"name": tool.ref.routed_name}
        if tool.description:
            named["description"] = tool.description
        encoded.append(
            {**named, "input_schema": msgspec.Raw(_object_schema(adapted(tool.input_schema_json, adaptations)))}
        )
    return msgspec.json.encode(encoded)


def call_id(our_id: str) -> str:
    """Our id of a call in letters that the API takes; the same id gives the same text in call and result."""
    if _CALL_ID.fullmatch(our_id):
        return our_id
    return f"call_{hashlib.sha256(our_id.encode()).hexdigest()[:32]}"


def _message(role: str, content: Sequence[_Block]) -> bytes:
    return msgspec.json.encode({"role": role, "content": content}) if content else b""


def _instructions(message: Message) -> list[_Block]:
    """A system message inside the conversation, as marked text of the user.

    The wire's own role for it is refused by most models and servers, and where it is taken, in most places.
    """
    text = "\n\n".join(text for part in message.parts if (text := plain_text(part, _WIRE)).strip())
    return [_text(f"<system>\n{text}\n</system>")] if text else []


# --- user ------------------------------------------------------------------------------------------------------------


def _user_part(part: Part, profile: Profile) -> list[_Block]:
    match part.content:
        case Blob(media_type) as blob if media_type.startswith("image/"):
            if InputKind.IMAGE not in profile.inputs:
                raise refused(part, f"provider {profile.name} takes no images")
            if media_type not in _IMAGES and blob.data:
                raise refused(part, f"provider {profile.name} takes {', '.join(sorted(_IMAGES))}, not {media_type}")
            return [_media(part, "image", blob)]
        case Blob(media_type) as blob if media_type == _PDF:
            if InputKind.PDF not in profile.inputs:
                raise refused(part, f"provider {profile.name} takes no PDF documents")
            return [_media(part, "document", blob)]
        case Blob(media_type) if media_type.startswith("audio/"):
            raise refused(part, f"provider {profile.name} takes no audio: give its text instead")
        case Blob(media_type, data) if media_type.startswith("text/") and data and InputKind.PDF in profile.inputs:
            # Where PDF documents are taken, text documents are: the model then sees where they begin and end.
            text = data.decode(errors="replace")
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return [{"type": "document", "source": source}] if text.strip() else []
        case _:
            text = plain_text(part, _WIRE)
            return [_text(text)] if text.strip() else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _media(part: Part, kind: str, blob: Blob) -> dict[str, Any]:
    if blob.data:
        data = base64.b64encode(blob.data).decode()
        return {"type": kind, "source": {"type": "base64", "media_type": blob.media_type, "data": data}}
    if not blob.uri:
        raise refused(part, "it has neither data nor an address")
    return {"type": kind, "source": {"type": "url", "url": blob.uri}}


# --- assistant -------------------------------------------------------------------------------------------------------


def _assistant(message: Message, profile: Profile) -> list[_Block]:
    """What the model wrote, in order. Pictures that it made have no place, and blank text is refused by the API."""
    blocks: list[_Block] = []
    latest: dict[str, Any] | None = None  # the text or call that native fields right behind it belong to
    for part in message.parts:
        if isinstance(part.content, OpaqueBlock):
            if part.content.provider == profile.name and not _joins(part, part.content, latest):
                blocks.append(msgspec.Raw(given_back(part, part.content, dict)))
                latest = None
            continue
        latest = _assistant_block(part, profile)
        if latest is not None:
            blocks.append(latest)
    return blocks


def _assistant_block(part: Part, profile: Profile) -> dict[str, Any] | None:
    match part.content:
        case Reasoning() as reasoning:
            return _thinking(reasoning, profile)
        case ToolCall(our_id, tool, arguments):
            given = msgspec.Raw(arguments_object(arguments).encode())
            return {"type": "tool_use", "id": call_id(our_id), "name": tool.routed_name, "input": given}
        case Blob():
            return None
        case _:
            text = plain_text(part, _WIRE)
            return _text(text) if text.strip() else None


def _thinking(reasoning: Reasoning, profile: Profile) -> dict[str, Any] | None:
    """A thinking block as it came. Without a signature only servers that say so want it back."""
    if reasoning.provider != profile.name:
        return None
    try:
        signature = reasoning.signature.decode()
    except UnicodeDecodeError:
        return None  # no signature of this wire
    if reasoning.redacted:
        return {"type": "redacted_thinking", "data": signature} if signature else None
    if signature or (profile.reasoning_echo_field and reasoning.text):
        return {"type": "thinking", "thinking": reasoning.text, "signature": signature}
    return None


def _joins(part: Part, block: OpaqueBlock, latest: dict[str, Any] | None) -> bool:
    """Whether the block is no block of its own but fields of the text or call before it, which it is then added to."""
    kind = latest["type"] if latest is not None else ""
    match block.kind:
        case "citations":
            if latest is not None and kind == "text":
                latest["citations"] = msgspec.Raw(given_back(part, block, list))
            return True
        case "tool_use":
            if latest is not None and kind == "tool_use":
                more = msgspec.json.decode(given_back(part, block, dict), type=dict[str, msgspec.Raw])
                latest.update({name: value for name, value in more.items() if name not in latest})
            return True
        case _:
            return False


# --- tools -----------------------------------------------------------------------------------------------------------


def _tool_result(part: Part, profile: Profile) -> dict[str, Any]:
    if not isinstance(part.content, ToolResult):
        raise refused(part, f"a tool message cannot have a {type(part.content).__name__}")
    result = part.content
    encoded: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id(result.call_id)}
    if content := _result_content(result, profile):
        encoded["content"] = content
    if result.status is not ToolResultStatus.OK:
        encoded["is_error"] = True
    return encoded


def _result_content(result: ToolResult, profile: Profile) -> list[dict[str, Any]]:
    """How the call ended and what it gave, in order. What cannot be shown is named, so that it ends no run."""
    blocks: list[dict[str, Any]] = []
    if intro := how_it_ended(result):
        blocks.append(_text(intro))
    for part in result.content:
        match part.content:
            case Blob(media_type) as blob if blob.data and media_type in _IMAGES and InputKind.IMAGE in profile.inputs:
                blocks.append(_media(part, "image", blob))
            case Blob(media_type) as blob if blob.data and media_type == _PDF and InputKind.PDF in profile.inputs:
                blocks.append(_media(part, "document", blob))
            case Blob(media_type, data) if not is_text(media_type):
                shown = f"({len(data)} bytes of type {media_type or 'unknown'}, which this model cannot be shown)"
                blocks.append(_text(shown))
            case OpaqueBlock(_, value_json):
                blocks.append(_text(value_json))
            case Blob(_, b""):
                pass
            case _:
                blocks.append(_text(plain_text(part, _WIRE)))
    if not result.content and result.structured_json is not None:
        blocks.append(_text(result.structured_json))
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]


def _object_schema(schema_json: str) -> bytes:
    """A schema whose type is object, as the API demands; one that says so is kept word for word."""
    try:
        fields = msgspec.json.decode(schema_json or "{}", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        fields = {}  # `true` and whatever else takes any arguments
    if bytes(fields.get("type", b"")).strip() == b'"object"':
        return schema_json.encode()
    return msgspec.json.encode({**fields, "type": "object"})
