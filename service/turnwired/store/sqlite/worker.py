"""Hands work of the event loop to threads that own a database connection each, and brings back what became of it.

A thread takes all that has piled up, does it, and reports it with one call into the loop: under load the cost of
crossing is shared, and when idle a crossing there and back takes 10 to 18 us (``queue.SimpleQueue``; with a condition
variable 18 to 21, through an executor 37 to 43). What may pile up is bounded, and so is every wait. It knows no SQL.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from turnwired.domain.errors import StoreUnavailable

W = TypeVar("W")
A = TypeVar("A")

MAX_PENDING = 8192
MAX_PENDING_BYTES = 64 << 20
WAIT_SECONDS = 30.0
"""Longest wait for an answer, and for room to ask."""
_MAX_WATCH_SECONDS = 1.0


class Job(Generic[W]):
    """One piece of work on its way. A thread sets ``result`` or ``error``; the loop then resolves ``future``."""

    __slots__ = ("deadline", "error", "finished", "future", "result", "size", "work")

    def __init__(self, work: W, size: int, future: asyncio.Future[Any], deadline: float) -> None:
        self.work = work
        self.size = size
        self.future = future
        self.deadline = deadline
        self.result: object = None
        self.error: Exception | None = None
        self.finished = False


class Performer(Protocol[W]):
    """What a thread does. Both methods are called by that one thread only."""

    def perform(self, jobs: Sequence[Job[W]]) -> None:
        """Do the jobs, in this order or together; set the result or error of each."""
        ...

    def close(self) -> None:
        """No work follows."""
        ...


@dataclass(slots=True, eq=False)
class _Waiter:
    future: asyncio.Future[None]
    size: int


class Worker(Generic[W]):
    """Threads with a common queue, one per performer. All methods belong to the loop that made it.

    ``batch``: most jobs that a thread takes at once. ``subject``: who failed to answer, for error messages.
    """

    def __init__(
        self,
        performers: Sequence[Performer[W]],
        *,
        name: str,
        subject: str,
        batch: int,
        max_pending: int = MAX_PENDING,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._subject = subject
        self._batch = batch
        self._max_pending = max_pending
        self._max_pending_bytes = max_pending_bytes
        self._wait_seconds = wait_seconds
        self._watch_seconds = min(_MAX_WATCH_SECONDS, wait_seconds / 4)
        self._queue: queue.SimpleQueue[Job[W] | None] = queue.SimpleQueue()
        self._pending = 0
        self._pending_bytes = 0
        self._waiters: deque[_Waiter] = deque()
        self._jobs: deque[Job[W]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._closed = False
        self._alive = len(performers)
        self._ended = self._loop.create_future()
        self._close_errors: list[Exception] = []
        for number, performer in enumerate(performers):
            thread = threading.Thread(target=self._main, args=(performer,), name=f"{name}-{number}", daemon=True)
            thread.start()

    async def do(self, work: W, size: int) -> Any:
        """Have the work done and return its result. ``size`` is about what it holds in memory, in bytes.

        Raises what the performer set as the error, and StoreUnavailable when no answer comes in time; the work may
        then still be done. Cancelled, it is done only if a thread has taken it already.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._subject} is closed")
        if self._waiters or not self._has_room(size):
            await self._wait_for_room(size)
        else:
            self._pending += 1
            self._pending_bytes += size
        job = Job(work, size, self._loop.create_future(), self._loop.time() + self._wait_seconds)
        self._jobs.append(job)
        self._queue.put(job)
        if self._watch is None:
            self._watch = self._loop.call_later(self._watch_seconds, self._fail_overdue)
        return await job.future

    async def aclose(self, seconds: float) -> None:
        """Do what was handed in, and end the threads. Raises StoreUnavailable when that takes longer."""
        if not self._closed:
            self._closed = True
            for waiter in self._waiters:
                if not waiter.future.done():
                    waiter.future.set_exception(StoreUnavailable(f"{self._subject} is closed"))
            self._waiters.clear()
            for _ in range(self._alive):
                self._queue.put(None)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ended)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{self._subject} did not finish within {seconds:g} s, {self._pending} changes wait"
            ) from error
        finally:
            self._stop_watch()
            for job in self._jobs:
                self._fail(job, "was closed before it answered")
        if self._close_errors:
            raise StoreUnavailable(f"{self._subject} could not be closed: {self._close_errors[0]}")

    def _has_room(self, size: int) -> bool:
        if self._pending >= self._max_pending:
            return False
        return not self._pending or self._pending_bytes + size <= self._max_pending_bytes

    async def _wait_for_room(self, size: int) -> None:
        """Wait in turn. Whoever wakes us has counted our work as pending."""
        waiter = _Waiter(self._loop.create_future(), size)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await waiter.future
        except BaseException as error:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif waiter.future.done() and not waiter.future.cancelled() and waiter.future.exception() is None:
                self._give_back(size)
            if isinstance(error, TimeoutError):
                raise self._late("has more changes waiting than it can take, and took none", uncertain=False) from error
            raise

    def _give_back(self, size: int) -> None:
        self._pending -= 1
        self._pending_bytes -= size
        while self._waiters and self._has_room(self._waiters[0].size):
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                self._pending += 1
                self._pending_bytes += waiter.size
                waiter.future.set_result(None)

    def _finish(self, jobs: Sequence[Job[W]]) -> None:
        for job in jobs:
            job.finished = True
            future = job.future
            if not future.done():
                if job.error is None:
                    future.set_result(job.result)
                else:
                    future.set_exception(job.error)
            self._give_back(job.size)
        known = self._jobs
        while known and known[0].finished:
            known.popleft()

    def _fail_overdue(self) -> None:
        self._watch = None
        now = self._loop.time()
        for job in self._jobs:
            if job.deadline > now:
                break
            self._fail(job, "did not answer")
        if self._jobs:
            self._watch = self._loop.call_later(self._watch_seconds, self._fail_overdue)

    def _fail(self, job: Job[W], what: str) -> None:
        if not job.future.done():
            job.future.set_exception(self._late(what, uncertain=True))

    def _late(self, what: str, *, uncertain: bool) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._subject} {what} within {self._wait_seconds:g} s: check its disk and what else uses it",
            uncertain=uncertain,
        )

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _thread_ended(self, error: Exception | None) -> None:
        if error is not None:
            self._close_errors.append(error)
        self._alive -= 1
        if not self._alive and not self._ended.done():
            self._ended.set_result(None)

    # What follows runs in the threads.

    def _main(self, performer: Performer[W]) -> None:
        more = True
        while more:
            batch = self._take()
            more = None not in batch
            taken = [job for job in batch if job is not None]
            # Nobody waits any more for a job that was cancelled or failed as overdue.
            wanted = [job for job in taken if not job.future.done()]
            self._perform(performer, wanted)
            if taken and not self._tell(self._finish, taken):
                break
        error: Exception | None = None
        try:
            performer.close()
        except Exception as raised:  # noqa: BLE001 - the end of a thread; aclose raises it
            error = raised
        self._tell(self._thread_ended, error)

    def _take(self) -> list[Job[W] | None]:
        first = self._queue.get()
        batch = [first]
        # With several threads the batch is one job, so nobody else takes what is counted here.
        for _ in range(min(self._queue.qsize(), self._batch - 1)):
            if batch[-1] is None:
                break
            batch.append(self._queue.get())
        return batch

    def _perform(self, performer: Performer[W], jobs: Sequence[Job[W]]) -> None:
        if not jobs:
            return
        try:
            performer.perform(jobs)
        except Exception as error:  # noqa: BLE001 - the edge of the thread: whoever waits gets it
            for job in jobs:
                if job.error is None and job.result is None:
                    job.error = StoreUnavailable(f"{self._subject} failed: {type(error).__name__}: {error}")

    def _tell(self, callback: Callable[[A], None], argument: A) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:  # the loop is closed: nobody is left who waits
            return False
        return True
