"""The life of a run: iterations, tools, outcomes. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import (
    CANCELLED,
    RUN_ID,
    Driven,
    a_call,
    assert_well_formed,
    bounds_with,
    failure,
    ok,
    ref,
    setup_with,
    stop,
    text_of,
)

from turnwired.domain.event import (
    IterationFinished,
    RunFinished,
    RunStarted,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    NativeItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallOpened,
)
from turnwired.domain.message import Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import ToolErrorMode
from turnwired.turn.effects import Abandon, CallModel, ResolveTool, RunTool, Settle
from turnwired.turn.facts import CancelRequested, PreparationFailed, ToolResolved
from turnwired.turn.state import TurnState


@pytest.mark.requirement("TURN-1", "TURN-3")
def test_a_text_answer_is_one_iteration_and_then_the_run_is_settled() -> None:
    run = Driven()
    run.says("Hello.")
    assert run.names == [
        "RunStarted",
        "IterationStarted",
        "TextDelta",
        "PartFinished",
        "IterationFinished",
        "RunFinished",
    ]
    assert [emitted.iteration for emitted in run.emitted] == [0, 1, 1, 1, 1, 0]
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.outcome.failure is None
    assert run.finished.message is not None
    assert text_of(run.finished.message) == "Hello."
    assert run.finished.trace is None
    assert [message.role for message in run.settled] == [Role.ASSISTANT]
    assert run.settled[0].run_id == RUN_ID
    assert run.machine.state is TurnState.SETTLED


@pytest.mark.requirement("TURN-1", "TURN-2")
def test_tools_run_after_their_iteration_has_finished_and_the_next_iteration_answers() -> None:
    run = Driven()
    run.produced(TextChunk(0, "Let me look."), *a_call(1, "look", '{"id":"A7"}'))
    assert run.every(RunTool) == []
    run.produced(stop(FinishReason.TOOL_CALLS))
    run.ended()
    assert run.names[-1] == "IterationFinished"
    assert run.machine.state is TurnState.RUNNING_TOOLS
    run.resolves()
    run.finishes("call_89abcdef_1")
    run.says("It shipped.")
    assert run.names == [
        "RunStarted",
        "IterationStarted",
        "TextDelta",
        "PartFinished",
        "ToolCallStarted",
        "ToolCallArgumentsDelta",
        "ToolCallArgumentsFinished",
        "IterationFinished",
        "ToolCallExecuting",
        "ToolCallFinished",
        "IterationStarted",
        "TextDelta",
        "PartFinished",
        "IterationFinished",
        "RunFinished",
    ]
    assert run.finished.message is not None
    assert text_of(run.finished.message) == "It shipped."
    assert run.finished.iteration_count == 2
    assert run.finished.tool_call_count == 1
    assert_well_formed(run.settled)


@pytest.mark.requirement("TURN-2")
def test_a_started_call_carries_the_tool_it_was_routed_to_or_the_name_nobody_has() -> None:
    run = Driven()
    run.answers(*a_call(0, "look"), *a_call(1, "nonsense"), stop())
    started = run.events(ToolCallStarted)
    assert [(call.tool, call.requested_name) for call in started] == [(ref("look"), ""), (None, "nonsense")]
    assert [call.call_id for call in started] == ["call_89abcdef_1", "call_89abcdef_2"]


@pytest.mark.requirement("TURN-7")
def test_the_next_request_has_the_assistants_turn_and_one_message_with_the_results() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Look."), *a_call(1, "look", '{"a":1}'), *a_call(2, "slow"), stop())
    run.resolves()
    run.finishes("call_89abcdef_2", ok("call_89abcdef_2", "second"))
    run.finishes("call_89abcdef_1", ok("call_89abcdef_1", "first"))
    first, second = run.every(CallModel)
    assert first.append == ()
    assert [message.role for message in second.append] == [Role.ASSISTANT, Role.TOOL]
    contents = [part.content for part in second.append[0].parts]
    assert contents[0] == Text("Look.")
    assert contents[1] == ToolCall("call_89abcdef_1", ref("look"), '{"a":1}')
    results = [part.content for part in second.append[1].parts]
    assert [result.call_id for result in results if isinstance(result, ToolResult)] == [
        "call_89abcdef_1",
        "call_89abcdef_2",
    ]
    run.says("Done.")
    assert run.settled[:2] == second.append
    assert run.settled[2].message_id not in {message.message_id for message in second.append}


@pytest.mark.requirement("TURN-7")
def test_no_message_is_sent_twice() -> None:
    run = Driven()
    for _ in range(3):
        run.answers(*a_call(0), stop())
        run.runs_all_tools()
    assert [len(call.append) for call in run.every(CallModel)] == [0, 2, 2, 2]
    ids = [message.message_id for call in run.every(CallModel) for message in call.append]
    assert ids == [f"msg_89abcdef_{n}" for n in range(1, 7)]


@pytest.mark.requirement("TURN-9")
@pytest.mark.parametrize("word", [FinishReason.STOP, FinishReason.OTHER, FinishReason.TOOL_CALLS, FinishReason.PAUSE])
def test_complete_calls_run_whatever_the_finish_word_is(word: FinishReason) -> None:
    run = Driven()
    run.answers(*a_call(0), stop(word))
    run.runs_all_tools()
    run.says("Ready.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.events(IterationFinished)[0].finish_reason is word


@pytest.mark.requirement("TURN-9", "TURN-4")
def test_a_finish_word_that_promises_calls_without_any_is_an_error_and_not_another_request() -> None:
    run = Driven()
    run.answers(stop(FinishReason.TOOL_CALLS))
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.PROVIDER_PROTOCOL_ERROR
    assert len(run.events(Notice)) == 1
    assert len(run.every(CallModel)) == 1
    assert run.settled == ()


@pytest.mark.requirement("TURN-9")
def test_text_with_a_finish_word_that_promises_calls_is_still_the_answer() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Hi."), stop(FinishReason.TOOL_CALLS))
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-10")
def test_equal_and_empty_ids_of_a_provider_give_distinct_calls() -> None:
    run = Driven()
    run.answers(*a_call(0, provider_id="x"), *a_call(1, provider_id="x"), *a_call(2, provider_id=""), stop())
    run.runs_all_tools()
    run.answers(*a_call(0, provider_id="x"), stop())
    run.runs_all_tools()
    ids = [event.call_id for event in run.events(ToolCallStarted)]
    assert ids == [f"call_89abcdef_{n}" for n in (1, 2, 3, 4)]
    assert [event.result.call_id for event in run.events(ToolCallFinished)] == ids


@pytest.mark.requirement("TURN-14", "TURN-5")
def test_the_step_bound_ends_the_run_with_the_results_kept() -> None:
    run = Driven(setup_with(bounds_with(max_steps=2)))
    for _ in range(2):
        run.answers(*a_call(0), stop())
        run.runs_all_tools()
    assert len(run.every(CallModel)) == 2
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert run.outcome.recoverable
    assert run.outcome.limit_trip is not None
    assert run.outcome.limit_trip.policy_path == "loop.max_steps"
    assert (run.outcome.limit_trip.limit, run.outcome.limit_trip.observed) == ("2", "3")
    assert [message.role for message in run.settled] == [Role.ASSISTANT, Role.TOOL] * 2


@pytest.mark.requirement("TURN-14")
def test_an_answer_in_the_last_allowed_step_is_an_answer() -> None:
    run = Driven(setup_with(bounds_with(max_steps=2)))
    run.answers(*a_call(0), stop())
    run.runs_all_tools()
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-26")
def test_a_paused_turn_goes_back_to_the_provider_as_it_is() -> None:
    run = Driven()
    run.answers(NativeItem(0, "server_tool_use", '{"id":1}'), stop(FinishReason.PAUSE))
    second = run.every(CallModel)[1]
    assert [message.role for message in second.append] == [Role.ASSISTANT]
    run.says("Found it.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-26")
def test_a_pause_with_nothing_in_it_does_not_go_round_in_circles() -> None:
    run = Driven()
    run.answers(stop(FinishReason.PAUSE))
    assert run.outcome.kind is OutcomeKind.ERRORED


@pytest.mark.requirement("TURN-29", "TURN-3", "TURN-5")
def test_a_failed_preparation_settles_the_run_with_its_start_and_end() -> None:
    run = Driven(begin=False)
    run.feed(PreparationFailed(failure(Reason.PROVIDER_NOT_CONFIGURED, phase=FailurePhase.PREPARATION)))
    assert run.names == ["RunStarted", "RunFinished"]
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.iteration == 0
    assert run.finished.trace is not None
    assert run.settled == ()


@pytest.mark.requirement("TURN-3")
def test_the_run_starts_with_what_it_is() -> None:
    run = Driven(setup_with(session_id="s", input_message_ids=("m1",)))
    (started,) = run.events(RunStarted)
    assert (started.run_id, started.agent_id, started.session_id) == (RUN_ID, "agent", "s")
    assert started.tool_names == ("look", "write", "slow")
    assert started.input_message_ids == ("m1",)


@pytest.mark.requirement("TURN-16")
def test_with_error_mode_abort_a_failing_tool_stops_its_siblings_and_the_run() -> None:
    run = Driven(setup_with(bounds_with(error_mode=ToolErrorMode.ABORT, max_parallel_calls=2)))
    run.answers(*a_call(0, "look"), *a_call(1, "slow"), *a_call(2, "write"), stop())
    run.resolves()
    broken = ToolResult("", ToolResultStatus.ERROR, failure=failure(Reason.TOOL_FAILED, phase=FailurePhase.TOOL))
    step = run.finishes("call_89abcdef_1", broken)
    assert [type(effect) for effect in step.effects] == [Abandon, Settle]
    assert run.every(Abandon)[0] == Abandon(False, ("call_89abcdef_2",))
    assert [event.result.status for event in run.events(ToolCallFinished)] == [
        ToolResultStatus.ERROR,
        ToolResultStatus.INTERRUPTED,
        ToolResultStatus.NOT_EXECUTED,
    ]
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.phase is FailurePhase.TOOL
    assert run.outcome.failure.reason is Reason.TOOL_FAILED
    assert run.names[-1] == "RunFinished"
    assert_well_formed(run.settled)


@pytest.mark.requirement("TURN-16", "TURN-15")
def test_with_error_mode_abort_a_call_that_cannot_be_made_stops_the_others_before_they_run() -> None:
    run = Driven(setup_with(bounds_with(error_mode=ToolErrorMode.ABORT)))
    run.answers(*a_call(0, "look"), *a_call(1, "nonsense"), stop())
    assert run.every(ResolveTool) == []
    assert run.every(RunTool) == []
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.TOOL_NOT_FOUND


@pytest.mark.requirement("TURN-16")
def test_with_error_mode_abort_being_denied_is_no_failure_of_a_tool() -> None:
    run = Driven(setup_with(bounds_with(error_mode=ToolErrorMode.ABORT)))
    run.answers(*a_call(0, "write"), stop())
    denial = failure(Reason.TOOL_DENIED, phase=FailurePhase.TOOL)
    run.feed(ToolResolved("call_89abcdef_1", ref("write"), denial))
    run.says("I may not.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-20")
def test_a_cancelled_run_says_so_and_keeps_what_it_said() -> None:
    run = Driven()
    run.produced(TextChunk(0, "Writing. "), ToolCallOpened(1, "a", "write"), ToolArgumentsChunk(1, '{"con'))
    step = run.feed(CancelRequested(CANCELLED))
    assert [type(emitted.event) for emitted in step.events] == [IterationFinished, ToolCallFinished, RunFinished]
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.CANCELLED
    assert run.outcome.failure.iteration == 1
    assert run.outcome.partial
    assert [text_of(message) for message in run.settled] == ["Writing. "]
