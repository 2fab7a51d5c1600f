"""A clock that a test moves by hand: every timer of the event loop, and so of the engine, follows it.

Timeouts, retry delays, heartbeats and deadlines of the engine are timers of asyncio. The loop of a ``FakeClock`` tells
asyncio another time, which stands still until ``advance``. What reads the system's clock, such as the times of events,
is not moved. Knows nothing of the engine.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ClockStuck(AssertionError):
    """Everything waits for time to pass, and nobody advances the clock."""


class FakeClock:
    """Time in seconds since the clock was made. ``run`` runs a coroutine on a loop that lives by it.

    ``patience``: after so many real seconds in which nothing happens but waiting, ``ClockStuck`` is raised out of
    ``run``, since nothing else would end the wait.
    """

    def __init__(self, patience: float = 10.0) -> None:
        self.now = 0.0
        self._patience = patience
        self._target: float | None = None
        self._reached: asyncio.Future[None] | None = None

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end on a new loop, as ``asyncio.run`` does. Raises ClockStuck."""
        with asyncio.Runner(loop_factory=lambda: _Loop(self)) as runner:
            return runner.run(main)

    async def advance(self, seconds: float) -> None:
        """Let time pass. Each timer that comes due runs at its own time, and all that follows from it, before the next.

        Returns when nothing is left to do at the new time. Threads and sockets are not waited for: await what they
        answer before time goes on. A run begins with one, so wait for its first events (``EventCollector.until``).
        """
        if seconds < 0:
            raise ValueError("time does not go back")
        if self._reached is not None:
            raise RuntimeError("the clock is being advanced already")
        self._target = self.now + seconds
        self._reached = asyncio.get_running_loop().create_future()
        try:
            await self._reached
        finally:
            self._target = self._reached = None

    def _idle(self, next_timer: float | None) -> bool:
        """Nothing can run now, and the next timer is due in so many seconds. Whether time went on."""
        if self._target is None or self._reached is None or self._reached.done():
            return False
        left = self._target - self.now
        if next_timer is not None and next_timer <= left:
            self.now += next_timer
        else:
            self.now = self._target
            self._reached.set_result(None)
        return True


class _Selector(selectors.DefaultSelector):
    """Never sleeps for a timer. asyncio asks with a timeout of 0 as long as anything can run."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0) or self._clock._idle(timeout):  # noqa: SLF001 - one piece
            return ready
        ready = super().select(self._clock._patience)  # noqa: SLF001 - one piece
        if not ready:
            raise ClockStuck(
                "everything waits for time to pass, or for what never comes; move the clock with `advance`"
            )
        return ready


class _Loop(asyncio.SelectorEventLoop):
    """asyncio's loop with another time."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        """The clock's time."""
        return self._clock.now
