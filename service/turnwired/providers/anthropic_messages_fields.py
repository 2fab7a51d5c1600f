"""Fields of Messages answers: why it stopped, usage, errors, and JSON that is kept word for word. Knows no events.

Source: Anthropic API reference, "Messages", response body; recorded traffic for what servers do otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from turnwired.domain.generation import FinishReason
from turnwired.domain.usage import Usage, UsageSource
from turnwired.providers.errors import WireError, protocol_error
from turnwired.providers.openai_chat_fields import MAX_COUNT, dumps, wire_error

FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.OUTPUT_LIMIT,
    "model_context_window_exceeded": FinishReason.CONTEXT_LIMIT,
    "refusal": FinishReason.REFUSAL,
    "pause_turn": FinishReason.PAUSE,
    # The provider stopped behind a summary of the conversation, and goes on when the turn comes back as it is.
    "compaction": FinishReason.PAUSE,
}
CUT = frozenset({FinishReason.OUTPUT_LIMIT, FinishReason.CONTEXT_LIMIT})


class Counts:
    """Usage of one answer. Reports are cumulative, and what a later one leaves out stays as it was."""

    __slots__ = ("_cache_read", "_cache_write", "_input", "_output", "_thinking")

    def __init__(self) -> None:
        self._input: int | None = None
        self._output: int | None = None
        self._thinking: int | None = None
        self._cache_read: int | None = None
        self._cache_write: int | None = None

    def take(self, raw: dict[str, Any]) -> None:
        """Take one report."""
        details = raw.get("output_tokens_details")
        self._input = _count(raw.get("input_tokens"), self._input)
        self._output = _count(raw.get("output_tokens"), self._output)
        self._cache_read = _count(raw.get("cache_read_input_tokens"), self._cache_read)
        self._cache_write = _count(raw.get("cache_creation_input_tokens"), self._cache_write)
        if isinstance(details, dict):
            self._thinking = _count(details.get("thinking_tokens"), self._thinking)

    def usage(self) -> Usage:
        """Usage as the domain counts it. The wire's ``input_tokens`` are those behind the cached prefix only."""
        total = None if self._input is None else self._input + (self._cache_read or 0) + (self._cache_write or 0)
        return Usage(
            total, self._output, self._thinking, self._cache_read, self._cache_write, source=UsageSource.PROVIDER
        )


def error_of(value: object, status: int) -> WireError:
    """The error in a body or event. Newer errors have a code of their own below ``details``."""
    error = wire_error(value, status)
    inner = value.get("error") if isinstance(value, dict) else None
    details = inner.get("details") if isinstance(inner, dict) else None
    code = details.get("error_code") if isinstance(details, dict) else None
    return replace(error, code=code) if isinstance(code, str) and not error.code else error


class _Start(msgspec.Struct):
    content_block: msgspec.Raw


class _Content(msgspec.Struct):
    content: list[msgspec.Raw]


class _MessageStart(msgspec.Struct):
    message: _Content


def block_text(event: bytes) -> bytes:
    """The bytes of ``content_block`` in an event; b"" when they cannot be told apart."""
    try:
        return bytes(msgspec.json.decode(event, type=_Start).content_block)
    except (msgspec.DecodeError, RecursionError):
        return b""


def content_texts(data: bytes, *, within_event: bool) -> Sequence[bytes]:
    """The bytes of each block of a message; none when they cannot be told apart."""
    try:
        if within_event:
            return [bytes(raw) for raw in msgspec.json.decode(data, type=_MessageStart).message.content]
        return [bytes(raw) for raw in msgspec.json.decode(data, type=_Content).content]
    except (msgspec.DecodeError, RecursionError):
        return ()


def verbatim(text: bytes, value: object) -> str:
    """JSON as it came, or written anew from ``value`` where ``text`` is none. Raises ProviderError when neither is."""
    return _checked(text) or _checked(compact(value).encode()) or _refuse()


def _checked(text: bytes) -> str:
    try:
        msgspec.json.decode(text)
        return text.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _refuse() -> str:
    raise protocol_error("The provider sent a content block that is no JSON.")


def compact(value: object) -> str:
    """Compact JSON text. Raises ProviderError for what is nested too deep to be written."""
    try:
        return dumps(value)
    except RecursionError:
        raise protocol_error("The provider sent JSON that is nested too deep.") from None


def _count(value: object, before: int | None) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
        return before
    return int(value)
