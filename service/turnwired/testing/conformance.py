"""What the conformance suites share: checks that fail in one sentence, each bounded in time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

CHECK_SECONDS = 20.0
"""Seconds after which a check that waits has failed."""

Subject = TypeVar("Subject")


class NotConforming(AssertionError):
    """An adapter breaks a rule of its port. The message says which, and what was seen."""


def require(holds: object, rule: str) -> None:
    """Raises NotConforming with the rule when it does not hold."""
    if not holds:
        raise NotConforming(rule)


@asynccontextmanager
async def within(seconds: float, rule: str) -> AsyncIterator[None]:
    """Raises NotConforming with the rule when the block takes longer."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise NotConforming(rule) from error


def bounded(check: Callable[[Subject], Awaitable[None]]) -> Callable[[Subject], Awaitable[None]]:
    """The check, failing when it takes longer than CHECK_SECONDS."""

    @functools.wraps(check)
    async def in_time(subject: Subject) -> None:
        async with within(CHECK_SECONDS, f"{name_of(check)}: did not end within {CHECK_SECONDS:g} s"):
            await check(subject)

    return in_time


def name_of(check: Callable[..., object]) -> str:
    """A check's name, for the ids of parametrized tests."""
    return str(getattr(check, "__name__", check))


async def run_all(checks: Sequence[Callable[[Subject], Awaitable[None]]], subject: Subject) -> None:
    """Every check, one after the other. Raises ExceptionGroup with all that fail, each noted with its name."""
    failures: list[Exception] = []
    for check in checks:
        try:
            await check(subject)
        except Exception as error:  # noqa: BLE001 - task boundary: every check is to be told of
            error.add_note(name_of(check))
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(checks)} checks failed", failures)
