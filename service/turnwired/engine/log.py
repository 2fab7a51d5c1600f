"""The live end of one run's event log: numbers events, encodes each once, makes them durable, shows them to readers.

Deltas are visible at once; every other event, and all that follows it, is visible when it is durable. One flush is in
flight at a time and takes all that has piled up, so a slow store makes rows larger, never the queue of rows longer.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from turnwired.codec.event import encode_event
from turnwired.codec.frame import Visibility
from turnwired.domain.errors import Fenced, StoreError, StoreUnavailable
from turnwired.domain.event import (
    Event,
    ReasoningDelta,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallProgressed,
)
from turnwired.store.port import Changes, LogRow, Settlement, Store

FLUSH_SECONDS = 0.05
FLUSH_BYTES = 2048
WINDOW_BYTES = 1 << 20
"""Records kept in memory for live readers; a reader that falls behind reads the store."""
BACKLOG_BYTES = 4 << 20
"""Bytes that may wait for the store before the producer of deltas is made to wait."""
STORE_ATTEMPTS = 6
STORE_RETRY_SECONDS = 0.25


_VISIBILITY: dict[type, Visibility] = {
    TextDelta: Visibility.DELTA,
    ReasoningDelta: Visibility.DELTA,
    ToolCallArgumentsDelta: Visibility.DELTA,
    ToolCallProgressed: Visibility.DELTA,
    RunStarted: Visibility.OUTCOME,
    RunWaiting: Visibility.OUTCOME,
    RunFinished: Visibility.OUTCOME,
}


def visibility_of(event: Event) -> Visibility:
    """Which streams an event is for."""
    return _VISIBILITY.get(type(event), Visibility.MILESTONE)


class RunLog:
    """Log of one run, owned by the one execution that runs it.

    ``last`` is the newest sequence number, ``durable`` and ``visible`` how far the store and readers are. After
    ``failure`` is set nothing more is recorded: Fenced (somebody else owns the run) or StoreUnavailable. ``waiting`` is
    the sequence of the event that says what the run waits for, while it waits for its caller; ``left``: it was left so.
    """

    def __init__(self, run_id: str, store: Store, *, epoch: int, row_no: int = 0, last_sequence: int = 0) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.last = self.durable = self.visible = last_sequence
        self.failure: StoreError | None = None
        self.finished = False
        self.waiting: int | None = None
        self.left = False
        self._leaving = False
        self.outlives = True
        self._changes: Changes | None = None
        self._store = store
        self._row_no = row_no
        self._base = last_sequence + 1  # sequence of _records[0]
        self._records: deque[bytes] = deque()
        self._levels: deque[Visibility] = deque()
        self._window = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._urgent = False
        self._blockers: deque[int] = deque()
        self._settlement: Settlement | None = None
        self._kick = asyncio.Event()
        self._wakes: set[Callable[[], None]] = set()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def append(self, iteration: int, event: Event, time_ns: int) -> None:
        """Number and encode one event. Durability starts with the next turn of the loop."""
        self.last = sequence = self.last + 1
        record = encode_event(sequence, time_ns, iteration, event)
        level = visibility_of(event)
        self._records.append(record)
        self._levels.append(level)
        self._pending.append(record)
        size = len(record)
        self._window += size
        self._pending_bytes += size
        if level is Visibility.DELTA:
            if not self._blockers:
                self.visible = sequence
                self.wake()
            if self._pending_bytes >= FLUSH_BYTES:
                self._kick.set()
            elif self._timer is None and not self._urgent:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._timer_fired)
        else:
            self._blockers.append(sequence)
            self._urgent = True
            self._kick.set()
            if type(event) is RunWaiting:
                self.waiting = sequence
            elif type(event) is RunResumed or type(event) is RunFinished:
                self.waiting = None

    def change(self, changes: Changes) -> None:
        """What the event appended last changes beside the log: stored with its row."""
        before = self._changes
        self._changes = changes if before is None else joined(before, changes)

    @property
    def can_be_left(self) -> bool:
        """Whether the run waits and nothing of it is under way in this process, as a tool is that asks a person."""
        return self.waiting is not None and self.outlives

    def leave(self) -> None:
        """Stop writing as soon as the run can be left and all of it is stored; another process goes on."""
        self._leaving = True
        self._kick.set()

    def settle(self, settlement: Settlement) -> None:
        """The event appended last is RunFinished: its row carries the settlement, and nothing follows it."""
        self._settlement = settlement
        self._kick.set()

    def _timer_fired(self) -> None:
        self._timer = None
        self._kick.set()

    async def write(self) -> None:
        """Make events durable until the settlement is, or until the log fails. Runs in a task of its own."""
        try:
            while not self.finished:
                await self._kick.wait()
                self._kick.clear()
                await self._flush()
                if self._leaving and self.can_be_left and not self._pending:
                    self.left = True
                    raise Fenced("the run is left waiting for its caller, to be taken up by the next process")
        except StoreError as error:
            self.failure = error
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self.finished and self.failure is None:
                self.failure = StoreUnavailable("the writer of the run's log was stopped")
            self._release()

    async def _flush(self) -> None:
        if not self._pending:
            return
        body = b"".join(self._pending)
        count = len(self._pending)
        self._pending = []
        self._pending_bytes = 0
        self._urgent = False
        last = self.last
        settlement = self._settlement
        changes, self._changes = self._changes, None
        self._row_no += 1
        row = LogRow(self.run_id, self._row_no, self.epoch, last - count + 1, last, body)
        await self._append(row, settlement, changes)
        self.durable = last
        while self._blockers and self._blockers[0] <= last:
            self._blockers.popleft()
        self.visible = self._blockers[0] - 1 if self._blockers else self.last
        self.finished = settlement is not None
        self._evict()
        self._release()

    async def _append(self, row: LogRow, settlement: Settlement | None, changes: Changes | None) -> None:
        delay = STORE_RETRY_SECONDS
        for attempt in range(1, STORE_ATTEMPTS + 1):
            try:
                await self._store.append(row, settlement, changes)
                return
            except Fenced:
                raise
            except StoreUnavailable:
                # The same row again is an acknowledgement, so a lost answer does no harm.
                if attempt == STORE_ATTEMPTS:
                    raise
                await asyncio.sleep(delay)
                delay *= 2

    def _evict(self) -> None:
        while self._window > WINDOW_BYTES and self._base <= self.durable and self._records:
            self._window -= len(self._records.popleft())
            self._levels.popleft()
            self._base += 1

    def wake(self) -> None:
        """Let every reader look again."""
        for wake in self._wakes:
            wake()

    def _release(self) -> None:
        ended = self.failure is not None
        keep: list[tuple[int, asyncio.Future[None]]] = []
        for sequence, future in self._waiters:
            if future.done():
                continue
            if sequence <= self.durable:
                future.set_result(None)
            elif ended:
                future.set_exception(self.failure or StoreUnavailable("the log has ended"))
            else:
                keep.append((sequence, future))
        self._waiters = keep
        if ended or self._pending_bytes < BACKLOG_BYTES:
            for future in self._drained:
                if not future.done():
                    future.set_result(None)
            self._drained.clear()
        self.wake()

    async def flushed(self, sequence: int) -> None:
        """Return when ``sequence`` is durable. Raises the StoreError that ended the log."""
        if sequence <= self.durable:
            return
        if self.failure is not None:
            raise self.failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((sequence, future))
        await future

    @property
    def backlogged(self) -> bool:
        """Whether a producer of deltas should wait for ``drained``."""
        return self._pending_bytes >= BACKLOG_BYTES

    async def drained(self) -> None:
        """Return when the backlog is small again, or the log has failed."""
        while self.backlogged and self.failure is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(future)
            await future

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever more is visible or the log ends. Cheap and idempotent calls, please."""
        self._wakes.add(wake)

    def unsubscribe(self, wake: Callable[[], None]) -> None:
        """Stop calling ``wake``."""
        self._wakes.discard(wake)

    def oldest(self) -> int:
        """Sequence of the oldest record in memory."""
        return self._base

    def read(self, after: int, level: Visibility, max_bytes: int) -> tuple[Sequence[bytes], int]:
        """Visible records after ``after`` for a stream of ``level``, and the sequence through which that is all.

        ``after`` must not be older than ``oldest() - 1``.
        """
        start = after + 1 - self._base
        stop = self.visible + 1 - self._base
        if start <= 0 and level is Visibility.DELTA and stop == len(self._records) and self._window <= max_bytes:
            return list(self._records), self.visible
        taken: list[bytes] = []
        size = 0
        through = after
        for position in range(start, stop):
            record = self._records[position]
            if self._levels[position] <= level:
                size += len(record)
                if taken and size > max_bytes:
                    break
                taken.append(record)
            through = self._base + position
        return taken, through


def now_ns() -> int:
    """Unix time in nanoseconds."""
    return time.time_ns()


def joined(before: Changes, more: Changes) -> Changes:
    """What two events of one row change together."""
    approvals = {item.approval_id: item for item in (*before.approvals, *more.approvals)}
    rules = {(item.permission, item.pattern, item.action): item for item in (*more.rules, *before.rules)}
    state, waiting = (before.state, before.waiting) if more.state is None else (more.state, more.waiting)
    return Changes(state, waiting, tuple(approvals.values()), tuple(rules.values()))
