"""What becomes of calls beyond their results: late ends, and errors that no model has read."""

from __future__ import annotations

import pytest
from turn.machinekit import (
    CANCELLED,
    Driven,
    a_call,
    assert_well_formed,
    bounds_with,
    failure,
    ok,
    ref,
    setup_with,
    stop,
)

from turnwired.domain.event import ToolCallFinished
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason, ModelItem, NativeItem, TextChunk
from turnwired.domain.message import OpaqueBlock, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import ToolErrorMode
from turnwired.turn.effects import ResolveTool
from turnwired.turn.facts import CancelRequested, DeadlineReached, DriverFailed, Fact, ToolResolved, ToolResultLate

ABORTING = setup_with(bounds_with(error_mode=ToolErrorMode.ABORT))


def broken(call_id: str, reason: Reason = Reason.TOOL_FAILED) -> ToolResult:
    return ToolResult(call_id, ToolResultStatus.ERROR, failure=failure(reason, phase=FailurePhase.TOOL))


def two_calls(*more: ModelItem) -> Driven:
    driven = Driven(ABORTING)
    driven.answers(TextChunk(0, "Let me see."), *a_call(1), *more, *a_call(2, "write"), stop(FinishReason.TOOL_CALLS))
    driven.resolves()
    return driven


@pytest.mark.requirement("TOOLX-3")
def test_a_repair_is_a_notice_and_the_last_word_of_the_result() -> None:
    driven = Driven()
    driven.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    (asked,) = driven.every(ResolveTool)
    driven.feed(ToolResolved(asked.call_id, ref("look"), None, ("n: a text became a number",)))
    (call_id,) = driven.machine.executing
    driven.finishes(call_id, ok(call_id))
    (notice,) = driven.events(Notice)
    assert (notice.reason, notice.metadata["call_id"]) == (Reason.TOOL_ARGUMENTS_REPAIRED, call_id)
    (finished,) = driven.events(ToolCallFinished)
    last = finished.result.content[-1].content
    assert isinstance(last, Text)
    assert "n: a text became a number" in last.text


@pytest.mark.requirement("TOOLX-4")
def test_a_late_end_is_told_once_and_only_of_a_call_that_ran() -> None:
    driven = Driven()
    driven.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    driven.feed(ToolResultLate("call_of_nobody"))
    assert driven.machine.ignored == 1
    driven.resolves()
    (call_id,) = driven.machine.executing
    driven.finishes(call_id, broken(call_id, Reason.TOOL_TIMEOUT))
    driven.feed(ToolResultLate(call_id))
    driven.feed(ToolResultLate(call_id))
    (notice,) = driven.events(Notice)
    assert (notice.reason, notice.metadata) == (Reason.TOOL_RESULT_LATE, {"call_id": call_id})
    assert driven.machine.ignored == 2


@pytest.mark.requirement("TOOLX-6")
def test_a_call_that_took_effect_stays_beside_an_unread_error_that_goes() -> None:
    driven = two_calls()
    done, failing = driven.machine.executing
    driven.finishes(done, ok(done))
    driven.finishes(failing, broken(failing))
    assert driven.outcome.kind is OutcomeKind.ERRORED
    assert_well_formed(driven.settled)
    parts = [part.content for message in driven.settled for part in message.parts]
    assert [type(part) for part in parts] == [Text, ToolCall, ToolResult]
    assert isinstance(parts[1], ToolCall)
    assert parts[1].call_id == done


@pytest.mark.requirement("TOOLX-6")
def test_a_call_that_ran_out_of_time_may_have_taken_effect_and_stays() -> None:
    driven = two_calls()
    done, late = driven.machine.executing
    driven.finishes(late, broken(late, Reason.TOOL_TIMEOUT))
    statuses = [part.content.status for part in driven.settled[-1].parts if isinstance(part.content, ToolResult)]
    assert statuses == [ToolResultStatus.INTERRUPTED, ToolResultStatus.ERROR]
    assert [part.part_id for part in driven.settled[0].parts][1:] == [done, late]


@pytest.mark.requirement("TOOLX-6")
def test_a_native_item_of_a_call_goes_with_it() -> None:
    driven = two_calls(NativeItem(1, "thought_signature", '"s1"'), NativeItem(2, "thought_signature", '"s2"'))
    failing, done = driven.machine.executing
    driven.finishes(done, ok(done))
    driven.finishes(failing, broken(failing))
    kept = [part.content for part in driven.settled[0].parts]
    calls = [content.call_id for content in kept if isinstance(content, ToolCall)]
    assert calls == [done]
    assert '"s1"' not in [content.value_json for content in kept if isinstance(content, OpaqueBlock)]


@pytest.mark.requirement("TOOLX-6")
@pytest.mark.parametrize(
    "fact",
    [CancelRequested(CANCELLED), DeadlineReached("timeout.run", 5.0, 6.0), DriverFailed(CANCELLED)],
    ids=lambda fact: type(fact).__name__,
)
def test_a_run_that_is_stopped_from_outside_keeps_the_errors_that_its_calls_gave(fact: Fact) -> None:
    driven = Driven()
    driven.answers(*a_call(0), *a_call(1, "write"), stop(FinishReason.TOOL_CALLS))
    driven.resolves()
    failing, _ = driven.machine.executing
    driven.finishes(failing, broken(failing))
    driven.feed(fact)
    assert_well_formed(driven.settled)
    results = [p.content for m in driven.settled for p in m.parts if isinstance(p.content, ToolResult)]
    assert [result.status for result in results] == [ToolResultStatus.ERROR, ToolResultStatus.INTERRUPTED]


@pytest.mark.requirement("TOOLX-6")
def test_a_run_that_goes_on_keeps_every_error() -> None:
    driven = Driven()
    driven.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    driven.resolves()
    (call_id,) = driven.machine.executing
    driven.finishes(call_id, broken(call_id))
    driven.says("It failed.")
    results = [p.content for m in driven.settled for p in m.parts if isinstance(p.content, ToolResult)]
    assert [result.status for result in results] == [ToolResultStatus.ERROR]
