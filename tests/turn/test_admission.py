"""Bounds on one tool, and calls that go round in circles: the detector alone, and in the turn machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn.machinekit import UNATTENDED, Driven, a_call, assert_well_formed, bounds_with, ok, setup_with, stop

from turnwired.domain.event import ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.turn.loops import MAX_PERIOD, Loops, Repetition


def driven(polling: frozenset[str] = frozenset(), **bounds: Any) -> Driven:
    held = bounds_with(**({"max_steps": 50} | bounds))
    return Driven(setup_with(held, polling_tools=polling, permissions=UNATTENDED))


def calls_tools(run: Driven, *wanted: tuple[str, str], results: tuple[str, ...] = ("same",)) -> None:
    """One answer with these calls (name, arguments); their results are ``results`` in turn."""
    items = [item for index, (name, arguments) in enumerate(wanted) for item in a_call(index, name, arguments)]
    run.answers(*items, stop(FinishReason.TOOL_CALLS))
    run.resolves()
    for number in range(len(wanted)):
        if run.machine.executing:
            run.finishes(run.machine.executing[0], ok(text=results[number % len(results)]))


def statuses(run: Driven) -> list[ToolResultStatus]:
    return [event.result.status for event in run.events(ToolCallFinished)]


OK, NOT_EXECUTED = ToolResultStatus.OK, ToolResultStatus.NOT_EXECUTED
LOOK = ("look", '{"a":1}')


@pytest.mark.requirement("COMPLETE-20")
def test_a_tool_at_its_own_bound_is_not_run_again_and_the_run_goes_on_without_it() -> None:
    run = driven(max_tool_calls_per_tool={"look": 2, "*": 1})
    calls_tools(run, LOOK, ("write", "{}"), LOOK)
    calls_tools(run, LOOK, ("write", "{}"), ("slow", "{}"))
    assert statuses(run) == [OK, OK, OK, NOT_EXECUTED, NOT_EXECUTED, OK]
    told = [notice.metadata["tool"] for notice in run.events(Notice)]
    assert told == ["look", "write"]
    calls_tools(run, LOOK)
    assert len(run.events(Notice)) == 2, "each tool is named once"
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert_well_formed(run.settled)


@pytest.mark.requirement("COMPLETE-20")
def test_a_named_tool_can_be_unbounded_or_forbidden_whatever_holds_for_all_others() -> None:
    run = driven(max_tool_calls_per_tool={"look": None, "write": 0, "*": 1})
    calls_tools(run, LOOK, LOOK, LOOK, ("write", "{}"))
    assert statuses(run) == [NOT_EXECUTED, OK, OK, OK]
    assert len(run.events(ToolCallExecuting)) == 3


@pytest.mark.requirement("COMPLETE-20")
def test_the_bound_on_all_calls_holds_besides_and_ends_the_run() -> None:
    run = driven(max_tool_calls_per_tool={"*": 5}, max_tool_calls=1)
    calls_tools(run, LOOK, LOOK)
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert run.outcome.limit_trip is not None
    assert run.outcome.limit_trip.policy_path == "loop.max_tool_calls"


# --- circles ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COMPLETE-25", "COMPLETE-28")
def test_the_fourth_equal_call_with_equal_results_is_stopped_and_says_what_repeats() -> None:
    run = driven(repeated_call_threshold=3)
    for _ in range(4):
        calls_tools(run, LOOK)
    assert statuses(run) == [OK, OK, OK, NOT_EXECUTED]
    stopped = run.events(ToolCallFinished)[-1].result
    assert stopped.failure is not None
    assert stopped.failure.reason is Reason.TOOL_LOOP_DETECTED
    assert isinstance(stopped.content[0].content, Text)
    assert "look was called with these arguments 3 times in a row" in stopped.content[0].content.text
    run.says("It stays as it is.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert_well_formed(run.settled)


@pytest.mark.requirement("COMPLETE-25")
def test_a_cycle_of_two_is_stopped_after_three_rounds() -> None:
    run = driven(repeated_call_threshold=3)
    for name in ("look", "write", "look", "write", "look", "write", "look"):
        calls_tools(run, (name, "{}"))
    assert statuses(run) == [OK] * 6 + [NOT_EXECUTED]


@pytest.mark.requirement("COMPLETE-25")
def test_a_cycle_that_comes_as_several_calls_of_each_answer_is_stopped_whole() -> None:
    run = driven(repeated_call_threshold=3)
    for _ in range(4):
        calls_tools(run, ("look", "{}"), ("write", "{}"))
    assert statuses(run) == [OK] * 6 + [NOT_EXECUTED] * 2


@pytest.mark.requirement("COMPLETE-26")
def test_the_same_call_with_new_results_is_progress() -> None:
    run = driven(repeated_call_threshold=3)
    for progress in ("10 %", "40 %", "80 %", "90 %", "done"):
        calls_tools(run, LOOK, results=(progress,))
    assert statuses(run) == [OK] * 5


@pytest.mark.requirement("COMPLETE-26")
def test_other_arguments_are_another_call_whatever_they_give() -> None:
    run = driven(repeated_call_threshold=3)
    for number in range(6):
        calls_tools(run, ("look", f'{{"page":{number}}}'))
    assert statuses(run) == [OK] * 6


@pytest.mark.requirement("COMPLETE-26")
def test_equal_calls_side_by_side_are_no_circle() -> None:
    run = driven(repeated_call_threshold=3)
    calls_tools(run, *[LOOK] * 6)
    assert statuses(run) == [OK] * 6


@pytest.mark.requirement("COMPLETE-26")
def test_a_tool_that_the_configuration_lets_be_polled_is_no_circle_and_no_part_of_one() -> None:
    run = driven(frozenset({"look"}), repeated_call_threshold=3)
    for _ in range(6):
        calls_tools(run, LOOK)
        calls_tools(run, ("write", "{}"))
    assert statuses(run) == [OK] * 12


@pytest.mark.requirement("COMPLETE-27")
@pytest.mark.parametrize("call", [("nobody", "{}"), ("look", "nonsense")], ids=["unknown", "invalid"])
def test_identical_calls_that_cannot_run_are_a_circle_too(call: tuple[str, str]) -> None:
    run = driven(repeated_call_threshold=3)
    for _ in range(4):
        run.answers(*a_call(0, *call), stop(FinishReason.TOOL_CALLS))
        run.resolves()
        for call_id in run.machine.executing:
            wrong = ToolResult(call_id, ToolResultStatus.ERROR, (Part("", Text("This is no JSON.")),))
            run.finishes(call_id, wrong)
    assert statuses(run) == [ToolResultStatus.ERROR] * 3 + [NOT_EXECUTED]


@pytest.mark.requirement("COMPLETE-27")
def test_arguments_are_compared_as_json() -> None:
    run = driven(repeated_call_threshold=3)
    for arguments in ('{"a":1,"b":2}', '{"b": 2, "a": 1}', '{"a":1,"b":2}', '{ "a":1, "b":2 }'):
        calls_tools(run, ("look", arguments))
    assert statuses(run)[-1] is NOT_EXECUTED


@pytest.mark.requirement("COMPLETE-28")
def test_a_model_that_goes_on_in_circles_after_it_was_told_ends_errored() -> None:
    run = driven(repeated_call_threshold=3)
    for _ in range(6):
        calls_tools(run, LOOK)
    assert statuses(run) == [OK] * 3 + [NOT_EXECUTED] * 3
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert (run.outcome.failure.phase, run.outcome.failure.reason) == (FailurePhase.TOOL, Reason.TOOL_LOOP_DETECTED)
    assert_well_formed(run.settled)


@pytest.mark.requirement("COMPLETE-28")
def test_another_call_in_between_forgives() -> None:
    run = driven(repeated_call_threshold=3)
    for _ in range(5):
        calls_tools(run, LOOK)
    calls_tools(run, ("write", "{}"))
    calls_tools(run, LOOK)
    assert statuses(run)[-1] is OK
    for _ in range(4):
        calls_tools(run, LOOK)
    assert statuses(run)[-2:] == [NOT_EXECUTED] * 2
    assert run.machine.outcome is None, "what was told before the other call does not count"


@pytest.mark.requirement("COMPLETE-29")
@pytest.mark.parametrize(("threshold", "runs"), [(0, 12), (1, 1), (2, 2), (5, 5)])
def test_the_threshold_is_how_often_a_call_runs_before_it_is_stopped(threshold: int, runs: int) -> None:
    run = driven(repeated_call_threshold=threshold)
    for _ in range(12):
        if run.machine.outcome is None:
            calls_tools(run, LOOK)
    assert statuses(run).count(OK) == runs


@pytest.mark.requirement("COMPLETE-25", "COMPLETE-26")
@given(st.lists(st.sampled_from("ab"), max_size=14), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_exactly_the_calls_that_go_on_with_a_cycle_are_found(before: list[str], period: int, threshold: int) -> None:
    loops = Loops(threshold)
    for name in before:
        loops.finished(name, "{}", ToolResult("", OK, ()))
    for name in "ab":
        (found,) = loops.repeated([(name, "{}")])
        cycles = [
            length
            for length in range(1, MAX_PERIOD + 1)
            if _goes_on([*before, name], length, threshold if length == 1 else max(threshold, 2))
        ]
        assert (found is not None) == bool(cycles)
        if found is not None:
            assert found.period == cycles[0]
    cycle = "abcd"[:period]
    for name in cycle * max(threshold, 2):
        loops.finished(name, "{}", ToolResult("", OK, ()))
    assert loops.repeated([(name, "{}") for name in cycle]) == [Repetition(period, _times(threshold, period))] * period


def _times(threshold: int, period: int) -> int:
    return threshold if period == 1 else max(threshold, 2)


def _goes_on(names: list[str], period: int, times: int) -> bool:
    """Whether the last name goes on with what came ``times`` times before it."""
    needed = period * times + 1
    tail = names[-needed:]
    return len(tail) == needed and all(tail[place] == tail[place % period] for place in range(needed))
