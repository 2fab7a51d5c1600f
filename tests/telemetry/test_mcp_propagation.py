"""The MCP SDK passes our span on, and emits none of its own."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.propagate import inject
from telemetry.collector import Collector
from telemetry.script import CLOCK, Driver, info

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import OutcomeKind
from turnwired.telemetry.otel import OtelTelemetry


@pytest.mark.requirement("TEL-12")
def test_nothing_is_registered_globally(telemetry: OtelTelemetry) -> None:
    assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
    assert not trace.get_current_span().get_span_context().is_valid
    assert telemetry.stats.ended == 0


@pytest.mark.requirement("TEL-12")
def test_the_sdks_meta_names_our_request_as_the_parent(telemetry: OtelTelemetry, collector: Collector) -> None:
    shared = pytest.importorskip("mcp.shared._otel", reason="the MCP SDK has no tracing of its own")
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.start_tool(1, "call-1", CLOCK)
    meta: dict[str, object] = {}
    with (
        driver.run.in_tool("call-1"),
        telemetry.mcp.operation("tools/call", tool="clock", protocol_version=None, transport="pipe") as operation,
        shared.otel_span("MCP send tools/call clock", kind=trace.SpanKind.CLIENT),
    ):
        operation.request_id("1")
        shared.inject_trace_context(meta)
    driver.finish_run(OutcomeKind.ANSWERED)
    telemetry.aclose()
    span = collector.span("tools/call clock")
    assert str(meta["traceparent"]).startswith(f"00-{span.trace_id}-{span.span_id}-")
    assert span.parent_id == collector.span("execute_tool clock").span_id
    assert len(collector.spans) == 5, "the SDK's own span went nowhere"


@pytest.mark.requirement("TEL-1", "TEL-12", "SCN-150")
async def test_tools_side_by_side_have_their_own_current_spans(telemetry: OtelTelemetry, collector: Collector) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)

    async def call(call_id: str) -> str:
        headers: dict[str, str] = {}
        with driver.run.in_tool(call_id):
            await asyncio.sleep(0)
            await asyncio.to_thread(inject, headers)
        return headers["traceparent"].split("-")[2]

    ids = [driver.run.tool_started(f"call-{number}", "clock") for number in range(5)]
    assert await asyncio.gather(*(call(f"call-{number}") for number in range(5))) == ids
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.requirement("TEL-3", "TEL-4")
def test_a_request_that_fails_says_why_and_one_that_is_cancelled_is_no_error(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    failure = Failure(FailurePhase.TOOL, Reason.MCP_UNAVAILABLE, "KEY")
    ends: dict[str, BaseException | None] = {
        "raises": ToolError(failure),
        "cancelled": asyncio.CancelledError(),
        "says": None,
    }
    for tool, end in ends.items():
        try:
            with telemetry.mcp.operation("tools/call", tool=tool, protocol_version=None, transport="tcp") as operation:
                if end is not None:
                    raise end
                operation.failed("tool_error")
                operation.failed("later")
        except (ToolError, asyncio.CancelledError):
            pass
    telemetry.aclose()
    errors = {span.name: span.attributes.get("error.type") for span in collector.spans}
    assert errors == {
        "tools/call raises": "MCP_UNAVAILABLE",
        "tools/call cancelled": None,
        "tools/call says": "tool_error",
    }
    assert collector.span("tools/call cancelled").attributes["turnwire.cancelled"] is True
    counted = collector.metrics["mcp.client.operation.duration"].histogram.data_points
    assert sum(point.count for point in counted) == 3
