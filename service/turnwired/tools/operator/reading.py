"""Parts of a file as text or bytes, from an open descriptor. Bounded in memory whatever the file holds.

Knows neither paths nor tools.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_BLOCK: Final = 64 * 1024
_LOOK_EVERY: Final = 1024
"""Lines that are skipped before it is asked whether anybody still waits."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Bytes of a file. ``lines``: how many were begun; ``more``: the file goes on, or began before."""

    data: bytes
    lines: int
    more: bool


def head(handle: int, first: int, count: int, limit: int, given_up: Callable[[], bool]) -> Excerpt:
    """At most ``count`` lines and ``limit`` bytes from line ``first`` on, which counts from 1."""
    with os.fdopen(os.dup(handle), "rb", _BLOCK) as file:
        file.seek(0)  # a copy of a descriptor shares its place
        skipped = 0
        while skipped < first - 1:
            line = file.readline(_BLOCK)
            if not line or (skipped % _LOOK_EVERY == 0 and given_up()):
                return Excerpt(b"", 0, False)
            skipped += line.endswith(b"\n")
        pieces: list[bytes] = []
        size = lines = 0
        while lines < count and size < limit:
            piece = file.readline(min(_BLOCK, limit - size))
            if not piece:
                return Excerpt(b"".join(pieces), lines, False)
            lines += not pieces or pieces[-1].endswith(b"\n")
            pieces.append(piece)
            size += len(piece)
            if lines == count and not piece.endswith(b"\n") and size < limit:
                pieces.append(rest := _rest_of_line(file.readline, limit - size))
                size += len(rest)
        return Excerpt(b"".join(pieces), lines, bool(file.read(1)))


def _rest_of_line(readline: Callable[[int], bytes], limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := readline(min(_BLOCK, left))):
        pieces.append(piece)
        left -= len(piece)
        if piece.endswith(b"\n"):
            break
    return b"".join(pieces)


def tail(handle: int, count: int, limit: int) -> Excerpt:
    """The last ``count`` lines, of the last ``limit`` bytes."""
    size = os.fstat(handle).st_size
    start = max(0, size - limit)
    data = _at(handle, start, size - start)
    pieces = data.split(b"\n")
    closed = pieces[-1] == b""
    wanted = count + closed
    if start > 0 and len(pieces) <= wanted and len(pieces) > 1:
        pieces = pieces[1:]  # the first was cut in the middle
        start += 1
    kept = pieces[-wanted:]
    return Excerpt(b"\n".join(kept), len(kept) - closed, start > 0 or len(kept) < len(pieces))


def _at(handle: int, start: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.pread(handle, min(size, 1024 * 1024), start)):
        pieces.append(piece)
        start += len(piece)
        size -= len(piece)
    return b"".join(pieces)


def whole(handle: int, limit: int) -> bytes | None:
    """All bytes, or None when there are more than ``limit``."""
    data = _at(handle, 0, limit + 1)
    return data if len(data) <= limit else None


def text_of(data: bytes, cut: bool) -> str | None:
    """UTF-8 text, or None for what is none. Of ``cut`` data the last character may be incomplete, and is dropped."""
    if b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return None
