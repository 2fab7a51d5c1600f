"""Pages that fit a message, and the tokens of what is listed by name. Knows nothing of what is listed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf import message

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.failure import Reason

PAGE_BYTES = 3 << 20
"""Most that the items of a page have together, unless one alone has more: gRPC's clients take 4 MiB by default."""

T = TypeVar("T")
M = TypeVar("M", bound=message.Message)


def name_token(method: str, name: str) -> str:
    """The token of the page behind the one that ends with ``name``."""
    return base64.urlsafe_b64encode(f"{method}:{name}".encode()).decode().rstrip("=")


def name_before(token: str, method: str) -> str:
    """The last name of the page before; empty without a token. Raises InvalidRequest for one of another method."""
    if not token:
        return ""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        text = ""
    given_by, _, name = text.partition(":")
    if given_by != method or not name:
        violation = FieldViolation("page_token", f"is not a token that {method} gave out")
        raise InvalidRequest([violation], Reason.PAGE_TOKEN_INVALID)
    return name


async def named_page(
    items: Sequence[T], size: int, name: Callable[[T], str], write: Callable[[T, M], object], kind: type[M], method: str
) -> tuple[list[M], str]:
    """The first of ``items`` that fit a page, and the token of the next one: the items behind the last name of this."""

    async def first(most: int) -> tuple[Sequence[T], str]:
        return items[:most], name_token(method, name(items[most - 1])) if len(items) > most else ""

    return await page(first, size, write, kind)


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
