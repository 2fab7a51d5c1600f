"""The independent checker of the conventions, run over what a run with tools sends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from telemetry.collector import Collector
from telemetry.script import Driver, discover, failure, info, run_with_tools

from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.usage import Usage
from turnwired.telemetry.names import Instrument
from turnwired.telemetry.otel import OtelTelemetry

SHARED = Path(os.environ.get("TURNWIRE_SHARED", Path(__file__).resolve().parents[2].parent / "shared"))
CHECKER = SHARED / "otel" / "check_spans.py"


def _everything(telemetry: OtelTelemetry) -> None:
    """RPCs that end in many ways, discovery, a run with tools, one cancelled, one failed."""
    discover(telemetry)
    call = telemetry.rpc.call_started("turnwire.v1.TurnService/RunTurn", {})
    run_with_tools(Driver(telemetry, info(call.headers)))
    call.ended("OK")
    call = telemetry.rpc.call_started("turnwire.v1.TurnService/StartTurn", {})
    cancelled = Driver(telemetry, info(call.headers))
    call.ended("OK")
    cancelled.start_iteration(1, "resp-1")
    cancelled.finish_iteration(1, FinishReason.ABORTED, Usage(5, 0), failed=failure(Reason.CANCELLED))
    cancelled.finish_run(OutcomeKind.ABORTED, failure(Reason.CANCELLED))
    call = telemetry.rpc.call_started("turnwire.v1.TurnService/RunTurn", {})
    failed = Driver(telemetry, info(call.headers))
    failed.start_iteration(1)
    failed.finish_iteration(1, FinishReason.ERROR, failed=failure(Reason.PROVIDER_NETWORK), first_ns=None, chunks=0)
    failed.finish_run(OutcomeKind.ERRORED, failure(Reason.PROVIDER_NETWORK))
    call.ended("CANCELLED")
    for code in ("NOT_FOUND", "INTERNAL", "DEADLINE_EXCEEDED", "UNAVAILABLE"):
        telemetry.rpc.call_started("turnwire.v1.TurnService/GetRun", {}).ended(code)
    telemetry.rpc.unknown_method("turnwire.v9.Nothing/Here")
    with telemetry.mcp.operation("tools/list", tool=None, protocol_version="2025-11-25", transport="tcp") as operation:
        operation.request_id("9")
        operation.failed("-32603")


@pytest.mark.requirement("TEL-2")
@pytest.mark.skipif(not CHECKER.exists(), reason="the independent checker is not beside this repository")
def test_the_independent_checker_finds_no_violation(
    telemetry: OtelTelemetry, collector: Collector, tmp_path: Path
) -> None:
    _everything(telemetry)
    telemetry.aclose()
    collector.dump(tmp_path)
    required = ["gen_ai.invoke_agent.internal", "gen_ai.client.inference", "gen_ai.execute_tool"]
    required += ["mcp.client", "rpc.grpc.call.server"]
    checked = subprocess.run(
        [sys.executable, str(CHECKER), str(tmp_path), "--require-metrics", "--no-content", "--require", *required],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "violations=0" in checked.stdout
    assert "content_attrs=0" in checked.stdout


@pytest.mark.requirement("TEL-2")
def test_every_metric_of_the_table_is_sent_with_its_unit_and_buckets(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    _everything(telemetry)
    telemetry.aclose()
    sent = collector.metrics
    assert set(sent) == {instrument.value.name for instrument in Instrument}
    for instrument in Instrument:
        spec, metric = instrument.value, sent[instrument.value.name]
        assert metric.unit == spec.unit
        if instrument is Instrument.RPC_DURATION:
            assert sum(point.count for point in metric.exponential_histogram.data_points) == 8
        elif spec.bounds:
            assert all(tuple(point.explicit_bounds) == spec.bounds for point in metric.histogram.data_points)
            assert any(point.count for point in metric.histogram.data_points)
        else:
            assert metric.sum.is_monotonic
            total = sum(point.as_int + point.as_double for point in metric.sum.data_points)
            assert (total == 0) == (instrument is Instrument.SPANS_DROPPED)


@pytest.mark.requirement("TEL-2")
def test_buckets_reach_from_where_to_where_the_conventions_say() -> None:
    ends = {
        instrument.value.name: (instrument.value.bounds[0], instrument.value.bounds[-1], len(instrument.value.bounds))
        for instrument in Instrument
        if instrument.value.bounds
    }
    assert ends == {
        "gen_ai.client.inference.duration": (0.01, 81.92, 14),
        "gen_ai.client.inference.time_to_first_chunk": (0.01, 81.92, 14),
        "gen_ai.client.inference.time_per_output_chunk": (0.01, 81.92, 14),
        "gen_ai.invoke_agent.duration": (0.1, 409.6, 13),
        "gen_ai.invoke_agent.inference_calls": (1, 128, 8),
        "gen_ai.invoke_agent.tool_calls": (1, 128, 8),
        "gen_ai.execute_tool.duration": (0.01, 81.92, 14),
        "mcp.client.operation.duration": (0.01, 300, 14),
        "rpc.server.call.duration": (0.005, 10, 14),
    }
