"""Fields of Responses answers as the domain counts and names them: usage, ends, files. Pure functions.

Source: OpenAI API reference, "Responses", objects ``response`` and ``usage``.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from turnwired.domain.generation import FinishReason
from turnwired.domain.usage import Usage, UsageSource
from turnwired.providers.openai_chat_fields import MAX_COUNT

_INCOMPLETE = {
    "max_output_tokens": FinishReason.OUTPUT_LIMIT,
    "max_tokens": FinishReason.OUTPUT_LIMIT,
    "length": FinishReason.OUTPUT_LIMIT,
    "content_filter": FinishReason.CONTENT_FILTER,
    "context_window_exceeded": FinishReason.CONTEXT_LIMIT,
    "steered": FinishReason.ABORTED,
}
_IMAGE_TYPES = {"png": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg", "webp": "image/webp"}


def usage_of(raw: dict[str, Any]) -> Usage:
    """Usage as the domain counts it. On this wire input includes cache reads and writes, output includes reasoning."""
    read, written = dict_of(raw.get("input_tokens_details")), dict_of(raw.get("output_tokens_details"))
    return Usage(
        _count(raw.get("input_tokens")),
        _count(raw.get("output_tokens")),
        _count(written.get("reasoning_tokens")),
        _count(read.get("cached_tokens")),
        _count(read.get("cache_write_tokens")),
        UsageSource.PROVIDER,
    )


def incomplete_reason(response: dict[str, Any]) -> tuple[FinishReason, str]:
    """Why a response is incomplete, and the provider's words: ``incomplete:<reason>``."""
    word = dict_of(response.get("incomplete_details")).get("reason")
    if not isinstance(word, str) or not word:
        return FinishReason.ERROR, "incomplete"
    # Not OTHER: whatever the word is, an answer that is incomplete must not count as one, and its calls must not run.
    return _INCOMPLETE.get(word, FinishReason.ERROR), f"incomplete:{word}"


def image_of(item: dict[str, Any]) -> tuple[str, bytes] | None:
    """Media type and bytes of the image in an ``image_generation_call``; None when it has none that can be read."""
    encoded = item.get("result")
    if not isinstance(encoded, str) or not encoded:
        return None
    if encoded.startswith("data:"):  # servers in use send a data URL
        encoded = encoded.partition(",")[2]
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return _IMAGE_TYPES.get(text_of(item.get("output_format")), "image/png"), data


def dict_of(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str:
    """The value if it is text, else ""."""
    return value if isinstance(value, str) else ""


def list_of(value: object) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_COUNT:
        return None
    return int(value)
