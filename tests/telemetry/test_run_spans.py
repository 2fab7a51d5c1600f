"""The spans of runs: their tree, names, attributes and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from telemetry.collector import Collector, ReceivedSpan, close
from telemetry.script import (
    CLOCK,
    MODEL,
    WEATHER,
    Driver,
    discover,
    failure,
    info,
    run_with_tools,
)

from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalKind
from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    AttachmentUpdated,
    RunResumed,
    RunWaiting,
)
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolCall, ToolResultStatus
from turnwired.domain.model import GenerationOptions, TraceContext
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.usage import Usage
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.settings import TelemetrySettings

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def parent_of(collector: Collector, span: ReceivedSpan) -> str:
    """The name of the span's parent, '' for a root, its id when it was not received."""
    by_id = {other.span_id: other.name for other in collector.spans}
    return by_id.get(span.parent_id, span.parent_id)


@pytest.mark.requirement("TEL-1", "SCN-150")
def test_a_run_started_by_an_rpc_is_one_tree_under_its_caller(telemetry: OtelTelemetry, collector: Collector) -> None:
    call = telemetry.rpc.call_started("turnwire.v1.TurnService/RunTurn", {"traceparent": CALLER})
    run_with_tools(Driver(telemetry, info(call.headers)))
    call.ended("OK")
    close(telemetry, collector)

    rpc = collector.span("turnwire.v1.TurnService/RunTurn")
    assert (rpc.kind, rpc.parent_id, rpc.parent_remote) == ("SERVER", "b7ad6b7169203331", True)
    assert {span.trace_id for span in collector.spans} == {"0af7651916cd43dd8448eb211c80319c"}
    parents = {
        (span.name, span.attributes.get("turnwire.iteration.number"), parent_of(collector, span), span.kind)
        for span in collector.spans
    }
    assert parents == {
        ("turnwire.v1.TurnService/RunTurn", None, "b7ad6b7169203331", "SERVER"),
        ("invoke_agent guide", None, "turnwire.v1.TurnService/RunTurn", "INTERNAL"),
        ("turnwire.iteration", 1, "invoke_agent guide", "INTERNAL"),
        ("turnwire.iteration", 2, "invoke_agent guide", "INTERNAL"),
        ("chat gpt-x", None, "turnwire.iteration", "CLIENT"),
        ("execute_tool weather_get_forecast", None, "turnwire.iteration", "INTERNAL"),
        ("execute_tool clock", None, "turnwire.iteration", "INTERNAL"),
        ("tools/call get_forecast", None, "execute_tool weather_get_forecast", "CLIENT"),
    }
    first, second = (span for span in collector.spans if span.name == "turnwire.iteration")
    chats = [span for span in collector.spans if span.name == "chat gpt-x"]
    assert [chat.parent_id for chat in chats] == [first.span_id, second.span_id]


@pytest.mark.requirement("TEL-1")
def test_a_run_may_outlive_the_rpc_that_started_it(telemetry: OtelTelemetry, collector: Collector) -> None:
    call = telemetry.rpc.call_started("turnwire.v1.TurnService/StartTurn", {})
    driver = Driver(telemetry, info(call.headers))
    call.ended("OK")
    run_with_tools(driver)
    close(telemetry, collector)
    run = collector.span("invoke_agent guide")
    rpc = collector.span("turnwire.v1.TurnService/StartTurn")
    assert run.parent_id == rpc.span_id
    assert run.parent_remote, "marked as a parent that does not wait"
    assert run.end_ns > rpc.end_ns


@pytest.mark.requirement("TEL-1")
def test_an_iteration_ends_with_its_last_tool_and_not_with_its_model_call(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    run_with_tools(Driver(telemetry, info()))
    close(telemetry, collector)
    first = next(span for span in collector.spans if span.attributes.get("turnwire.iteration.number") == 1)
    chat = next(span for span in collector.spans if span.parent_id == first.span_id and span.kind == "CLIENT")
    tool = collector.span("execute_tool weather_get_forecast")
    assert chat.end_ns < tool.end_ns == first.end_ns


@pytest.mark.requirement("TEL-1")
def test_requests_to_mcp_servers_outside_runs_are_traces_of_their_own(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    discover(telemetry)
    close(telemetry, collector)
    initialize, listing = collector.span("initialize"), collector.span("tools/list")
    assert (initialize.parent_id, listing.parent_id) == ("", "")
    assert initialize.trace_id != listing.trace_id
    assert listing.attributes == {
        "mcp.method.name": "tools/list",
        "mcp.protocol.version": "2025-11-25",
        "network.transport": "pipe",
        "jsonrpc.request.id": "2",
    }


@pytest.mark.requirement("TEL-2", "TEL-7")
def test_a_run_says_who_ran_what_and_what_it_used(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    close(telemetry, collector)
    assert collector.span("invoke_agent guide").attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "guide",
        "gen_ai.conversation.id": "session-1",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 250,
        "gen_ai.usage.output_tokens": 50,
        "turnwire.run.id": "run-1",
        "turnwire.run.outcome": "ANSWERED",
        "turnwire.run.iterations": 2,
        "turnwire.run.tool_calls": 2,
        "turnwire.run.label.team": "blue",
    }


@pytest.mark.requirement("TEL-2", "TEL-6")
def test_a_model_call_says_what_was_asked_and_what_came(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    close(telemetry, collector)
    chat = next(span for span in collector.spans if span.attributes.get("gen_ai.response.id") == "resp-1")
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.stream": True,
        "turnwire.provider.stream_end": "strict",
        "turnwire.provider.stream_end.layer": "RUNTIME_DEFAULT",
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.seed": 7,
        "gen_ai.conversation.id": "session-1",
        "server.address": "127.0.0.1",
        "server.port": 8080,
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.model": "gpt-x-2026",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.response.time_to_first_chunk": 0.002,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_write.input_tokens": 8,
        "turnwire.iteration.attempts": 2,
        "turnwire.cost.amount": 0.0015,
        "turnwire.cost.currency": "USD",
    }
    assert chat.events == (
        (
            "turnwire.retry",
            {
                "turnwire.failure.reason": "PROVIDER_RATE_LIMITED",
                "turnwire.retry.attempt": 1,
                "turnwire.retry.delay": 0.005,
            },
        ),
    )


@pytest.mark.requirement("TEL-2", "TEL-3")
def test_a_tool_says_what_it_is_and_why_it_failed(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    close(telemetry, collector)
    assert collector.span("execute_tool clock").attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "clock",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call-2",
        "gen_ai.tool.description": "What time it is.",
        "gen_ai.agent.name": "guide",
        "gen_ai.conversation.id": "session-1",
        "turnwire.tool.source": "LOCAL",
        "turnwire.tool.status": "ERROR",
        "turnwire.failure.phase": "TOOL",
        "turnwire.failure.reason": "TOOL_FAILED",
        "error.type": "TOOL_FAILED",
    }
    weather = collector.span("execute_tool weather_get_forecast")
    assert not weather.error
    assert weather.attributes["turnwire.tool.server"] == "weather"
    assert "gen_ai.operation.name" not in collector.span("tools/call get_forecast").attributes, "counted once"


@pytest.mark.requirement("TEL-6", "TEL-7")
def test_usage_of_failed_attempts_counts_once(telemetry: OtelTelemetry, collector: Collector) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.retry(1, Usage(40, 1))
    driver.retry(1, Usage(40, 2))
    driver.finish_iteration(1, FinishReason.STOP, Usage(50, 10))
    driver.finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    for name in ("chat gpt-x", "invoke_agent guide"):
        attributes = collector.span(name).attributes
        assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (130, 13)
    assert collector.span("chat gpt-x").attributes["turnwire.iteration.attempts"] == 3


@pytest.mark.requirement("TEL-8")
def test_a_run_that_ends_closes_what_is_open_in_it(telemetry: OtelTelemetry, collector: Collector) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.start_tool(1, "call-1", CLOCK)
    driver.start_tool(1, "call-2", WEATHER)
    driver.finish_run(OutcomeKind.ERRORED, failure(Reason.INTERNAL))
    driver.finish_run(OutcomeKind.ERRORED, failure(Reason.INTERNAL))
    driver.finish_tool(1, "call-1", ToolResultStatus.OK)
    close(telemetry, collector)
    assert sorted(span.name for span in collector.spans) == [
        "chat gpt-x",
        "execute_tool clock",
        "execute_tool weather_get_forecast",
        "invoke_agent guide",
        "turnwire.iteration",
    ]
    assert {str(span.attributes.get("error.type")) for span in collector.spans} == {"INTERNAL"}


@pytest.mark.requirement("TEL-8")
def test_no_order_of_calls_raises(telemetry: OtelTelemetry, collector: Collector) -> None:
    driver = Driver(telemetry, info(agent_id="", session_id=None, tools=(), server_address="", server_port=0))
    run = driver.run
    assert dict(run.headers_for_model(1)) == {}
    assert dict(run.headers_for_tool("nobody")) == {}
    with run.in_tool("nobody"):
        pass
    run.response_identified(1, "", "")
    run.output_chunks(1, 3)
    driver.finish_tool(1, "nobody", ToolResultStatus.OK)
    driver.finish_iteration(1, FinishReason.STOP)
    driver.retry(1)
    run.tool_started("early", "")
    assert driver.run.iteration_started(1, None) == driver.run.iteration_started(1, None)
    driver.finish_iteration(1, FinishReason.STOP)
    driver.finish_iteration(1, FinishReason.ERROR)
    driver.finish_run(OutcomeKind.ANSWERED)
    driver.start_iteration(2)
    close(telemetry, collector)
    assert sorted(span.name for span in collector.spans) == [
        "chat gpt-x",
        "execute_tool",
        "invoke_agent",
        "turnwire.iteration",
    ]


@pytest.mark.requirement("TEL-5", "SCN-153")
def test_no_content_message_or_secret_leaves(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, FinishReason.ERROR, failed=failure(Reason.PROVIDER_AUTH_FAILED))
    driver.start_tool(1, "call-1", CLOCK)
    with pytest.raises(RuntimeError), driver.run.in_tool("call-1"):
        raise RuntimeError("KEY-EXCEPTION")
    driver.finish_tool(1, "call-1", ToolResultStatus.OK)
    driver.finish_run(OutcomeKind.ERRORED, failure(Reason.PROVIDER_AUTH_FAILED))
    with (
        pytest.raises(RuntimeError),
        telemetry.mcp.operation("tools/call", tool="t", protocol_version=None, transport="tcp"),
    ):
        raise RuntimeError("KEY-EXCEPTION")
    close(telemetry, collector)
    assert len(collector.spans) == 13
    text = collector.text()
    assert "KEY" not in text
    assert "sk-1234" not in text
    assert collector.span("tools/call t").attributes["error.type"] == "RuntimeError"


@pytest.mark.requirement("TEL-5")
def test_texts_from_outside_are_bounded_and_never_break_a_batch(telemetry: OtelTelemetry, collector: Collector) -> None:
    driver = Driver(telemetry, info(agent_id="a\ud800b", session_id="s" * 10_000))
    driver.finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    (run,) = collector.spans
    assert run.name == "invoke_agent a?b"
    assert len(str(run.attributes["gen_ai.conversation.id"])) == 256


@pytest.mark.requirement("TEL-16")
def test_ids_given_to_the_log_are_those_of_the_spans(telemetry: OtelTelemetry, collector: Collector) -> None:
    driver = Driver(telemetry, info({"traceparent": CALLER, "tracestate": "vendor=1"}))
    chat_id = driver.run.iteration_started(1, None)
    tool_id = driver.run.tool_started("call-1", "clock")
    assert driver.run.headers_for_model(1) == {
        "traceparent": f"00-0af7651916cd43dd8448eb211c80319c-{chat_id}-01",
        "tracestate": "vendor=1",
    }
    assert driver.run.headers_for_tool("call-1")["traceparent"].split("-")[2] == tool_id
    driver.finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    assert collector.span("chat gpt-x").span_id == chat_id
    assert collector.span("execute_tool clock").span_id == tool_id
    run = collector.span("invoke_agent guide")
    assert driver.run.trace_context == TraceContext(run.trace_id, run.span_id)


@pytest.mark.requirement("TEL-16")
def test_a_trace_that_its_caller_does_not_record_is_passed_on_but_not_recorded(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    driver = Driver(telemetry, info({"traceparent": CALLER[:-2] + "00"}))
    assert driver.run.trace_context == TraceContext()
    assert driver.run.iteration_started(1, None) == ""
    assert driver.run.headers_for_model(1)["traceparent"].endswith("-00")
    driver.finish_iteration(1, FinishReason.STOP)
    driver.finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    assert collector.spans == []
    assert "gen_ai.invoke_agent.duration" in collector.metrics, "metrics count what is not sampled"


@pytest.mark.requirement("TEL-16")
def test_the_sample_ratio_holds_for_traces_that_begin_here(collector: Collector) -> None:
    telemetry = OtelTelemetry(TelemetrySettings(endpoint=collector.endpoint, sample_ratio=0.25))
    for _ in range(400):
        Driver(telemetry, info()).finish_run(OutcomeKind.ANSWERED)
    Driver(telemetry, info({"traceparent": CALLER})).finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    assert 40 < len(collector.spans) < 170  # 100 on average, 8 sigma either way
    assert "0af7651916cd43dd8448eb211c80319c" in {span.trace_id for span in collector.spans}


@pytest.mark.requirement("OUT-21")
def test_a_model_call_says_how_it_was_to_generate(telemetry: OtelTelemetry, collector: Collector) -> None:
    options = GenerationOptions(0.5, 0.9, 40, 0.1, -0.2, 9, ("END",))
    run_with_tools(Driver(telemetry, info(model=replace(MODEL, options=options), structured=True)))
    close(telemetry, collector)
    chat = next(span for span in collector.spans if span.attributes.get("gen_ai.response.id") == "resp-1")
    expected = {
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40,
        "gen_ai.request.frequency_penalty": 0.1,
        "gen_ai.request.presence_penalty": -0.2,
        "gen_ai.request.seed": 9,
        "gen_ai.request.stop_sequences": ["END"],
        "gen_ai.output.type": "json",
    }
    assert {name: chat.attributes.get(name) for name in expected} == expected


QUESTION = Approval(
    "appr_1",
    ApprovalKind.RULE,
    ToolCall("call_1", WEATHER, '{"secret":"rosebud"}'),
    "tool",
    ("weather",),
    ("weather",),
    "Call it?",
    "run_1",
    "digest",
)


@pytest.mark.requirement("APPROVE-26")
def test_waiting_is_events_of_the_run_and_a_duration_and_holds_no_content(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, FinishReason.TOOL_CALLS)
    driver.emit(1, ApprovalRequested(QUESTION))
    driver.emit(1, RunWaiting((QUESTION,)))
    driver.emit(1, ApprovalResolved("appr_1", ApprovalDecision.REJECT, "ann", "rosebud"))
    driver.emit(1, RunResumed())
    driver.finish_run(OutcomeKind.ANSWERED)
    close(telemetry, collector)
    run = collector.span("invoke_agent guide")
    assert run.events == (
        (
            "turnwire.approval.requested",
            {
                "turnwire.approval.id": "appr_1",
                "turnwire.approval.kind": "RULE",
                "gen_ai.tool.name": WEATHER.routed_name,
                "gen_ai.tool.call.id": "call_1",
            },
        ),
        ("turnwire.run.waiting", {"turnwire.waiting.approvals": 1, "turnwire.waiting.client_tool_calls": 0}),
        ("turnwire.approval.resolved", {"turnwire.approval.id": "appr_1", "turnwire.approval.decision": "REJECT"}),
        ("turnwire.run.resumed", {}),
    )
    waited = run.attributes["turnwire.run.wait_duration"]
    assert isinstance(waited, float)
    assert waited >= 0
    assert "rosebud" not in repr(collector.spans)


@pytest.mark.requirement("APPROVE-26")
def test_a_run_that_is_left_waiting_ends_its_span_without_an_outcome(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, FinishReason.TOOL_CALLS)
    driver.emit(1, RunWaiting((QUESTION,)))
    driver.run.left()
    driver.run.left()
    close(telemetry, collector)
    run = collector.span("invoke_agent guide")
    assert run.attributes["turnwire.run.left_waiting"] is True
    assert "turnwire.run.outcome" not in run.attributes
    assert "turnwire.run.wait_duration" in run.attributes
    assert collector.span("turnwire.iteration").parent_id == run.span_id


@pytest.mark.requirement("SCN-065")
def test_a_model_call_says_what_ends_an_answer_and_who_declared_it(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    run_with_tools(Driver(telemetry, info(stream_end="lenient", stream_end_layer="DEPLOYMENT")))
    close(telemetry, collector)
    calls = [span for span in collector.spans if span.name == "chat gpt-x"]
    said = {
        (span.attributes["turnwire.provider.stream_end"], span.attributes["turnwire.provider.stream_end.layer"])
        for span in calls
    }
    assert said == {("lenient", "DEPLOYMENT")}


@pytest.mark.requirement("SCN-162")
def test_a_run_says_how_many_files_are_in_which_state_and_never_their_names(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    driver = Driver(telemetry, info())
    late = Failure(FailurePhase.PREPARATION, Reason.ATTACHMENT_NOT_READY, "KEY-NAME")
    for name, state in (("a", AttachmentState.PENDING), ("b", AttachmentState.READY), ("a", AttachmentState.FAILED)):
        failure_ = late if state is AttachmentState.FAILED else None
        driver.emit(0, AttachmentUpdated(Attachment(name, f"KEY-NAME-{name}.pdf", "application/pdf", state, failure_)))
    run_with_tools(driver)
    close(telemetry, collector)
    run = collector.span("invoke_agent guide")
    counts = {key: value for key, value in run.attributes.items() if key.startswith("turnwire.run.attachments.")}
    assert counts == {
        "turnwire.run.attachments.pending": 0,
        "turnwire.run.attachments.ready": 1,
        "turnwire.run.attachments.failed": 1,
    }
    assert "KEY-NAME" not in str(collector.spans)
