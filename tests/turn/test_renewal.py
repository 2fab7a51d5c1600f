"""Rejected credentials, the default delays and waits that a run has no time for. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import Driven, a_call, bounds_with, failure, setup_with, stop

from turnwired.domain.event import IterationFinished, IterationRetryScheduled, IterationStarted
from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason, TextChunk
from turnwired.domain.outcome import OutcomeKind
from turnwired.policy.bounds import bounds_of
from turnwired.policy.merge import merge
from turnwired.turn.effects import CallModel, Wait
from turnwired.turn.facts import RetryDue

REJECTED = failure(Reason.PROVIDER_AUTH_FAILED, message="The provider rejects the credentials.")
BUSY = failure(Reason.PROVIDER_UNAVAILABLE, retryable=True)
SECOND = 1_000_000_000


def calls(run: Driven) -> list[tuple[int, int, bool]]:
    return [(call.iteration, call.attempt, call.renew_credentials) for call in run.every(CallModel)]


@pytest.mark.requirement("CRED-1")
def test_the_first_rejection_leads_at_once_to_an_attempt_with_renewed_credentials() -> None:
    run = Driven()
    step = run.failed(REJECTED, jitter=0.9)
    (scheduled,) = run.events(IterationRetryScheduled)
    assert (scheduled.attempt, scheduled.delay_ns) == (1, 0)
    assert scheduled.failure.reason is Reason.PROVIDER_AUTH_FAILED
    assert [type(effect) for effect in step.effects] == [CallModel]
    assert calls(run) == [(1, 1, False), (1, 2, True)]
    assert run.every(CallModel)[1].append == ()
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert len(run.events(IterationStarted)) == 1


@pytest.mark.requirement("CRED-2")
def test_a_second_rejection_ends_the_run_and_says_that_the_credentials_were_renewed() -> None:
    run = Driven()
    run.failed(REJECTED)
    run.failed(REJECTED)
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.PROVIDER_AUTH_FAILED
    assert run.outcome.failure.message.endswith("The credentials were read anew, and rejected again.")
    assert len(calls(run)) == 2


@pytest.mark.requirement("CRED-2")
def test_a_passing_fault_between_two_rejections_does_not_allow_a_second_renewal() -> None:
    run = Driven(setup_with(bounds_with(max_attempts=8)))
    run.failed(REJECTED)
    run.failed(BUSY)
    run.feed(RetryDue(1, 3))
    run.failed(REJECTED)
    assert calls(run) == [(1, 1, False), (1, 2, True), (1, 3, False)]
    assert run.outcome.kind is OutcomeKind.ERRORED


@pytest.mark.requirement("CRED-1", "CRED-2")
def test_each_iteration_may_renew_once() -> None:
    run = Driven()
    run.failed(REJECTED)
    run.answers(*a_call(0), stop())
    run.runs_all_tools()
    run.failed(REJECTED)
    run.says("Done.")
    assert calls(run) == [(1, 1, False), (1, 2, True), (2, 1, False), (2, 2, True)]
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CRED-2")
def test_a_renewal_is_an_attempt_like_any_other() -> None:
    run = Driven(setup_with(bounds_with(max_attempts=1)))
    run.failed(REJECTED)
    assert calls(run) == [(1, 1, False)]
    assert run.outcome.failure is not None
    assert run.outcome.failure.message == "The provider rejects the credentials."


@pytest.mark.requirement("CRED-2")
def test_a_rejection_after_output_surfaces_with_the_output_kept() -> None:
    run = Driven()
    run.produced(TextChunk(0, "So far"))
    run.failed(REJECTED)
    assert calls(run) == [(1, 1, False)]
    assert run.outcome.partial
    assert run.events(IterationFinished)[0].finish_reason is FinishReason.ERROR


@pytest.mark.requirement("CRED-3")
def test_a_wait_that_would_outlast_the_run_is_not_begun() -> None:
    run = Driven(setup_with(bounds_with(retry_initial_delay=2.0)))
    run.failed(BUSY, remaining_ns=2 * SECOND + 1)
    run.feed(RetryDue(1, 2))
    run.failed(BUSY, remaining_ns=4 * SECOND)
    assert [wait.delay_ns for wait in run.every(Wait)] == [2 * SECOND]
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.PROVIDER_UNAVAILABLE
    assert "the wait of 4.0 s would outlast the 4.0 s that the run has left" in run.outcome.failure.message
    assert run.outcome.recoverable


@pytest.mark.requirement("CRED-3")
def test_a_retry_after_longer_than_the_run_is_not_waited_for() -> None:
    run = Driven()
    run.failed(failure(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=60.0), remaining_ns=30 * SECOND)
    assert run.every(Wait) == []
    assert run.outcome.failure is not None
    assert run.outcome.failure.retry_after == 60.0
    assert "60.0 s would outlast the 30.0 s" in run.outcome.failure.message


@pytest.mark.requirement("CRED-4")
def test_the_default_delays_double_from_two_to_thirty_seconds_in_eight_attempts() -> None:
    run = Driven(setup_with(bounds_of(merge([]))))
    for attempt in range(2, 9):
        run.failed(BUSY)
        run.feed(RetryDue(1, attempt))
    run.failed(BUSY)
    assert [wait.delay_ns // SECOND for wait in run.every(Wait)] == [2, 4, 8, 16, 30, 30, 30]
    assert run.outcome.failure is not None
    assert "8 attempts" in run.outcome.failure.message


@pytest.mark.requirement("CRED-4")
def test_runs_that_wait_for_the_longest_time_do_not_come_back_at_once() -> None:
    waits: list[int] = []
    for jitter in (0.0, 0.5, 0.999):
        run = Driven(setup_with(bounds_with(retry_initial_delay=60.0, retry_max_delay=30.0)))
        run.failed(BUSY, jitter)
        waits.append(run.every(Wait)[0].delay_ns)
    assert waits == [30 * SECOND, int(26.25 * SECOND), int(30 * (1 - 0.25 * 0.999) * SECOND)]
