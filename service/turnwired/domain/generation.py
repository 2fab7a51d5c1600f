"""What a model produces, in the words that all provider wires share.

A wire turns one socket read into a batch of these items. Parts are keyed by ``index``, their position in the
provider's answer, because ids of providers are missing, repeated or rewritten in practice. Text of one part that
arrives in one read is one item: a batch is small, whatever the provider's chunking.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnwired.domain.usage import Usage


class FinishReason(StrEnum):
    """Why a provider stopped producing output. OTHER keeps it open; the raw word travels beside it."""

    STOP = "STOP"
    TOOL_CALLS = "TOOL_CALLS"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    REFUSAL = "REFUSAL"
    EOF = "EOF"
    ERROR = "ERROR"
    ABORTED = "ABORTED"
    OTHER = "OTHER"
    CONTENT_FILTER = "CONTENT_FILTER"
    CONTEXT_LIMIT = "CONTEXT_LIMIT"
    PAUSE = "PAUSE"


@dataclass(frozen=True, slots=True)
class ResponseIdentified:
    """The provider named its response and the model that answers."""

    response_id: str
    model: str


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Text to append to the part at ``index``."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    """Reasoning text to append to the part at ``index``; ``signature`` replaces the part's when not empty.

    ``redacted``: the provider withholds the text of this part, and ``signature`` is all there is.
    """

    index: int
    text: str
    signature: bytes = b""
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class RefusalChunk:
    """Text in which the model refuses, to append to the part at ``index``."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallOpened:
    """The model began to call ``name``. ``provider_call_id`` may be empty or repeat; it is only for echo."""

    index: int
    provider_call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgumentsChunk:
    """A fragment of JSON to append to the arguments of the call at ``index``."""

    index: int
    fragment: str


@dataclass(frozen=True, slots=True)
class ToolCallClosed:
    """The arguments of the call at ``index`` are complete."""

    index: int


@dataclass(frozen=True, slots=True)
class NativeItem:
    """Something of this provider that must be given back word for word (``json`` text), never to another one.

    ``kind`` is the wire's own word, such as ``server_tool_use``. With the ``index`` of a part or call that is there
    already it belongs to that one and is kept right after it; otherwise it is a part of its own.
    """

    index: int
    kind: str
    json: str


@dataclass(frozen=True, slots=True)
class MediaProduced:
    """An image or another file that the model made, whole. ``media_type`` is an IANA media type."""

    index: int
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Usage of this response so far. Cumulative: the last one wins."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class GenerationStopped:
    """The positive end signal. ``provider_reason`` is the provider's own word, kept as it came."""

    reason: FinishReason
    provider_reason: str


class Irregularity(StrEnum):
    """In what a provider departed from its protocol."""

    STRAY_INDEX = "stray_index"
    """Arguments came at a position where no call was opened."""
    MISSING_FINISH = "missing_finish"
    """The answer ended without the word that ends it."""


@dataclass(frozen=True, slots=True)
class IrregularityFound:
    """The provider departed from its protocol. ``message`` is for developers.

    ``damaged``: positions of calls that must not run, since what they were meant to say is not known.
    """

    kind: Irregularity
    message: str
    damaged: tuple[int, ...] = ()


ModelItem = (
    ResponseIdentified
    | TextChunk
    | ReasoningChunk
    | RefusalChunk
    | ToolCallOpened
    | ToolArgumentsChunk
    | ToolCallClosed
    | NativeItem
    | MediaProduced
    | UsageReported
    | GenerationStopped
    | IrregularityFound
)
