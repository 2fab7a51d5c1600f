"""What every wire says of a message's parts in the same way: content as text, how a call ended, what is refused."""

from __future__ import annotations

import msgspec

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import (
    AttachmentRef,
    Blob,
    Data,
    OpaqueBlock,
    Part,
    Reasoning,
    ResourceLink,
    Text,
    ToolCall,
    ToolResult,
    ToolResultStatus,
)

_STATUS = {
    ToolResultStatus.OK: "",
    ToolResultStatus.ERROR: "The tool failed",
    ToolResultStatus.DENIED: "The call was denied",
    ToolResultStatus.INTERRUPTED: "The call was interrupted",
    ToolResultStatus.NOT_EXECUTED: "The call was not executed",
    ToolResultStatus.OUTCOME_UNKNOWN: "The outcome of the call is unknown",
}


def plain_text(part: Part, wire: str) -> str:
    """Content that can be given as text. Raises InvalidRequest for what cannot; ``wire`` is how the error calls it."""
    match part.content:
        case Text(text):
            return text
        case Data(json):
            return json
        case ResourceLink(uri, name):
            return f"[{name}]({uri})" if name else uri
        case Blob(media_type, data) if data and is_text(media_type):
            return data.decode(errors="replace")
        case Blob(media_type):
            raise refused(part, f"content of type {media_type or 'unknown'} cannot be sent over {wire}")
        case AttachmentRef():
            raise refused(part, "the attachment was not resolved to its content")
        case OpaqueBlock(kind):
            raise refused(part, f"a block of kind {kind} cannot be sent over {wire}")
        case Reasoning() | ToolCall() | ToolResult():
            raise refused(part, f"a message of this role cannot have a {type(part.content).__name__}")


def is_text(media_type: str) -> bool:
    """Whether bytes of this type can be read as text."""
    return media_type.startswith("text/") or media_type.partition(";")[0] == "application/json"


def how_it_ended(result: ToolResult) -> str:
    """What the model is told of a call that did not end well; empty for one that did."""
    if not (words := _STATUS[result.status]):
        return ""
    return f"{words}: {result.failure.message}" if result.failure else f"{words}."


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
    return msgspec.json.encode({"invalid_arguments": arguments_json}).decode()


def refused(part: Part, why: str) -> InvalidRequest:
    """The error for a part that a wire has no place for."""
    return InvalidRequest([FieldViolation(f"parts[{part.part_id}]", why)])
