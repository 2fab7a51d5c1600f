"""What the caller does in a run: it executes calls, and adds input."""

from __future__ import annotations

import pytest
from turn.asking import ASKS, CALLS, FIRST, OK, ONCE, answer, calls_tools, driven, finishes_all, results, statuses
from turn.machinekit import (
    CANCELLED,
    TOOLS,
    Driven,
    a_call,
    assert_well_formed,
    bounds_with,
    failure,
    ok,
    setup_with,
    stop,
    text_of,
)

from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.event import InputAppended, RunResumed, RunWaiting, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason, TextChunk
from turnwired.domain.message import Message, Part, Role, Text, ToolResult, ToolResultStatus
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import CompletionMode, ToolErrorMode, ToolExecutionMode, WaitExpiryMode
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.turn.effects import Abandon, AwaitCaller, CallModel, ResolveTool, RunTool
from turnwired.turn.facts import (
    CallerResult,
    CancelRequested,
    InputGiven,
    ModelFailed,
    RetryDue,
    ToolResolved,
    ToolResultLate,
    WaitExpired,
)
from turnwired.turn.recovery import closing_step
from turnwired.turn.setup import TurnSetup

CLIENT = ToolRef("write", "write", ToolSource.CLIENT)
ERROR, INTERRUPTED = ToolResultStatus.ERROR, ToolResultStatus.INTERRUPTED


def calls_the_caller(run: Driven, *wanted: tuple[str, str]) -> None:
    """One answer with these calls; ``write`` is the caller's own tool."""
    items = [item for index, (name, arguments) in enumerate(wanted) for item in a_call(index, name, arguments)]
    run.answers(*items, stop(FinishReason.TOOL_CALLS))
    for effect in run.every(ResolveTool)[-len(wanted) :]:
        tool = CLIENT if effect.requested_name == "write" else TOOLS[effect.requested_name]
        run.feed(ToolResolved(effect.call_id, tool))


def hands_in(run: Driven, call_id: str, text: str = "done", status: ToolResultStatus = OK) -> None:
    run.feed(CallerResult(ToolResult(call_id, status, (Part("", Text(text)),)), 7))


# --- tools of the caller ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("WAIT-30", "WAIT-19")
def test_several_calls_are_with_the_caller_at_once_and_come_back_in_any_order() -> None:
    run = Driven(setup_with(bounds_with(max_parallel_calls=1)))
    calls_the_caller(run, ("write", '{"n":1}'), ("look", "{}"), ("write", '{"n":2}'))
    assert [event.call_id for event in run.events(ToolCallExecuting)] == list(CALLS[:3])
    assert run.every(AwaitCaller) == [AwaitCaller(CALLS[0]), AwaitCaller(CALLS[2])]
    assert [effect.call_id for effect in run.every(RunTool)] == [CALLS[1]]
    assert {call_id: call.arguments_json for call_id, call in run.machine.pending_calls.items()} == {
        CALLS[0]: '{"n":1}',
        CALLS[2]: '{"n":2}',
    }
    assert run.machine.waiting is None
    run.finishes(CALLS[1])
    (waiting,) = run.events(RunWaiting)
    assert [call.call_id for call in waiting.client_tool_calls] == [CALLS[0], CALLS[2]]
    hands_in(run, CALLS[2], "second")
    assert [len(event.client_tool_calls) for event in run.events(RunWaiting)] == [2, 1]
    hands_in(run, CALLS[0], "first")
    assert len(run.events(RunResumed)) == 1
    follow_up = run.every(CallModel)[-1].append[-1]
    assert [part.content.call_id for part in follow_up.parts if isinstance(part.content, ToolResult)] == list(CALLS[:3])
    assert run.events(ToolCallFinished)[-1].duration_ns == 7
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert_well_formed(run.settled)


@pytest.mark.requirement("WAIT-31")
def test_in_return_mode_every_call_goes_to_the_caller_once_it_may_run() -> None:
    run = driven(ASKS, execution_mode=ToolExecutionMode.RETURN)
    calls_tools(run, ("look", "{}"), ("write", "{}"), ("slow", "{}"))
    assert list(run.machine.pending_calls) == [CALLS[0]]
    assert statuses(run) == [ToolResultStatus.DENIED], "what is denied is denied whoever executes it"
    answer(run, FIRST, ONCE)
    assert list(run.machine.pending_calls) == [CALLS[0], CALLS[1]]
    assert run.every(RunTool) == []
    assert not run.events(RunResumed), "an answer that only hands out a call lets nothing go on"
    assert [(len(e.approvals), len(e.client_tool_calls)) for e in run.events(RunWaiting)] == [(1, 1), (0, 2)]


@pytest.mark.requirement("WAIT-32")
def test_the_first_result_of_a_call_stands_and_strange_ones_change_nothing() -> None:
    run = Driven()
    calls_the_caller(run, ("write", "{}"), ("look", "{}"))
    for call_id in (CALLS[1], "call_of_nobody"):
        hands_in(run, call_id)
    run.finishes(CALLS[0])
    hands_in(run, CALLS[0], "first")
    hands_in(run, CALLS[0], "second")
    run.feed(ToolResultLate(CALLS[0]))
    assert run.machine.ignored == 5
    assert [result.call_id for result in results(run)] == [CALLS[0]]
    assert results(run)[0].content[0].content == Text("first")


@pytest.mark.requirement("WAIT-33")
def test_a_call_that_the_caller_forgets_is_an_error_that_may_have_taken_effect() -> None:
    run = Driven(setup_with(bounds_with(completion_mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS)))
    calls_the_caller(run, ("write", "{}"))
    run.feed(WaitExpired(CALLS[0], 5.0))
    (expired,) = results(run)
    assert expired.status is ERROR
    assert expired.failure is not None
    assert expired.failure.reason is Reason.WAIT_EXPIRED
    run.answers(stop())
    assert run.outcome.kind is OutcomeKind.TOOL_ONLY, "nothing came of it that an answer could be made from"


@pytest.mark.requirement("WAIT-33")
def test_a_policy_can_end_the_run_whose_caller_forgets_a_call() -> None:
    run = Driven(setup_with(bounds_with(wait_expiry=WaitExpiryMode.ABORT)))
    calls_the_caller(run, ("write", "{}"))
    run.feed(WaitExpired(CALLS[0], 5.0))
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert statuses(run) == [ERROR]


@pytest.mark.requirement("WAIT-33")
def test_an_expired_call_stays_in_the_session_of_a_run_that_its_error_ends() -> None:
    run = Driven(setup_with(bounds_with(error_mode=ToolErrorMode.ABORT)))
    calls_the_caller(run, ("write", "{}"))
    run.feed(WaitExpired(CALLS[0], 5.0))
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert [message.role for message in run.settled] == [Role.ASSISTANT, Role.TOOL], "it may have taken effect"


@pytest.mark.requirement("WAIT-34", "WAIT-20")
def test_a_cancelled_run_says_that_the_callers_call_may_have_taken_effect() -> None:
    run = Driven()
    calls_the_caller(run, ("write", "{}"))
    run.feed(CancelRequested(CANCELLED))
    assert statuses(run) == [INTERRUPTED]
    assert run.every(Abandon) == [], "there is no work of ours to give up"
    assert dict(run.machine.pending_calls) == {}
    assert_well_formed(run.settled)


# --- input that the caller adds ---------------------------------------------------------------------------------------


def said(text: str = "And mind the gap.", number: int = 1) -> Message:
    return Message(Role.USER, (Part(f"given_{number}", Text(text)),), f"msg_given_{number}")


@pytest.mark.requirement("WAIT-40")
def test_input_stands_behind_the_results_in_the_next_request() -> None:
    run = Driven()
    calls_tools(run, ("look", "{}"))
    assert run.machine.takes_input
    run.feed(InputGiven((said(),)))
    assert run.names[-1] == "InputAppended"
    assert len(run.every(CallModel)) == 1, "nothing is sent in the middle"
    finishes_all(run)
    append = run.every(CallModel)[-1].append
    assert [message.role for message in append] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert append[-1] == said()
    run.says("Done.")
    assert run.settled[:3] == append
    assert_well_formed(run.settled)


@pytest.mark.requirement("WAIT-40")
def test_a_retry_sends_the_request_as_it_was_and_the_next_iteration_the_input() -> None:
    run = Driven()
    run.feed(ModelFailed(1, 1, failure(retryable=True), 0.0))
    run.feed(InputGiven((said(),)))
    run.feed(RetryDue(1, 2))
    assert run.every(CallModel)[-1].append == ()
    run.says("Well.")
    assert run.every(CallModel)[-1].append[-1] == said()


@pytest.mark.requirement("WAIT-41")
def test_an_answer_before_the_input_was_read_is_followed_by_another() -> None:
    run = Driven()
    run.produced(TextChunk(0, "It is "))
    run.feed(InputGiven((said(number=1),)))
    run.feed(InputGiven((said("And hurry.", 2),)))
    run.answers(TextChunk(0, "noon."), stop())
    assert run.machine.outcome is None
    assert [text_of(message) for message in run.every(CallModel)[-1].append] == [
        "It is noon.",
        "And mind the gap.",
        "And hurry.",
    ]
    run.says("Mind it.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.finished.message is not None
    assert text_of(run.finished.message) == "Mind it."
    assert run.finished.iteration_count == 2


@pytest.mark.requirement("WAIT-41")
def test_what_was_answered_before_is_shown_when_no_more_is_said() -> None:
    run = Driven()
    run.feed(InputGiven((said(),)))
    run.says("It is noon.")
    run.feed(ModelFailed(2, 1, failure(), 0.0))
    message = run.finished.message
    assert message is not None
    assert text_of(message) == "It is noon."
    assert run.outcome.partial


@pytest.mark.requirement("WAIT-41", "WAIT-40")
def test_a_paused_turn_is_gone_on_with_before_the_input_is_read() -> None:
    run = Driven()
    run.feed(InputGiven((said(),)))
    run.answers(TextChunk(0, "Searching."), stop(FinishReason.PAUSE))
    assert [message.role for message in run.every(CallModel)[-1].append] == [Role.ASSISTANT]
    run.says("Found.")
    assert [message.role for message in run.every(CallModel)[-1].append] == [Role.ASSISTANT, Role.USER]
    run.says("Minded.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


def setup_of_a_pass() -> TurnSetup:
    return setup_with(bounds_with(completion_mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, completion_tools=True))


@pytest.mark.requirement("WAIT-42")
def test_input_is_not_taken_where_no_iteration_follows() -> None:
    run = Driven(begin=False)
    assert not run.machine.takes_input
    last = Driven(setup_with(bounds_with(max_steps=1)))
    assert not last.machine.takes_input, "this is the last step"
    over = Driven(setup_with(bounds_with(max_tool_calls=1)))
    calls_tools(over, ("look", "{}"), ("look", '{"b":1}'))
    assert not over.machine.takes_input, "the bound on calls ends the run"
    in_pass = Driven(setup_of_a_pass())
    calls_tools(in_pass, ("look", "{}"))
    finishes_all(in_pass)
    in_pass.answers(stop())
    assert in_pass.every(CallModel)[-1].kind is IterationKind.SYNTHESIS
    assert not in_pass.machine.takes_input
    in_pass.feed(InputGiven((said(),)))
    assert not in_pass.events(InputAppended)
    in_pass.says("Done.")
    assert not in_pass.machine.takes_input
    assert in_pass.settled[-1].role is Role.ASSISTANT


@pytest.mark.requirement("WAIT-43")
def test_input_that_nobody_read_stays_behind_the_last_turn_also_for_recovery() -> None:
    run = Driven()
    calls_tools(run, ("look", "{}"), ("write", "{}"))
    run.feed(InputGiven((said(),)))
    crashed = closing_step("run_0123456789abcdef", "agent", None, run.log(), failure(Reason.SERVER_RESTARTED))
    assert [message.role for message in crashed.messages] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    run.feed(CancelRequested(CANCELLED))
    assert [message.role for message in run.settled] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert_well_formed(run.settled)
    settled = closing_step("run_0123456789abcdef", "agent", None, run.log(), failure(Reason.SERVER_RESTARTED))
    assert [message.message_id for message in settled.messages] == [message.message_id for message in run.settled]


@pytest.mark.requirement("WAIT-43")
def test_input_stands_before_the_instruction_of_a_pass_that_nobody_foresaw() -> None:
    bounds = bounds_with(completion_mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, max_tool_calls=1)
    run = Driven(setup_with(bounds))
    run.feed(InputGiven((said(),)))
    calls_tools(run, ("look", "{}"), ("look", '{"b":1}'))
    finishes_all(run)
    append = run.every(CallModel)[-1].append
    assert [message.role for message in append] == [Role.ASSISTANT, Role.TOOL, Role.USER, Role.USER]
    assert append[2] == said()


@pytest.mark.requirement("WAIT-40", "WAIT-19")
def test_input_can_be_added_while_the_run_waits_and_does_not_wake_it() -> None:
    run = driven(ASKS)
    calls_tools(run, ("write", "{}"))
    run.feed(InputGiven((said(),)))
    assert run.machine.waiting is not None
    assert len(run.events(RunWaiting)) == 1
    answer(run, FIRST, ApprovalDecision.REJECT)
    assert run.every(CallModel)[-1].append[-1] == said()


@pytest.mark.requirement("WAIT-30")
def test_a_result_of_the_caller_counts_as_something_to_answer_from() -> None:
    run = Driven(setup_of_a_pass())
    calls_the_caller(run, ("write", "{}"))
    hands_in(run, CALLS[0])
    run.answers(stop())
    assert run.every(CallModel)[-1].kind is IterationKind.SYNTHESIS
    run.finishes("call_of_nobody", ok())
    assert run.machine.outcome is None
