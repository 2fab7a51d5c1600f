"""Faults of the engine that its state machine found, each as a plain test."""

from __future__ import annotations

import asyncio

import pytest

from engine.faults import FaultyStore
from engine.harness import CALLER, LIMIT, Reader, World, world
from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.errors import Conflict
from turnwired.domain.event import ApprovalRequested, RunStarted, RunWaiting
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy
from turnwired.domain.run import Run
from turnwired.engine.steering import Answer
from turnwired.store.memory import MemoryStore
from turnwired.store.port import NewRun
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import InputRequest, ToolInvocation

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("REAL-7")
async def test_a_child_that_dies_before_its_first_event_is_ended_as_the_child_that_it_was() -> None:
    store = MemoryStore()
    await store.start()
    await store.create_run(NewRun("run_child", CALLER, "default", 1, parent_run_id="run_parent"))
    async with world([], store=store) as w:
        reader = Reader()
        await w.follow("run_child", reader)
    (started,) = reader.of(RunStarted)
    assert isinstance(started, RunStarted)
    assert started.parent_run_id == "run_parent"


def decide(w: World, reader: Reader, run_id: str, decision: ApprovalDecision) -> asyncio.Task[Run]:
    """Answer the question of the run."""
    (asked,) = [event for event in reader.of(ApprovalRequested) if isinstance(event, ApprovalRequested)]
    return asyncio.create_task(w.engine.steering.resolve(CALLER, run_id, asked.approval.approval_id, Answer(decision)))


async def rounds(count: int = 50) -> None:
    """Let everything go on that can."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.requirement("REAL-9")
async def test_an_answer_is_refused_only_for_one_that_is_durable() -> None:
    policy = Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "*", PermissionAction.ASK),)))
    store = FaultyStore()

    async def quick(invocation: ToolInvocation) -> str:
        return "done"

    async with world([calls(("quick", "{}")), answer("Done.")], {"quick": quick}, store=store, policy=policy) as w:
        run_id, reader, task = await w.start()
        await reader.until(RunWaiting)
        store.gate = asyncio.Event()
        yes = decide(w, reader, run_id, ApprovalDecision.ONCE)
        await rounds()
        no = decide(w, reader, run_id, ApprovalDecision.REJECT)
        await rounds()
        assert not yes.done()
        assert not no.done(), "it is refused for an answer that may still be lost"
        store.gate.set()
        async with asyncio.timeout(LIMIT):
            await yes
            with pytest.raises(Conflict):
                await no
            await task


@pytest.mark.requirement("REAL-9")
async def test_a_tool_that_asked_is_told_the_answer_when_that_is_durable() -> None:
    told: list[str] = []
    store = FaultyStore()

    async def asks(invocation: ToolInvocation) -> str:
        assert invocation.ask is not None
        told.append((await invocation.ask(InputRequest("Really?"))).action)
        return told[-1]

    async with world([calls(("asks", "{}")), answer("Done.")], {"asks": asks}, store=store) as w:
        run_id, reader, task = await w.start()
        await reader.until(RunWaiting)
        store.gate = asyncio.Event()
        yes = decide(w, reader, run_id, ApprovalDecision.ONCE)
        await rounds()
        assert told == [], "the tool acts on an answer that may still be lost"
        store.gate.set()
        async with asyncio.timeout(LIMIT):
            await yes
            await task
    assert told == ["accept"]
