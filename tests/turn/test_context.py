"""What the machine does about a conversation that is too long. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import Driven, bounds_with, failure, setup_with

from turnwired.domain.event import HistoryTruncated, IterationRetryScheduled
from turnwired.domain.failure import Reason
from turnwired.domain.generation import TextChunk
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import HistoryOverflowMode
from turnwired.domain.trace import HistoryChangeTrace
from turnwired.turn.effects import CallModel
from turnwired.turn.facts import HistoryCut
from turnwired.turn.trace import trace_of

TOO_LONG = failure(Reason.CONTEXT_OVERFLOW, message="It is too long.", retryable=True)
CUT = HistoryTruncated(4, 1, 100, 70)


def truncating(**changes: object) -> Driven:
    return Driven(setup_with(bounds_with(history_overflow=HistoryOverflowMode.TRUNCATE, **changes)))


def calls(run: Driven) -> list[tuple[int, int, bool]]:
    return [(call.iteration, call.attempt, call.shorten) for call in run.every(CallModel)]


@pytest.mark.requirement("CTX-7")
def test_a_cut_is_an_event_of_its_iteration_and_an_entry_of_the_trace() -> None:
    run = truncating()
    run.feed(HistoryCut(1, 1, CUT))
    assert run.names == ["RunStarted", "IterationStarted", "HistoryTruncated"]
    assert run.emitted[-1].iteration == 1
    assert HistoryChangeTrace(4, 1, 100, 70) in [entry.entry for entry in trace_of(run.log()).entries]


@pytest.mark.requirement("CTX-7")
def test_a_cut_for_an_attempt_that_is_over_is_ignored() -> None:
    run = truncating()
    run.failed(TOO_LONG)
    run.feed(HistoryCut(1, 1, CUT))
    assert run.events(HistoryTruncated) == []
    assert run.machine.ignored == 1


@pytest.mark.requirement("CTX-5")
def test_what_is_too_long_is_tried_once_more_at_once_and_shorter() -> None:
    run = truncating()
    run.failed(TOO_LONG, jitter=0.9, remaining_ns=1)
    assert [event.delay_ns for event in run.events(IterationRetryScheduled)] == [0]
    run.failed(TOO_LONG)
    assert calls(run) == [(1, 1, False), (1, 2, True)]
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.requirement("CTX-5")
def test_nothing_is_shortened_after_output_with_fail_or_beyond_the_attempts() -> None:
    said = truncating()
    said.produced(TextChunk(0, "Well"))
    refusing = Driven(setup_with(bounds_with(history_overflow=HistoryOverflowMode.FAIL)))
    for run in (said, refusing, truncating(max_attempts=1)):
        run.failed(TOO_LONG)
        assert calls(run) == [(1, 1, False)]
        assert run.outcome.kind is OutcomeKind.ERRORED
