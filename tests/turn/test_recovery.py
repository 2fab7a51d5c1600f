"""Recovery closes a log at whatever point its process died."""

from __future__ import annotations

import pytest
from turn.machinekit import RUN_ID, Driven, a_call, assert_well_formed, bounds_with, failure, setup_with, stop, text_of

from turnwired.domain.event import (
    Event,
    IterationFinished,
    LoggedEvent,
    PartFinished,
    RunFinished,
    RunStarted,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Part, Reasoning, Role, Text, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Cost, Usage
from turnwired.turn.facts import RetryDue
from turnwired.turn.recovery import Closing, closing_step

RESTARTED = failure(Reason.SERVER_RESTARTED, phase=FailurePhase.SETTLEMENT, message="It restarted.", retryable=True)


def close(log: list[LoggedEvent]) -> Closing:
    return closing_step(RUN_ID, "agent", "session", log, RESTARTED)


def kinds(closing: Closing) -> list[str]:
    return [type(emitted.event).__name__ for emitted in closing.events]


def finished_of(closing: Closing) -> RunFinished:
    last: Event = closing.events[-1].event
    assert isinstance(last, RunFinished)
    return last


@pytest.mark.requirement("RECOVERY-1")
def test_a_run_that_died_while_the_model_spoke_keeps_the_text_so_far() -> None:
    run = Driven()
    run.produced(ReasoningChunk(0, "Hm."), TextChunk(1, "Half an"))
    run.produced(TextChunk(1, " ans"))
    closing = close(run.log())
    assert kinds(closing) == ["PartFinished", "IterationFinished", "RunFinished"]
    assert [emitted.iteration for emitted in closing.events] == [1, 1, 0]
    assert closing.events[0].event == PartFinished(Part("part_2", Text("Half an ans")))
    iteration = closing.events[1].event
    assert isinstance(iteration, IterationFinished)
    assert iteration.finish_reason is FinishReason.ABORTED
    assert [text_of(message) for message in closing.messages] == ["Half an ans"]
    outcome = finished_of(closing).outcome
    assert outcome.kind is OutcomeKind.ERRORED
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.failure.iteration) == (Reason.SERVER_RESTARTED, 1)
    assert outcome.recoverable
    assert outcome.partial
    assert finished_of(closing).trace == RunTrace()


@pytest.mark.requirement("RECOVERY-1")
def test_open_reasoning_is_closed_as_reasoning_and_leaves_no_message() -> None:
    run = Driven()
    run.produced(ReasoningChunk(0, "Hm"))
    closing = close(run.log())
    first = closing.events[0].event
    assert isinstance(first, PartFinished)
    assert first.part.content == Reasoning("Hm", provider="provider")
    assert closing.messages == ()
    assert not finished_of(closing).outcome.partial


@pytest.mark.requirement("RECOVERY-2")
def test_an_executing_call_has_an_unknown_outcome_and_one_that_waited_was_not_executed() -> None:
    run = Driven(setup_with(bounds_with(max_parallel_calls=1)))
    run.answers(TextChunk(0, "Look."), *a_call(1), *a_call(2), *a_call(3), stop())
    run.resolves()
    run.finishes("call_89abcdef_1")
    closing = close(run.log())
    assert kinds(closing) == ["ToolCallFinished", "ToolCallFinished", "RunFinished"]
    results = [e.event.result for e in closing.events if isinstance(e.event, ToolCallFinished)]
    assert [(result.call_id, result.status) for result in results] == [
        ("call_89abcdef_2", ToolResultStatus.OUTCOME_UNKNOWN),
        ("call_89abcdef_3", ToolResultStatus.NOT_EXECUTED),
    ]
    assert [result.failure.reason for result in results if result.failure] == [
        Reason.TOOL_OUTCOME_UNKNOWN,
        Reason.TOOL_NOT_EXECUTED,
    ]
    assert [message.role for message in closing.messages] == [Role.ASSISTANT, Role.TOOL]
    assert_well_formed(closing.messages)
    assert finished_of(closing).tool_call_count == 3


@pytest.mark.requirement("RECOVERY-2", "RECOVERY-3")
def test_a_call_whose_arguments_were_cut_is_settled_and_left_out_of_the_history() -> None:
    run = Driven()
    run.produced(TextChunk(0, "Saving."), ToolCallOpened(1, "a", "write"), ToolArgumentsChunk(1, '{"pa'))
    closing = close(run.log())
    assert kinds(closing) == ["IterationFinished", "ToolCallFinished", "RunFinished"]
    (message,) = closing.messages
    assert [part.content for part in message.parts] == [Text("Saving.")]


@pytest.mark.requirement("RECOVERY-1")
def test_a_run_that_died_before_its_first_event_was_stored_has_a_start_and_an_end() -> None:
    closing = close([])
    assert kinds(closing) == ["RunStarted", "RunFinished"]
    started = closing.events[0].event
    assert isinstance(started, RunStarted)
    assert (started.run_id, started.agent_id, started.session_id) == (RUN_ID, "agent", "session")
    assert closing.messages == ()


@pytest.mark.requirement("RECOVERY-1")
def test_a_settled_run_gets_nothing_more() -> None:
    run = Driven()
    run.says("Done.")
    closing = close(run.log())
    assert closing.events == ()
    assert closing.messages == run.settled


@pytest.mark.requirement("RECOVERY-3")
def test_usage_so_far_counts_and_an_open_call_makes_the_cost_a_lower_bound() -> None:
    run = Driven(setup_with(price=lambda usage, _: Cost("USD", usage.input_tokens or 0)))
    run.produced(UsageReported(Usage(3)))
    run.failed(failure(retryable=True))
    run.feed(RetryDue(1, 2))
    run.answers(*a_call(0), UsageReported(Usage(5, 2)), stop())
    closed = finished_of(close(run.log()))
    assert (closed.usage, closed.cost) == (Usage(8, 2), Cost("USD", 8))
    run.runs_all_tools()
    opened = finished_of(close(run.log()))
    assert (opened.usage, opened.cost) == (Usage(8, 2), Cost("USD", 8, complete=False))
    assert opened.iteration_count == 2


@pytest.mark.requirement("RECOVERY-3", "RECOVERY-1", "RECOVERY-2")
def test_any_prefix_of_a_log_closes_into_a_whole_one() -> None:
    run = Driven(setup_with(bounds_with(max_parallel_calls=1)))
    run.produced(TextChunk(0, "Let me "), TextChunk(0, "look."), *a_call(1), ToolCallOpened(2, "b", "nonsense"))
    run.answers(ToolArgumentsChunk(2, "{}"), stop())
    run.runs_all_tools()
    run.produced(ReasoningChunk(0, "Hm."), TextChunk(1, "Do"))
    run.answers(TextChunk(1, "ne."), stop())
    whole = run.log()
    for length in range(len(whole)):
        prefix = whole[:length]
        closing = close(prefix)
        events = [logged.event for logged in prefix] + [emitted.event for emitted in closing.events]
        assert [type(event) for event in events].count(RunFinished) == 1
        assert isinstance(events[-1], RunFinished)
        assert isinstance(events[0], RunStarted)
        started = [event.call_id for event in events if isinstance(event, ToolCallStarted)]
        settled = [event.result.call_id for event in events if isinstance(event, ToolCallFinished)]
        assert sorted(started) == sorted(settled)
        executing = {event.call_id for event in events if isinstance(event, ToolCallExecuting)}
        statuses = {e.result.call_id: e.result.status for e in events if isinstance(e, ToolCallFinished)}
        assert all((statuses[i] is ToolResultStatus.NOT_EXECUTED) <= (i not in executing) for i in statuses)
        parts = [event.part.part_id for event in events if isinstance(event, PartFinished)]
        assert len(parts) == len(set(parts))
        assert_well_formed(closing.messages)
        ids = [m.message_id for m in closing.messages]
        assert ids == [m.message_id for m in run.settled][: len(ids)]
