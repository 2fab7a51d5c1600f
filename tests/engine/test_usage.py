"""Usage through the engine: estimated from what was sent and said where nobody reports it; streams that never begin."""

from __future__ import annotations

import pytest

from engine.harness import CALLER, world
from turnwired.domain.event import IterationRetryScheduled
from turnwired.domain.failure import Reason
from turnwired.domain.generation import TextChunk
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import Policy, RetryPolicy
from turnwired.domain.usage import UsageSource
from turnwired.testing.provider import answer, stopped

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("OUT-6")
async def test_usage_that_is_not_reported_is_estimated_from_the_request_and_the_answer() -> None:
    async with world([[[TextChunk(0, "x" * 40)], [stopped()]]]) as w:
        run_id, reader, task = await w.start("y" * 400)
        await task
        run = await w.engine.get_run(CALLER, run_id)
    (request,) = w.provider.requests
    size = len(request.system) + len(request.tools) + sum(map(len, request.messages))
    assert reader.finished.usage.input_tokens == -(-size // 4)
    assert reader.finished.usage.output_tokens == 10
    assert reader.finished.usage.source is UsageSource.ESTIMATED
    assert run.usage == reader.finished.usage
    assert [n.reason for n in reader.of(Notice) if isinstance(n, Notice)] == [Reason.USAGE_UNREPORTED]


@pytest.mark.requirement("OUT-8")
async def test_a_stream_that_never_began_is_asked_for_again() -> None:
    policy = Policy(retry=RetryPolicy(initial_delay=0.001))
    async with world([[[]], answer("Done.")], policy=policy) as w:
        reader = await w.run()
    assert len(w.provider.requests) == 2
    assert len(reader.of(IterationRetryScheduled)) == 1
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
