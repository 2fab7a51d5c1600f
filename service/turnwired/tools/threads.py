"""Threads for tools that block. Bounded, and honest about calls that were given up while their thread still runs.

Not the event loop's executor: there, threads of abandoned calls would be lost for everybody else, and a stuck one would
hold up the end of the process. Knows nothing of tools.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason

DEFAULT_WORKERS: Final = 32


@dataclass(slots=True)
class CallState:
    """Of one call: whether its function was begun, and whether its caller has gone. Read from both sides."""

    begun: bool = False
    given_up: bool = False
    on_late: Callable[[], None] | None = None
    """Called on the loop when the function ends after its caller has gone."""


@dataclass(slots=True)
class _Job:
    function: Callable[[], object]
    state: CallState
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[object]


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


@dataclass(slots=True)
class WorkerPool:
    """At most ``max_workers`` threads, made when needed. Used from one event loop.

    ``late`` counts results that came after their caller had gone; ``stuck`` is how many threads work for nobody now.
    """

    max_workers: int = DEFAULT_WORKERS
    late: int = 0
    stuck: int = 0
    _jobs: queue.SimpleQueue[_Job | None] = field(default_factory=queue.SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: int = 0
    _busy: int = 0

    async def run(self, function: Callable[[], object], state: CallState) -> object:
        """The function's value, or what it raised. A call whose caller goes before it is begun is never made.

        Raises ToolError(OVERLOADED) at once when every thread is held by a call that was given up.
        """
        if self.stuck >= self.max_workers:
            raise ToolError(
                Failure(
                    phase=FailurePhase.TOOL,
                    reason=Reason.OVERLOADED,
                    message=f"not executed: all {self.max_workers} tool threads are held by calls that timed out",
                    retryable=True,
                )
            )
        loop = asyncio.get_running_loop()
        job = _Job(function, state, contextvars.copy_context(), loop, loop.create_future())
        self._busy += 1
        if self._busy > self._threads and self._threads < self.max_workers:
            self._threads += 1
            threading.Thread(target=self._work, name=f"turnwire-tool-{self._threads}", daemon=True).start()
        self._jobs.put(job)
        try:
            outcome = await job.outcome
        except asyncio.CancelledError:
            with self._lock:
                state.given_up = True
                self.stuck += state.begun
            raise
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def close(self) -> None:
        """Let idle threads end; those at work end when their call does."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                job.state.begun = not job.state.given_up
            outcome: object = None
            if job.state.begun:
                try:
                    outcome = job.context.run(job.function)
                except BaseException as error:  # noqa: BLE001  handed to the caller, who decides
                    outcome = _Raised(error)
            try:
                job.loop.call_soon_threadsafe(self._settle, job, outcome)
            except RuntimeError:
                return  # the loop has been closed: nobody is left to tell

    def _settle(self, job: _Job, outcome: object) -> None:
        self._busy -= 1
        if not job.outcome.done():
            job.outcome.set_result(outcome)
        elif job.state.begun:
            self.late += 1
            self.stuck -= 1
            if job.state.on_late is not None:
                job.state.on_late()
