"""A store that outlives processes, and what stands between it and each of them: faults, lost answers, and death.

``Disk`` is the truth: a real store, and a ledger of each run. ``Connection`` is the store as one process sees it.
It may know the port and the ledgers; it decides nothing: a test sets the faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.ledgers import Ledger
from engine.stepping import SteppedLoop
from turnwired.domain.errors import Conflict, Fenced, StoreUnavailable
from turnwired.domain.failure import Reason
from turnwired.store.port import LogRow, NewRun, RunCreated, Settlement, Store, StoredRun

T = TypeVar("T")
APART = "apart"
"""Name of tasks that are the disk's, and go on when a process dies: what a thread has taken is done."""
TROUBLED_SECONDS = 40.0
"""How long after a fault of the store a run may be without its end: longer than the longest pause between two tries."""


@dataclass
class Disk:
    """The store and its ledgers, by run id. ``threaded``: the store answers from threads of its own.

    ``wrong`` is what was found in a place where the engine would take the complaint for a fault of the store.
    """

    loop: SteppedLoop
    store: Store
    threaded: bool
    ledgers: dict[str, Ledger] = field(default_factory=dict[str, Ledger])
    wrong: list[str] = field(default_factory=list[str])
    order: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """Have the store answer. One request after the other where threads do it, so that each run is like the last."""
        if not self.threaded:
            return await request()
        return await asyncio.shield(self.loop.create_task(self._ask_thread(request), name=APART))

    async def _ask_thread(self, request: Callable[[], Awaitable[T]]) -> T:
        async with self.order:
            self.loop.outside += 1
            try:
                return await request()
            finally:
                self.loop.outside -= 1

    async def append(self, row: LogRow, settlement: Settlement | None, more: tuple[Any, ...]) -> None:
        """A row reaches the store."""

        async def write() -> None:
            if row.run_id not in self.ledgers:
                self.wrong.append("something happens to a run that is not stored")
            ledger = self.ledgers[row.run_id]
            known = row.row_no <= len(ledger.rows)
            await self.store.append(row, settlement, *more)
            if known:
                assert ledger.rows[row.row_no - 1] == row, "another row was taken for one that is there"
            else:
                ledger.take(row, settlement)

        await self.ask(write)

    async def create_run(self, new: NewRun, life: int) -> RunCreated:
        """A run reaches the store: a session has one that is active, at most."""

        async def write() -> RunCreated:
            busy = [one for one in self.of_session(new.session_id) if not one.settled]
            try:
                created = await self.store.create_run(new)
            except Conflict as conflict:
                if conflict.reason is Reason.SESSION_BUSY and not busy:
                    raise AssertionError("a session is busy without a run") from conflict
                raise
            if not created.existing:
                assert not busy, "two runs of a session are active"
                self.ledgers[new.run_id] = Ledger(new, life)
            return created

        return await self.ask(write)

    def of_session(self, session_id: str | None) -> list[Ledger]:
        """Ledgers of the runs of a session, in the order of their creation; none for no session."""
        return [one for one in self.ledgers.values() if session_id is not None and one.new.session_id == session_id]

    def unsettled(self) -> list[Ledger]:
        """Runs whose end is not durable."""
        return [ledger for ledger in self.ledgers.values() if not ledger.settled]


@dataclass
class Connection:
    """The store as one process sees it. What a test sets:

    ``fail``: so many writes fail. ``lose``: so many writes are done, and the answer is lost. ``away``: nothing answers.
    ``held``: writes wait until ``release``. ``dies_at``: the process ends at the write after so many; with ``lands``
    that write is stored.
    """

    disk: Disk
    life: int
    fail: int = 0
    lose: int = 0
    away: bool = False
    held: bool = False
    dies_at: int | None = None
    lands: bool = False
    dead: bool = False
    trouble: float = -TROUBLED_SECONDS
    waiting: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])

    def __getattr__(self, name: str) -> Any:
        """Reads, and whatever else has no faults of its own."""
        method = getattr(self.disk.store, name)

        async def ask(*args: Any) -> Any:
            self._require_disk()
            answer = await self.disk.ask(lambda: method(*args))
            self._require_disk()
            return answer

        return ask

    @property
    def troubled(self) -> bool:
        """Whether the store failed so lately that what it owes may not be made good yet."""
        return self.disk.loop.now < self.trouble + TROUBLED_SECONDS

    async def append(self, row: LogRow, settlement: Settlement | None = None, *more: Any) -> None:
        """Append a row, or what became of it."""
        await self._write(lambda: self.disk.append(row, settlement, more))

    async def create_run(self, new: NewRun) -> RunCreated:
        """Create a run, or what became of it."""
        return await self._write(lambda: self.disk.create_run(new, self.life))

    async def take_over(self, run_id: str) -> StoredRun | None:
        """Take a run over."""
        return await self._write(lambda: self.disk.ask(lambda: self.disk.store.take_over(run_id)))

    def release(self, count: int | None = None) -> None:
        """Let writes that are held go on, the first so many; None: all of them, and those to come."""
        for future in self.waiting[:count]:
            if not future.done():
                future.set_result(None)
        del self.waiting[:count]
        if count is None:
            self.held = False

    def die(self) -> None:
        """The process ends now."""
        self.dead = True
        self.disk.loop.stop()

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        self._require_disk()
        if self.dies_at is not None:
            self.dies_at -= 1
            if self.dies_at < 0:
                if self.lands:
                    await write()
                self.die()
                self._require_disk()
        if self.held:
            gate: asyncio.Future[None] = self.disk.loop.create_future()
            self.waiting.append(gate)
            await gate
            self._require_disk()
        if self.fail > 0:
            self.fail -= 1
            raise self._unavailable("the disk is full")
        written = await write()
        self._require_disk(uncertain=True)
        if self.lose > 0:
            self.lose -= 1
            raise self._unavailable("did not answer in time", uncertain=True)
        return written

    def _require_disk(self, *, uncertain: bool = False) -> None:
        if self.dead:
            raise Fenced("the process has died")
        if self.away:
            raise self._unavailable("the disk cannot be reached", uncertain=uncertain)

    def _unavailable(self, why: str, *, uncertain: bool = False) -> StoreUnavailable:
        self.trouble = self.disk.loop.now
        return StoreUnavailable(why, uncertain=uncertain)
