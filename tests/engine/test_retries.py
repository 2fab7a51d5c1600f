"""Retries through the engine: renewed credentials reach the provider, and waits end with their run."""

from __future__ import annotations

import asyncio

import pytest

from engine.harness import CALLER, world
from turnwired.domain.event import IterationRetryScheduled
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import Policy, TimeoutPolicy
from turnwired.domain.trace import IterationTrace
from turnwired.testing.provider import answer, fails

pytestmark = pytest.mark.anyio

BUSY = fails(Reason.PROVIDER_UNAVAILABLE, retryable=True)
REJECTED = fails(Reason.PROVIDER_AUTH_FAILED)


@pytest.mark.requirement("CRED-1")
async def test_a_provider_is_told_to_renew_and_the_attempt_is_in_the_trace() -> None:
    async with world([[REJECTED], answer("Hi.")]) as w:
        reader = await w.run(include_trace=True)
        requests = w.provider.requests
    assert [request.renew_credentials for request in requests] == [False, True]
    assert requests[0].messages == requests[1].messages
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert reader.finished.trace is not None
    (iteration,) = [entry.entry for entry in reader.finished.trace.entries if isinstance(entry.entry, IterationTrace)]
    assert iteration.attempt_count == 2
    (failed,) = iteration.failed_attempts
    assert (failed.failure.reason, failed.delay_ns) == (Reason.PROVIDER_AUTH_FAILED, 0)


@pytest.mark.requirement("CRED-3")
async def test_a_run_without_time_for_the_wait_fails_at_once_and_says_so() -> None:
    policy = Policy(timeout=TimeoutPolicy(run=1.5))
    async with world([[BUSY]], policy=policy) as w:
        reader = await w.run()
    assert reader.of(IterationRetryScheduled) == []
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert failure.reason is Reason.PROVIDER_UNAVAILABLE
    assert "the wait of 2.0 s would outlast" in failure.message


@pytest.mark.requirement("CRED-3")
async def test_the_deadline_of_a_caller_whom_the_run_ends_with_bounds_waits_too() -> None:
    async with world([[BUSY]]) as w:
        reader = await w.run(caller_timeout=1.5)
    assert reader.of(IterationRetryScheduled) == []
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert "the caller's deadline" in failure.message


@pytest.mark.requirement("CRED-3")
async def test_a_wait_that_fits_is_begun_and_cancelling_ends_it_at_once() -> None:
    async with world([[BUSY]]) as w:
        run_id, reader, task = await w.start(caller_timeout=60.0)
        await reader.until(IterationRetryScheduled)
        gone = Failure(FailurePhase.TRANSPORT, Reason.CANCELLED, "Enough.")
        async with asyncio.timeout(1.5):  # less than the two seconds that it waits
            await w.engine.cancel_run(CALLER, run_id, gone)
            await task
    assert reader.finished.outcome.kind is OutcomeKind.ABORTED
    assert len(w.provider.requests) == 1
