"""How a run ends, and what is kept of an answer that did not end well. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import (
    Driven,
    a_call,
    assert_well_formed,
    bounds_with,
    failure,
    setup_with,
    stop,
    text_of,
)

from turnwired.domain.event import (
    IterationFinished,
    IterationStarted,
    ToolCallExecuting,
    ToolCallFinished,
)
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    NativeItem,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Role, Text, ToolCall, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Usage
from turnwired.turn.effects import CallModel, ResolveTool


@pytest.mark.requirement("TURN-4", "TURN-5")
def test_a_stream_that_ends_without_a_finish_word_is_provider_eof_with_the_text_kept() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Half an ans"))
    assert run.events(IterationFinished)[0].finish_reason is FinishReason.EOF
    assert run.outcome.kind is OutcomeKind.PROVIDER_EOF
    assert run.outcome.partial
    assert run.outcome.recoverable
    assert run.finished.trace == RunTrace()
    assert [text_of(message) for message in run.settled] == ["Half an ans"]


@pytest.mark.requirement("TURN-4")
@pytest.mark.parametrize("items", [[], [TextChunk(0, "  \n")], [ReasoningChunk(0, "Hmm.")], [NativeItem(0, "k", "{}")]])
def test_an_answer_without_anything_to_show_is_an_error_and_leaves_no_message(items: list[TextChunk]) -> None:
    run = Driven()
    run.answers(*items, stop())
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.ANSWER_MISSING
    assert not run.outcome.partial
    assert run.finished.message is None
    assert run.settled == ()


@pytest.mark.requirement("TURN-4", "TURN-5")
def test_no_text_after_tools_is_tool_only_with_the_results_kept() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Let me look."), *a_call(1), stop())
    run.runs_all_tools()
    run.answers(stop())
    assert run.outcome.kind is OutcomeKind.TOOL_ONLY
    assert run.outcome.failure is not None
    assert run.finished.message is None
    assert run.finished.trace is not None
    assert [message.role for message in run.settled] == [Role.ASSISTANT, Role.TOOL]


@pytest.mark.requirement("TURN-5")
def test_the_trace_is_asked_for_on_an_answer_only_when_wanted() -> None:
    run = Driven(setup_with(include_trace=True))
    run.says("Hi.")
    assert run.finished.trace == RunTrace()


@pytest.mark.requirement("TURN-5")
def test_an_answer_at_the_output_limit_says_which_limit_and_keeps_the_text() -> None:
    run = Driven(setup_with(bounds_with(max_output_tokens=64)))
    assert run.every(CallModel)[0].max_output_tokens == 64
    assert run.events(IterationStarted)[0].max_output_tokens == 64
    run.answers(TextChunk(0, "A long"), UsageReported(Usage(10, 64)), stop(FinishReason.OUTPUT_LIMIT))
    assert run.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert run.outcome.limit_trip is not None
    assert run.outcome.limit_trip.policy_path == "output.max_output_tokens"
    assert (run.outcome.limit_trip.limit, run.outcome.limit_trip.observed) == ("64", "64")
    assert run.outcome.partial
    assert text_of(run.settled[0]) == "A long"


@pytest.mark.requirement("TURN-8")
def test_a_full_context_window_ends_the_run_and_its_calls_do_not_run() -> None:
    run = Driven()
    run.answers(*a_call(0), stop(FinishReason.CONTEXT_LIMIT))
    assert run.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.CONTEXT_OVERFLOW
    assert run.events(ToolCallFinished)[0].result.status is ToolResultStatus.NOT_EXECUTED
    assert_well_formed(run.settled)


@pytest.mark.requirement("TURN-22", "TURN-8")
def test_calls_cut_by_the_output_limit_are_reported_to_the_model_and_never_run() -> None:
    run = Driven()
    run.answers(
        *a_call(0, "write", '{"path":"x.py"}'),
        ToolCallOpened(1, "b", "write"),
        ToolArgumentsChunk(1, '{"path":"y.py","content":"impor'),
        stop(FinishReason.OUTPUT_LIMIT),
    )
    assert run.every(ResolveTool) == []
    results = [event.result for event in run.events(ToolCallFinished)]
    assert [result.status for result in results] == [ToolResultStatus.NOT_EXECUTED] * 2
    assert "output token limit" in (results[1].failure.message if results[1].failure else "")
    assert [event.call_id for event in run.events(ToolCallExecuting)] == []
    second = run.every(CallModel)[1]
    calls = [part.content for part in second.append[0].parts if isinstance(part.content, ToolCall)]
    assert [call.arguments_json for call in calls] == ['{"path":"x.py"}', "{}"]
    assert_well_formed(second.append)
    run.says("I will write it in parts.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-22")
def test_calls_cut_by_the_output_limit_a_second_time_end_the_run() -> None:
    run = Driven()
    for _ in range(2):
        run.answers(*a_call(0), stop(FinishReason.OUTPUT_LIMIT))
    assert run.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert run.finished.iteration_count == 2
    assert_well_formed(run.settled)


@pytest.mark.requirement("TURN-22", "TURN-14")
def test_the_report_of_cut_calls_takes_no_step_beyond_the_bound() -> None:
    run = Driven(setup_with(bounds_with(max_steps=1)))
    run.answers(*a_call(0), stop(FinishReason.OUTPUT_LIMIT))
    assert run.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert len(run.every(CallModel)) == 1


@pytest.mark.requirement("TURN-23")
@pytest.mark.parametrize(
    ("items", "word", "reason"),
    [
        ([RefusalChunk(0, "I cannot.")], FinishReason.STOP, Reason.MODEL_REFUSED),
        ([RefusalChunk(0, "I cannot.")], FinishReason.CONTENT_FILTER, Reason.MODEL_REFUSED),
        ([], FinishReason.REFUSAL, Reason.MODEL_REFUSED),
        ([], FinishReason.CONTENT_FILTER, Reason.PROVIDER_CONTENT_FILTERED),
    ],
)
def test_a_refusal_is_refused_and_is_not_tried_again(
    items: list[RefusalChunk], word: FinishReason, reason: Reason
) -> None:
    run = Driven()
    run.answers(*items, stop(word))
    assert run.outcome.kind is OutcomeKind.REFUSED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is reason
    assert not run.outcome.recoverable
    assert not run.outcome.partial
    assert len(run.every(CallModel)) == 1
    assert [text_of(message) for message in run.settled] == ["I cannot."] * len(items)


@pytest.mark.requirement("TURN-23")
def test_text_that_a_content_filter_cut_is_partial() -> None:
    run = Driven()
    run.answers(TextChunk(0, "First you"), stop(FinishReason.CONTENT_FILTER))
    assert run.outcome.kind is OutcomeKind.REFUSED
    assert run.outcome.partial


@pytest.mark.requirement("TURN-8")
@pytest.mark.parametrize(
    "word", [None, FinishReason.ERROR, FinishReason.REFUSAL, FinishReason.CONTENT_FILTER, FinishReason.ABORTED]
)
def test_complete_calls_of_an_answer_that_did_not_end_well_never_run(word: FinishReason | None) -> None:
    run = Driven()
    run.answers(*a_call(0), *([stop(word)] if word else []))
    assert run.every(ResolveTool) == []
    (finished,) = run.events(ToolCallFinished)
    assert finished.result.status is ToolResultStatus.NOT_EXECUTED
    assert run.outcome.kind in {OutcomeKind.PROVIDER_EOF, OutcomeKind.ERRORED, OutcomeKind.REFUSED}
    assert [message.role for message in run.settled] == [Role.ASSISTANT, Role.TOOL]
    assert_well_formed(run.settled)


@pytest.mark.requirement("TURN-8", "TURN-6")
def test_a_call_whose_arguments_broke_off_is_settled_and_left_out_of_the_history() -> None:
    run = Driven()
    run.produced(TextChunk(0, "Saving."), ToolCallOpened(1, "a", "write"), ToolArgumentsChunk(1, '{"path":"x","con'))
    run.failed(failure(retryable=True))
    (finished,) = run.events(ToolCallFinished)
    assert finished.result.status is ToolResultStatus.NOT_EXECUTED
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.partial
    (message,) = run.settled
    assert [part.content for part in message.parts] == [Text("Saving.")]
    assert "ToolCallArgumentsFinished" not in run.names


@pytest.mark.requirement("TURN-6")
def test_a_cut_turn_keeps_its_text_but_not_its_reasoning_or_native_items() -> None:
    run = Driven()
    run.answers(ReasoningChunk(0, "Hmm.", b"sig"), NativeItem(1, "k", "{}"), TextChunk(2, "Half"))
    (message,) = run.settled
    assert [part.content for part in message.parts] == [Text("Half")]
