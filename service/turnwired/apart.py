"""Runs the code of others, tools and hooks, in a task of its own, so that it can do nothing to the task that waits.

It may cancel itself, raise what ends a program, or go on after it was cancelled; whoever waits must not be cancelled,
ended or held up by that. Knows nothing of tools and hooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

UNWIND_SECONDS: Final = 2.0
"""How long a call that is cancelled may take to unwind. After that it runs on unheard, until it is told to end again
when the source closes."""


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


@dataclass(slots=True)
class Nursery:
    """The calls that run now. ``stray`` are those that did not end when they were cancelled."""

    stray: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    async def run(self, work: Awaitable[object], name: str, on_late: Callable[[], None] | None = None) -> object:
        """What the work gives or raises. Cancellation is passed on to it and waited for, within bounds.

        ``on_late`` is called when work that was cancelled ends after nobody waits for it any more.
        """
        task = asyncio.create_task(_outcome(work), name=name)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,), timeout=UNWIND_SECONDS)
            if not task.done():
                self.stray.add(task)
                task.add_done_callback(lambda ended: self._ended(ended, on_late))
            raise
        outcome = _Raised(asyncio.CancelledError()) if task.cancelled() else task.result()
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def _ended(self, task: asyncio.Task[object], on_late: Callable[[], None] | None) -> None:
        self.stray.discard(task)
        if on_late is not None:
            on_late()

    async def aclose(self) -> None:
        """Tell strays to end once more, and wait for them within bounds."""
        for task in self.stray:
            task.cancel()
        if self.stray:
            await asyncio.wait(set(self.stray), timeout=UNWIND_SECONDS)


async def _outcome(work: Awaitable[object]) -> object:
    try:
        return await work
    except BaseException as error:  # noqa: BLE001  handed to whoever waits; out of a task some would end the loop
        return _Raised(error)
