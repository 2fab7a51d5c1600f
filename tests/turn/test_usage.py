"""What a run is said to have used: reported where it is, estimated where it is not, and no guess that looks exact."""

from __future__ import annotations

import pytest
from turn.machinekit import CANCELLED, Driven, a_call, bounds_with, failure, setup_with, stop

from turnwired.domain.event import IterationFinished, IterationRetryScheduled
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    NativeItem,
    ReasoningChunk,
    ResponseIdentified,
    TextChunk,
    UsageReported,
)
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.usage import Cost, Usage, UsageSource
from turnwired.turn.effects import CallModel
from turnwired.turn.facts import CancelRequested, ModelCalled, RetryDue


def called(run: Driven, input_tokens: int = 100) -> None:
    run.feed(ModelCalled(run.machine.iteration, run.machine.attempt, input_tokens))


def told(run: Driven) -> list[Reason]:
    return [notice.reason for notice in run.events(Notice)]


def a_cent_a_token(usage: Usage, duration_ns: int) -> Cost | None:
    del duration_ns
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return Cost("USD", tokens * 10_000_000) if tokens else None


@pytest.mark.requirement("OUT-6")
def test_usage_that_nobody_reports_is_estimated_and_told_once() -> None:
    run = Driven(setup_with(price=a_cent_a_token))
    called(run)
    run.answers(ReasoningChunk(0, "four"), *a_call(1, arguments='{"a":1}'), stop())
    run.runs_all_tools()
    called(run, 120)
    run.answers(TextChunk(0, "é" * 4), stop())
    assert [event.usage for event in run.events(IterationFinished)] == [
        Usage(100, 3, source=UsageSource.ESTIMATED),
        Usage(120, 2, source=UsageSource.ESTIMATED),
    ]
    assert run.finished.usage == Usage(220, 5, source=UsageSource.ESTIMATED)
    assert run.finished.cost == Cost("USD", 2_250_000_000, complete=False)
    assert told(run) == [Reason.USAGE_UNREPORTED]


@pytest.mark.requirement("OUT-6")
def test_reported_usage_is_taken_as_it_is_and_a_sum_of_both_kinds_says_so() -> None:
    run = Driven()
    called(run)
    run.answers(*a_call(0), UsageReported(Usage(90, 20, source=UsageSource.PROVIDER)), stop())
    run.runs_all_tools()
    assert told(run) == []
    called(run)
    run.answers(TextChunk(0, "Done."), stop())
    assert told(run) == [Reason.USAGE_UNREPORTED]
    assert run.finished.usage == Usage(190, 22, source=UsageSource.MIXED)


@pytest.mark.requirement("OUT-6")
def test_a_report_without_counts_is_none_and_takes_nothing_from_the_one_before_it() -> None:
    run = Driven()
    called(run)
    run.answers(*a_call(0), UsageReported(Usage(90, 20, source=UsageSource.PROVIDER)), UsageReported(Usage()), stop())
    run.runs_all_tools()
    called(run)
    run.answers(TextChunk(0, "Done."), UsageReported(Usage(source=UsageSource.PROVIDER)), stop())
    assert [event.usage for event in run.events(IterationFinished)] == [
        Usage(90, 20, source=UsageSource.PROVIDER),
        Usage(100, 2, source=UsageSource.ESTIMATED),
    ]
    assert told(run) == [Reason.USAGE_UNREPORTED]


@pytest.mark.requirement("OUT-6")
@pytest.mark.parametrize(("reported", "whole"), [((90, None), (90, 2)), ((None, 20), (100, 20)), ((0, 0), (0, 0))])
def test_a_count_that_a_report_lacks_is_estimated_and_zero_is_a_count(
    reported: tuple[int | None, int | None], whole: tuple[int, int]
) -> None:
    run = Driven(setup_with(price=a_cent_a_token))
    called(run)
    run.answers(TextChunk(0, "Done."), UsageReported(Usage(*reported, source=UsageSource.PROVIDER)), stop())
    lacks = None in reported
    source = UsageSource.MIXED if lacks else UsageSource.PROVIDER
    assert run.finished.usage == Usage(*whole, source=source)
    assert run.finished.cost is None or run.finished.cost.complete is not lacks


@pytest.mark.requirement("OUT-6")
def test_a_price_by_time_stays_exact_without_any_usage() -> None:
    run = Driven(setup_with(price=lambda usage, duration_ns: Cost("EUR", duration_ns)))
    called(run)
    run.says("Hi.")
    assert run.finished.cost == Cost("EUR", 1_000)


@pytest.mark.requirement("OUT-6", "OUT-7")
def test_a_call_that_was_cancelled_is_estimated_and_its_provider_not_blamed() -> None:
    run = Driven()
    called(run)
    run.produced(TextChunk(0, "Part of"))
    run.feed(CancelRequested(CANCELLED))
    assert run.finished.usage == Usage(100, 2, source=UsageSource.ESTIMATED)
    assert told(run) == []


@pytest.mark.requirement("OUT-7")
def test_a_cancelled_call_keeps_the_input_that_was_reported() -> None:
    run = Driven()
    called(run)
    run.produced(UsageReported(Usage(5000, 1, source=UsageSource.PROVIDER)), TextChunk(0, "A longer beginning"))
    run.feed(CancelRequested(CANCELLED))
    assert run.finished.usage == Usage(5000, 5, source=UsageSource.MIXED)


@pytest.mark.requirement("OUT-6")
def test_a_request_that_was_refused_used_nothing() -> None:
    run = Driven()
    called(run)
    run.failed(failure(Reason.PROVIDER_REJECTED))
    assert run.finished.usage == Usage()


@pytest.mark.requirement("OUT-8")
@pytest.mark.parametrize("items", [[], [TextChunk(0, " \n")], [ResponseIdentified("r", "m")]])
def test_a_stream_that_ended_before_it_began_is_tried_again(items: list[TextChunk]) -> None:
    run = Driven()
    run.answers(*items)
    (retry,) = run.events(IterationRetryScheduled)
    assert retry.failure.reason is Reason.PROVIDER_STREAM_ENDED
    assert retry.delay_ns == 500_000_000
    run.feed(RetryDue(1, 2))
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert [call.append for call in run.every(CallModel)] == [(), ()]
    assert len(run.settled) == 1


@pytest.mark.requirement("OUT-8")
def test_a_stream_that_never_begins_ends_the_run_and_says_how_often_it_was_tried() -> None:
    run = Driven(setup_with(bounds_with(max_attempts=2)))
    run.answers()
    run.feed(RetryDue(1, 2))
    run.answers()
    assert run.outcome.kind is OutcomeKind.PROVIDER_EOF
    assert run.outcome.failure is not None
    assert "2 attempts" in run.outcome.failure.message


@pytest.mark.requirement("OUT-8")
@pytest.mark.parametrize(
    "item", [TextChunk(0, "Hi"), NativeItem(0, "k", "{}"), ReasoningChunk(0, "Hm"), *a_call(0)[:1]]
)
def test_a_stream_that_ended_after_output_is_not_tried_again_and_no_call_of_it_runs(item: TextChunk) -> None:
    run = Driven()
    run.answers(item)
    assert run.outcome.kind is OutcomeKind.PROVIDER_EOF
    assert run.outcome.failure is not None
    assert "output had already been sent" not in run.outcome.failure.message
    assert len(run.every(CallModel)) == 1


@pytest.mark.requirement("OUT-8")
def test_a_provider_that_gives_up_before_it_began_is_tried_again() -> None:
    run = Driven()
    run.answers(stop(FinishReason.ERROR))
    assert [event.failure.reason for event in run.events(IterationRetryScheduled)] == [Reason.PROVIDER_MODEL_FAULT]
