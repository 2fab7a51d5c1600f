"""Time limits of one streamed call, kept by one timer. Knows nothing of HTTP: it calls back when a limit is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from turnwired.providers.port import CallLimits

FINISH_GRACE = 5.0
"""Seconds that a provider may keep a stream open after its finish reason, to report usage."""
_READ_GRACE = 0.05


class Limit(StrEnum):
    """Which limit was reached."""

    TOTAL = "total"
    FIRST_EVENT = "first_event"
    IDLE = "idle"
    THINKING_IDLE = "thinking_idle"
    FINISH_GRACE = "finish_grace"


class Liveness:
    """Watches a call from its request on. Content moves a number, not a timer, so that a read costs next to nothing.

    A limit that passes while nobody reads is only looked at when the next read waits: a slow consumer is no silence.
    """

    __slots__ = ("_due", "_end", "_expire", "_limits", "_loop", "_reading", "_timer", "limit", "reached")

    def __init__(
        self, limits: CallLimits, expire: Callable[[], None], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """``expire`` is called at most once, while a read waits; it must make that read fail."""
        self._loop = loop or asyncio.get_running_loop()
        self._limits = limits
        self._expire = expire
        self._reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._end = None if limits.total is None else self._loop.time() + limits.total
        self._due: float | None = None
        self.limit = Limit.TOTAL
        self.reached = False
        self._set(Limit.FIRST_EVENT, limits.first_event)

    @property
    def due(self) -> float | None:
        """When the limit in force ends, on the loop's clock; None: never."""
        return self._due

    def reading(self) -> None:
        """A read begins to wait."""
        self._reading = True
        if self._timer is None and self._due is not None:
            self._timer = self._loop.call_at(max(self._due, self._loop.time() + _READ_GRACE), self._on_timer)

    def read(self) -> None:
        """The read is over."""
        self._reading = False

    def content(self) -> None:
        """The model produced something."""
        self._set(Limit.IDLE, self._limits.idle)

    def thinking(self) -> None:
        """The provider has begun to answer and may think before it says something."""
        silent = self._limits.thinking_idle
        if silent is None:
            self._set(Limit.IDLE, self._limits.idle)
        else:
            self._set(Limit.THINKING_IDLE, silent)

    def finishing(self) -> None:
        """The provider said why it stopped; only usage and the end of the body may follow."""
        if self.limit is not Limit.FINISH_GRACE:
            self._set(Limit.FINISH_GRACE, FINISH_GRACE)

    def stop(self) -> None:
        """The call is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, limit: Limit, seconds: float | None) -> None:
        before = self._due
        self.limit = limit
        self._due = None if seconds is None else self._loop.time() + seconds
        if self._end is not None and (self._due is None or self._end < self._due):
            self.limit = Limit.TOTAL
            self._due = self._end
        if self._timer is not None and before is not None and (self._due is None or self._due < before):
            self.stop()  # the timer would be late

    def _on_timer(self) -> None:
        self._timer = None
        if self._due is None or not self._reading:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._on_timer)
            return
        self.reached = True
        self._expire()
