"""Which ends of runs, model calls and tools are errors, and which are what somebody wanted."""

from __future__ import annotations

import pytest
from telemetry.collector import Collector, close
from telemetry.script import (
    CLOCK,
    Driver,
    failure,
    info,
)

from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.usage import Usage
from turnwired.telemetry.otel import OtelTelemetry


@pytest.mark.requirement("TEL-4", "SCN-152")
@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.CALLER_DISCONNECTED])
def test_a_callers_cancel_is_no_error_and_keeps_cause_usage_and_first_output(
    telemetry: OtelTelemetry, collector: Collector, reason: Reason
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1, "resp-1")
    driver.finish_iteration(1, FinishReason.ABORTED, Usage(500, 3), failed=failure(reason))
    driver.finish_run(OutcomeKind.ABORTED, failure(reason))
    close(telemetry, collector)
    assert not any(span.error for span in collector.spans)
    chat, run = collector.span("chat gpt-x").attributes, collector.span("invoke_agent guide").attributes
    assert chat["gen_ai.response.finish_reasons"] == run["gen_ai.response.finish_reasons"] == ["error"]
    assert chat["gen_ai.usage.input_tokens"] == run["gen_ai.usage.input_tokens"] == 500
    assert chat["gen_ai.response.time_to_first_chunk"] == 0.002
    assert chat["turnwire.failure.reason"] == run["turnwire.failure.reason"] == reason.value
    assert run["turnwire.run.outcome"] == "ABORTED"


@pytest.mark.requirement("TEL-4")
def test_a_model_call_that_is_cut_without_an_account_has_its_time_to_first_output(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.run.output_began(1)
    driver.finish_iteration(1, FinishReason.ABORTED, first_ns=None, failed=failure(Reason.CANCELLED))
    driver.start_iteration(2)
    driver.finish_iteration(2, FinishReason.ABORTED, first_ns=None, failed=failure(Reason.CANCELLED))
    driver.finish_run(OutcomeKind.ABORTED, failure(Reason.CANCELLED))
    close(telemetry, collector)
    began, silent = (span for span in collector.spans if span.name == "chat gpt-x")
    first = began.attributes["gen_ai.response.time_to_first_chunk"]
    assert isinstance(first, float)
    assert 0.0 <= first <= (began.end_ns - began.start_ns) / 1e9
    assert "gen_ai.response.time_to_first_chunk" not in silent.attributes


@pytest.mark.requirement("TEL-3", "TEL-4")
@pytest.mark.parametrize("reason", [Reason.SHUTTING_DOWN, Reason.DEADLINE_EXCEEDED])
def test_a_run_that_the_service_cuts_is_an_error(
    telemetry: OtelTelemetry, collector: Collector, reason: Reason
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, FinishReason.ABORTED, Usage(500, 3), failed=failure(reason))
    driver.finish_run(OutcomeKind.ABORTED, failure(reason))
    close(telemetry, collector)
    assert {str(span.attributes.get("error.type")) for span in collector.spans} == {reason.value}


@pytest.mark.requirement("TEL-3")
@pytest.mark.parametrize(
    ("finish", "failed", "expected"),
    [
        (FinishReason.ERROR, Reason.PROVIDER_AUTH_FAILED, "PROVIDER_AUTH_FAILED"),
        (FinishReason.EOF, None, "PROVIDER_EOF"),
        (FinishReason.ERROR, None, "_OTHER"),
        (FinishReason.OUTPUT_LIMIT, None, None),
        (FinishReason.REFUSAL, Reason.MODEL_REFUSED, None),
        (FinishReason.ABORTED, None, None),
    ],
)
def test_a_model_call_is_an_error_when_it_did_not_generate(
    telemetry: OtelTelemetry,
    collector: Collector,
    finish: FinishReason,
    failed: Reason | None,
    expected: str | None,
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, finish, failed=None if failed is None else failure(failed))
    driver.finish_run(OutcomeKind.ERRORED)
    close(telemetry, collector)
    assert collector.span("chat gpt-x").attributes.get("error.type") == expected


@pytest.mark.requirement("TEL-3")
@pytest.mark.parametrize(
    ("status", "failed", "expected"),
    [
        (ToolResultStatus.OK, None, None),
        (ToolResultStatus.ERROR, None, "tool_error"),
        (ToolResultStatus.ERROR, Reason.TOOL_TIMEOUT, "TOOL_TIMEOUT"),
        (ToolResultStatus.INTERRUPTED, Reason.TOOL_INTERRUPTED, None),
        (ToolResultStatus.INTERRUPTED, Reason.CANCELLED, None),
        (ToolResultStatus.INTERRUPTED, Reason.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        (ToolResultStatus.OUTCOME_UNKNOWN, None, "TOOL_OUTCOME_UNKNOWN"),
    ],
)
def test_a_tool_is_an_error_when_it_did_not_do_its_work(
    telemetry: OtelTelemetry,
    collector: Collector,
    status: ToolResultStatus,
    failed: Reason | None,
    expected: str | None,
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, FinishReason.TOOL_CALLS)
    driver.start_tool(1, "call-1", CLOCK)
    driver.finish_tool(1, "call-1", status, None if failed is None else failure(failed, phase=FailurePhase.TOOL))
    driver.finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    assert collector.span("execute_tool clock").attributes.get("error.type") == expected


@pytest.mark.requirement("TEL-3")
@pytest.mark.parametrize(
    ("kind", "failed", "expected"),
    [
        (OutcomeKind.ANSWERED, None, None),
        (OutcomeKind.MAX_STEPS, Reason.LIMIT_REACHED, None),
        (OutcomeKind.BUDGET_EXCEEDED, Reason.LIMIT_REACHED, None),
        (OutcomeKind.REFUSED, Reason.MODEL_REFUSED, None),
        (OutcomeKind.PROVIDER_EOF, None, "PROVIDER_EOF"),
        (OutcomeKind.ERRORED, Reason.PROVIDER_NETWORK, "PROVIDER_NETWORK"),
        (OutcomeKind.ERRORED, None, "ERRORED"),
    ],
)
def test_a_limit_that_did_its_work_is_no_error(
    telemetry: OtelTelemetry,
    collector: Collector,
    kind: OutcomeKind,
    failed: Reason | None,
    expected: str | None,
) -> None:
    driver = Driver(telemetry, info())
    driver.finish_run(kind, None if failed is None else failure(failed))
    close(telemetry, collector)
    run = collector.span("invoke_agent guide")
    assert run.attributes.get("error.type") == expected
    assert run.attributes["turnwire.run.outcome"] == kind.value
