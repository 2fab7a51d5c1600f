"""Structured output in the turn machine: what counts as the value, what the model is told, and how runs end without."""

from __future__ import annotations

import json

import pytest
from turn.machinekit import (
    CANCELLED,
    RUN_ID,
    Driven,
    a_call,
    assert_well_formed,
    bounds_with,
    failure,
    setup_with,
    stop,
)

from turnwired.domain.event import IterationStarted, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason, ModelItem, RefusalChunk, TextChunk
from turnwired.domain.message import Role, Text, ToolResultStatus
from turnwired.domain.model import CheckedOutput, IterationKind, OutputProblem
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.turn.effects import CallModel
from turnwired.turn.facts import CancelRequested
from turnwired.turn.recovery import closing_step
from turnwired.turn.setup import TurnSetup

GOOD = '{"ok": true}'
BAD = '{"ok": "secret"}'


def check(text: str) -> CheckedOutput:
    """Takes the object whose ``ok`` is true."""
    try:
        value = json.loads(text)
    except ValueError:
        return CheckedOutput(None, (OutputProblem("it is not one JSON value", ""),))
    if value == {"ok": True}:
        return CheckedOutput(text)
    return CheckedOutput(None, (OutputProblem("/ok: the value is not a boolean", "properties/ok/type"),))


def structured(**bounds: int) -> TurnSetup:
    return setup_with(bounds_with(**bounds), check_output=check)


def kinds(run: Driven) -> list[IterationKind]:
    return [event.kind for event in run.events(IterationStarted)]


@pytest.mark.requirement("OUT-13")
@pytest.mark.parametrize(
    "text",
    [GOOD, f"\n  {GOOD} \n", f"```json\n{GOOD}\n```", f"```\n{GOOD}```", f" ```JSON \r\n{GOOD}\r\n```\n"],
)
def test_the_value_is_the_whole_answer_without_white_space_and_one_fence(text: str) -> None:
    run = Driven(structured())
    run.says(text)
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.finished.structured_output_json == GOOD
    assert run.finished.message is not None
    assert run.finished.message.parts[0].content == Text(text)
    assert kinds(run) == [IterationKind.STEP]


@pytest.mark.requirement("OUT-13")
def test_free_text_has_no_value_even_if_it_is_json() -> None:
    run = Driven()
    run.says(GOOD)
    assert run.finished.structured_output_json is None


@pytest.mark.requirement("OUT-14")
@pytest.mark.parametrize(
    "text", [BAD, f"Here it is: {GOOD}", f"{GOOD} {GOOD}", f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```"]
)
def test_a_wrong_answer_is_corrected_once_without_tools(text: str) -> None:
    run = Driven(structured())
    run.says(text)
    first, second = run.every(CallModel)
    assert (first.kind, first.offer_tools) == (IterationKind.STEP, True)
    assert (second.kind, second.offer_tools) == (IterationKind.STRUCTURED_OUTPUT, False)
    assert [message.role for message in second.append] == [Role.ASSISTANT, Role.USER]
    (notice,) = run.events(Notice)
    assert notice.reason is Reason.STRUCTURED_OUTPUT_INVALID
    told = second.append[1].parts[0].content
    assert isinstance(told, Text)
    assert told.text.startswith(notice.message)
    assert "secret" not in told.text
    run.says(GOOD)
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.finished.structured_output_json == GOOD
    assert_well_formed(run.settled)


@pytest.mark.requirement("OUT-14")
def test_the_model_is_told_where_and_what_is_wrong() -> None:
    run = Driven(structured())
    run.says(BAD)
    told = run.every(CallModel)[1].append[1].parts[0].content
    assert isinstance(told, Text)
    assert "/ok: the value is not a boolean" in told.text


@pytest.mark.requirement("OUT-15")
def test_a_second_wrong_answer_ends_the_run_with_its_text_and_names_rules_but_no_values() -> None:
    run = Driven(structured())
    run.says(BAD)
    run.says(BAD + " ")
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.partial
    assert run.outcome.recoverable
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.STRUCTURED_OUTPUT_INVALID
    assert "properties/ok/type" in run.outcome.failure.message
    assert "secret" not in run.outcome.failure.message
    assert run.finished.structured_output_json is None
    assert run.finished.trace is not None
    assert run.finished.message is not None
    assert run.finished.message.parts[0].content == Text(BAD + " ")
    assert len(run.every(CallModel)) == 2


@pytest.mark.requirement("OUT-15")
def test_a_correction_needs_a_model_call_that_the_bound_allows() -> None:
    run = Driven(structured(max_steps=1))
    run.says(BAD)
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.STRUCTURED_OUTPUT_INVALID
    assert "loop.max_steps" in run.outcome.failure.message
    assert run.finished.iteration_count == 1


@pytest.mark.requirement("OUT-15")
def test_a_correction_that_fails_leaves_the_text_before_it() -> None:
    run = Driven(structured())
    run.says(BAD)
    run.failed(failure(Reason.PROVIDER_REJECTED))
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.PROVIDER_REJECTED
    assert run.finished.message is not None
    assert run.finished.message.parts[0].content == Text(BAD)
    assert run.outcome.partial


@pytest.mark.requirement("OUT-14")
def test_an_answer_without_text_after_tools_is_asked_for_once() -> None:
    run = Driven(structured())
    run.answers(*a_call(0), stop())
    run.runs_all_tools()
    run.answers(stop())
    assert kinds(run) == [IterationKind.STEP, IterationKind.STEP, IterationKind.STRUCTURED_OUTPUT]
    run.answers(stop())
    assert run.outcome.kind is OutcomeKind.TOOL_ONLY


@pytest.mark.requirement("OUT-16")
def test_calls_beside_a_valid_value_run_first_and_the_value_that_counts_comes_after_them() -> None:
    run = Driven(structured())
    run.answers(TextChunk(0, GOOD), *a_call(1), stop())
    assert run.machine.outcome is None
    run.runs_all_tools()
    assert len(run.events(ToolCallExecuting)) == 1
    run.says(GOOD)
    assert run.finished.structured_output_json == GOOD
    assert [event.result.status for event in run.events(ToolCallFinished)] == [ToolResultStatus.OK]


@pytest.mark.requirement("OUT-16")
def test_calls_of_a_correction_do_not_run_and_end_the_run() -> None:
    run = Driven(structured())
    run.says(BAD)
    run.answers(TextChunk(0, GOOD), *a_call(1), stop(FinishReason.TOOL_CALLS))
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.STRUCTURED_OUTPUT_INVALID
    assert [event.result.status for event in run.events(ToolCallFinished)] == [ToolResultStatus.NOT_EXECUTED]
    assert run.events(ToolCallExecuting) == []
    assert_well_formed(run.settled)


@pytest.mark.requirement("OUT-16")
@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([RefusalChunk(0, "I will not."), stop()], OutcomeKind.REFUSED),
        ([TextChunk(0, '{"ok":'), stop(FinishReason.CONTENT_FILTER)], OutcomeKind.REFUSED),
        ([TextChunk(0, '{"ok":'), stop(FinishReason.OUTPUT_LIMIT)], OutcomeKind.OUTPUT_LIMIT),
        ([TextChunk(0, GOOD), stop(FinishReason.CONTEXT_LIMIT)], OutcomeKind.OUTPUT_LIMIT),
        ([TextChunk(0, GOOD)], OutcomeKind.PROVIDER_EOF),
    ],
    ids=["refusal", "filter", "output limit", "context limit", "cut"],
)
def test_an_answer_that_was_not_completed_is_no_wrong_json(items: list[ModelItem], kind: OutcomeKind) -> None:
    run = Driven(structured())
    run.answers(*items)
    assert run.outcome.kind is kind
    assert run.finished.structured_output_json is None
    assert run.events(Notice) == []
    assert len(run.every(CallModel)) == 1


@pytest.mark.requirement("OUT-17")
def test_recovery_finds_the_correction_in_the_log() -> None:
    run = Driven(structured())
    run.says(BAD)
    closing = closing_step(RUN_ID, "agent", None, run.log(), failure(Reason.SERVER_RESTARTED))
    assert [(message.role, message.message_id) for message in closing.messages] == [
        (message.role, message.message_id) for message in run.every(CallModel)[1].append
    ]
    assert closing.messages[1].parts[0].content == run.every(CallModel)[1].append[1].parts[0].content
    run.feed(CancelRequested(CANCELLED))
    assert [message.role for message in run.settled] == [Role.ASSISTANT, Role.USER]
