"""Budgets over each wire where usage is missing, cut off or repeated: no limit is decorative."""

from __future__ import annotations

import pytest
from scenarios.kit import ANSWERED, BUDGET_EXCEEDED, play
from scenarios.wires import MESSAGES, WIRES, Words, messages_begin, over
from testkit.wires import sse

from turnwire.v1 import outcome_pb2, usage_pb2
from turnwired.domain.policy import BudgetPolicy, Policy, RetryPolicy

pytestmark = pytest.mark.anyio

ORDER = ("lookup_order", '{"order_id":"1"}')
COUNTS = (
    b'"usage": {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}',
    b'"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}',
    b'"usage": {"input_tokens": 12, "output_tokens": 1}',
    b'"usage": {"output_tokens": 5}',
)


def silent(body: bytes) -> bytes:
    """The answer without its usage."""
    for counts in COUNTS:
        body = body.replace(counts, b'"usage": null')
    return body


def budget(tokens: int) -> Policy:
    """A budget of tokens, with retries at once."""
    return Policy(budget=BudgetPolicy(max_total_tokens=tokens), retry=RetryPolicy(initial_delay=0.0, max_delay=0.0))


def bodies(wire: Words) -> list[bytes]:
    """A call and its answer, with no usage."""
    return [silent(wire.answer(ORDER)), silent(wire.answer("Done."))]


@pytest.mark.requirement("SCN-090")
@pytest.mark.parametrize("name", WIRES)
async def test_a_budget_holds_by_estimates_where_no_usage_is_reported_and_says_so(name: str) -> None:
    wire = WIRES[name]
    long = "word " * 2000

    async def lookup_order(order_id: str) -> str:
        """Look up an order."""
        return long

    async with over(wire, bodies(wire), lookup_order, policy=budget(1500)) as line:
        tight = await play(line.service)
    async with over(wire, bodies(wire), lookup_order, policy=budget(100_000)) as line:
        wide = await play(line.service)
    assert tight.outcome.kind == BUDGET_EXCEEDED
    assert tight.outcome.limit_trip.policy_path == "budget.max_total_tokens"
    assert tight.outcome.limit_trip.estimated
    assert wide.outcome.kind == ANSWERED
    for run in (tight, wide):
        assert run.seen.finished.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
        assert run.seen.finished.usage.input_tokens > 0
        assert run.reasons == [outcome_pb2.REASON_USAGE_UNREPORTED]


@pytest.mark.requirement("SCN-091")
async def test_what_a_broken_stream_used_counts_against_the_budget_of_the_next_try() -> None:
    told = messages_begin(input_tokens=5000, output_tokens=1)
    overloaded = sse({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}, named=True)
    async with over(MESSAGES, [told + overloaded, MESSAGES.answer("Done.")], policy=budget(5010)) as line:
        run = await play(line.service)
    assert run.outcome.kind == BUDGET_EXCEEDED
    assert run.seen.finished.usage.input_tokens >= 5000
    assert len(line.requests) == 1, "there is nothing left for another try"
