"""What telemetry costs the event loop, in microseconds of CPU. Run it: ``python tests/telemetry/cost.py``.

The queue is emptied without sending, so that the exporter's thread is not measured: it encodes about 60 µs a span.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count

from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind
from telemetry.script import CLOCK, Driver, info

from turnwired.domain.event import IterationFinished, RunFinished, TextDelta, ToolCallExecuting, ToolCallFinished
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.outcome import Outcome, OutcomeKind
from turnwired.domain.usage import Usage, UsageSource
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.mcp import OtelMcpTelemetry
from turnwired.telemetry.metrics import Meter
from turnwired.telemetry.null import NullTelemetry
from turnwired.telemetry.port import McpTelemetry, RpcTelemetry, RunInfo, RunTelemetry, Telemetry
from turnwired.telemetry.rpc import OtelRpcTelemetry
from turnwired.telemetry.run import OtelRunTelemetry
from turnwired.telemetry.spans import Span, Tracer

USAGE = Usage(1000, 200, 10, 500, 0, UsageSource.PROVIDER)
FINISHED = IterationFinished(FinishReason.TOOL_CALLS, "tool_calls", USAGE, None, 1_000_000, 500_000)
TOOL_FINISHED = ToolCallFinished(ToolResult("call-1", ToolResultStatus.OK), 1)
EXECUTING = ToolCallExecuting("call-1", 1, "")
RUN_FINISHED = RunFinished(Outcome(OutcomeKind.ANSWERED))
DELTA = TextDelta("part", "word")


class Unsent:
    """Telemetry as a process with a collector has it, sending nothing."""

    def __init__(self) -> None:
        self._instruments = Instruments(Meter(Resource.get_empty(), "", time.time_ns))
        self._tracer = Tracer(self._ignore, time.time_ns)
        self.rpc: RpcTelemetry = OtelRpcTelemetry(self._tracer, self._instruments)
        self.mcp: McpTelemetry = OtelMcpTelemetry(self._tracer, self._instruments)

    def _ignore(self, span: Span) -> None:
        del span

    def span(self) -> None:
        """One bare span with 15 attributes."""
        attributes: dict[str, str | bool | int | float | tuple[str, ...]] = {f"a{n}": "value" for n in range(15)}
        self._tracer.end(self._tracer.start("name", SpanKind.INTERNAL, attributes, None))

    def begin_run(self, run_info: RunInfo) -> RunTelemetry:
        """As the port says."""
        return OtelRunTelemetry(self._tracer, self._instruments, run_info)

    def aclose(self) -> None:
        """As the port says."""


def iteration(run: RunTelemetry, number: int) -> None:
    """An iteration with its model call and one tool."""
    run.iteration_started(number, 4096)
    run.response_identified(number, "resp-1", "gpt-x-2026")
    run.headers_for_model(number)
    run.output_chunks(number, 50)
    run.event(number, time.time_ns(), FINISHED)
    run.tool_started("call-1", CLOCK.routed_name)
    run.event(number, time.time_ns(), EXECUTING)
    run.headers_for_tool("call-1")
    with run.in_tool("call-1"):
        pass
    run.event(number, time.time_ns(), TOOL_FINISHED)


def microseconds(work: Callable[[], object], times: int = 3000) -> float:
    """CPU time of one call, the best of five rounds."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - started)
    return best / times * 1e6


def costs(telemetry: Telemetry) -> dict[str, float]:
    """Microseconds by what is done."""
    run_info = info()

    def empty_run() -> None:
        telemetry.begin_run(run_info).event(0, time.time_ns(), RUN_FINISHED)

    run = Driver(telemetry, run_info).run
    numbers = count(1)

    def request() -> None:
        with telemetry.mcp.operation(
            "tools/call", tool="t", protocol_version="2025-11-25", transport="pipe"
        ) as operation:
            operation.request_id("1")

    return {
        "run without iterations": microseconds(empty_run),
        "iteration with one tool": microseconds(lambda: iteration(run, next(numbers))),
        "MCP request": microseconds(request),
        "RPC": microseconds(lambda: telemetry.rpc.call_started("a.B/C", {}).ended("OK")),
    }


def main() -> None:
    """Print a table."""
    unsent = Unsent()
    rows = {"with a collector": costs(unsent), "without": costs(NullTelemetry())}
    sys.stdout.write(f"one span, 15 attributes: {microseconds(unsent.span):.1f} µs\n")
    for name in rows["without"]:
        sys.stdout.write(f"{name}: {rows['with a collector'][name]:.1f} µs, {rows['without'][name]:.2f} without\n")


if __name__ == "__main__":
    main()
