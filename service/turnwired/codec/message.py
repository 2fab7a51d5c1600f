"""Messages of a conversation and their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from turnwire.v1 import message_pb2
from turnwired.codec.enums import ROLE, TOOL_RESULT_STATUS
from turnwired.codec.parse import parse
from turnwired.codec.values import (
    failure_from_pb,
    failure_to_pb,
    time_from_pb,
    time_to_pb,
    tool_ref_from_pb,
    tool_ref_to_pb,
)
from turnwired.domain.errors import CodecError
from turnwired.domain.message import (
    AttachmentRef,
    Blob,
    Content,
    Data,
    Message,
    OpaqueBlock,
    Part,
    Reasoning,
    ResourceLink,
    Text,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def encode_message(value: Message) -> bytes:
    """A message as it is stored. Equal values give equal bytes."""
    out = message_pb2.Message()
    message_to_pb(value, out)
    return out.SerializeToString(deterministic=True)


def decode_message(body: bytes) -> Message:
    """The inverse of ``encode_message``. Raises CodecError."""
    return message_from_pb(parse(message_pb2.Message, body))


def message_to_pb(value: Message, out: message_pb2.Message) -> None:
    """All fields."""
    out.SetInParent()
    out.message_id = value.message_id
    out.role = ROLE.to_wire[value.role]
    for part in value.parts:
        part_to_pb(part, out.parts.add())
    if value.run_id is not None:
        out.run_id = value.run_id
    if value.create_time_ns:
        time_to_pb(value.create_time_ns, out.create_time)


def message_from_pb(message: message_pb2.Message) -> Message:
    """All fields; the role and the content of each part must be set."""
    return Message(
        role=ROLE.from_wire(message.role, "role"),
        parts=parts_from_pb(message.parts, "parts"),
        message_id=message.message_id,
        run_id=message.run_id if message.HasField("run_id") else None,
        # Asked first: to read what is unset makes a Timestamp, and a history has thousands of messages without a time.
        create_time_ns=time_from_pb(message.create_time) if message.HasField("create_time") else 0,
    )


def messages_from_pb(messages: Iterable[message_pb2.Message], field: str) -> tuple[Message, ...]:
    """Messages, each decoded; a CodecError names the one that is wrong."""
    out: list[Message] = []
    try:
        for message in messages:
            out.append(message_from_pb(message))  # noqa: PERF401 - the index of the failing message is wanted
    except CodecError as error:
        raise error.within(f"{field}[{len(out)}]") from error
    return tuple(out)


def parts_from_pb(parts: Iterable[message_pb2.Part], field: str) -> tuple[Part, ...]:
    """Parts, each decoded; a CodecError names the one that is wrong."""
    out: list[Part] = []
    try:
        for part in parts:
            out.append(part_from_pb(part))  # noqa: PERF401 - the index of the failing part is wanted
    except CodecError as error:
        raise error.within(f"{field}[{len(out)}]") from error
    return tuple(out)


def part_to_pb(value: Part, out: message_pb2.Part) -> None:
    """All fields."""
    out.part_id = value.part_id
    match value.content:
        case Text(text):
            out.text = text
        case Reasoning() as reasoning:
            _reasoning_to_pb(reasoning, out.reasoning)
        case ToolCall() as call:
            tool_call_to_pb(call, out.tool_call)
        case ToolResult() as result:
            tool_result_to_pb(result, out.tool_result)
        case AttachmentRef(attachment_id):
            out.attachment_id = attachment_id
        case Blob() as blob:
            _blob_to_pb(blob, out.blob)
        case ResourceLink() as link:
            _link_to_pb(link, out.resource_link)
        case Data(json):
            out.data_json = json
        case OpaqueBlock() as block:
            out.opaque.SetInParent()
            out.opaque.kind = block.kind
            out.opaque.value_json = block.value_json
            out.opaque.provider = block.provider


def part_from_pb(message: message_pb2.Part) -> Part:
    """All fields; the content must be set."""
    case = message.WhichOneof("content")
    if case is None:
        raise CodecError("must have content of a kind that this version knows")
    try:
        return Part(message.part_id, _CONTENT[case](message))
    except CodecError as error:
        raise error.within(case) from error


def tool_call_to_pb(value: ToolCall, out: message_pb2.ToolCall) -> None:
    """All fields."""
    out.SetInParent()
    out.call_id = value.call_id
    tool_ref_to_pb(value.tool, out.tool)
    out.arguments_json = value.arguments_json


def tool_call_from_pb(message: message_pb2.ToolCall) -> ToolCall:
    """All fields."""
    return ToolCall(message.call_id, tool_ref_from_pb(message.tool), message.arguments_json)


def tool_result_to_pb(value: ToolResult, out: message_pb2.ToolResult) -> None:
    """All fields."""
    out.SetInParent()
    out.call_id = value.call_id
    out.status = TOOL_RESULT_STATUS.to_wire[value.status]
    for part in value.content:
        part_to_pb(part, out.content.add())
    if value.structured_json is not None:
        out.structured_json = value.structured_json
    if value.failure is not None:
        failure_to_pb(value.failure, out.failure)
    if value.original_size_bytes is not None:
        out.original_size_bytes = value.original_size_bytes


def tool_result_from_pb(message: message_pb2.ToolResult) -> ToolResult:
    """All fields; the status must be set."""
    return ToolResult(
        call_id=message.call_id,
        status=TOOL_RESULT_STATUS.from_wire(message.status, "status"),
        content=parts_from_pb(message.content, "content"),
        structured_json=message.structured_json if message.HasField("structured_json") else None,
        failure=failure_from_pb(message.failure) if message.HasField("failure") else None,
        original_size_bytes=message.original_size_bytes if message.HasField("original_size_bytes") else None,
    )


def _reasoning_to_pb(value: Reasoning, out: message_pb2.Reasoning) -> None:
    out.SetInParent()
    out.text = value.text
    out.signature = value.signature
    out.provider = value.provider
    out.redacted = value.redacted


def _reasoning_from_pb(part: message_pb2.Part) -> Reasoning:
    reasoning = part.reasoning
    return Reasoning(reasoning.text, reasoning.signature, reasoning.provider, reasoning.redacted)


def _blob_to_pb(value: Blob, out: message_pb2.Blob) -> None:
    out.SetInParent()
    out.media_type = value.media_type
    out.data = value.data
    out.uri = value.uri


def _link_to_pb(value: ResourceLink, out: message_pb2.ResourceLink) -> None:
    out.SetInParent()
    out.uri = value.uri
    out.name = value.name
    out.media_type = value.media_type


def _link_from_pb(part: message_pb2.Part) -> ResourceLink:
    link = part.resource_link
    return ResourceLink(link.uri, link.name, link.media_type)


_CONTENT: Final[dict[str, Callable[[message_pb2.Part], Content]]] = {
    "text": lambda part: Text(part.text),
    "reasoning": _reasoning_from_pb,
    "tool_call": lambda part: tool_call_from_pb(part.tool_call),
    "tool_result": lambda part: tool_result_from_pb(part.tool_result),
    "attachment_id": lambda part: AttachmentRef(part.attachment_id),
    "blob": lambda part: Blob(part.blob.media_type, part.blob.data, part.blob.uri),
    "resource_link": _link_from_pb,
    "data_json": lambda part: Data(part.data_json),
    "opaque": lambda part: OpaqueBlock(part.opaque.kind, part.opaque.value_json, part.opaque.provider),
}
