"""What telemetry costs the event loop, in microseconds of CPU. Run it: ``python tests/telemetry/cost.py``.

Spans end nowhere, so that the exporter's thread is not measured: it encodes about 60 µs a span.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count

from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind
from telemetry import script
from telemetry.script import CLOCK, Driver

from turnwired.domain.event import IterationFinished, RunFinished, TextDelta, ToolCallExecuting, ToolCallFinished
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.outcome import Outcome, OutcomeKind
from turnwired.domain.usage import Usage, UsageSource
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.mcp import OtelMcpTelemetry
from turnwired.telemetry.null import NullTelemetry
from turnwired.telemetry.port import McpTelemetry, RpcTelemetry, RunInfo, RunTelemetry, Telemetry
from turnwired.telemetry.rpc import OtelRpcTelemetry
from turnwired.telemetry.run import OtelRunTelemetry
from turnwired.telemetry.spans import ROOT, Span

USAGE = Usage(1000, 200, 10, 500, 0, UsageSource.PROVIDER)
FINISHED = IterationFinished(FinishReason.TOOL_CALLS, "tool_calls", USAGE, None, 1_000_000, 500_000)
TOOL_FINISHED = ToolCallFinished(ToolResult("call-1", ToolResultStatus.OK), 1)
EXECUTING = ToolCallExecuting("call-1", 1, "")
RUN_FINISHED = RunFinished(Outcome(OutcomeKind.ANSWERED))
DELTA = TextDelta("part", "word")


class Unsent:
    """Telemetry as a process with a collector has it, sending nothing."""

    def __init__(self) -> None:
        meter = MeterProvider(
            [InMemoryMetricReader()], exemplar_filter=AlwaysOffExemplarFilter(), shutdown_on_exit=False
        ).get_meter("cost")
        self._instruments = Instruments(meter)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SpanProcessor())
        self._tracer = provider.get_tracer("cost")
        self.rpc: RpcTelemetry = OtelRpcTelemetry(self._tracer, self._instruments)
        self.mcp: McpTelemetry = OtelMcpTelemetry(self._tracer, self._instruments)

    def span(self) -> None:
        """One bare span with 15 attributes."""
        Span(self._tracer, "name", SpanKind.INTERNAL, {f"a{n}": "value" for n in range(15)}, ROOT).end()

    def begin_run(self, info: RunInfo) -> RunTelemetry:
        """As the port says."""
        return OtelRunTelemetry(self._tracer, self._instruments, info)

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


def microseconds(work: Callable[[], object], times: int) -> float:
    """CPU time of one call, the best of five rounds."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - started)
    return best / times * 1e6


def costs(telemetry: Telemetry, times: int = 3000) -> dict[str, float]:
    """Microseconds by what is done."""
    run_info = script.info()

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
        "run without iterations": microseconds(empty_run, times),
        "iteration with one tool": microseconds(lambda: iteration(run, next(numbers)), times),
        "MCP request": microseconds(request, times),
        "RPC": microseconds(lambda: telemetry.rpc.call_started("a.B/C", {}).ended("OK"), times),
    }


def main() -> None:
    """Print a table."""
    unsent = Unsent()
    rows = {"with a collector": costs(unsent), "without": costs(NullTelemetry())}
    sys.stdout.write(f"one span, 15 attributes: {microseconds(unsent.span, 3000):.1f} µs\n")
    for name in rows["without"]:
        sys.stdout.write(f"{name}: {rows['with a collector'][name]:.1f} µs, {rows['without'][name]:.2f} without\n")


if __name__ == "__main__":
    main()
