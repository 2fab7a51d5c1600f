"""Names of tools: from what a source calls a tool to what the model calls it. Pure; knows no source."""

from __future__ import annotations

import hashlib
import re

MAX_NAME_LENGTH = 64
"""Longest function name that the chat completions wire takes; the other wires take at least as many characters."""

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_HASH_LENGTH = 8


def routed_name(namespace: str | None, native_name: str) -> str:
    """``{namespace}__{native name}``, or the native name where there is no namespace.

    Characters outside ``[A-Za-z0-9_-]`` become ``_`` and the length is at most 64. A name that had to be altered ends
    in a hash of what it was, so that ``a.b`` and ``a_b`` stay two names, the same ones in every process.
    """
    whole = native_name if namespace is None else f"{namespace}__{native_name}"
    safe = _NOT_ALLOWED.sub("_", whole)
    if safe == whole and 0 < len(whole) <= MAX_NAME_LENGTH:
        return whole
    digest = hashlib.sha256(f"{namespace or ''}\0{native_name}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{safe[: MAX_NAME_LENGTH - _HASH_LENGTH - 1]}_{digest[:_HASH_LENGTH]}"


def pattern_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression that matches a whole name if one of the patterns does. ``*`` is any run of characters."""
    return re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns) or r"(?!)", re.DOTALL)
