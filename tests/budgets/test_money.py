"""Budgets of money: through the price of the model, by tokens and by time, and refused where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import grpc
import pytest
from budgets.kit import PER_TIME, PER_TOKEN, Counting, Gate, budget, priced, says, streams
from budgets.test_runs import look, text_of, trip_of
from budgets.test_totals import STOPPED, kinds, nothing_is_left
from engine.harness import CALLER, world
from execution.served import SECONDS, served, turn
from rpc.server import details

from turnwire.v1 import turn_service_pb2
from turnwired.domain.errors import InvalidRequest, Unavailable
from turnwired.domain.failure import Reason
from turnwired.domain.generation import TextChunk
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import BudgetPolicy, Policy, PolicyLayer
from turnwired.domain.usage import Cost, UsageSource
from turnwired.engine.log import now_ns
from turnwired.engine.pricing import Pricing
from turnwired.engine.totals import day_of
from turnwired.policy.merge import Layer, merge
from turnwired.policy.ratecard import Rate
from turnwired.store.memory import MemoryStore
from turnwired.store.port import RunFilter, SpendingScope
from turnwired.testing.provider import Step, calls, fails, usage

pytestmark = pytest.mark.anyio


def usd(nanos: int) -> Cost:
    """An amount."""
    return Cost("USD", nanos)


@pytest.mark.requirement("BUDGET-5")
async def test_a_call_that_the_money_does_not_cover_is_not_made() -> None:
    script: list[Sequence[Step]] = [calls(("look", "{}")), says("never")]  # the first costs 100 * 1000 + 20 * 4000
    async with world([], {"look": look}, model=Counting(script), price_of=priced(PER_TOKEN)) as w:
        reader = await w.run(policy=budget(max_cost=usd(200_000)))
        assert len(w.provider.requests) == 1
    trip = trip_of(reader)
    assert (trip.policy_path, trip.limit) == ("budget.max_cost", "0.0002 USD")
    amount, currency = trip.observed.split()
    assert currency == "USD"
    assert Decimal(amount) > Decimal("0.0002")


@pytest.mark.requirement("BUDGET-5", "BUDGET-2")
async def test_money_that_is_left_is_an_output_limit() -> None:
    model = Counting([says("Fine.", 40, 10)])
    async with world([], model=model, price_of=priced(PER_TOKEN)) as w:
        reader = await w.run(policy=budget(max_cost=usd(500_000)))
        asked = await model.count_tokens(w.provider.requests[0])
    assert w.provider.requests[0].max_output_tokens == (500_000 - asked.tokens * 1000) // 4000
    assert kinds(reader) == [OutcomeKind.ANSWERED]


@pytest.mark.requirement("BUDGET-5", "BUDGET-3")
@pytest.mark.parametrize("limit", [500_000, 20_000_000])
@pytest.mark.parametrize("reads", [3, 50_000])
async def test_a_stream_is_cut_where_the_money_ends(limit: int, reads: int) -> None:
    text = "abcd" * 10_000
    model = Counting([streams(*(text[at : at + reads] for at in range(0, len(text), reads)))])
    async with world([], model=model, price_of=priced(PER_TOKEN)) as w:
        reader = await w.run(policy=budget(max_cost=usd(limit)))
        asked = await model.count_tokens(w.provider.requests[0])
    spent = asked.tokens * 1000 + -(-len(text_of(reader)) // 4) * 4000
    assert limit - 4000 < spent <= limit + max(32 * 4000, limit // 50)
    assert trip_of(reader).policy_path == "budget.max_cost"
    assert reader.finished.cost is not None
    assert reader.finished.cost.amount_nanos == spent
    assert not reader.finished.cost.complete


@pytest.mark.requirement("BUDGET-5")
async def test_where_time_costs_money_a_silent_stream_ends_when_it_is_spent() -> None:
    gate = Gate()
    async with world([[[TextChunk(0, "One")], gate]], price_of=priced(PER_TIME)) as w:
        reader = await w.run(policy=budget(max_cost=usd(1_100_000_000)))  # a second and a tenth
        await nothing_is_left(w)
    trip = trip_of(reader)
    assert (trip.policy_path, trip.limit) == ("budget.max_cost", "1.1 USD")
    assert text_of(reader) == "One"
    assert reader.finished.cost is not None
    assert reader.finished.cost.amount_nanos >= 1_000_000_000


@pytest.mark.requirement("BUDGET-5")
async def test_money_for_less_than_a_second_makes_no_call_where_time_costs_it() -> None:
    async with world([says("never")], price_of=priced(PER_TIME)) as w:
        trip_of(await w.run(policy=budget(max_cost=usd(900_000_000))))
        assert w.provider.requests == []


@pytest.mark.requirement("BUDGET-5")
def test_a_price_is_a_line_over_the_output_at_the_input_that_there_is() -> None:
    pricing = Pricing(lambda usage, ns: PER_TOKEN.price(usage, ns, "test"))
    assert pricing.call_cost(70, 30, None) == 70 * 1000 + 30 * 4000
    assert pricing.affordable(70, 70 * 1000 + 30 * 4000 + 3999) == 30
    assert pricing.affordable(70, 0) < 0
    assert pricing.affordable_seconds(70, 30, 10**12) is None
    both = Pricing(lambda usage, ns: Rate(Decimal(1), Decimal(4), gpu_ms=Decimal("0.001")).price(usage, ns, "test"))
    output = both.affordable(0, 3 * 10**9)
    assert both.output_cost(output) <= 10**9, "half of what is left beside a second is for time"
    assert (both.affordable_seconds(0, output, 3 * 10**9) or 0) >= 2
    free = Pricing(lambda usage, ns: Rate().price(usage, ns, "test"))
    assert free.affordable(10**6, 0) > 10**12
    assert free.currency == "USD"


@pytest.mark.requirement("BUDGET-10", "BUDGET-9")
@pytest.mark.parametrize("how", ["breaks", "is cancelled"])
async def test_what_an_answer_that_broke_off_had_used_is_counted_and_no_exact_number(how: str) -> None:
    gate = Gate()
    ending: Step = fails(Reason.PROVIDER_NETWORK) if how == "breaks" else gate
    script: list[Sequence[Step]] = [[[usage(5000, 0)], [TextChunk(0, "Par")], ending]]
    async with world([], model=Counting(script), price_of=priced(PER_TOKEN)) as w:
        run_id, reader, task = await w.start(policy=budget(max_tenant_day_cost=usd(10**9)))
        if how != "breaks":
            await gate.reached()
            await w.engine.cancel_run(CALLER, run_id, STOPPED)
        await task
        spent = await w.store.spent("default", SpendingScope.DAY, day_of(now_ns()))
    finished = reader.finished
    assert finished.outcome.kind is (OutcomeKind.ERRORED if how == "breaks" else OutcomeKind.ABORTED)
    assert finished.outcome.partial
    assert (finished.usage.input_tokens, finished.usage.output_tokens) == (5000, 1)
    assert finished.usage.source is UsageSource.MIXED
    assert finished.cost == Cost("USD", 5000 * 1000 + 4000, "test", complete=False)
    assert spent == {"tokens": 5001, "USD": 5_004_000}


@pytest.mark.requirement("BUDGET-11")
@pytest.mark.parametrize("name", ["max_cost", "max_session_cost", "max_tenant_day_cost"])
async def test_money_without_a_price_is_refused_before_the_run_exists(name: str) -> None:
    store = MemoryStore()
    async with served([says("never")], store=store) as s:
        request = turn()
        getattr(request.turn.policy.budget, name).value.currency_code = "USD"
        getattr(request.turn.policy.budget, name).value.amount_nanos = 5
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in s.turns.RunTurn(request, timeout=SECONDS):
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"turn.policy.budget.{name}" in (caught.value.details() or "")
        assert "has no price" in (caught.value.details() or "")
        assert details(caught.value)[0].reason == "LIMIT_NOT_MEASURABLE"
        assert await store.list_runs(RunFilter("default"), 10, "") == ([], "")
        assert s.provider.requests == []


@pytest.mark.requirement("BUDGET-11")
async def test_money_in_another_currency_than_the_price_is_refused() -> None:
    async with world([says("never")], price_of=priced(PER_TOKEN)) as w:
        with pytest.raises(InvalidRequest) as caught:
            await w.run(policy=budget(max_cost=Cost("EUR", 5), max_total_tokens=10))
    assert caught.value.reason is Reason.LIMIT_NOT_MEASURABLE
    (violation,) = caught.value.violations
    assert violation.field == "turn.policy.budget.max_cost"
    assert "EUR" in violation.description
    assert "USD" in violation.description


@pytest.mark.requirement("BUDGET-11")
async def test_a_turn_that_waits_for_its_price_counts_against_the_bound_on_runs() -> None:
    gate = Gate()

    async def slowly(model: object) -> object:
        await gate()
        return lambda usage, ns: PER_TOKEN.price(usage, ns, "test")

    async with world([says("Fine.")] * 2, price_of=slowly, max_active_runs=1) as w:  # type: ignore[arg-type]
        both = [asyncio.create_task(w.run(policy=budget(max_cost=usd(10**9)))) for _ in range(2)]
        async with asyncio.timeout(SECONDS):
            await gate.reached(2)
        gate.open()
        done = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(isinstance(one, Unavailable) for one in done) == [False, True]


@pytest.mark.requirement("BUDGET-15")
async def test_budgets_come_through_every_layer_and_are_shown() -> None:
    deployment = Policy(budget=BudgetPolicy(max_total_tokens=400, max_session_tokens=9000))
    async with served([says("never")], policy=deployment) as s:
        asked = turn_service_pb2.ResolvePolicyRequest()
        asked.policy.budget.max_total_tokens.value = 300
        shown = await s.turns.ResolvePolicy(asked, timeout=SECONDS)
        leaves = {item.path: item for item in shown.effective_policy.provenance}
        assert shown.effective_policy.policy.budget.max_total_tokens.value == 300
        assert shown.effective_policy.policy.budget.max_session_tokens.value == 9000
        assert leaves["budget.max_total_tokens"].layer != leaves["budget.max_session_tokens"].layer
        seen = await s.run("x" * 4000)
    assert seen.finished.outcome.limit_trip.policy_path == "budget.max_total_tokens"
    assert seen.finished.outcome.limit_trip.limit == "400"


@pytest.mark.requirement("BUDGET-15")
def test_a_ceiling_cuts_a_budget_that_was_never_set() -> None:
    ceiling = Layer(PolicyLayer.SAFETY_CEILING, "c", Policy(budget=BudgetPolicy(max_tenant_day_tokens=1000)))
    lifted = Layer(PolicyLayer.RUN, "r", Policy(budget=BudgetPolicy(max_tenant_day_tokens=5000)))
    assert merge([], ceiling).policy.budget.max_tenant_day_tokens == 1000
    assert merge([lifted], ceiling).policy.budget.max_tenant_day_tokens == 1000


@pytest.mark.requirement("BUDGET-5", "BUDGET-8")
async def test_money_and_tokens_bind_together_and_the_tighter_one_is_named() -> None:
    step: list[Step] = says("Fine.", 40, 10)
    async with world([], model=Counting([step]), price_of=priced(PER_TOKEN)) as w:
        reader = await w.run("x" * 4000, policy=budget(max_cost=usd(200_000), max_total_tokens=100_000))
        assert trip_of(reader).policy_path == "budget.max_cost"
        reader = await w.run("x" * 4000, policy=budget(max_cost=usd(10**9), max_total_tokens=200))
        assert trip_of(reader).policy_path == "budget.max_total_tokens"
        await nothing_is_left(w)
