"""Completion in the turn machine: when the model is asked for a missing answer, with what, and how runs then end."""

from __future__ import annotations

from typing import Any

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
    setup_with,
    stop,
    text_of,
)

from turnwired.domain.event import IterationStarted, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason, MediaProduced, ModelItem, NativeItem, RefusalChunk, TextChunk
from turnwired.domain.message import Role, Text, ToolResult, ToolResultStatus
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode
from turnwired.turn.completion import ANSWER_NOW, INSTRUCTION, NO_STEPS_LEFT
from turnwired.turn.effects import Abandon, AskHook, CallModel
from turnwired.turn.facts import CancelRequested, CompletionDecided
from turnwired.turn.recovery import closing_step

REQUIRED = CompletionMode.REQUIRE_TEXT_AFTER_TOOLS
SYNTHESIS = IterationKind.SYNTHESIS


def driven(mode: CompletionMode = REQUIRED, **bounds: Any) -> Driven:
    return Driven(setup_with(bounds_with(completion_mode=mode, **bounds)))


def looks_something_up(run: Driven, status: ToolResultStatus = ToolResultStatus.OK) -> None:
    run.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    run.resolves()
    (call_id,) = run.machine.executing
    run.finishes(call_id, ToolResult(call_id, status, ok().content))


def kinds(run: Driven) -> list[IterationKind]:
    return [event.kind for event in run.events(IterationStarted)]


def instruction_of(call: CallModel) -> str:
    last = call.append[-1]
    assert last.role is Role.USER
    return text_of(last)


@pytest.mark.requirement("COMPLETE-1", "COMPLETE-4")
def test_a_silent_end_after_a_result_is_answered_from_the_transcript_alone() -> None:
    run = driven(reserved_output_tokens=500)
    looks_something_up(run)
    run.answers(stop())
    call = run.every(CallModel)[-1]
    assert (call.iteration, call.kind, call.offer_tools, call.max_output_tokens) == (3, SYNTHESIS, False, 500)
    assert instruction_of(call) == ANSWER_NOW
    sent = [message for each in run.every(CallModel) for message in each.append]
    assert [message.role for message in sent] == [Role.ASSISTANT, Role.TOOL, Role.USER], "no empty turn is sent"
    run.says("On its way.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert not run.outcome.partial
    assert run.finished.message is not None
    assert text_of(run.finished.message) == "On its way."
    assert kinds(run) == [IterationKind.STEP, IterationKind.STEP, SYNTHESIS]
    assert [text_of(message) for message in run.settled].count("On its way.") == 1
    assert_well_formed(run.settled)


@pytest.mark.requirement("COMPLETE-1")
def test_a_tool_that_reports_an_error_has_completed_and_is_answered_from() -> None:
    run = driven()
    looks_something_up(run, ToolResultStatus.ERROR)
    run.answers(stop())
    assert kinds(run)[-1] is SYNTHESIS


@pytest.mark.requirement("COMPLETE-1")
def test_text_beside_a_call_is_no_answer_from_its_result() -> None:
    run = driven()
    run.answers(TextChunk(0, "Let me look."), *a_call(1), stop(FinishReason.TOOL_CALLS))
    run.runs_all_tools()
    run.answers(stop())
    assert kinds(run)[-1] is SYNTHESIS


@pytest.mark.requirement("COMPLETE-2")
@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([TextChunk(0, "Done."), stop()], OutcomeKind.ANSWERED),
        ([MediaProduced(0, "image/png", b"png"), stop()], OutcomeKind.ANSWERED),
        ([RefusalChunk(0, "No."), stop()], OutcomeKind.REFUSED),
        ([stop(FinishReason.OUTPUT_LIMIT)], OutcomeKind.OUTPUT_LIMIT),
        ([stop(FinishReason.CONTENT_FILTER)], OutcomeKind.REFUSED),
        ([TextChunk(0, "Do")], OutcomeKind.PROVIDER_EOF),
        ([stop(FinishReason.TOOL_CALLS)], OutcomeKind.ERRORED),
    ],
    ids=["text", "file", "refusal", "output limit", "filter", "cut", "promised calls"],
)
def test_an_end_that_has_an_answer_or_was_no_end_of_the_loop_is_not_completed(
    items: list[ModelItem], kind: OutcomeKind
) -> None:
    run = driven()
    looks_something_up(run)
    run.answers(*items)
    assert run.outcome.kind is kind
    assert SYNTHESIS not in kinds(run)


@pytest.mark.requirement("COMPLETE-2")
def test_nothing_is_completed_without_a_policy_or_without_a_completed_result() -> None:
    plain = driven(CompletionMode.NONE)
    looks_something_up(plain)
    plain.answers(stop())
    assert plain.outcome.kind is OutcomeKind.TOOL_ONLY
    unknown = driven()
    unknown.answers(*a_call(0, "nonsense"), stop(FinishReason.TOOL_CALLS))
    unknown.answers(stop())
    assert unknown.outcome.kind is OutcomeKind.TOOL_ONLY
    silent = driven()
    silent.answers(stop())
    assert silent.outcome.kind is OutcomeKind.ERRORED
    for run in (plain, unknown, silent):
        assert SYNTHESIS not in kinds(run)


@pytest.mark.requirement("COMPLETE-2")
def test_a_run_that_is_stopped_while_its_tool_runs_is_not_completed() -> None:
    run = driven()
    looks_something_up(run)
    run.feed(CancelRequested(CANCELLED))
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert SYNTHESIS not in kinds(run)


@pytest.mark.requirement("COMPLETE-2")
def test_a_turn_that_the_provider_paused_at_the_bound_is_not_answered_behind_its_back() -> None:
    run = driven(max_steps=2)
    looks_something_up(run)
    run.answers(NativeItem(0, "search", "{}"), stop(FinishReason.PAUSE))
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert SYNTHESIS not in kinds(run)


@pytest.mark.requirement("COMPLETE-3")
@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([stop()], Reason.ANSWER_MISSING),
        ([stop(FinishReason.OUTPUT_LIMIT)], Reason.LIMIT_REACHED),
        ([stop(FinishReason.CONTEXT_LIMIT)], Reason.CONTEXT_OVERFLOW),
    ],
)
def test_a_pass_without_text_leaves_tool_only_and_is_not_made_again(items: list[ModelItem], reason: Reason) -> None:
    run = driven()
    looks_something_up(run)
    run.answers(stop())
    run.answers(*items)
    assert run.outcome.kind is OutcomeKind.TOOL_ONLY
    assert run.outcome.recoverable
    assert run.outcome.failure is not None
    assert (run.outcome.failure.phase, run.outcome.failure.reason) == (FailurePhase.SYNTHESIS, reason)
    assert run.outcome.failure.iteration == 3
    assert run.finished.trace is not None
    assert kinds(run).count(SYNTHESIS) == 1


@pytest.mark.requirement("COMPLETE-3")
def test_a_pass_that_the_provider_fails_leaves_tool_only_with_its_reason() -> None:
    run = driven()
    looks_something_up(run)
    run.answers(stop())
    run.failed(failure(Reason.PROVIDER_REJECTED))
    assert run.outcome.kind is OutcomeKind.TOOL_ONLY
    assert run.outcome.failure is not None
    assert run.outcome.failure.phase is FailurePhase.SYNTHESIS
    assert run.outcome.failure.reason is Reason.PROVIDER_REJECTED


@pytest.mark.requirement("COMPLETE-3")
@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([TextChunk(0, "Half an ans"), stop(FinishReason.OUTPUT_LIMIT)], OutcomeKind.OUTPUT_LIMIT),
        ([TextChunk(0, "Half an ans")], OutcomeKind.PROVIDER_EOF),
        ([RefusalChunk(0, "I will not."), stop()], OutcomeKind.REFUSED),
    ],
)
def test_a_pass_that_broke_off_says_so_and_keeps_its_text(items: list[ModelItem], kind: OutcomeKind) -> None:
    run = driven(reserved_output_tokens=64)
    looks_something_up(run)
    run.answers(stop())
    run.answers(*items)
    assert run.outcome.kind is kind
    assert run.outcome.failure is not None
    assert run.outcome.failure.phase is FailurePhase.SYNTHESIS
    assert run.finished.message is not None
    if kind is OutcomeKind.OUTPUT_LIMIT:
        assert run.outcome.limit_trip is not None
        assert run.outcome.limit_trip.policy_path == "completion.reserved_output_tokens"


@pytest.mark.requirement("COMPLETE-4")
def test_a_call_in_the_pass_is_settled_and_not_executed_and_no_second_pass_follows() -> None:
    run = driven(max_steps=2)
    looks_something_up(run)
    looks_something_up(run)
    run.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert len(run.every(CallModel)) == 3
    assert len(run.events(ToolCallExecuting)) == 2
    last = run.events(ToolCallFinished)[-1].result
    assert last.status is ToolResultStatus.NOT_EXECUTED
    assert run.events(Notice)[-1].reason is Reason.TOOL_NOT_EXECUTED
    assert_well_formed(run.settled)


@pytest.mark.requirement("COMPLETE-4")
@pytest.mark.parametrize(
    ("bounds", "cap"),
    [
        ({"reserved_output_tokens": None, "max_output_tokens": 70}, 70),
        ({"reserved_output_tokens": None, "max_output_tokens": None}, None),
        ({"reserved_output_tokens": 50, "max_output_tokens": None}, 50),
    ],
)
def test_the_output_of_the_pass_is_what_is_reserved_or_else_what_any_answer_has(
    bounds: dict[str, Any], cap: int | None
) -> None:
    run = driven(**bounds)
    looks_something_up(run)
    run.answers(stop())
    assert run.every(CallModel)[-1].max_output_tokens == cap
    assert run.events(IterationStarted)[-1].max_output_tokens == cap


@pytest.mark.requirement("COMPLETE-5")
@pytest.mark.parametrize("mode", [REQUIRED, CompletionMode.NONE])
def test_at_the_step_bound_the_model_answers_from_what_it_has_and_the_caller_still_learns_of_the_bound(
    mode: CompletionMode,
) -> None:
    run = driven(mode, max_steps=1, answer_at_step_bound=mode is CompletionMode.NONE)
    looks_something_up(run)
    (notice,) = run.events(Notice)
    assert (notice.reason, notice.metadata["policy_path"]) == (Reason.LIMIT_REACHED, "loop.max_steps")
    assert instruction_of(run.every(CallModel)[-1]) == NO_STEPS_LEFT
    run.says("K1 is being packed.")
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert run.outcome.limit_trip is not None
    assert run.outcome.limit_trip.policy_path == "loop.max_steps"
    assert run.outcome.recoverable
    assert not run.outcome.partial
    assert run.finished.message is not None
    assert text_of(run.finished.message) == "K1 is being packed."


@pytest.mark.requirement("COMPLETE-5")
def test_the_bound_on_tool_calls_is_answered_at_like_the_bound_on_steps() -> None:
    run = driven(max_tool_calls=1)
    run.answers(*a_call(0), *a_call(1), stop(FinishReason.TOOL_CALLS))
    run.runs_all_tools()
    run.says("One of them.")
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert run.outcome.limit_trip is not None
    assert run.outcome.limit_trip.policy_path == "loop.max_tool_calls"


@pytest.mark.requirement("COMPLETE-5")
def test_at_the_bound_a_pass_that_fails_leaves_max_steps_and_says_why_there_is_no_answer() -> None:
    run = driven(max_steps=1)
    looks_something_up(run)
    run.failed(failure(Reason.PROVIDER_REJECTED, message="It was rejected."))
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert run.outcome.failure is not None
    assert "It was rejected." in run.outcome.failure.message
    assert run.finished.message is None


@pytest.mark.requirement("COMPLETE-6")
def test_where_it_may_the_pass_calls_tools_once_and_then_answers_without() -> None:
    run = driven(completion_tools=True, max_steps=2)
    looks_something_up(run)
    run.answers(stop())
    assert run.every(CallModel)[-1].offer_tools
    looks_something_up(run)
    last = run.every(CallModel)[-1]
    assert (last.kind, last.offer_tools) == (SYNTHESIS, False)
    run.says("Found.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert kinds(run).count(SYNTHESIS) == 2


@pytest.mark.requirement("COMPLETE-6")
def test_at_the_bound_the_pass_has_no_tools_whatever_else_it_may() -> None:
    run = driven(completion_tools=True, max_steps=1)
    looks_something_up(run)
    assert not run.every(CallModel)[-1].offer_tools


@pytest.mark.requirement("COMPLETE-7")
def test_a_prompt_of_ones_own_is_what_the_model_is_told() -> None:
    run = driven(CompletionMode.CUSTOM, completion_prompt="Sum it up in Latin.")
    looks_something_up(run)
    run.answers(stop())
    assert instruction_of(run.every(CallModel)[-1]) == "Sum it up in Latin."


@pytest.mark.requirement("COMPLETE-7")
@pytest.mark.parametrize("instruction", ["Say it in one word.", None])
def test_a_hook_sees_the_run_and_says_whether_and_how_it_is_completed(instruction: str | None) -> None:
    run = driven(CompletionMode.CUSTOM, completion_hook="careful")
    looks_something_up(run)
    run.answers(stop())
    (asked,) = run.every(AskHook)
    assert (asked.name, asked.outcome) == ("careful", OutcomeKind.TOOL_ONLY)
    assert [message.role for message in asked.messages] == [Role.ASSISTANT, Role.TOOL]
    assert run.feed(CompletionDecided(1, "of another iteration")).effects == ()
    run.feed(CompletionDecided(2, instruction))
    if instruction is None:
        assert run.outcome.kind is OutcomeKind.TOOL_ONLY
        assert SYNTHESIS not in kinds(run)
    else:
        assert instruction_of(run.every(CallModel)[-1]) == instruction
        run.says("Shipped.")
        assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("COMPLETE-9")
def test_a_hook_that_failed_is_a_notice_and_the_run_is_completed_without_it() -> None:
    run = driven(CompletionMode.CUSTOM, completion_hook="careful", max_steps=1)
    looks_something_up(run)
    run.feed(CompletionDecided(1, None, "It broke."))
    assert run.events(Notice)[0].reason is Reason.HOOK_FAILED
    assert instruction_of(run.every(CallModel)[-1]) == NO_STEPS_LEFT


@pytest.mark.requirement("COMPLETE-10")
def test_a_run_that_is_stopped_while_its_hook_thinks_gives_it_up() -> None:
    run = driven(CompletionMode.CUSTOM, completion_hook="careful")
    looks_something_up(run)
    run.answers(stop())
    step = run.feed(CancelRequested(CANCELLED))
    assert step.effects[0] == Abandon(model=True, call_ids=())
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert_well_formed(run.settled)
    assert run.feed(CompletionDecided(2, "late")).events == ()


@pytest.mark.requirement("COMPLETE-11")
def test_recovery_finds_the_instruction_in_the_log() -> None:
    run = driven(CompletionMode.CUSTOM, completion_hook="careful")
    looks_something_up(run)
    run.answers(stop())
    run.feed(CompletionDecided(2, "Say it in one word."))
    assert run.events(Notice)[0].metadata[INSTRUCTION] == "Say it in one word."
    run.produced(TextChunk(0, "Ship"))
    closing = closing_step(RUN_ID, "agent", None, run.log(), failure(Reason.SERVER_RESTARTED))
    assert [message.role for message in closing.messages] == [Role.ASSISTANT, Role.TOOL, Role.USER, Role.ASSISTANT]
    assert closing.messages[2].parts[0].content == Text("Say it in one word.")
