"""What a budget that does not last does to a turn."""

from __future__ import annotations

import pytest
from turn.draws import BUDGET
from turn.machinekit import Driven, a_call, bounds_with, setup_with, stop

from turnwired.domain.event import IterationFinished, ToolCallFinished
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason, TextChunk, UsageReported
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import LimitTrip, OutcomeKind
from turnwired.domain.policy import CompletionMode
from turnwired.domain.usage import Cost, Usage, UsageSource
from turnwired.turn import budget
from turnwired.turn.effects import Abandon, CallModel
from turnwired.turn.facts import BudgetReached, ModelCalled


def by_the_second(usage: Usage, duration_ns: int) -> Cost | None:
    """A price of time alone."""
    del usage
    return Cost("USD", duration_ns)


def trips(run: Driven, *, called: bool = True) -> None:
    """The budget of the call that is on is used up."""
    now = run.machine.iteration, run.machine.attempt
    if called:
        run.feed(ModelCalled(*now, 40))
    run.feed(BudgetReached(*now, BUDGET, 7))


@pytest.mark.requirement("BUDGET-1", "BUDGET-4")
def test_a_cut_answer_keeps_its_text_and_refuses_its_calls() -> None:
    run = Driven()
    run.produced(TextChunk(0, "So far"), *a_call(1))
    trips(run)
    assert run.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert run.outcome.limit_trip == BUDGET
    assert run.outcome.partial
    assert run.outcome.recoverable
    assert run.outcome.failure is not None
    assert (run.outcome.failure.phase, run.outcome.failure.reason) == (FailurePhase.MODEL, Reason.LIMIT_REACHED)
    (closed,) = run.events(IterationFinished)
    assert closed.finish_reason is FinishReason.ABORTED
    assert closed.usage.source is UsageSource.ESTIMATED
    (call,) = run.events(ToolCallFinished)
    assert call.result.status is ToolResultStatus.NOT_EXECUTED
    assert run.every(Abandon) == [], "who reports this has left the call"


@pytest.mark.requirement("BUDGET-10")
def test_what_was_reported_before_the_cut_is_believed() -> None:
    run = Driven()
    run.produced(UsageReported(Usage(70, 1)), TextChunk(0, "x" * 80))
    trips(run)
    assert (run.finished.usage.input_tokens, run.finished.usage.output_tokens) == (70, 20)
    assert run.finished.usage.source is UsageSource.MIXED


@pytest.mark.requirement("BUDGET-5")
def test_the_time_of_a_cut_call_is_priced_and_a_call_that_was_not_made_is_not() -> None:
    run = Driven(setup_with(price=by_the_second))
    run.produced(TextChunk(0, "So far"))
    trips(run)
    assert run.finished.cost is not None
    assert run.finished.cost.amount_nanos == 7
    run = Driven(setup_with(price=by_the_second))
    trips(run, called=False)
    assert run.finished.cost is None
    assert run.finished.usage == Usage()


@pytest.mark.requirement("BUDGET-2")
def test_an_output_limit_is_the_budgets_only_in_the_call_that_it_capped() -> None:
    run = Driven(setup_with(bounds_with(max_output_tokens=50)))
    run.feed(ModelCalled(1, 1, 40, BUDGET))
    run.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    run.runs_all_tools()
    run.answers(TextChunk(0, "So far"), stop(FinishReason.OUTPUT_LIMIT))
    assert run.outcome.kind is OutcomeKind.OUTPUT_LIMIT


@pytest.mark.requirement("BUDGET-2")
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (None, OutcomeKind.PROVIDER_EOF),
        (FinishReason.REFUSAL, OutcomeKind.REFUSED),
        (FinishReason.CONTENT_FILTER, OutcomeKind.REFUSED),
        (FinishReason.CONTEXT_LIMIT, OutcomeKind.OUTPUT_LIMIT),
    ],
)
def test_an_answer_that_the_budget_capped_and_that_was_cut_for_another_reason_ends_for_that(
    word: FinishReason | None, kind: OutcomeKind
) -> None:
    run = Driven()
    run.feed(ModelCalled(1, 1, 40, BUDGET))
    run.answers(TextChunk(0, "So far"), *(() if word is None else (stop(word),)))
    assert run.outcome.kind is kind
    assert run.outcome.limit_trip != BUDGET


@pytest.mark.requirement("BUDGET-2")
def test_calls_that_a_capped_answer_cut_are_not_told_to_be_made_again() -> None:
    run = Driven()
    run.feed(ModelCalled(1, 1, 40, BUDGET))
    run.answers(*a_call(0), stop(FinishReason.OUTPUT_LIMIT))
    assert len(run.every(CallModel)) == 1
    assert run.outcome.kind is OutcomeKind.BUDGET_EXCEEDED


@pytest.mark.requirement("BUDGET-22")
@pytest.mark.parametrize("bounds", [{"max_steps": 1}, {}])
def test_in_the_pass_for_a_missing_answer_the_budget_is_the_end(bounds: dict[str, int]) -> None:
    run = Driven(setup_with(bounds_with(completion_mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, **bounds)))
    run.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    run.runs_all_tools()
    if not bounds:
        run.answers(stop())
    trips(run, called=False)
    assert run.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert run.outcome.limit_trip == BUDGET


@pytest.mark.requirement("BUDGET-1")
@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("budget.max_cost", "ask for less in one turn"),
        ("budget.max_total_tokens", "ask for less in one turn"),
        ("budget.max_session_cost", "begin a new session"),
        ("budget.max_tenant_day_tokens", "on the next UTC day"),
    ],
)
def test_the_failure_says_what_to_do_about_this_budget(path: str, advice: str) -> None:
    end = budget.reached(LimitTrip(path, "5", "6"))
    assert end.failure is not None
    assert advice in end.failure.message
    assert path in end.failure.message
    assert "about" not in end.failure.message
