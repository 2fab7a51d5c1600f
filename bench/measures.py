"""What is measured of a target, one function per measure. Each gives a flat record of figures, one sample.

Every measure checks that what came is complete: a turn that lost text or failed raises, and is never a fast turn.
Times are in milliseconds unless the name says otherwise. CPU is that of the target's process, all threads.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.clocks import cpu_seconds, resident_kb
from bench.provider import DELTA_CHARS, LAST_TEXT, STAMP_CHARS
from bench.turn import Target, Turn, TurnFailure, history_of

Sample = dict[str, float]
MEMORY_SECONDS = 0.02
SLEEP_MS = 50.0


@dataclass(slots=True)
class Measured:
    """A target, and the process that pays for it."""

    target: Target
    pid: int


@dataclass(slots=True)
class _Timed:
    """Times of some turns, seconds. ``cpu`` is for all of them."""

    first: list[float] = field(default_factory=list[float])
    whole: list[float] = field(default_factory=list[float])
    cpu: float = 0.0


async def _one(target: Target, turn: Turn, chars: int) -> tuple[float, float]:
    """Seconds to the first text and to the end."""
    first = 0.0
    got = 0

    def on_text(text: str) -> None:
        nonlocal first, got
        first = first or time.perf_counter()
        got += len(text)

    begun = time.perf_counter()
    await target.turn(turn, on_text)
    ended = time.perf_counter()
    if got != chars:
        raise TurnFailure(f"{turn.model}: {got} characters came, not {chars}")
    return first - begun, ended - begun


async def _in_turn(measured: Measured, turn: Turn, chars: int, count: int, warm: int) -> _Timed:
    """Turns one after the other, after some that do not count."""
    for _ in range(warm):
        await _one(measured.target, turn, chars)
    gc.collect()
    timed = _Timed()
    cpu = cpu_seconds(measured.pid)
    for _ in range(count):
        first, whole = await _one(measured.target, turn, chars)
        timed.first.append(first)
        timed.whole.append(whole)
    timed.cpu = cpu_seconds(measured.pid) - cpu
    return timed


def _ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1e3


async def short(measured: Measured, count: int = 60, warm: int = 3) -> Sample:
    """Turns of 20 deltas: what a turn costs whatever it says."""
    timed = await _in_turn(measured, Turn("text-20"), 20 * DELTA_CHARS, count, warm)
    return {"first_ms": _ms(timed.first), "turn_ms": _ms(timed.whole), "cpu_ms": timed.cpu / count * 1e3}


async def deltas(measured: Measured, count: int = 4, size: int = 2000, warm: int = 1) -> Sample:
    """Turns of very many deltas: what a delta costs."""
    timed = await _in_turn(measured, Turn(f"text-{size}"), size * DELTA_CHARS, count, warm)
    total = size * count
    return {
        "per_s": size / statistics.median(timed.whole),
        "per_core_s": total / timed.cpu,
        "cpu_us": timed.cpu / total * 1e6,
    }


async def tool(measured: Measured, count: int = 5, iterations: int = 10, key: str = "noop", warm: int = 1) -> Sample:
    """Turns that call a tool which does nothing, so many times, then answer."""
    turn = Turn(f"tool-{iterations}", (key,))
    timed = await _in_turn(measured, turn, LAST_TEXT * DELTA_CHARS, count, warm)
    steps = iterations + 1
    return {"iteration_ms": _ms(timed.whole) / steps, "cpu_ms": timed.cpu / count / steps * 1e3}


async def mcp(measured: Measured, count: int = 5, iterations: int = 10, warm: int = 1) -> Sample:
    """The same with a tool of an MCP server over pipes."""
    return await tool(measured, count, iterations, "mcp", warm)


async def parallel(measured: Measured, count: int = 4, calls: int = 8, warm: int = 1) -> Sample:
    """Turns with so many calls at once of a tool that takes 50 ms."""
    turn = Turn(f"ptool-{calls}", ("sleep50",))
    timed = await _in_turn(measured, turn, LAST_TEXT * DELTA_CHARS, count, warm)
    return {"over_ms": _ms(timed.whole) - SLEEP_MS, "cpu_ms": timed.cpu / count * 1e3}


async def history(measured: Measured, messages: int = 100, count: int = 3, iterations: int = 10) -> Sample:
    """Short turns and tool iterations after so many messages, which come with the request."""
    texts = history_of(messages)
    plain = await _in_turn(measured, Turn("text-20", (), texts), 20 * DELTA_CHARS, count, 1)
    turn = Turn(f"tool-{iterations}", ("noop",), texts)
    tools = await _in_turn(measured, turn, LAST_TEXT * DELTA_CHARS, max(count // 2, 1), 0)
    steps = len(tools.whole) * (iterations + 1)
    return {
        "turn_ms": _ms(plain.whole),
        "turn_cpu_ms": plain.cpu / count * 1e3,
        "iteration_ms": _ms(tools.whole) / (iterations + 1),
        "iteration_cpu_ms": tools.cpu / steps * 1e3,
    }


async def concurrent(measured: Measured, turns: int = 200, size: int = 50, ms: int = 20) -> Sample:
    """So many turns at once, whose provider sends a delta each ``ms``. Lateness: from when it was due to its reader."""
    late: list[float] = []
    firsts: list[float] = []
    deltas_seen = 0

    async def one() -> None:
        nonlocal deltas_seen
        seen = 0

        def on_text(text: str) -> None:
            nonlocal seen
            now = time.monotonic()
            starts = range(0, len(text), STAMP_CHARS)
            late.extend(now - int(text[start : start + STAMP_CHARS]) / 1e6 for start in starts)
            if not seen:
                firsts.append(now - begun)
            seen += len(text) // STAMP_CHARS

        await measured.target.turn(Turn(f"pace-{size}-{ms}"), on_text)
        if seen != size:
            raise TurnFailure(f"{seen} deltas of a paced turn came, not {size}")
        deltas_seen += seen

    gc.collect()
    before = resident_kb(measured.pid)
    peak = _Peak(measured.pid)
    cpu, own = cpu_seconds(measured.pid), time.process_time()
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(turns):
            group.create_task(one())
    took = time.monotonic() - begun
    late.sort()
    firsts.sort()
    return {
        "total_s": took,
        "over_s": took - (size - 1) * ms / 1e3,
        "late_p50_ms": late[len(late) // 2] * 1e3,
        "late_p99_ms": late[int(len(late) * 0.99)] * 1e3,
        "first_p99_ms": firsts[int(len(firsts) * 0.99)] * 1e3,
        "cpu_s": cpu_seconds(measured.pid) - cpu,
        "caller_cpu_s": time.process_time() - own,
        "kb_per_turn": (peak.stop() - before) / turns,
        "deltas": deltas_seen,
    }


class _Peak:
    """The most memory that a process had since, looked at every 20 ms."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._most = 0.0
        self._look()

    def _look(self) -> None:
        self._most = max(self._most, resident_kb(self._pid))
        self._timer = asyncio.get_running_loop().call_later(MEMORY_SECONDS, self._look)

    def stop(self) -> float:
        self._timer.cancel()
        return max(self._most, resident_kb(self._pid))


async def first(measured: Measured) -> Sample:
    """The first turn of a process, and what it then has in memory."""
    _, whole = await _one(measured.target, Turn("text-20"), 20 * DELTA_CHARS)
    return {"turn_s": whole, "rss_mb": resident_kb(measured.pid) / 1024}


MEASURES: Mapping[str, Callable[..., Awaitable[Sample]]] = {
    function.__name__: function for function in (short, deltas, tool, mcp, parallel, history, concurrent, first)
}
