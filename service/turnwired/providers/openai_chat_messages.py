"""Canonical messages and tools as the JSON of chat completions. Pure and deterministic: prompt caches live from that.

Source: OpenAI API reference, "Create chat completion", request body.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import (
    AttachmentRef,
    Blob,
    Data,
    Message,
    OpaqueBlock,
    Part,
    Reasoning,
    ResourceLink,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolResultStatus,
)
from turnwired.domain.tool import Tool
from turnwired.providers.profiles import CallIdForm, InputKind, Profile

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_NO_OUTPUT = "(no output)"
_STATUS = {
    ToolResultStatus.OK: "",
    ToolResultStatus.ERROR: "The tool failed",
    ToolResultStatus.DENIED: "The call was denied",
    ToolResultStatus.INTERRUPTED: "The call was interrupted",
    ToolResultStatus.NOT_EXECUTED: "The call was not executed",
    ToolResultStatus.OUTCOME_UNKNOWN: "The outcome of the call is unknown",
}


def encode_system(blocks: Sequence[str]) -> bytes:
    """One system message of all blocks that say something; b"" for none."""
    text = "\n\n".join(block for block in blocks if block)
    return _json({"role": "system", "content": text}) if text else b""


def encode_message(message: Message, profile: Profile) -> bytes:
    """One or more message objects joined by commas; b"" for a message without content.

    Raises InvalidRequest naming the part when the wire has no place for it.
    """
    match message.role:
        case Role.SYSTEM:
            return encode_system([plain_text(part) for part in message.parts])
        case Role.USER:
            return _user(message, profile)
        case Role.ASSISTANT:
            return _assistant(message, profile)
        case Role.TOOL:
            return _tool_results(message, profile)


def encode_tools(tools: Sequence[Tool]) -> bytes:
    """The ``tools`` array, in the given order."""
    return _json(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.ref.routed_name,
                    "description": tool.description,
                    "parameters": msgspec.Raw(tool.input_schema_json.encode() or b'{"type":"object","properties":{}}'),
                },
            }
            for tool in tools
        ]
    )


def call_id(call_id: str, form: CallIdForm) -> str:
    """Our id of a call as the server takes it; the same id gives the same text in call and result."""
    match form:
        case CallIdForm.ANY:
            return call_id
        case CallIdForm.ALPHANUMERIC_9:
            number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:8], "big")
            return "".join(_ALPHABET[number // 36**place % 36] for place in range(9))


def arguments_object(arguments_json: str) -> str:
    """Arguments that every server can read: a JSON object.

    Models write broken JSON, and several servers answer 400 to a history that repeats it; what was written is kept
    as a text inside an object.
    """
    if not arguments_json.strip():
        return "{}"
    try:
        if isinstance(msgspec.json.decode(arguments_json), dict):
            return arguments_json
    except (msgspec.DecodeError, RecursionError):
        pass
    return _json({"invalid_arguments": arguments_json}).decode()


def _user(message: Message, profile: Profile) -> bytes:
    content = [_user_part(part, profile) for part in message.parts]
    if not content:
        return b""
    if all(piece["type"] == "text" for piece in content):
        # Plain text is what every server takes; lists only some.
        return _json({"role": "user", "content": "\n\n".join(piece["text"] for piece in content)})
    return _json({"role": "user", "content": content})


def _user_part(part: Part, profile: Profile) -> dict[str, Any]:
    match part.content:
        case Blob() as blob if blob.media_type.startswith("image/"):
            if InputKind.IMAGE not in profile.inputs:
                raise refused(part, f"provider {profile.name} takes no images")
            return _image(blob)
        case _:
            return {"type": "text", "text": plain_text(part)}


def _image(blob: Blob) -> dict[str, Any]:
    url = blob.uri
    if blob.data:
        url = f"data:{blob.media_type};base64,{base64.b64encode(blob.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def plain_text(part: Part) -> str:
    """Content that can be given as text."""
    match part.content:
        case Text(text):
            return text
        case Data(json):
            return json
        case ResourceLink(uri, name):
            return f"[{name}]({uri})" if name else uri
        case Blob(media_type, data) if data and (media_type.startswith("text/") or media_type == "application/json"):
            return data.decode(errors="replace")
        case Blob(media_type):
            raise refused(part, f"content of type {media_type or 'unknown'} cannot be sent over chat completions")
        case AttachmentRef():
            raise refused(part, "the attachment was not resolved to its content")
        case OpaqueBlock(kind):
            raise refused(part, f"a block of kind {kind} cannot be sent over chat completions")
        case Reasoning() | ToolCall() | ToolResult():
            raise refused(part, f"a message of this role cannot have a {type(part.content).__name__}")


def _assistant(message: Message, profile: Profile) -> bytes:
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message.parts:
        match part.content:
            case Reasoning(text):
                reasoning.append(text)
            case ToolCall(our_id, tool, arguments):
                function = {"name": tool.routed_name, "arguments": arguments_object(arguments)}
                calls.append({"id": call_id(our_id, profile.call_ids), "type": "function", "function": function})
            case _:
                texts.append(plain_text(part))
    text = "".join(texts)
    if not text and not calls:
        return b""
    encoded: dict[str, Any] = {"role": "assistant", "content": text or None}
    if profile.reasoning_echo_field and reasoning:
        encoded[profile.reasoning_echo_field] = "".join(reasoning)
    if calls:
        encoded["tool_calls"] = calls
    return _json(encoded)


def _tool_results(message: Message, profile: Profile) -> bytes:
    """A ``tool`` message for each result, then the images of all of them as the user's: the wire has no other place."""
    encoded: list[bytes] = []
    images: list[dict[str, Any]] = []
    for part in message.parts:
        if not isinstance(part.content, ToolResult):
            raise refused(part, f"a tool message cannot have a {type(part.content).__name__}")
        text, found = result_text(part.content, images=InputKind.IMAGE in profile.inputs)
        our_id = call_id(part.content.call_id, profile.call_ids)
        encoded.append(_json({"role": "tool", "tool_call_id": our_id, "content": text}))
        images += [{"type": "text", "text": f"Images of tool call {our_id}:"}, *found] if found else []
    if images:
        encoded.append(_json({"role": "user", "content": images}))
    return b",".join(encoded)


def result_text(result: ToolResult, *, images: bool) -> tuple[str, list[dict[str, Any]]]:
    """A result as text for the model, and its images when it can see them.

    What cannot be given is named instead: a tool that returns a picture must not end the run of a blind model.
    """
    found = [
        _image(part.content)
        for part in result.content
        if images and isinstance(part.content, Blob) and part.content.media_type.startswith("image/")
    ]
    lines: list[str] = []
    if intro := _STATUS[result.status]:
        lines.append(f"{intro}: {result.failure.message}" if result.failure else f"{intro}.")
    lines.append(result_content(result, images=images))
    text = "\n".join(line for line in lines if line)
    return text or ("(see the image below)" if found else _NO_OUTPUT), found


def result_content(result: ToolResult, *, images: bool = False) -> str:
    """What a result holds, as text. ``images``: leave them out, since they are given as such."""
    lines: list[str] = []
    for part in result.content:
        match part.content:
            case Blob(media_type) if images and media_type.startswith("image/"):
                pass
            case OpaqueBlock(_, value_json):
                lines.append(value_json)
            case Blob(media_type, data) if not media_type.startswith("text/") and media_type != "application/json":
                lines.append(f"({len(data)} bytes of type {media_type or 'unknown'}, which this model cannot be shown)")
            case _:
                lines.append(plain_text(part))
    if not result.content and result.structured_json is not None:
        lines.append(result.structured_json)
    return "\n".join(line for line in lines if line)


def refused(part: Part, why: str) -> InvalidRequest:
    """The error for a part that the wire has no place for."""
    return InvalidRequest([FieldViolation(f"parts[{part.part_id}]", why)])


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
