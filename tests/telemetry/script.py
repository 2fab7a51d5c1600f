"""Runs as the engine tells them to telemetry: events with times, in the order of a real run."""

from __future__ import annotations

import time
from collections.abc import Mapping

from turnwired.domain.event import (
    Event,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    RunFinished,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.model import IterationKind, ModelSelection
from turnwired.domain.outcome import Outcome, OutcomeKind
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.domain.usage import Cost, Usage, UsageSource
from turnwired.telemetry.port import RunInfo, RunTelemetry, Telemetry

MODEL = ModelSelection("demo", "gpt-x", '{"temperature": 1, "seed": 7, "stop": ["KEY-STOP"]}')

WEATHER = ToolRef("weather_get_forecast", "get_forecast", ToolSource.MCP, "weather")
CLOCK = ToolRef("clock", "clock", ToolSource.LOCAL)
TOOLS = (
    Tool(WEATHER, "The forecast of a place.", '{"type": "object"}'),
    Tool(CLOCK, "What time it is.", '{"type": "object"}'),
)
FIRST_USAGE = Usage(100, 20, 5, 60, 8, UsageSource.PROVIDER)
SECOND_USAGE = Usage(150, 30, None, 100, None, UsageSource.PROVIDER)


def info(parent_headers: Mapping[str, str] | None = None, **changes: object) -> RunInfo:
    """A run of the agent ``guide`` in a session."""
    values: dict[str, object] = {
        "run_id": "run-1",
        "agent_id": "guide",
        "session_id": "session-1",
        "model": MODEL,
        "provider_name": "openai",
        "server_address": "127.0.0.1",
        "server_port": 8080,
        "tools": TOOLS,
        "labels": {"team": "blue"},
        "parent_headers": parent_headers or {},
        **changes,
    }
    return RunInfo(**values)  # type: ignore[arg-type]


def failure(reason: Reason, message: str = "KEY-MESSAGE sk-1234", phase: FailurePhase = FailurePhase.MODEL) -> Failure:
    """A failure whose message must not be seen."""
    return Failure(phase, reason, message, origin="KEY-ORIGIN")


class Driver:
    """Tells one run to telemetry."""

    def __init__(self, telemetry: Telemetry, run_info: RunInfo) -> None:
        self.telemetry = telemetry
        self.run: RunTelemetry = telemetry.begin_run(run_info)

    def emit(self, iteration: int, event: Event) -> None:
        """An event happens now."""
        self.run.event(iteration, time.time_ns(), event)

    def start_iteration(self, iteration: int, response: str = "") -> None:
        """A model call begins, and the provider names its response when that is given."""
        span_id = self.run.iteration_started(iteration, 4096)
        self.emit(iteration, IterationStarted(IterationKind.STEP, MODEL, span_id, 4096))
        if response:
            self.run.response_identified(iteration, response, "gpt-x-2026")

    def retry(self, iteration: int, usage: Usage | None = None) -> None:
        """The first attempt fails."""
        self.emit(
            iteration,
            IterationRetryScheduled(1, 5_000_000, failure(Reason.PROVIDER_RATE_LIMITED), usage or Usage()),
        )

    def finish_iteration(
        self,
        iteration: int,
        reason: FinishReason,
        usage: Usage | None = None,
        *,
        word: str = "",
        first_ns: int | None = 2_000_000,
        failed: Failure | None = None,
        cost: Cost | None = None,
        chunks: int = 5,
    ) -> None:
        """A model call ends."""
        self.run.output_chunks(iteration, chunks)
        self.emit(
            iteration,
            IterationFinished(reason, word, usage or Usage(), cost, 10_000_000, first_ns, failed),
        )

    def start_tool(self, iteration: int, call_id: str, tool: ToolRef) -> None:
        """The model calls a tool, and it begins to execute."""
        self.emit(iteration, ToolCallStarted(call_id, tool))
        self.emit(iteration, ToolCallArgumentsFinished(call_id, '{"place": "KEY-ARGUMENT"}'))
        span_id = self.run.tool_started(call_id, tool.routed_name)
        self.emit(iteration, ToolCallExecuting(call_id, 1, span_id))

    def finish_tool(
        self, iteration: int, call_id: str, status: ToolResultStatus, failed: Failure | None = None
    ) -> None:
        """A tool call settles."""
        content = (Part("p1", Text("KEY-RESULT")),)
        self.emit(iteration, ToolCallFinished(ToolResult(call_id, status, content, None, failed), 1))

    def finish_run(self, kind: OutcomeKind, failed: Failure | None = None) -> None:
        """The run settles."""
        self.emit(0, RunFinished(Outcome(kind, failed)))


def run_with_tools(driver: Driver) -> None:
    """A retried model call, then two tools side by side, one MCP and one that fails, then the answer."""
    driver.start_iteration(1, "resp-1")
    driver.retry(1)
    cost = Cost("USD", 1_500_000)
    driver.finish_iteration(1, FinishReason.TOOL_CALLS, FIRST_USAGE, word="tool_calls", cost=cost)
    driver.start_tool(1, "call-1", WEATHER)
    driver.start_tool(1, "call-2", CLOCK)
    mcp = driver.telemetry.mcp
    with (
        driver.run.in_tool("call-1"),
        mcp.operation("tools/call", tool="get_forecast", protocol_version="2025-11-25", transport="pipe") as operation,
    ):
        operation.request_id("3")
    failed = failure(Reason.TOOL_FAILED, phase=FailurePhase.TOOL)
    driver.finish_tool(1, "call-2", ToolResultStatus.ERROR, failed)
    driver.finish_tool(1, "call-1", ToolResultStatus.OK)
    driver.start_iteration(2, "resp-2")
    driver.finish_iteration(2, FinishReason.STOP, SECOND_USAGE, word="stop")
    driver.finish_run(OutcomeKind.ANSWERED)


def discover(telemetry: Telemetry) -> None:
    """An MCP server is started, as it is at boot, outside any run."""
    for number, method in enumerate(("initialize", "tools/list"), 1):
        with telemetry.mcp.operation(method, tool=None, protocol_version="2025-11-25", transport="pipe") as operation:
            operation.request_id(str(number))
