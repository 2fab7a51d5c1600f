"""Costs of single parts of the service, in microseconds of CPU: a chunk in the parser, a delta in machine, codec and
log, an append in the store. Run as a process of its own it prints them as JSON; the argument is the size.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import uvloop

from bench.handloop import EventSplitter
from bench.provider import Whole, script
from turnwired.codec.event import encode_event
from turnwired.domain.event import TextDelta
from turnwired.domain.generation import TextChunk
from turnwired.domain.model import ModelSelection
from turnwired.domain.run import Caller
from turnwired.engine.log import RunLog
from turnwired.policy.bounds import bounds_of
from turnwired.policy.merge import merge
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.store.memory import MemoryStore
from turnwired.store.port import LogRow, NewRun, Store
from turnwired.store.sqlite import SqliteStore
from turnwired.turn.facts import Begin, ModelProduced
from turnwired.turn.machine import TurnMachine
from turnwired.turn.setup import TurnSetup

Row = dict[str, float | str]
DELTA = " w00000"
PART = "part_00000000000000000000000000000001"


@dataclass(frozen=True, slots=True)
class Size:
    """``deltas`` in an answer, ``rounds`` of each, ``seconds`` of appending, ``runs`` that append at once."""

    deltas: int
    rounds: int
    seconds: float
    runs: int


SIZES = {"tiny": Size(50, 1, 0.05, 3), "quick": Size(1000, 3, 0.4, 200), "full": Size(2000, 7, 1.5, 200)}


def _row(name: str, value: float, unit: str = "us", note: str = "") -> Row:
    return {"name": name, "value": value, "unit": unit, "note": note}


def _alternately(rounds: int, works: Sequence[Callable[[], int]]) -> list[float]:
    """Microseconds of CPU per piece, for each work the median of rounds in which all take turns."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, found, strict=True):
            begun = time.process_time_ns()
            pieces = work()
            times.append((time.process_time_ns() - begun) / pieces / 1e3)
    return [statistics.median(times) for times in found]


# --- the wire --------------------------------------------------------------------------------------------------------


def _events(deltas: int) -> list[bytes]:
    """The server-sent events of an answer, without the HTTP chunks around them."""
    whole = script(f"text-{deltas}", 0, "")
    assert isinstance(whole, Whole)
    _, _, body = whole.body.partition(b"\r\n\r\n")
    events: list[bytes] = []
    while (size := int(body[: body.index(b"\r\n")], 16)) > 0:
        start = body.index(b"\r\n") + 2
        events.append(body[start : start + size])
        body = body[start + size + 2 :]
    return events


def wire(size: Size) -> list[Row]:
    """The parser of chat completions beside splitting and orjson alone, for reads of one event and of 64."""
    events = _events(size.deltas)

    def parser(reads: Sequence[bytes]) -> int:
        chat = ChatParser()
        items = 0
        for read in reads:
            items += len(chat.feed(read))
        items += len(chat.finish())
        assert items > 0
        return len(events)

    def bare(reads: Sequence[bytes]) -> int:
        splitter = EventSplitter()
        for read in reads:
            for event in splitter.feed(read):
                if event.startswith(b"data: {"):
                    orjson.loads(event[6:])
        return len(events)

    rows: list[Row] = []
    for name, together in (("one event a read", 1), ("64 events a read", 64)):
        reads = [b"".join(events[start : start + together]) for start in range(0, len(events), together)]
        ours, least = _alternately(size.rounds, [lambda r=reads: parser(r), lambda r=reads: bare(r)])  # type: ignore[misc]
        note = f"{ours / least:.2f} times splitting and orjson alone, {least:.2f}"
        rows.append(_row(f"chat wire, a chunk, {name}", ours, note=note))
    return rows


# --- a delta on its way ----------------------------------------------------------------------------------------------


def _machine() -> TurnMachine:
    policy = merge([], None)
    setup = TurnSetup("run_0", "agent", 1, ModelSelection("provider", "model"), policy, bounds_of(policy))
    machine = TurnMachine(setup)
    machine.feed(Begin())
    return machine


def delta(size: Size) -> list[Row]:
    """A text delta in the machine (short and long answers), in the codec and in the log."""
    many = [ModelProduced(1, 1, (TextChunk(0, DELTA),)) for _ in range(size.deltas * 5)]
    few = many[: max(size.deltas // 4, 1)]
    event = TextDelta(PART, DELTA)

    def machine(facts: Sequence[ModelProduced]) -> int:
        feed = _machine().feed
        for fact in facts:
            feed(fact)
        return len(facts)

    def codec() -> int:
        for sequence in range(size.deltas):
            encode_event(sequence, 1_790_000_000_000_000_000, 1, event)
        return size.deltas

    async def log() -> list[float]:
        log = RunLog("run_0", MemoryStore(), epoch=1)

        def append() -> int:
            for _ in range(size.deltas):
                log.append(1, event, 1_790_000_000_000_000_000)
            return size.deltas

        return _alternately(size.rounds, [append])

    short, long, encoded = _alternately(size.rounds, [lambda: machine(few), lambda: machine(many), codec])
    (logged,) = asyncio.run(log())
    return [
        _row(f"machine, a delta, {len(few)} in the answer", short),
        _row(f"machine, a delta, {len(many)} in the answer", long, note="more only if something copies"),
        _row("codec, a delta", encoded),
        _row("log, a delta", logged, note="the codec's share included"),
    ]


# --- the store -------------------------------------------------------------------------------------------------------


def _new_run(run_id: str) -> NewRun:
    return NewRun(run_id, Caller(), "agent", 1, spec=b"spec")


class _Figures:
    """CPU of the event loop's thread and of all threads, and waits, of one kind of request."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._loop, self._all, self._begun = time.thread_time(), time.process_time(), time.perf_counter()

    async def take(self, request: Awaitable[object]) -> None:
        begun = time.perf_counter()
        await request
        self.waits.append(time.perf_counter() - begun)

    def row(self, name: str) -> Row:
        count = len(self.waits)
        loop, total = time.thread_time() - self._loop, time.process_time() - self._all
        rate = count / (time.perf_counter() - self._begun)
        wait = statistics.median(self.waits) * 1e6
        note = f"all threads {total / count * 1e6:.0f} us, {rate:,.0f}/s, acknowledged after {wait:,.0f} us"
        return _row(name, loop / count * 1e6, "us of the loop", note)


async def appends(store: Store, name: str, runs: int, seconds: float) -> Row:
    """Rows of 400 bytes by so many runs at once, each waiting for its row before the next."""
    ids = [f"{name}_{runs}_{number}" for number in range(runs)]
    for run_id in ids:
        await store.create_run(_new_run(run_id))
    figures = _Figures()
    end = time.perf_counter() + seconds

    async def live(run_id: str) -> None:
        number = 0
        while number == 0 or time.perf_counter() < end:
            number += 1
            await figures.take(store.append(LogRow(run_id, number, 1, number, number, b"x" * 400)))

    await asyncio.gather(*(live(run_id) for run_id in ids))
    return figures.row(f"store {name}, an append, {runs} {'run' if runs == 1 else 'runs'}")


async def store_costs(size: Size, directory: Path) -> list[Row]:
    """Appends to both stores at one run and at many."""
    rows: list[Row] = []
    stores: dict[str, Store] = {"memory": MemoryStore(), "sqlite": SqliteStore(directory / "append.db")}
    for name, store in stores.items():
        await store.start()
        rows += [await appends(store, name, runs, size.seconds) for runs in (1, size.runs)]
        await store.aclose()
    return rows


def measure(size: Size, directory: Path) -> list[Row]:
    """All of it."""
    return [*wire(size), *delta(size), *uvloop.run(store_costs(size, directory))]


def main(size: str, directory: str) -> None:
    """Print the rows."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        sys.stdout.write(json.dumps(measure(SIZES[size], Path(place))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
