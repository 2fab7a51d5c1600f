"""Pages that fit a message. Knows how large an answer may be, and nothing of what is listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf import message

PAGE_BYTES = 3 << 20
"""Most that the items of a page have together, unless one alone has more: gRPC's clients take 4 MiB by default."""

T = TypeVar("T")
M = TypeVar("M", bound=message.Message)


async def page(
    load: Callable[[int], Awaitable[tuple[Sequence[T], str]]], size: int, write: Callable[[T, M], object], kind: type[M]
) -> tuple[list[M], str]:
    """At most ``size`` items as messages, fewer where they are large, and the token of the next page.

    ``load`` gives that many items and the token behind them; it is asked again when not all of them fit, since only it
    knows the token behind fewer.
    """
    items, token = await load(size)
    found, fitting = _written(items, write, kind)
    if fitting < len(found):
        items, token = await load(fitting)
        found, _ = _written(items, write, kind)
    return found, token


def _written(items: Sequence[T], write: Callable[[T, M], object], kind: type[M]) -> tuple[list[M], int]:
    """The messages, and how many of the first of them fit a page; at least one."""
    found: list[M] = []
    room, fitting = PAGE_BYTES, 0
    for item in items:
        one = kind()
        write(item, one)
        found.append(one)
        room -= one.ByteSize()
        if room >= 0 or not fitting:
            fitting = len(found)
    return found, fitting
