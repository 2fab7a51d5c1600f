"""Runs under budgets, from the request to the outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest
from budgets.kit import Counting, budget, says, streams
from engine.harness import Reader, world

from turnwired.domain.errors import FieldViolation
from turnwired.domain.event import IterationFinished, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.message import Text, ToolResultStatus
from turnwired.domain.model import OutputFormat
from turnwired.domain.outcome import LimitTrip, Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode, CompletionPolicy, LoopPolicy, OutputPolicy, Policy, RetryPolicy
from turnwired.domain.usage import UsageSource
from turnwired.testing.provider import Step, calls, fails, stopped, usage
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio


async def look(invocation: ToolInvocation) -> str:
    return "seen"


def text_of(reader: Reader) -> str:
    """What the run shows."""
    message = reader.finished.message
    parts = message.parts if message is not None else ()
    return "".join(part.content.text for part in parts if isinstance(part.content, Text))


def trip_of(reader: Reader) -> LimitTrip:
    """Which limit ended the run; the rest of such an end is the same for all."""
    outcome = reader.finished.outcome
    assert outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert outcome.recoverable
    assert outcome.failure is not None
    assert (outcome.failure.phase, outcome.failure.reason) == (FailurePhase.MODEL, Reason.LIMIT_REACHED)
    assert outcome.limit_trip is not None
    assert outcome.limit_trip.policy_path in outcome.failure.message
    assert reader.finished.trace is not None
    return outcome.limit_trip


@pytest.mark.requirement("BUDGET-1", "BUDGET-10")
async def test_the_call_that_a_budget_does_not_cover_is_not_made_and_what_was_done_is_kept() -> None:
    script = [calls(("look", "{}")), says("never")]
    async with world(script, {"look": look}) as w:
        reader = await w.run(policy=budget(max_total_tokens=140))
        assert len(w.provider.requests) == 1
    trip = trip_of(reader)
    assert (trip.policy_path, trip.limit, trip.estimated) == ("budget.max_total_tokens", "140", True)
    assert int(trip.observed) > 140
    assert "raise the budget" in (reader.finished.outcome.failure.message if reader.finished.outcome.failure else "")
    (kept,) = reader.of(ToolCallFinished)
    assert isinstance(kept, ToolCallFinished)
    assert kept.result.status is ToolResultStatus.OK
    made, refused = reader.of(IterationFinished)
    assert isinstance(made, IterationFinished)
    assert isinstance(refused, IterationFinished)
    assert refused.finish_reason is FinishReason.ERROR
    assert refused.usage.source is UsageSource.UNSPECIFIED, "a call that was not made used nothing"
    assert (reader.finished.usage.input_tokens, reader.finished.usage.output_tokens) == (100, 20)


@pytest.mark.requirement("BUDGET-1")
async def test_a_budget_that_the_request_alone_does_not_fit_makes_no_call() -> None:
    async with world([says("never")], model=Counting([says("never")])) as w:
        reader = await w.run("x" * 4000, policy=budget(max_total_tokens=500))
        assert w.provider.requests == []
    assert not trip_of(reader).estimated
    assert int(trip_of(reader).observed) > 1000
    assert reader.finished.message is None
    assert not reader.finished.outcome.partial


@pytest.mark.requirement("BUDGET-2")
async def test_a_call_that_fits_with_a_shorter_answer_is_made_with_that_limit() -> None:
    model = Counting([says("Short.", 40, 3)])
    async with world([], model=model) as w:
        reader = await w.run(policy=budget(max_total_tokens=300))
        (request,) = w.provider.requests
        asked = await model.count_tokens(request)
    assert request.max_output_tokens == 300 - asked.tokens
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("BUDGET-2")
async def test_an_answer_that_reaches_the_limit_that_a_budget_set_ends_by_the_budget() -> None:
    cut: list[Step] = [[TextChunk(0, "As far as")], [stopped(FinishReason.OUTPUT_LIMIT, "length"), usage(40, 200)]]
    async with world([cut]) as w:
        reader = await w.run(policy=budget(max_total_tokens=300))
    trip = trip_of(reader)
    assert (trip.policy_path, trip.limit, trip.observed) == ("budget.max_total_tokens", "300", "300")
    assert reader.finished.outcome.partial
    assert text_of(reader) == "As far as"


@pytest.mark.requirement("BUDGET-2")
async def test_a_limit_of_the_policys_own_stays_the_output_limit() -> None:
    cut: list[Step] = [[TextChunk(0, "As far as")], [stopped(FinishReason.OUTPUT_LIMIT, "length"), usage(40, 50)]]
    async with world([cut]) as w:
        policy = replace(budget(max_total_tokens=5000), output=OutputPolicy(max_output_tokens=50))
        reader = await w.run(policy=policy)
        assert w.provider.requests[0].max_output_tokens == 50
    assert reader.finished.outcome.kind is OutcomeKind.OUTPUT_LIMIT


@pytest.mark.requirement("BUDGET-2")
async def test_where_nobody_knows_how_long_an_answer_may_be_a_large_budget_sends_no_limit() -> None:
    async with world([says("Fine.")]) as w:
        await w.run(policy=budget(max_total_tokens=1_000_000))
        assert w.provider.requests[0].max_output_tokens is None


@pytest.mark.requirement("BUDGET-1")
async def test_what_is_left_and_the_provider_could_not_serve_is_not_sent() -> None:
    model = Counting([says("never")])
    model.refuses = lambda request: (
        [FieldViolation("turn.model.options.thinking", "no")] if request.max_output_tokens else []
    )
    async with world([], model=model) as w:
        reader = await w.run(policy=budget(max_total_tokens=300))
        assert w.provider.requests == []
    assert trip_of(reader).policy_path == "budget.max_total_tokens"


@pytest.mark.requirement("BUDGET-3", "BUDGET-4")
@pytest.mark.parametrize(("limit", "over"), [(500, 32), (5000, 100)])
@pytest.mark.parametrize("reads", [1, 7, 4000, 100_000])
async def test_a_stream_is_cut_at_its_budget_whatever_its_reads_are(limit: int, over: int, reads: int) -> None:
    text = "abcd" * 25_000
    pieces = [text[at : at + reads] for at in range(0, min(len(text), 60_000) if reads > 1 else 24_000, reads)]
    model = Counting([streams(*pieces)])
    async with world([], model=model) as w:
        reader = await w.run(policy=budget(max_total_tokens=limit))
        asked = await model.count_tokens(w.provider.requests[0])
    spent = asked.tokens + -(-len(text_of(reader)) // 4)
    assert limit <= spent <= limit + over
    trip = trip_of(reader)
    assert trip.estimated
    assert limit < int(trip.observed) <= limit + over + 1
    assert reader.finished.outcome.partial
    assert text.startswith(text_of(reader))
    assert reader.finished.usage.source is UsageSource.ESTIMATED


@pytest.mark.requirement("BUDGET-3")
async def test_the_provider_is_left_when_its_stream_is_cut() -> None:
    model = Counting([streams(*["word " * 40] * 50)])
    async with world([], model=model) as w:
        trip_of(await w.run(policy=budget(max_total_tokens=400)))
        assert w.provider.closed == 1


@pytest.mark.requirement("BUDGET-3")
async def test_a_whole_answer_whose_reported_usage_fits_is_not_cut_for_an_estimate() -> None:
    words = "a " * 1000  # 500 tokens as estimated
    at_once: list[Step] = [[TextChunk(0, words), stopped(), usage(40, 60)]]
    async with world([at_once]) as w:
        reader = await w.run(policy=budget(max_total_tokens=300))
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert text_of(reader) == words


@pytest.mark.requirement("BUDGET-3")
async def test_text_of_other_scripts_counts_by_its_bytes() -> None:
    model = Counting([streams("\u4e16" * 3000)])
    async with world([], model=model) as w:
        reader = await w.run(policy=budget(max_total_tokens=500))
        asked = await model.count_tokens(w.provider.requests[0])
    said = text_of(reader)
    assert set(said) == {"\u4e16"}
    assert 500 - 1 <= asked.tokens + -(-len(said.encode()) // 4) <= 532


@pytest.mark.requirement("BUDGET-4")
async def test_calls_of_a_cut_answer_settle_as_not_executed() -> None:
    items: list[ModelItem] = [ToolCallOpened(1, "p", "look"), ToolArgumentsChunk(1, "{}"), ToolCallClosed(1)]
    long: list[Step] = [[TextChunk(0, "On it. ")], items, [ToolCallOpened(2, "q", "look")]]
    long += [[ToolArgumentsChunk(2, "x" * 400)] for _ in range(20)]
    async with world([long], {"look": look}) as w:
        reader = await w.run(policy=budget(max_total_tokens=500))
    trip_of(reader)
    statuses = [e.result.status for e in reader.of(ToolCallFinished) if isinstance(e, ToolCallFinished)]
    assert statuses == [ToolResultStatus.NOT_EXECUTED] * 2
    assert reader.of(ToolCallExecuting) == []
    assert text_of(reader) == "On it. "


@pytest.mark.requirement("BUDGET-4")
async def test_a_session_goes_on_after_a_run_that_its_budget_cut() -> None:
    model = Counting([streams("word " * 1000), says("Yes.")])
    async with world([], model=model) as w:
        trip_of(await w.run(session_id="s", policy=budget(max_total_tokens=400)))
        assert (await w.run(session_id="s")).finished.outcome.kind is OutcomeKind.ANSWERED
        roles = [message["role"] for message in model.messages(1) if "role" in message]
    assert roles == ["system", "USER", "ASSISTANT", "USER"]


@pytest.mark.requirement("BUDGET-10")
async def test_an_attempt_that_failed_with_usage_counts() -> None:
    failing: list[Step] = [[usage(900, 0)], fails(Reason.PROVIDER_UNAVAILABLE, retryable=True)]
    async with world([failing, says("never")]) as w:
        policy = replace(budget(max_total_tokens=1000), retry=RetryPolicy(initial_delay=0.0))
        reader = await w.run("x" * 400, policy=policy)
        assert len(w.provider.requests) == 1
    assert trip_of(reader).policy_path == "budget.max_total_tokens"
    assert reader.finished.usage.input_tokens == 900


@pytest.mark.requirement("BUDGET-10")
async def test_what_was_reserved_and_not_used_is_there_for_the_next_call() -> None:
    script = [*[calls(("look", f'{{"n": {n}}}')) for n in range(3)], says("Done.")]
    async with world(script, {"look": look}) as w:
        policy = replace(budget(max_total_tokens=700), output=OutputPolicy(max_output_tokens=200))
        reader = await w.run(policy=policy)
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED, reader.finished.outcome


@pytest.mark.requirement("BUDGET-10", "BUDGET-22")
@pytest.mark.parametrize("mode", ["synthesis", "bound"])
async def test_the_pass_for_a_missing_answer_counts_and_its_budget_ends_the_run(mode: str) -> None:
    silent: list[Step] = [[stopped(), usage(100, 20)]]
    script = [calls(("look", "{}")), *([silent] if mode == "synthesis" else []), says("never")]
    async with world(script, {"look": look}) as w:
        policy = Policy(
            budget=budget(max_total_tokens=260 if mode == "synthesis" else 140).budget,
            completion=CompletionPolicy(mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS),
            loop=LoopPolicy(max_steps=9 if mode == "synthesis" else 1),
        )
        reader = await w.run(policy=policy)
        assert len(w.provider.requests) == len(script) - 1
    assert trip_of(reader).policy_path == "budget.max_total_tokens"


@pytest.mark.requirement("BUDGET-10")
async def test_the_correction_of_a_structured_answer_counts() -> None:
    schema = OutputFormat('{"type": "object", "required": ["a"]}')
    async with world([says("nonsense"), says('{"a": 1}')]) as w:
        reader = await w.run(policy=budget(max_total_tokens=140), output_format=schema)
        assert len(w.provider.requests) == 1
    assert trip_of(reader).policy_path == "budget.max_total_tokens"


@pytest.mark.requirement("BUDGET-12")
async def test_a_provider_that_reports_no_usage_is_held_by_estimates_and_the_run_says_so() -> None:
    silent: list[Step] = [
        [TextChunk(0, "word " * 80), ToolCallOpened(1, "", "look"), ToolArgumentsChunk(1, "{}"), ToolCallClosed(1)],
        [stopped(FinishReason.TOOL_CALLS)],
    ]
    model = Counting([silent, silent, silent, says("never")])
    model.reports_usage = False
    async with world([], {"look": look}, model=model) as w:
        reader = await w.run(policy=budget(max_total_tokens=500))
        assert 1 < len(w.provider.requests) < 4
    told = [notice for notice in reader.of(Notice) if isinstance(notice, Notice)]
    assert Reason.LIMIT_ESTIMATED in [notice.reason for notice in told]
    assert trip_of(reader).estimated
    assert reader.finished.usage.source is UsageSource.ESTIMATED


@pytest.mark.requirement("BUDGET-12", "BUDGET-17")
async def test_without_a_budget_nobody_is_told_of_estimates() -> None:
    model = Counting([says("Fine.")])
    model.reports_usage = False
    async with world([], model=model) as w:
        reader = await w.run()
    assert reader.of(Notice) == []


@pytest.mark.requirement("BUDGET-13")
async def test_near_a_limit_the_providers_counter_is_asked() -> None:
    model = Counting([says("Fine.")], answers=450)
    async with world([], model=model) as w:
        await w.run(policy=budget(max_total_tokens=500))
        assert model.asked == 1
        assert w.provider.requests[0].max_output_tokens == 50
    model = Counting([says("never")], answers=490)
    async with world([], model=model) as w:
        reader = await w.run(policy=budget(max_total_tokens=500))
        assert w.provider.requests == []
    assert trip_of(reader).observed == "506"


@pytest.mark.requirement("BUDGET-13")
async def test_far_from_a_limit_the_counter_is_left_alone() -> None:
    model = Counting([says("Fine.")])
    async with world([], model=model) as w:
        await w.run(policy=budget(max_total_tokens=1_000_000))
    assert model.asked == 0


@pytest.mark.requirement("BUDGET-20")
async def test_input_that_the_provider_counts_higher_leaves_less_for_the_answer() -> None:
    step: list[Step] = [[usage(1900, 1)], *([TextChunk(0, "word " * 40)] for _ in range(100))]
    async with world([step]) as w:
        reader = await w.run(policy=budget(max_total_tokens=2000))
    trip_of(reader)
    total = (reader.finished.usage.input_tokens or 0) + (reader.finished.usage.output_tokens or 0)
    assert reader.finished.usage.input_tokens == 1900
    assert 2000 <= total <= 2040
    assert reader.finished.usage.source is UsageSource.MIXED


@pytest.mark.requirement("BUDGET-17")
async def test_a_run_without_budgets_is_sent_as_ever_and_nothing_is_kept_for_it() -> None:
    model = Counting([says("Fine.")])
    async with world([], model=model) as w:
        reader = await w.run()
        assert w.engine.budgets.open_accounts == 0
    assert model.asked == 0
    assert model.requests[0].max_output_tokens is None
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
