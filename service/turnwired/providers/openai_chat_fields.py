"""Fields of chat completion answers that servers spell in several ways: reasoning, usage, errors. Pure functions."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec

from turnwired.domain.usage import Usage, UsageSource
from turnwired.providers.errors import WireError
from turnwired.providers.profiles import Profile, StreamEnd, UsageArrival

MAX_COUNT = 10**12
"""Of tokens. What a server says beyond it is no count; sums and prices of those below it fit 64 bits."""
MAX_DEPTH = 200
"""Of JSON values: what reads or writes one later may have less room on the stack than the parser had."""
_MAX_ERROR_TEXT = 4000


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """What differs between the answers of servers; see the fields of the same names of a profile."""

    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    done_marker: bool = True
    usage: UsageArrival = UsageArrival.AFTER_FINISH
    stream_end: StreamEnd = StreamEnd.STRICT


USUAL_FORM = AnswerForm()


def answer_form(profile: Profile) -> AnswerForm:
    """The form of a profile's answers."""
    return AnswerForm(profile.reasoning_fields, profile.done_marker, profile.usage, profile.stream_end)


def loads(data: bytes) -> Any:
    """The JSON value, or None also for one that is nested deeper than ``MAX_DEPTH``.

    The standard library takes what msgspec does not: NaN, numbers that are infinite and half surrogate pairs. All of
    it comes as what is JSON, null or the replacement character, so that it can be stored and given back.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = _tolerated(data)
    # No value is deeper than it has brackets; nearly every event has only a few.
    return value if data.count(b"[") + data.count(b"{") <= MAX_DEPTH or _is_shallow(value) else None


def _tolerated(data: bytes) -> Any:
    try:
        value = json.loads(data, parse_constant=_no_number, parse_float=_finite)
        text = json.dumps(value, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # half a pair cannot be stored or sent on
            value = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None
    return value


def _no_number(_name: str) -> None:
    return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _is_shallow(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        if not below:
            return True
        level = below
    return False


def dumps(value: object) -> str:
    """Compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def reasoning_of(delta: dict[str, Any], names: tuple[str, ...]) -> str:
    """Reasoning text of a delta or message. Servers give it in one field, or the same text in two."""
    for name in names:
        text = delta.get(name)
        if isinstance(text, str) and text:
            return text
    return ""


def joined_text(value: object) -> str:
    """The text of a string, or of a list of parts that have ``text``."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    found: list[str] = []
    for part in value:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            if isinstance(text, str):
                found.append(text)
    return "".join(found)


def usage_of(raw: dict[str, Any]) -> Usage:
    """Usage as the domain counts it: input includes cache reads and writes, output includes reasoning."""
    prompt = _dict(raw.get("prompt_tokens_details"))
    completion = _dict(raw.get("completion_tokens_details"))
    input_tokens, output_tokens = _count(raw.get("prompt_tokens")), _count(raw.get("completion_tokens"))
    reasoning = _first(completion.get("reasoning_tokens"), raw.get("reasoning_tokens"))
    # xAI does not count reasoning as completion; only the total gives it away.
    total = (input_tokens or 0) + (output_tokens or 0) + (reasoning or 0)
    if reasoning and output_tokens is not None and _count(raw.get("total_tokens")) == total:
        output_tokens += reasoning
    return Usage(
        input_tokens,
        output_tokens,
        reasoning,
        _first(prompt.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens")),
        _first(prompt.get("cache_write_tokens"), raw.get("cache_creation_input_tokens") or None),
        UsageSource.PROVIDER,
    )


def is_error(value: dict[str, Any]) -> bool:
    """Whether an object without ``choices`` and ``error`` is an error without its envelope."""
    return value.get("object") == "error" or "detail" in value or ("message" in value and "code" in value)


def wire_error(value: object, status: int) -> WireError:
    """The error in a body: an object with or without envelope, an array of it, a string, or any text."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict):
        inner = value.get("error")
        if isinstance(inner, dict):
            value = inner
        elif isinstance(inner, str):  # the message; a code may stand beside it
            return WireError(status, _word(value.get("type")), _word(value.get("code")), inner[:_MAX_ERROR_TEXT])
        return WireError(
            status,
            _word(value.get("type") or value.get("status")),
            _word(value.get("code") if value.get("code") is not None else value.get("status_code")),
            _message(value)[:_MAX_ERROR_TEXT],
            _word(value.get("param")),
        )
    return WireError(status, message=value[:_MAX_ERROR_TEXT] if isinstance(value, str) else "")


def _message(value: dict[str, Any]) -> str:
    for name in ("message", "detail", "msg", "error_description"):
        found = value.get(name)
        if isinstance(found, str):
            return found
        if found is not None:
            return dumps(found)
    return ""


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
        return None
    return int(value)


def _first(*values: object) -> int | None:
    return next((count for value in values if (count := _count(value)) is not None), None)
