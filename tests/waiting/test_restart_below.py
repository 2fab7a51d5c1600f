"""What a run that waits, and the runs below it, are bound by when another process goes on with them."""

from __future__ import annotations

import pytest
from engine.harness import CALLER, Reader, world
from waiting.test_restart import ASKING, ONCE, OWN, Acting, asked, dying, gone_on

from turnwired.domain.errors import Unavailable
from turnwired.domain.event import RunWaiting, ToolCallFinished
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import ApprovalPolicy, BudgetPolicy, PermissionAction, PermissionRule, Policy
from turnwired.domain.run import Agent
from turnwired.engine.steering import Handed, Receipt
from turnwired.store.memory import MemoryStore
from turnwired.testing.provider import answer, calls

pytestmark = pytest.mark.anyio

AGENTS = (Agent("boss", agents=("worker",)), Agent("worker"))
OWN_CALL = calls(("ask_user", "{}"))


def handed_out(reader: Reader) -> list[str]:
    """Ids of the calls that the caller had last."""
    waits = [item.event for item in reader.events if isinstance(item.event, RunWaiting)]
    return [call.call_id for call in waits[-1].client_tool_calls]


def given(call_id: str) -> Handed:
    """What the caller's tool gave."""
    return Handed(call_id, (Part("", Text("Yes.")),))


@pytest.mark.requirement("APPROVE-55")
async def test_a_result_that_was_taken_before_a_restart_is_known_as_a_duplicate_after_it() -> None:
    store = dying()
    two = calls(("ask_user", "{}"), ("ask_user", '{"again":true}'))
    async with world([two], store=store) as w:
        run_id, reader, task = await w.start(session_id="s", tools=OWN)
        await reader.until(RunWaiting)
        first, second = handed_out(reader)
        await w.engine.steering.submit(CALLER, run_id, [given(first)])
        store.dead = True
    with pytest.raises(Unavailable):
        await task
    store.live_for(None)
    async with world([answer("Done.")], store=store) as w:
        again = await w.engine.steering.submit(CALLER, run_id, [given(first), given("call_no")])
        last = await w.engine.steering.submit(CALLER, run_id, [given(second)])
    assert [receipt for _, receipt in again.receipts] == [Receipt.DUPLICATE, Receipt.UNKNOWN_CALL]
    assert [receipt for _, receipt in last.receipts] == [Receipt.ACCEPTED]


@pytest.mark.requirement("APPROVE-56")
async def test_what_a_child_spent_before_a_restart_counts_against_the_budget_of_its_parent() -> None:
    store, acting = MemoryStore(), Acting()
    tight = Policy(budget=BudgetPolicy(max_total_tokens=440))  # two calls of the parent and one of the child took 360
    script = [calls(("agent__worker", '{"input":"Do it."}')), answer("Done."), calls(("act", '{"n":1}'))]
    async with world(script, {"act": acting.act}, store=store, policy=ASKING, agents=AGENTS) as w:
        run_id, before, task = await w.start(agent_id="boss", policy=tight)
        await before.until(RunWaiting)
    with pytest.raises(Unavailable):
        await task
    async with world([answer("Reported.")], {"act": acting.act}, store=store, policy=ASKING, agents=AGENTS) as w:
        reader, task = await gone_on(w, run_id, before)
        await w.engine.steering.resolve(CALLER, run_id, asked(before), ONCE)
        await task
    assert reader.finished.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert w.provider.requests == []


@pytest.mark.requirement("APPROVE-57")
async def test_a_waiting_child_is_bound_by_its_parent_after_a_restart_too() -> None:
    store, acting = dying(), Acting()
    denies = Policy(
        approval=ApprovalPolicy(rules=(PermissionRule("tool", "act", PermissionAction.DENY),)),
        budget=BudgetPolicy(max_total_tokens=485),
    )
    async with world([OWN_CALL, OWN_CALL], {"act": acting.act}, store=store) as w:
        parent, above, first = await w.start(tools=OWN, policy=denies)
        await above.until(RunWaiting)
        child, below, second = await w.start(tools=OWN, parent_run_id=parent)
        await below.until(RunWaiting)
        store.dead = True
    for task in (first, second):
        with pytest.raises(Unavailable):
            await task
    store.live_for(None)
    rest = [calls(("act", '{"n":1}')), answer("Could not.")]
    async with world(rest, {"act": acting.act}, store=store) as w:
        reader, following = await gone_on(w, child, below)
        await w.engine.steering.submit(CALLER, child, [given(handed_out(below)[0])])
        await following
    results = [item.event.result.status for item in reader.events if isinstance(item.event, ToolCallFinished)]
    assert results == [ToolResultStatus.OK, ToolResultStatus.DENIED]
    assert acting.done == []
    # 120 of the parent and 240 of the child leave too little for one more call.
    assert reader.finished.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
