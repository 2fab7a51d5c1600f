"""Budgets of sessions and tenants: what runs spend together, one after the other, side by side and over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from budgets.kit import PER_TOKEN, USD, Counting, Gate, budget, priced, says, streams
from budgets.test_runs import look, trip_of
from engine.faults import FaultyStore
from engine.harness import CALLER, Reader, World, user, world

from turnwired.domain.errors import Unavailable
from turnwired.domain.event import IterationStarted, TextDelta
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import TextChunk
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import OutputPolicy, Policy
from turnwired.domain.run import Agent, Caller, TurnSpec
from turnwired.domain.usage import Cost
from turnwired.engine import log as engine_log
from turnwired.engine import service
from turnwired.engine.log import now_ns
from turnwired.engine.totals import day_of
from turnwired.store.memory import MemoryStore
from turnwired.store.port import RunFilter, SpendingScope, Store
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import Step, calls, fails

pytestmark = pytest.mark.anyio

ANSWERED = OutcomeKind.ANSWERED
SCRIPTED = ModelSelection("scripted", "scripted-model")
STOPPED = Failure(FailurePhase.MODEL, Reason.CANCELLED, "The test has seen enough.")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that a world starts and closes."""
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "turnwire.db")


def kinds(*readers: Reader) -> list[OutcomeKind]:
    """How the runs ended."""
    return [reader.finished.outcome.kind for reader in readers]


async def nothing_is_left(w: World) -> None:
    """Neither a reservation nor an account outlives the runs."""
    runs, _ = await w.engine.list_runs(RunFilter("default"), 100, "")
    async with asyncio.timeout(10):
        for run in runs:
            await w.engine.until_ended(run.run_id)
    assert w.engine.budgets.open_accounts == 0
    assert w.engine.budgets.reserved == {}


@pytest.mark.requirement("BUDGET-6")
@pytest.mark.parametrize("scope", ["session", "tenant_day"])
async def test_runs_spend_one_budget_together_also_those_that_had_none(scope: str, store: Store) -> None:
    policy = budget(**{f"max_{scope}_tokens": 500})
    async with world([], model=Counting([*[says("Fine.", 150, 50)] * 2, says("never")]), store=store) as w:
        free = await w.run(session_id="s")
        bound = await w.run(session_id="s", policy=policy)
        over = await w.run("x" * 400, session_id="s", policy=policy)
        assert kinds(free, bound) == [ANSWERED, ANSWERED]
        trip = trip_of(over)
        assert (trip.policy_path, trip.limit) == (f"budget.max_{scope}_tokens", "500")
        assert int(trip.observed) > 500
        await nothing_is_left(w)


@pytest.mark.requirement("BUDGET-6")
async def test_another_session_and_another_tenant_spend_their_own() -> None:
    other = Caller(tenant="other")
    policy = budget(max_session_tokens=500)
    async with world([], model=Counting([says("Fine.", 300, 100)] * 3)) as w:
        for caller, session_id in ((CALLER, "s"), (CALLER, "t"), (other, "s")):
            accepted = await w.engine.start_turn(
                TurnSpec(caller, (user("Hello"),), session_id=session_id, policy=policy)
            )
            await w.engine.until_ended(accepted.run_id)
            run = await w.engine.get_run(caller, accepted.run_id)
            assert run.outcome is not None
            assert run.outcome.kind is ANSWERED


@pytest.mark.requirement("BUDGET-6")
async def test_a_new_day_is_a_new_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = budget(max_tenant_day_tokens=500)
    today = now_ns()
    async with world([], model=Counting([says("Fine.", 300, 100)] * 2)) as w:
        assert kinds(await w.run(policy=policy)) == [ANSWERED]
        trip_of(await w.run("x" * 400, policy=policy))
        monkeypatch.setattr(service, "now_ns", lambda: today + 86_400 * USD)
        assert kinds(await w.run(policy=policy)) == [ANSWERED]


@pytest.mark.requirement("BUDGET-6")
def test_a_day_is_one_of_utc() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of(86_400 * USD - 1) == "1970-01-01"
    assert day_of(86_400 * USD) == "1970-01-02"
    assert day_of(1_796_083_199 * USD) == "2026-11-30"
    assert day_of(1_796_083_200 * USD) == "2026-12-01"


@pytest.mark.requirement("BUDGET-7")
async def test_totals_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    policy = budget(max_session_tokens=500, max_tenant_day_cost=Cost("USD", USD))
    async with world([says("Fine.", 300, 100)], store=SqliteStore(path), price_of=priced(PER_TOKEN)) as w:
        assert kinds(await w.run(session_id="s", policy=policy)) == [ANSWERED]
    store = SqliteStore(path)
    async with world([], model=Counting([]), store=store, price_of=priced(PER_TOKEN)) as w:
        assert trip_of(await w.run("x" * 400, session_id="s", policy=policy)).policy_path == "budget.max_session_tokens"
        amounts = await store.spent("default", SpendingScope.SESSION, "s")
        assert amounts == {"tokens": 400, "USD": 300 * 1000 + 100 * 4000}
        assert await store.spent("default", SpendingScope.DAY, day_of(now_ns())) == amounts


@pytest.mark.requirement("BUDGET-19")
async def test_what_a_crashed_run_had_spent_by_its_log_counts_after_the_restart() -> None:
    kept = FaultyStore()
    seen = asyncio.Event()

    async def hang() -> None:
        seen.set()
        await asyncio.Event().wait()

    script: list[Sequence[Step]] = [calls(("look", "{}")), [[TextChunk(0, "More")], hang]]
    policy = budget(max_session_tokens=1000)
    async with world(script, {"look": look}, store=kept) as w:
        _, _, task = await w.start(session_id="s", policy=policy)
        await seen.wait()
        kept.fence = True  # the process dies here: nothing reaches the store any more
        task.cancel()
    kept.fence = False
    async with world([says("Fine.")], store=kept) as w:
        assert await kept.spent("default", SpendingScope.SESSION, "s") == {"tokens": 120}
        trip_of(await w.run("x" * 3400, session_id="s", policy=policy))


@pytest.mark.requirement("BUDGET-8")
async def test_runs_side_by_side_never_reserve_more_than_there_is() -> None:
    gate = Gate()
    script: list[Sequence[Step]] = [[gate, *says("Fine.", 40, 90)] for _ in range(5)]
    policy = Policy(budget=budget(max_tenant_day_tokens=500).budget, output=OutputPolicy(max_output_tokens=150))
    async with world([], model=Counting(script)) as w:
        started = [await w.start(policy=policy) for _ in range(5)]
        for _, reader, _ in started:
            await reader.until(IterationStarted)
        async with asyncio.timeout(10):
            await gate.reached(3)
        assert 0 < w.engine.budgets.reserved["tokens"] <= 500
        gate.open()
        for _, _, task in started:
            await task
        ends = kinds(*(reader for _, reader, _ in started))
        assert ends.count(ANSWERED) == 3
        assert ends.count(OutcomeKind.BUDGET_EXCEEDED) == 2
        limits = [request.max_output_tokens or 0 for request in w.provider.requests]
        assert sum(limits) <= 450
        await nothing_is_left(w)


@pytest.mark.requirement("BUDGET-8")
async def test_a_reservation_that_one_budget_refuses_takes_nothing_from_another() -> None:
    policy = budget(max_tenant_day_tokens=100_000, max_total_tokens=20)
    async with world([], model=Counting([])) as w:
        gate = Gate()
        w.provider.script.append([gate, *says("Fine.", 1, 1)])
        _, other, task = await w.start(policy=budget(max_tenant_day_tokens=100_000))
        await other.until(IterationStarted)
        async with asyncio.timeout(10):
            await gate.reached()
        before = dict(w.engine.budgets.reserved)
        assert trip_of(await w.run(policy=policy)).policy_path == "budget.max_total_tokens"
        assert w.engine.budgets.reserved == before
        gate.open()
        await task


@pytest.mark.requirement("BUDGET-9")
@pytest.mark.parametrize("how", ["ends", "fails", "is cancelled", "is cut", "breaks"])
async def test_whatever_becomes_of_a_call_its_reservation_is_given_back(how: str) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    def bug() -> None:
        raise KeyError("a fault of ours")

    script: dict[str, list[Step]] = {
        "ends": says("Fine."),
        "fails": [fails(Reason.PROVIDER_REJECTED)],
        "is cancelled": [[TextChunk(0, "One")], hang],
        "is cut": streams("word " * 2000),
        "breaks": [[TextChunk(0, "One")], bug],  # type: ignore[list-item]
    }
    async with world([script[how]]) as w:
        run_id, reader, task = await w.start(policy=budget(max_total_tokens=1000, max_tenant_day_tokens=1000))
        if how == "is cancelled":
            await reader.until(TextDelta)
            assert w.engine.budgets.reserved["tokens"] > 0
            await w.engine.cancel_run(CALLER, run_id, STOPPED)
        await task
        await nothing_is_left(w)


@pytest.mark.requirement("BUDGET-9")
async def test_a_run_that_cannot_be_stored_gives_back_what_it_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.0)
    kept = FaultyStore()
    gate = Gate()
    policy = budget(max_tenant_day_tokens=1000)
    async with world([[[TextChunk(0, "One")], gate, *says("Fine.")], says("Fine.")], store=kept) as w:
        _, _, task = await w.start(policy=policy)
        await gate.reached()
        kept.fail_next = engine_log.STORE_ATTEMPTS
        gate.open()
        with pytest.raises(Unavailable):
            await task
        await nothing_is_left(w)
        assert kinds(await w.run(policy=policy)) == [ANSWERED]


@pytest.mark.requirement("BUDGET-18")
async def test_a_session_budget_bounds_a_run_of_no_session_by_itself() -> None:
    policy = budget(max_session_tokens=500)
    async with world([], model=Counting([says("Fine.", 300, 100)] * 2)) as w:
        for _ in range(2):
            assert kinds(await w.run(policy=policy)) == [ANSWERED]
        assert trip_of(await w.run("x" * 4000, policy=policy)).policy_path == "budget.max_session_tokens"


@pytest.mark.requirement("BUDGET-14")
async def test_a_child_run_spends_from_the_budgets_of_its_ancestors() -> None:
    gate = Gate()
    script: list[Sequence[Step]] = [[gate, *says("Parent.", 100, 20)], says("Child.", 400, 100)]
    async with world([], model=Counting(script)) as w:
        parent, reader, task = await w.start(policy=budget(max_total_tokens=6000), session_id="s")
        async with asyncio.timeout(10):
            await gate.reached()
        child = await w.run(parent_run_id=parent)
        assert kinds(child) == [ANSWERED]
        over = await w.run("x" * 8000, parent_run_id=parent)
        assert trip_of(over).limit == "6000"
        gate.open()
        await task
        assert kinds(reader) == [ANSWERED]
        await nothing_is_left(w)


@pytest.mark.requirement("BUDGET-14")
async def test_what_a_child_spends_is_in_the_total_of_its_parents_session() -> None:
    gate = Gate()
    kept = MemoryStore()
    script: list[Sequence[Step]] = [[gate, *says("Parent.", 100, 20)], says("Child.", 400, 100)]
    async with world([], model=Counting(script), store=kept) as w:
        parent, _, task = await w.start(policy=budget(max_session_tokens=9000), session_id="s")
        async with asyncio.timeout(10):
            await gate.reached()
        await w.run(parent_run_id=parent)
        gate.open()
        await task
        assert await kept.spent("default", SpendingScope.SESSION, "s") == {"tokens": 620}
        assert await kept.spent("default", SpendingScope.DAY, day_of(now_ns())) == {"tokens": 620}


@pytest.mark.requirement("BUDGET-14", "BUDGET-6")
async def test_what_children_of_a_run_without_budgets_spend_is_in_the_total_of_its_session_too() -> None:
    gate = Gate()
    kept = MemoryStore()
    script: list[Sequence[Step]] = [[gate, *says("Parent.", 100, 20)], says("Child.", 400, 100)]
    async with world([], model=Counting(script), store=kept) as w:
        parent, _, task = await w.start(session_id="s")
        await gate.reached()
        await w.run(parent_run_id=parent)
        gate.open()
        await task
        assert await kept.spent("default", SpendingScope.SESSION, "s") == {"tokens": 620}


@pytest.mark.requirement("BUDGET-14", "BUDGET-19")
async def test_a_child_that_crashed_counts_in_the_total_of_its_parents_session() -> None:
    kept = FaultyStore()
    gate, second = Gate(), Gate()
    script: list[Sequence[Step]] = [
        [gate, *says("Parent.")],
        calls(("look", "{}")),
        [second, *says("never")],
    ]
    async with world([], {"look": look}, model=Counting(script), store=kept) as w:
        parent, _, task = await w.start(session_id="s")
        await gate.reached()
        _, _, child = await w.start(parent_run_id=parent)
        await second.reached()
        kept.fence = True  # the process dies here
        task.cancel()
        child.cancel()
    kept.fence = False
    async with world([], store=kept):
        assert await kept.spent("default", SpendingScope.SESSION, "s") == {"tokens": 120}


@pytest.mark.requirement("BUDGET-14")
async def test_a_child_cannot_widen_what_its_ancestors_are_bound_by() -> None:
    gate = Gate()
    script: list[Sequence[Step]] = [[gate, *says("Parent.", 100, 20)]]
    async with world([], model=Counting(script)) as w:
        parent, _, task = await w.start(policy=budget(max_tenant_day_tokens=6000))
        await gate.reached()
        child = await w.run("x" * 9000, parent_run_id=parent, policy=budget(max_tenant_day_tokens=10**6))
        assert trip_of(child).limit == "6000"
        gate.open()
        await task


@pytest.mark.requirement("BUDGET-14")
async def test_agents_as_tools_spend_from_the_budget_of_the_run_that_calls_them() -> None:
    script: list[Sequence[Step]] = [
        calls(("agent__scribe", '{"input": "Write."}')),
        says("Written.", 800, 50),
        says("never"),
    ]
    agents = [
        Agent("default", model=SCRIPTED, agents=("scribe",)),
        Agent("scribe", model=SCRIPTED),
    ]
    async with world([], model=Counting(script), agents=agents) as w:
        reader = await w.run(policy=budget(max_total_tokens=1000))
        assert len(w.provider.requests) == 2
        await nothing_is_left(w)
    trip = trip_of(reader)
    assert trip.policy_path == "budget.max_total_tokens"
    assert int(trip.observed) > 970, "what the child used is in it"


@pytest.mark.requirement("BUDGET-23")
async def test_a_run_whose_totals_cannot_be_read_spends_nothing() -> None:
    kept = FaultyStore()
    async with world([says("never")], store=kept) as w:
        kept.unreadable = True
        reader = await w.run(policy=budget(max_tenant_day_tokens=500))
        assert w.provider.requests == []
        failure = reader.finished.outcome.failure
        assert failure is not None
        assert (failure.phase, failure.reason) == (FailurePhase.PREPARATION, Reason.STORE_UNAVAILABLE)
        assert failure.retryable
        await nothing_is_left(w)
