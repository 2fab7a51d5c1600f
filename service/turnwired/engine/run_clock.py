"""The time of one run against ``timeout.run``: it stands still while the run waits for its caller. It ends no run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from turnwired.domain.event import LoggedEvent
from turnwired.engine.caller_side import active_ns
from turnwired.engine.log import now_ns


class RunClock:
    """``over`` is called once when the limit, in seconds, is reached; None: there is none."""

    def __init__(self, limit: float | None, create_time_ns: int, over: Callable[[], None]) -> None:
        self._left = limit
        self._create_time_ns = create_time_ns
        self._over = over
        self._timer: asyncio.TimerHandle | None = None
        self._waited_ns = 0
        self._waits_since_ns: int | None = None

    @property
    def elapsed(self) -> float:
        """Seconds that the run was active."""
        return (now_ns() - self._create_time_ns - self._waited_ns) / 1e9

    @property
    def remaining_ns(self) -> float | None:
        """Nanoseconds until the limit; None: there is none, or the clock stands still."""
        if self._timer is None:
            return None
        return (self._timer.when() - asyncio.get_running_loop().time()) * 1e9

    def start(self) -> None:
        """Time goes on."""
        if self._left is not None:
            self._timer = asyncio.get_running_loop().call_later(self._left, self._over)

    def stop(self, time_ns: int) -> None:
        """The run waits, or goes on waiting."""
        if self._waits_since_ns is None:
            self._waits_since_ns = time_ns
        if self._timer is not None:
            self._left = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self.close()

    def go_on(self, time_ns: int) -> None:
        """The run does not wait any more."""
        if self._waits_since_ns is not None:
            self._waited_ns += max(0, time_ns - self._waits_since_ns)
            self._waits_since_ns = None
            self.start()

    def restore(self, past: Sequence[LoggedEvent]) -> None:
        """Stand where an earlier process left a run that waits."""
        now = now_ns()
        active = active_ns(past, now)
        self._waited_ns = max(0, now - self._create_time_ns - active)
        self._waits_since_ns = now
        if self._left is not None:
            self._left = max(0.0, self._left - active / 1e9)

    def close(self) -> None:
        """Nothing is due any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
