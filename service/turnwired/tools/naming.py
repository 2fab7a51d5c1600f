"""Names of tools: from what a source calls a tool to what the model calls it. Pure; knows no source."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

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


def prefix_of(namespace: str | None) -> str:
    """What the routed names of a source begin with."""
    return "" if namespace is None else _NOT_ALLOWED.sub("_", f"{namespace}__")


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names and patterns of names, as they were written: ``*`` is any run of characters.

    Linear in the lengths of pattern and name, unlike a regular expression: patterns come from callers.
    """

    names: frozenset[str]
    pieces: tuple[tuple[str, ...], ...]
    """Of each pattern with a star, the texts around the stars."""

    def match(self, name: str) -> bool:
        """Whether one of them covers the whole name."""
        return name in self.names or any(_covers(pieces, name) for pieces in self.pieces)

    def may_match(self, prefix: str) -> bool:
        """Whether one of them can cover a name that begins like this."""
        begins = (pieces[0] for pieces in self.pieces)
        return any(name.startswith(prefix) for name in self.names) or any(
            first.startswith(prefix) or prefix.startswith(first) for first in begins
        )

    def match_all(self, prefix: str) -> bool:
        """Whether one of them covers every name that begins like this."""
        return any(not pieces[-1] and _covers(pieces, prefix) for pieces in self.pieces)


def pattern_of(patterns: tuple[str, ...]) -> Patterns:
    """One thing that matches a whole name if one of the patterns does; nothing if there are none."""
    names = frozenset(pattern for pattern in patterns if "*" not in pattern)
    return Patterns(names, tuple(tuple(pattern.split("*")) for pattern in patterns if "*" in pattern))


def _covers(pieces: tuple[str, ...], name: str) -> bool:
    first, last = pieces[0], pieces[-1]
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for piece in pieces[1:-1]:  # the first place is as good as any, so that nothing is ever tried again
        place = name.find(piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True
