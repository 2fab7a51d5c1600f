"""What an append and a creation cost: CPU of the event loop's thread, time until acknowledged, and how many a second.

Run it: ``python tests/store/cost_of_an_append.py [directory]``; the directory decides which disk is measured.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from store.builders import message, new_run, settlement

from turnwired.store.memory import MemoryStore
from turnwired.store.port import LogRow, Store
from turnwired.store.sqlite import SqliteStore

BODY = b"x" * 400
SECONDS = 3.0


class Figures:
    """Latencies of one kind of request, with the CPU time of this thread and of all threads."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._loop, self._all, self._start = time.thread_time(), time.process_time(), time.perf_counter()

    async def timed(self, awaitable: Awaitable[object]) -> None:
        begun = time.perf_counter()
        await awaitable
        self.waits.append(time.perf_counter() - begun)

    def line(self, what: str) -> str:
        seconds = time.perf_counter() - self._start
        loop, total = time.thread_time() - self._loop, time.process_time() - self._all
        waits, count = sorted(self.waits), len(self.waits)
        p10, p50, p99 = (waits[int(count * q)] * 1e6 for q in (0.1, 0.5, 0.99))
        return (
            f"{what:34s} {count / seconds:9.0f}/s   loop {loop / count * 1e6:7.1f} us   all threads "
            f"{total / count * 1e6:7.1f} us   waits p10 {p10:7.0f} p50 {p50:7.0f} p99 {p99:7.0f} us"
        )


async def appends(store: Store, name: str, runs: int, size: int) -> None:
    """Rows by so many runs at once, each waiting for its row before the next."""
    for number in range(runs):
        await store.create_run(new_run(f"{name}_{runs}_{size}_{number}"))
    body = BODY * (size // len(BODY))
    end = time.perf_counter() + SECONDS
    figures = Figures()

    async def live(run_id: str) -> None:
        row_no = 0
        while time.perf_counter() < end:
            row_no += 1
            await figures.timed(store.append(LogRow(run_id, row_no, 1, row_no, row_no, body)))

    await asyncio.gather(*(live(f"{name}_{runs}_{size}_{number}") for number in range(runs)))
    print(figures.line(f"{name}: append {size} B, {runs} runs"))


async def creations(store: Store, name: str, at_once: int, rounds: int) -> None:
    """Runs of new sessions with a message each, all at once, and their settlement, all at once."""
    created, settled = Figures(), None
    ids = [[f"{name}_c{at_once}_{turn}_{number:03}" for number in range(at_once)] for turn in range(rounds)]
    for turn in ids:
        news = [
            new_run(run_id, session_id="s" + run_id, request_id=run_id, input_=(message("m" + run_id),))
            for run_id in turn
        ]
        await asyncio.gather(*(created.timed(store.create_run(new)) for new in news))
    print(created.line(f"{name}: create_run, {at_once} at once"))
    settled = Figures()
    end = settlement(message("m"))
    for turn in ids:
        rows = [LogRow(run_id, 1, 1, 1, 1, BODY) for run_id in turn]
        await asyncio.gather(*(settled.timed(store.append(row, end)) for row in rows))
    print(settled.line(f"{name}: settle, {at_once} at once"))


async def measure(make: Callable[[Path], Store], name: str, directory: Path, pragma: str = "") -> None:
    """All of it for one store."""
    store = make(directory / f"{name.replace(' ', '-')}.db")
    await store.start()
    if pragma and isinstance(store, SqliteStore) and store._write_connection is not None:
        store._write_connection.execute(pragma)
    for runs, size in ((1, 400), (200, 400), (200, 2000)):
        await appends(store, name, runs, size)
    await creations(store, name, 1, 200)
    await creations(store, name, 200, 10)
    await store.aclose()


async def main() -> None:
    """SQLite as it runs, SQLite without syncing, memory."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as directory:
        path = Path(directory)
        await measure(SqliteStore, "sqlite FULL", path)
        await measure(SqliteStore, "sqlite OFF", path, "PRAGMA synchronous = OFF")
        await measure(lambda _: MemoryStore(), "memory", path)


if __name__ == "__main__":
    uvloop.run(main())
