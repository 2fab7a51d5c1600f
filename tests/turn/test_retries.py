"""Retries, usage of attempts, and the ways to stop a run. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import (
    CANCELLED,
    Driven,
    a_call,
    assert_well_formed,
    bounds_with,
    failure,
    setup_with,
    stop,
    text_of,
)

from turnwired.domain.event import IterationFinished, IterationRetryScheduled, IterationStarted, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    ReasoningChunk,
    ResponseIdentified,
    TextChunk,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.usage import Cost, Usage, UsageSource
from turnwired.turn.effects import Abandon, CallModel, RunTool, Settle, Wait
from turnwired.turn.facts import (
    Begin,
    CancelRequested,
    DeadlineReached,
    DriverFailed,
    Fact,
    ModelEnded,
    ModelFailed,
    ModelProduced,
    RetryDue,
)

BUSY = failure(Reason.PROVIDER_UNAVAILABLE, retryable=True)


def a_cent_a_token(usage: Usage, duration_ns: int) -> Cost | None:
    if usage.input_tokens is None:
        return None
    return Cost("USD", 10_000_000 * (usage.input_tokens + (usage.output_tokens or 0)))


@pytest.mark.requirement("TURN-17", "TURN-7")
def test_a_passing_fault_before_output_is_tried_again_with_the_same_request() -> None:
    run = Driven()
    run.produced(ResponseIdentified("r1", "m"))
    step = run.failed(BUSY)
    assert [type(emitted.event) for emitted in step.events] == [IterationRetryScheduled]
    assert step.effects == (Wait(1, 2, 500_000_000),)
    (scheduled,) = run.events(IterationRetryScheduled)
    assert (scheduled.attempt, scheduled.delay_ns) == (1, 500_000_000)
    run.feed(RetryDue(1, 2))
    assert [(call.iteration, call.attempt, call.append) for call in run.every(CallModel)] == [(1, 1, ()), (1, 2, ())]
    run.says("Done.")
    assert len(run.events(IterationStarted)) == 1
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-17", "TURN-24")
@pytest.mark.parametrize("items", [[TextChunk(0, "\n\n")], [UsageReported(Usage(5))], [ReasoningChunk(0, "", b"sig")]])
def test_blanks_and_metadata_are_no_output(items: list[TextChunk]) -> None:
    run = Driven()
    run.produced(*items)
    run.failed(BUSY)
    assert len(run.every(Wait)) == 1
    run.feed(RetryDue(1, 2))
    run.says("Done.")
    assert [text_of(message) for message in run.settled] == ["Done."]


@pytest.mark.requirement("TURN-18")
@pytest.mark.parametrize(
    "item",
    [TextChunk(0, "Hel"), ReasoningChunk(0, "Hm"), ToolCallOpened(0, "a", "look")],
    ids=["text", "think", "call"],
)
def test_a_fault_after_output_is_not_tried_again(item: TextChunk) -> None:
    run = Driven()
    run.produced(item)
    run.failed(BUSY)
    assert run.every(Wait) == []
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert "output had already been sent" in run.outcome.failure.message
    assert run.outcome.recoverable
    assert run.events(IterationFinished)[0].finish_reason is FinishReason.ERROR
    assert run.events(IterationFinished)[0].failure == run.outcome.failure


@pytest.mark.requirement("TURN-18")
@pytest.mark.parametrize(
    "fault",
    [
        failure(Reason.PROVIDER_NETWORK, retryable=False),
        failure(Reason.CONTEXT_OVERFLOW, retryable=True),
        failure(Reason.PROVIDER_FORBIDDEN, retryable=True),
        failure(Reason.PROVIDER_QUOTA_EXHAUSTED, retryable=True),
    ],
)
def test_a_permanent_failure_is_not_tried_again(fault: object) -> None:
    run = Driven()
    run.failed(fault)  # type: ignore[arg-type]  # parametrize loses the type
    assert run.every(Wait) == []
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.message == "It broke."
    assert run.outcome.failure.iteration == 1


@pytest.mark.requirement("TURN-17")
def test_attempts_are_bounded_and_the_failure_says_how_many_there_were() -> None:
    run = Driven(setup_with(bounds_with(max_attempts=3)))
    for attempt in (2, 3):
        run.failed(BUSY)
        run.feed(RetryDue(1, attempt))
    run.failed(BUSY)
    assert len(run.every(CallModel)) == 3
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert "3 attempts" in run.outcome.failure.message
    assert run.outcome.recoverable


@pytest.mark.requirement("TURN-17")
def test_each_iteration_has_its_own_attempts() -> None:
    run = Driven(setup_with(bounds_with(max_attempts=2)))
    run.failed(BUSY)
    run.feed(RetryDue(1, 2))
    run.answers(*a_call(0), stop())
    run.runs_all_tools()
    run.failed(BUSY)
    assert run.every(Wait)[1] == Wait(2, 2, 500_000_000)


@pytest.mark.requirement("TURN-17")
def test_delays_double_up_to_the_cap_and_jitter_shortens_them() -> None:
    run = Driven(setup_with(bounds_with(max_attempts=5, retry_initial_delay=1.0, retry_max_delay=3.0)))
    for attempt, jitter in ((2, 0.0), (3, 0.5), (4, 0.9), (5, 0.0)):
        run.failed(BUSY, jitter)
        run.feed(RetryDue(1, attempt))
    assert [wait.delay_ns for wait in run.every(Wait)] == [1_000_000_000, 1_750_000_000, 2_325_000_000, 3_000_000_000]


@pytest.mark.requirement("TURN-17")
def test_the_providers_retry_after_is_respected() -> None:
    run = Driven()
    run.failed(failure(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=30.0))
    assert run.every(Wait)[0].delay_ns == 30_000_000_000
    run.feed(RetryDue(1, 2))
    run.failed(failure(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=120.0))
    assert run.every(Wait)[1].delay_ns == 120_000_000_000


@pytest.mark.requirement("TURN-18")
def test_a_retry_after_beyond_two_minutes_is_left_to_the_caller() -> None:
    run = Driven()
    run.failed(failure(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=121.0))
    assert run.every(Wait) == []
    assert run.outcome.failure is not None
    assert "121 s" in run.outcome.failure.message
    assert run.outcome.failure.retry_after == 121.0


@pytest.mark.requirement("TURN-19")
def test_usage_and_cost_of_failed_attempts_count() -> None:
    run = Driven(setup_with(price=a_cent_a_token))
    run.produced(UsageReported(Usage(5, 0)))
    run.failed(BUSY)
    (scheduled,) = run.events(IterationRetryScheduled)
    assert (scheduled.usage, scheduled.cost) == (Usage(5, 0), Cost("USD", 50_000_000))
    run.feed(RetryDue(1, 2))
    run.answers(TextChunk(0, "Hi."), UsageReported(Usage(5, 1)), UsageReported(Usage(5, 2)), stop())
    (finished,) = run.events(IterationFinished)
    assert (finished.usage, finished.cost) == (Usage(5, 2), Cost("USD", 70_000_000))
    assert (run.finished.usage, run.finished.cost) == (Usage(10, 2), Cost("USD", 120_000_000))


@pytest.mark.requirement("TURN-19")
def test_an_attempt_that_was_refused_before_its_first_byte_costs_nothing() -> None:
    run = Driven(setup_with(price=a_cent_a_token))
    run.failed(BUSY)
    run.feed(RetryDue(1, 2))
    run.answers(TextChunk(0, "Hi."), UsageReported(Usage(5, 2)), stop())
    assert run.finished.cost == Cost("USD", 70_000_000)


@pytest.mark.requirement("TURN-19")
def test_a_cut_answer_of_unknown_usage_makes_the_cost_a_lower_bound() -> None:
    run = Driven(setup_with(price=a_cent_a_token))
    run.answers(*a_call(0), UsageReported(Usage(5, 2)), stop())
    run.runs_all_tools()
    run.feed(CancelRequested(CANCELLED))
    assert run.finished.cost == Cost("USD", 70_000_000, complete=False)


@pytest.mark.requirement("TURN-19")
def test_usage_that_was_told_before_an_answer_broke_off_counts() -> None:
    run = Driven()
    run.produced(UsageReported(Usage(5000)), TextChunk(0, "Par"))
    run.failed(BUSY)
    assert run.finished.usage == Usage(5000, 1, source=UsageSource.MIXED), "no exact-looking count of the output"


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TURN-20")
def test_cancel_during_a_retry_wait_ends_at_once_and_the_retry_never_happens() -> None:
    run = Driven(setup_with(price=a_cent_a_token))
    run.failed(BUSY)
    step = run.feed(CancelRequested(CANCELLED))
    assert [type(emitted.event).__name__ for emitted in step.events] == ["IterationFinished", "RunFinished"]
    assert step.effects[0] == Abandon(True, ())
    assert run.events(IterationFinished)[0].finish_reason is FinishReason.ABORTED
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert run.feed(RetryDue(1, 2)).effects == ()
    assert len(run.every(CallModel)) == 1
    assert run.finished.cost is None


@pytest.mark.requirement("TURN-20", "TURN-6")
def test_cancel_during_tools_interrupts_what_runs_and_leaves_the_rest_unexecuted() -> None:
    run = Driven(setup_with(bounds_with(max_parallel_calls=1)))
    run.answers(*a_call(0), *a_call(1), *a_call(2), stop())
    run.resolves()
    run.finishes("call_89abcdef_1")
    step = run.feed(CancelRequested(CANCELLED))
    assert [event.result.status for event in run.events(ToolCallFinished)] == [
        ToolResultStatus.OK,
        ToolResultStatus.INTERRUPTED,
        ToolResultStatus.NOT_EXECUTED,
    ]
    assert step.effects[0] == Abandon(False, ("call_89abcdef_2",))
    assert len(run.every(RunTool)) == 2
    assert len(run.events(IterationFinished)) == 1
    assert_well_formed(run.settled)
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.CANCELLED


@pytest.mark.requirement("TURN-20")
def test_cancel_while_calls_are_being_checked_has_nothing_to_abandon() -> None:
    run = Driven()
    run.answers(*a_call(0), stop())
    step = run.feed(CancelRequested(CANCELLED))
    assert [type(effect) for effect in step.effects] == [Settle]
    assert run.events(ToolCallFinished)[0].result.status is ToolResultStatus.NOT_EXECUTED


@pytest.mark.requirement("TURN-20", "TURN-3")
def test_cancel_before_the_first_fact_starts_and_ends_the_run() -> None:
    run = Driven(begin=False)
    run.feed(CancelRequested(CANCELLED))
    assert run.names == ["RunStarted", "RunFinished"]
    assert run.feed(Begin()).events == ()
    assert run.every(CallModel) == []


@pytest.mark.requirement("TURN-20", "TURN-5")
def test_a_deadline_is_a_budget_and_names_the_policy() -> None:
    run = Driven()
    run.produced(TextChunk(0, "So far"))
    run.feed(DeadlineReached("timeout.run", 2.5))
    assert run.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert run.outcome.limit_trip is not None
    assert (run.outcome.limit_trip.policy_path, run.outcome.limit_trip.limit) == ("timeout.run", "2.5")
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.DEADLINE_EXCEEDED
    assert run.outcome.partial


@pytest.mark.requirement("TURN-20")
def test_a_fault_of_the_driver_ends_the_run_as_errored() -> None:
    run = Driven()
    run.produced(TextChunk(0, "Working"))
    run.feed(DriverFailed(failure(Reason.INTERNAL)))
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.INTERNAL
    assert [text_of(message) for message in run.settled] == ["Working"]


@pytest.mark.requirement("TURN-21", "TURN-3")
@pytest.mark.parametrize(
    "late",
    [
        Begin(),
        CancelRequested(CANCELLED),
        DeadlineReached("timeout.run", 1.0),
        DriverFailed(failure()),
        ModelProduced(1, 1, (TextChunk(0, "more"),)),
        ModelEnded(1, 1),
        ModelFailed(1, 1, BUSY),
        RetryDue(1, 2),
    ],
)
def test_facts_after_the_end_change_nothing(late: Fact) -> None:
    run = Driven()
    run.says("Done.")
    step = run.feed(late)
    assert (step.events, step.effects) == ((), ())
    assert run.machine.ignored == 1


@pytest.mark.requirement("TURN-21")
def test_facts_of_another_attempt_or_iteration_are_ignored() -> None:
    run = Driven()
    run.failed(BUSY)
    run.feed(RetryDue(1, 3))
    run.feed(RetryDue(2, 2))
    run.feed(RetryDue(1, 2))
    before = len(run.emitted)
    run.feed(ModelProduced(1, 1, (TextChunk(0, "late"),)))
    run.feed(ModelEnded(1, 1))
    run.feed(ModelFailed(1, 1, BUSY))
    run.feed(ModelProduced(2, 2, (TextChunk(0, "early"),)))
    run.feed(ModelEnded(2, 2))
    run.feed(ModelFailed(2, 2, BUSY))
    assert len(run.emitted) == before
    assert run.machine.ignored == 8
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
