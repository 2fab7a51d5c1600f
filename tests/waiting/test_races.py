"""Answers against answers, the end of the run and the end of the time: always exactly one of them counts."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from engine.harness import CALLER, LIMIT, World, world
from engine.judge import assert_log

from turnwired.domain.approval import ApprovalDecision, ApprovalState
from turnwired.domain.errors import Conflict
from turnwired.domain.event import ApprovalRequested, ApprovalResolved, RunFinished, ToolCallExecuting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy, TimeoutPolicy
from turnwired.engine.steering import Answer
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

ROUNDS = 500
RULES = (PermissionRule("tool", "*", PermissionAction.ASK),)
CANCEL = Failure(FailurePhase.MODEL, Reason.CANCELLED, "raced")


async def act(invocation: ToolInvocation) -> str:
    return invocation.call_id


def script(w: World) -> None:
    """What the model says in the next run."""
    w.provider.script[:] = [calls(("act", "{}")), answer("Done.")]
    w.provider.requests.clear()


async def pause(rng: random.Random) -> None:
    """Some turns of the loop."""
    for _ in range(rng.choice((0, 0, 1, 2, 5, 12))):
        await asyncio.sleep(0)


async def answered(w: World, rng: random.Random, run_id: str, approval_id: str, decision: ApprovalDecision) -> str:
    """Answer after a while, and what came of it."""
    await pause(rng)
    try:
        await w.engine.steering.resolve(CALLER, run_id, approval_id, Answer(decision))
    except Conflict as refused:
        return refused.reason.value
    return "taken"


@pytest.mark.requirement("APPROVE-50")
async def test_of_two_answers_exactly_one_wins_500_times() -> None:
    rng = random.Random(1)
    async with world([], {"act": act}, policy=Policy(approval=ApprovalPolicy(rules=RULES))) as w:
        for _ in range(ROUNDS):
            script(w)
            run_id, reader, task = await w.start()
            await reader.until(ApprovalRequested)
            (asked,) = [item.event.approval for item in reader.events if isinstance(item.event, ApprovalRequested)]
            given = (ApprovalDecision.ONCE, ApprovalDecision.REJECT)
            told = await asyncio.gather(*(answered(w, rng, run_id, asked.approval_id, decision) for decision in given))
            await task
            assert sorted(told) == ["APPROVAL_ALREADY_RESOLVED", "taken"]
            (resolved,) = [item.event for item in reader.events if isinstance(item.event, ApprovalResolved)]
            assert resolved.decision is given[told.index("taken")]
            ran = any(isinstance(item.event, ToolCallExecuting) for item in reader.events)
            assert ran is (resolved.decision is ApprovalDecision.ONCE)
            assert_log(reader.events)


@pytest.mark.requirement("APPROVE-50")
async def test_an_answer_and_a_cancellation_end_in_one_story_500_times() -> None:
    rng = random.Random(2)
    stories: Counter[tuple[str, str]] = Counter()
    async with world([], {"act": act}, policy=Policy(approval=ApprovalPolicy(rules=RULES))) as w:
        for _ in range(ROUNDS):
            script(w)
            run_id, reader, task = await w.start()
            await reader.until(ApprovalRequested)
            (asked,) = [item.event.approval for item in reader.events if isinstance(item.event, ApprovalRequested)]

            async def cancel(run_id: str = run_id) -> str:
                await pause(rng)
                await w.engine.cancel_run(CALLER, run_id, CANCEL)
                return ""

            told, _ = await asyncio.gather(answered(w, rng, run_id, asked.approval_id, ApprovalDecision.ONCE), cancel())
            await task
            assert_log(reader.events)
            kept = await w.store.get_approval(CALLER.tenant, run_id, asked.approval_id)
            assert kept is not None
            assert (told, kept.state) in {
                ("taken", ApprovalState.RESOLVED),
                ("RUN_SETTLED", ApprovalState.WITHDRAWN),
            }
            ends = [item.event for item in reader.events if isinstance(item.event, RunFinished)]
            assert len(ends) == 1
            stories[told, ends[0].outcome.kind.value] += 1
    assert stories["RUN_SETTLED", "ABORTED"] > 0
    assert stories["taken", "ABORTED"] + stories["taken", "ANSWERED"] > 0


@pytest.mark.requirement("APPROVE-50")
async def test_an_answer_and_the_end_of_its_time_end_in_one_decision_500_times() -> None:
    rng = random.Random(3)
    stories: Counter[str] = Counter()
    policy = Policy(approval=ApprovalPolicy(rules=RULES), timeout=TimeoutPolicy(wait=0.001))
    async with world([], {"act": act}, policy=policy) as w, asyncio.timeout(12 * LIMIT):
        for _ in range(ROUNDS):
            script(w)
            run_id, reader, task = await w.start()
            await reader.until(ApprovalRequested)
            (asked,) = [item.event.approval for item in reader.events if isinstance(item.event, ApprovalRequested)]
            # From before to after the millisecond that the question has.
            now = asyncio.Event()
            asyncio.get_running_loop().call_later(rng.uniform(0.0, 0.0015), now.set)
            await now.wait()
            told = await answered(w, rng, run_id, asked.approval_id, ApprovalDecision.ONCE)
            await task
            (resolved,) = [item.event for item in reader.events if isinstance(item.event, ApprovalResolved)]
            assert (told, resolved.resolved_by) in {
                ("taken", CALLER.principal),
                ("APPROVAL_ALREADY_RESOLVED", "timeout"),
            }
            assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
            assert_log(reader.events)
            stories[told] += 1
    assert len(stories) == 2, stories
