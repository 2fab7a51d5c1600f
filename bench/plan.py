"""What a run of the benchmark does: which targets, which measures, how large, for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HTTPX, AIOHTTP, RELAY = "floor httpx2", "floor aiohttp", "floor grpc relay"
FLOORS = (HTTPX, AIOHTTP, RELAY)
MEMORY, SQLITE, TELEMETRY = "turnwire memory", "turnwire sqlite", "turnwire sqlite+otlp"
SERVICES = (MEMORY, SQLITE, TELEMETRY)
TARGETS = FLOORS + SERVICES
OTHERS = OTHER_MEMORY, OTHER_SQLITE = "other memory", "other sqlite"
"""The service of another checkout, to compare with."""


@dataclass(frozen=True, slots=True)
class Step:
    """One measure with its sizes. ``title`` is the name in the report."""

    title: str
    measure: str
    sizes: Mapping[str, object]
    limit: float = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """``seconds``: no repetition is begun that would end later than this. ``colds``: cold starts of each target."""

    targets: tuple[str, ...]
    steps: tuple[Step, ...]
    repetitions: int
    seconds: float
    colds: int
    micro: str


def steps(scale: float = 1.0, *, turns: int = 200, large: int = 2000) -> tuple[Step, ...]:
    """The measures, with ``scale`` times as many turns each."""

    def some(count: int) -> int:
        return max(round(count * scale), 1)

    return (
        Step("short turn", "short", {"count": some(60)}),
        Step("deltas", "deltas", {"count": some(4), "size": large}),
        Step("tool iteration", "tool", {"count": some(5)}),
        Step("MCP iteration", "mcp", {"count": some(5)}),
        Step("8 parallel 50 ms tools", "parallel", {"count": some(4)}),
        Step("10 messages before", "history", {"messages": 10, "count": some(8)}),
        Step("100 messages before", "history", {"messages": 100, "count": some(6)}),
        Step("1000 messages before", "history", {"messages": 1000, "count": some(3)}),
        # Last: httpx2 looks through all its idle connections at each request, until they expire.
        Step(f"{turns} concurrent turns", "concurrent", {"turns": turns}, 90.0),
    )


FULL = Plan(TARGETS, steps(), repetitions=7, seconds=190.0, colds=2, micro="full")
QUICK = Plan(TARGETS, steps(0.34, turns=100), repetitions=1, seconds=25.0, colds=1, micro="quick")
TINY = Plan(
    (HTTPX, AIOHTTP, RELAY, TELEMETRY),
    (
        Step("short turn", "short", {"count": 2, "warm": 1}),
        Step("deltas", "deltas", {"count": 1, "size": 100, "warm": 0}),
        Step("tool iteration", "tool", {"count": 1, "iterations": 2, "warm": 0}),
        Step("MCP iteration", "mcp", {"count": 1, "iterations": 2, "warm": 0}),
        Step("parallel tools", "parallel", {"count": 1, "calls": 3, "warm": 0}),
        Step("concurrent turns", "concurrent", {"turns": 5, "size": 4, "ms": 5}),
        Step("history", "history", {"messages": 10, "count": 2, "iterations": 1}),
    ),
    repetitions=1,
    seconds=60.0,
    colds=1,
    micro="tiny",
)
"""For the tests: every measure once."""
