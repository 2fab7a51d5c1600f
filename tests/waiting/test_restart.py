"""A run that waits outlives its process, whether that is stopped or dies, and goes on where it stood."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from engine.chaos import Chaos, DyingStore
from engine.harness import CALLER, Reader, World, user, world
from engine.judge import assert_log, assert_same_for_all, assert_session

from turnwired.domain.approval import ApprovalDecision, ApprovalState
from turnwired.domain.errors import Conflict, Unavailable
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    InputAppended,
    IterationStarted,
    RunWaiting,
    ToolCallFinished,
)
from turnwired.domain.failure import Reason
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import (
    ApprovalPolicy,
    BudgetPolicy,
    PermissionAction,
    PermissionRule,
    Policy,
    TimeoutPolicy,
)
from turnwired.domain.run import RunState
from turnwired.domain.tool import ClientTool, ToolSelection
from turnwired.engine.steering import Answer, Handed, Receipt
from turnwired.store.memory import MemoryStore
from turnwired.store.port import ApprovalFilter, Store
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

ONCE, ALWAYS, REJECT = (
    Answer(decision) for decision in (ApprovalDecision.ONCE, ApprovalDecision.ALWAYS, ApprovalDecision.REJECT)
)
ASKING = Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "act", PermissionAction.ASK),)))
OWN = ToolSelection(client_tools=(ClientTool("ask_user", "Asks.", '{"type":"object"}'),))
SCRIPT = [calls(("act", '{"n":1}')), answer("Done.")]


class Acting:
    """A tool that counts what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def act(self, invocation: ToolInvocation) -> str:
        self.done.append(invocation.call_id)
        return "acted"


def dying() -> DyingStore:
    """A store whose process can die."""
    store = DyingStore(chaos=Chaos(random.Random(0)))
    store.live_for(None)
    return store


def asked(reader: Reader) -> str:
    """The id of the last question."""
    return [item.event.approval.approval_id for item in reader.events if isinstance(item.event, ApprovalRequested)][-1]


async def left_waiting(store: Store, acting: Acting, end: Callable[[], None], **changes: object) -> tuple[str, Reader]:
    """A run that waits when its process ends."""
    async with world(SCRIPT, {"act": acting.act}, store=store, policy=ASKING) as w:
        run_id, reader, task = await w.start(**{"session_id": "s", **changes})  # type: ignore[arg-type]
        await reader.until(RunWaiting)
        end()
    with pytest.raises(Unavailable):
        await task
    return run_id, reader


async def gone_on(w: World, run_id: str, before: Reader) -> tuple[Reader, asyncio.Task[None]]:
    """The run's reader, attached again where it was."""
    reader = Reader()
    reader.events = list(before.events)
    task = asyncio.create_task(w.follow(run_id, reader, before.cursor))
    return reader, task


@pytest.mark.requirement("APPROVE-60", "SCN-100")
@pytest.mark.parametrize("dies", [False, True])
async def test_scenario_100_a_question_is_there_after_a_restart_and_its_answer_runs_the_call_once(dies: bool) -> None:
    store, acting = dying(), Acting()

    def end() -> None:
        store.dead = dies

    run_id, before = await left_waiting(store, acting, end)
    store.live_for(None)
    async with world([answer("Done.")], {"act": acting.act}, store=store, policy=ASKING) as w:
        listed, _ = await w.engine.steering.list_approvals(ApprovalFilter(CALLER.tenant), 10, "")
        run = await w.engine.get_run(CALLER, run_id)
        reader, task = await gone_on(w, run_id, before)
        after = await w.engine.steering.resolve(CALLER, run_id, asked(before), ONCE)
        await task
        await assert_same_for_all(w, run_id, reader, [])
        await assert_session(w, "s")
        sent = [json.loads(piece) for piece in w.provider.requests[0].messages]
        assert len(w.provider.requests) == 1
    assert [(item.approval_id, item.state) for item in listed] == [(asked(before), ApprovalState.PENDING)]
    assert run.state is RunState.WAITING
    assert run.waiting == before.of(RunWaiting)[-1]
    assert run.epoch == after.epoch == 2
    assert len(acting.done) == 1
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert [message["role"] for message in sent] == ["USER", "ASSISTANT", "TOOL"]
    assert len(reader.of(ApprovalRequested)) == 1


@pytest.mark.requirement("APPROVE-60")
async def test_a_run_goes_on_over_many_restarts_and_keeps_what_was_answered_and_added_between() -> None:
    store, acting = dying(), Acting()
    both = [calls(("act", '{"n":1}'), ("ask_user", "{}"))]
    async with world(both, {"act": acting.act}, store=store, policy=ASKING) as w:
        run_id, reader, task = await w.start(session_id="s", tools=OWN)
        await reader.until(RunWaiting)
        store.dead = True
    with pytest.raises(Unavailable):
        await task
    store.live_for(None)
    (call,) = [item.event for item in reader.events if isinstance(item.event, RunWaiting)][-1].client_tool_calls
    async with world([], {"act": acting.act}, store=store, policy=ASKING) as w:
        ids, still = await w.engine.steering.append_input(CALLER, run_id, "once", [user("And more.")])
        assert still.waiting == [item.event for item in reader.events if isinstance(item.event, RunWaiting)][-1]
        store.dead = True
    store.live_for(None)
    async with world([], {"act": acting.act}, store=store, policy=ASKING) as w:
        assert (await w.engine.steering.append_input(CALLER, run_id, "once", [user("And more.")]))[0] == ids
        await w.engine.steering.resolve(CALLER, run_id, asked(reader), ALWAYS)
        seen = Reader()
        following = asyncio.create_task(w.follow(run_id, seen))
        await seen.until(ToolCallFinished)
        await seen.until(RunWaiting, 2)
        store.dead = True
    with pytest.raises(Unavailable):
        await following
    store.live_for(None)
    again = [calls(("act", '{"n":2}')), answer("Done.")]
    async with world(again, {"act": acting.act}, store=store, policy=ASKING) as w:
        handed = Handed(call.call_id, (Part("", Text("No.")),))
        receipts = await w.engine.steering.submit(CALLER, run_id, [handed])
        whole = Reader()
        await w.follow(run_id, whole)
        sent = [json.loads(piece) for piece in w.provider.requests[0].messages]
        await assert_session(w, "s")
    assert receipts.receipts == ((call.call_id, Receipt.ACCEPTED),)
    assert_log(whole.events)
    assert whole.finished.outcome.kind is OutcomeKind.ANSWERED
    assert len(acting.done) == 2, "the rule that was added holds for the rest of the run"
    assert len(whole.of(ApprovalRequested)) == 1
    assert len(whole.of(InputAppended)) == 1
    assert [message["role"] for message in sent] == ["USER", "ASSISTANT", "TOOL", "USER"]


@pytest.mark.requirement("APPROVE-51")
async def test_a_question_that_expired_while_there_was_no_process_is_rejected_at_the_start() -> None:
    store, acting = dying(), Acting()
    brief = replace(ASKING, timeout=TimeoutPolicy(wait=0.05))

    def end() -> None:
        store.dead = True

    run_id, before = await left_waiting(store, acting, end, policy=brief)
    store.live_for(None)
    expires = before.of(RunWaiting)[-1]
    async with world([answer("Not done.")], {"act": acting.act}, store=store, policy=ASKING) as w:
        reader, task = await gone_on(w, run_id, before)
        await task
    (resolved,) = [item for item in reader.events if isinstance(item.event, ApprovalResolved)]
    assert isinstance(resolved.event, ApprovalResolved)
    assert resolved.event.resolved_by == "timeout"
    assert isinstance(expires, RunWaiting)
    assert expires.expire_time_ns > 0
    assert resolved.time_ns >= expires.expire_time_ns - 5_000_000  # a timer may fire a little early
    assert acting.done == []
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("APPROVE-52")
async def test_a_run_that_cannot_go_on_is_closed_and_its_questions_are_withdrawn() -> None:
    store, acting = MemoryStore(), Acting()
    run_id, before = await left_waiting(store, acting, lambda: None)
    async with world([], store=store, provider_name="another") as w:
        reader, task = await gone_on(w, run_id, before)
        await task
        with pytest.raises(Conflict) as late:
            await w.engine.steering.resolve(CALLER, run_id, asked(before), ONCE)
        kept = await store.get_approval(CALLER.tenant, run_id, asked(before))
    assert late.value.reason is Reason.RUN_SETTLED
    assert kept is not None
    assert kept.state is ApprovalState.WITHDRAWN
    assert reader.finished.outcome.failure is not None
    assert reader.finished.outcome.failure.reason is Reason.SERVER_RESTARTED


@pytest.mark.requirement("APPROVE-53")
async def test_a_stop_leaves_waiting_runs_and_ends_the_others() -> None:
    store, acting = MemoryStore(), Acting()
    hang = asyncio.Event()
    async with world([SCRIPT[0]], {"act": acting.act}, store=store, policy=ASKING) as w:
        waiting, reader, first = await w.start(session_id="s")
        await reader.until(RunWaiting)
        w.provider.script.append([hang.wait])
        busy, _, second = await w.start(session_id="t")
        await w.engine.stop(0.0)
        with pytest.raises(Unavailable):
            await first
        await second
        stored = await w.engine.get_run(CALLER, waiting)
        ended = await w.engine.get_run(CALLER, busy)
        with pytest.raises(Unavailable):
            await w.engine.steering.resolve(CALLER, waiting, asked(reader), ONCE)
    assert stored.state is RunState.WAITING
    assert ended.outcome is not None
    assert ended.outcome.kind is OutcomeKind.ABORTED


@pytest.mark.requirement("APPROVE-53")
async def test_a_run_that_begins_to_wait_while_the_process_stops_is_left_too() -> None:
    store, acting = MemoryStore(), Acting()
    gate = asyncio.Event()
    async with world([[gate.wait, *SCRIPT[0]]], {"act": acting.act}, store=store, policy=ASKING) as w:
        run_id, reader, task = await w.start(session_id="s")
        await reader.until(IterationStarted)
        stopping = asyncio.create_task(w.engine.stop(5.0))
        await asyncio.sleep(0)
        gate.set()
        await stopping
        with pytest.raises(Unavailable):
            await task
    async with world([answer("Not done.")], {"act": acting.act}, store=store, policy=ASKING) as w:
        await w.engine.steering.resolve(CALLER, run_id, asked(reader), REJECT)
        whole = Reader()
        await w.follow(run_id, whole)
    assert [event.result.status for event in whole.of(ToolCallFinished)] == [ToolResultStatus.DENIED]  # type: ignore[union-attr]


@pytest.mark.requirement("APPROVE-60")
async def test_what_a_run_spent_before_the_restart_counts_against_its_budget() -> None:
    store, acting = MemoryStore(), Acting()
    tight = Policy(budget=BudgetPolicy(max_total_tokens=150))  # the first call took 120
    run_id, before = await left_waiting(store, acting, lambda: None, policy=tight)
    async with world([answer("Done.")], {"act": acting.act}, store=store, policy=ASKING) as w:
        reader, task = await gone_on(w, run_id, before)
        await w.engine.steering.resolve(CALLER, run_id, asked(before), ONCE)
        await task
    assert reader.finished.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert len(acting.done) == 1
