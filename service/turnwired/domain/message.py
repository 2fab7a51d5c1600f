"""Messages of a conversation and the parts they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from turnwired.domain.failure import Failure
from turnwired.domain.tool import ToolRef

MAX_RESULT_PARTS: Final = 1000
"""Of one tool result: each is an item of the log, of every reader and of a request, however few bytes it has."""


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL = "TOOL"


@dataclass(frozen=True, slots=True)
class Text:
    """Plain or Markdown text."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model's reasoning; ``signature`` is the provider's, to be sent back byte-exact to that ``provider`` only.

    ``redacted``: the provider withholds the text, and the signature is all there is.
    """

    text: str
    signature: bytes = b""
    provider: str = ""
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made. ``arguments_json`` is the model's words, which may be invalid JSON."""

    call_id: str
    tool: ToolRef
    arguments_json: str


class ToolResultStatus(StrEnum):
    """How a tool call ended."""

    OK = "OK"
    ERROR = "ERROR"
    DENIED = "DENIED"
    INTERRUPTED = "INTERRUPTED"
    NOT_EXECUTED = "NOT_EXECUTED"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"


@dataclass(frozen=True, slots=True)
class AttachmentRef:
    """A file, by its id in the request."""

    attachment_id: str


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes with an IANA media type."""

    media_type: str
    data: bytes
    uri: str = ""


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """Something that is elsewhere."""

    uri: str
    name: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    """A JSON value as text."""

    json: str


@dataclass(frozen=True, slots=True)
class OpaqueBlock:
    """A block of a kind that the contract does not know, kept word for word.

    ``provider``: the model provider that it came from, and the only one that it is sent back to; empty for others'.
    """

    kind: str
    value_json: str
    provider: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave. ``original_size_bytes`` is set when the content was cut to the limit."""

    call_id: str
    status: ToolResultStatus
    content: tuple[Part, ...] = ()
    structured_json: str | None = None
    failure: Failure | None = None
    original_size_bytes: int | None = None


Content = Text | Reasoning | ToolCall | ToolResult | AttachmentRef | Blob | ResourceLink | Data | OpaqueBlock


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of content. ``part_id`` is unique in its run and the same in deltas and in the finished part.

    The id ``{id}.{n}`` is of the n-th part, from 1, that is attached to the part or call ``id`` and stands behind it.
    """

    part_id: str
    content: Content


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``create_time_ns`` is Unix time in nanoseconds, 0 when not set."""

    role: Role
    parts: tuple[Part, ...]
    message_id: str = ""
    run_id: str | None = None
    create_time_ns: int = 0
