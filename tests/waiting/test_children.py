"""Runs that agents make: what they may do is what their parents may do, and people are asked for them too."""

from __future__ import annotations

import asyncio

import pytest
from engine.harness import CALLER, Reader, World, world

from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.event import ApprovalRequested, RunWaiting, ToolCallExecuting, ToolCallFinished
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy
from turnwired.domain.run import Agent, RunState
from turnwired.engine.steering import Answer
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

AGENTS = (Agent("boss", agents=("worker",)), Agent("worker"))
SCRIPT = [calls(("agent__worker", '{"input":"Do it."}')), calls(("act", "{}")), answer("Tried."), answer("Reported.")]


async def act(invocation: ToolInvocation) -> str:
    return invocation.call_id


def acting(action: PermissionAction) -> Policy:
    """A run's own rule for the tool."""
    return Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "act", action),)))


async def child_of(w: World, reader: Reader) -> str:
    """The run that the agent makes of the call."""
    await reader.until(ToolCallExecuting)
    (event,) = [item.event for item in reader.events if isinstance(item.event, ToolCallExecuting)]
    assert event.child_run_id is not None
    return event.child_run_id


@pytest.mark.requirement("APPROVE-54")
async def test_a_child_may_do_nothing_that_its_parent_may_not() -> None:
    async with world(SCRIPT, {"act": act}, agents=AGENTS) as w:
        _, reader, task = await w.start(agent_id="boss", policy=acting(PermissionAction.DENY))
        child = await child_of(w, reader)
        await task
        seen = Reader()
        await w.follow(child, seen)
    results = [item.event.result.status for item in seen.events if isinstance(item.event, ToolCallFinished)]
    assert results == [ToolResultStatus.DENIED]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("APPROVE-54")
async def test_a_question_of_a_child_is_answered_in_the_child_and_its_parent_goes_on() -> None:
    async with world(SCRIPT, {"act": act}, agents=AGENTS) as w:
        parent, reader, task = await w.start(agent_id="boss", policy=acting(PermissionAction.ASK))
        child = await child_of(w, reader)
        seen = Reader()
        following = asyncio.create_task(w.follow(child, seen))
        await seen.until(RunWaiting)
        assert (await w.engine.get_run(CALLER, parent)).state is RunState.RUNNING
        (asked,) = [item.event.approval for item in seen.events if isinstance(item.event, ApprovalRequested)]
        await w.engine.steering.resolve(CALLER, child, asked.approval_id, Answer(ApprovalDecision.ONCE))
        await following
        await task
    results = [item.event.result.status for item in seen.events if isinstance(item.event, ToolCallFinished)]
    assert results == [ToolResultStatus.OK]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
