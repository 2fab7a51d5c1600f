"""An event loop that goes on only when told, by a clock that a test moves: the same steps give the same run each time.

Nothing is polled while anything can run, so what threads answer arrives only when the loop would otherwise be idle. It
may know asyncio, and nothing of the engine.
"""

from __future__ import annotations

import asyncio
import queue
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any

PATIENCE = 20.0
"""Real seconds that a thread may take for an answer."""
MOST_ROUNDS = 20_000
EPOCH_NS = 1_800_000_000 * 10**9
"""Unix time at which the clock begins."""


class NeverIdle(AssertionError):
    """Something runs on and on."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """``drain`` runs all that can run, ``turn`` one round of it, ``advance`` lets time pass.

    ``outside``: how many answers of threads are awaited; while there are any, the loop is not idle. ``next_timer``:
    seconds to the next timer when it was idle last; None: there was none. ``complaints``: what asyncio reported.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.outside = 0
        self.next_timer: float | None = None
        self.complaints: list[str] = []
        self._target: float | None = None
        self._rounds = 0
        self._answers: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...], Context | None]] = (
            queue.SimpleQueue()
        )
        super().__init__(_Selector(self))
        self.set_exception_handler(self._complain)

    def time(self) -> float:
        """The clock's time, in seconds."""
        return self.now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> None:
        """Keep the call until the loop is idle."""
        self._answers.put((callback, args, context))

    @property
    def now_ns(self) -> int:
        """The clock's time as Unix nanoseconds."""
        return EPOCH_NS + int(self.now * 1e9)

    def drain(self) -> None:
        """Run until nothing can run any more but by time."""
        self.run_forever()

    def turn(self) -> None:
        """Run what can run now, and not what follows from it."""
        self.call_soon(self.stop)
        self.run_forever()

    def advance(self, seconds: float) -> None:
        """Let time pass: each timer runs at its time, and all that follows from it before the next."""
        self._target = self.now + seconds
        self.run_forever()
        self._target = None

    def finish(self, work: Coroutine[Any, Any, Any], seconds: float = 0.0) -> Any:
        """Run the work to its end, which has to come within so much time."""
        task = self.create_task(work)
        self.drain()
        if not task.done() and seconds:
            self.advance(seconds)
        assert task.done(), "it does not end"
        return task.result()

    def _busy(self) -> None:
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise NeverIdle(f"after {MOST_ROUNDS} rounds there is still something to run")

    def _complain(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _idle(self, timeout: float | None) -> None:
        self._rounds = 0
        if self.outside or not self._answers.empty():
            callback, args, context = self._answers.get(timeout=PATIENCE)
            self.call_soon(callback, *args, context=context)
        elif self._target is not None and timeout is not None and self.now + timeout <= self._target:
            self.now += timeout
        else:
            self.next_timer = timeout
            self.now = max(self.now, self._target or 0.0)
            self.stop()


class _Selector(selectors.SelectSelector):
    """Never sleeps: asyncio asks with a timeout of 0 as long as anything can run."""

    def __init__(self, loop: SteppedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._loop._idle(timeout)
        else:
            self._loop._busy()
        return []
