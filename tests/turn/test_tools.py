"""Tool calls of an answer: bounds, order, failures. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import Driven, a_call, assert_well_formed, bounds_with, failure, ok, ref, setup_with, stop

from turnwired.domain.event import ToolCallExecuting, ToolCallFinished, ToolCallProgressed
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import ModelItem, TextChunk, ToolArgumentsChunk, ToolCallOpened
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.turn.effects import CallModel, ResolveTool, RunTool, Settle
from turnwired.turn.facts import ToolFinished, ToolProgress, ToolResolved

ONE, TWO, THREE = (f"call_89abcdef_{n}" for n in (1, 2, 3))


def calls(count: int, name: str = "look") -> list[ModelItem]:
    return [item for index in range(count) for item in a_call(index, name, f'{{"n":{index}}}')]


@pytest.mark.requirement("TURN-12")
def test_nothing_starts_before_every_call_of_the_batch_is_checked() -> None:
    run = Driven()
    run.answers(*calls(2), stop())
    assert [effect.call_id for effect in run.every(ResolveTool)] == [ONE, TWO]
    run.feed(ToolResolved(TWO, ref("look")))
    assert run.every(RunTool) == []
    step = run.feed(ToolResolved(ONE, ref("look")))
    assert [emitted.event for emitted in step.events] == [ToolCallExecuting(ONE), ToolCallExecuting(TWO)]
    assert step.effects == (RunTool(ONE, "look", '{"n":0}'), RunTool(TWO, "look", '{"n":1}'))


@pytest.mark.requirement("TURN-12")
def test_with_one_place_calls_run_one_after_another_in_the_models_order() -> None:
    run = Driven(setup_with(bounds_with(max_parallel_calls=1)))
    run.answers(*calls(3), stop())
    run.resolves()
    order = []
    for _ in range(3):
        (running,) = run.machine.executing
        order.append(running)
        run.finishes(running)
    assert order == [ONE, TWO, THREE]


@pytest.mark.requirement("TURN-12", "TURN-6")
def test_a_place_that_becomes_free_is_taken_and_results_keep_the_order_of_the_calls() -> None:
    run = Driven(setup_with(bounds_with(max_parallel_calls=2)))
    run.answers(*calls(3), stop())
    run.resolves()
    assert run.machine.executing == (ONE, TWO)
    run.finishes(TWO)
    assert run.machine.executing == (ONE, THREE)
    run.finishes(THREE)
    run.finishes(ONE)
    assert [event.result.call_id for event in run.events(ToolCallFinished)] == [TWO, THREE, ONE]
    results = [part.content for part in run.every(CallModel)[1].append[1].parts]
    assert [result.call_id for result in results if isinstance(result, ToolResult)] == [ONE, TWO, THREE]


@pytest.mark.requirement("TURN-13")
def test_calls_beyond_the_bound_are_not_executed_and_the_run_ends_with_the_limit_named() -> None:
    run = Driven(setup_with(bounds_with(max_tool_calls=3)))
    run.answers(*calls(2), stop())
    run.runs_all_tools()
    run.answers(*calls(2), stop())
    assert len(run.every(ResolveTool)) == 3
    run.runs_all_tools()
    statuses = {event.result.call_id: event.result.status for event in run.events(ToolCallFinished)}
    assert statuses["call_89abcdef_3"] is ToolResultStatus.OK
    assert statuses["call_89abcdef_4"] is ToolResultStatus.NOT_EXECUTED
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert run.outcome.limit_trip is not None
    assert run.outcome.limit_trip.policy_path == "loop.max_tool_calls"
    assert (run.outcome.limit_trip.limit, run.outcome.limit_trip.observed) == ("3", "4")
    assert run.finished.tool_call_count == 4
    assert_well_formed(run.settled)


@pytest.mark.requirement("TURN-13")
def test_exactly_as_many_calls_as_allowed_are_no_reason_to_stop() -> None:
    run = Driven(setup_with(bounds_with(max_tool_calls=2)))
    run.answers(*calls(2), stop())
    run.runs_all_tools()
    run.says("Done.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-15")
def test_a_tool_that_does_not_exist_settles_as_an_error_that_names_those_that_do() -> None:
    run = Driven()
    run.answers(*a_call(0, "nonsense"), stop())
    (finished,) = run.events(ToolCallFinished)
    assert finished.result.status is ToolResultStatus.ERROR
    assert finished.result.failure is not None
    assert finished.result.failure.reason is Reason.TOOL_NOT_FOUND
    assert "look, write, slow" in finished.result.failure.message
    assert "ToolCallExecuting" not in run.names
    run.says("I have no such tool.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("TURN-15")
def test_a_call_without_any_tools_is_told_that_there_are_none() -> None:
    run = Driven(setup_with(tools={}))
    run.answers(*a_call(0, "look"), stop())
    assert run.every(ResolveTool) == []
    (finished,) = run.events(ToolCallFinished)
    assert finished.result.failure is not None
    assert "this run has no tools" in finished.result.failure.message


@pytest.mark.requirement("TURN-15")
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.TOOL_ARGUMENTS_INVALID, ToolResultStatus.ERROR),
        (Reason.TOOL_DENIED, ToolResultStatus.DENIED),
        (Reason.MCP_UNAVAILABLE, ToolResultStatus.ERROR),
    ],
)
def test_a_call_that_may_not_be_made_settles_without_executing_beside_one_that_runs(
    reason: Reason, status: ToolResultStatus
) -> None:
    run = Driven()
    run.answers(*calls(2), stop())
    problem = failure(reason, phase=FailurePhase.TOOL, message="Not like this.")
    run.feed(ToolResolved(ONE, ref("look"), problem))
    run.feed(ToolResolved(TWO, ref("look")))
    run.finishes(TWO)
    first, second = (event.result for event in run.events(ToolCallFinished))
    assert first.status is status
    assert first.failure is not None
    assert (first.failure.reason, first.failure.call_id, first.failure.iteration) == (reason, ONE, 1)
    assert [part.content for part in first.content] == [Text("Not like this.")]
    assert second.status is ToolResultStatus.OK
    assert [event.call_id for event in run.events(ToolCallExecuting)] == [TWO]
    assert len(run.every(CallModel)) == 2


@pytest.mark.requirement("TURN-15")
def test_an_answer_of_the_registry_without_tool_and_failure_is_not_found() -> None:
    run = Driven()
    run.answers(*calls(1), stop())
    run.feed(ToolResolved(ONE, None))
    (finished,) = run.events(ToolCallFinished)
    assert finished.result.failure is not None
    assert finished.result.failure.reason is Reason.TOOL_NOT_FOUND


@pytest.mark.requirement("TURN-15", "TURN-2")
def test_a_failing_tool_is_told_to_the_model_and_the_run_goes_on() -> None:
    run = Driven()
    run.answers(*calls(1), stop())
    run.resolves()
    run.finishes(ONE, ToolResult(ONE, ToolResultStatus.ERROR, (Part("", Text("no such row")),)))
    run.says("It failed.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.events(ToolCallFinished)[0].result.status is ToolResultStatus.ERROR


@pytest.mark.requirement("TURN-2")
def test_a_result_gets_the_calls_id_and_part_ids_of_the_run() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Look."), *a_call(1), stop())
    run.resolves()
    result = ToolResult("wrong", ToolResultStatus.OK, (Part("part_1", Text("a")), Part("part_1", Text("b"))))
    run.feed(ToolFinished(ONE, result, 7))
    (finished,) = run.events(ToolCallFinished)
    assert finished.duration_ns == 7
    assert finished.result.call_id == ONE
    assert [part.content for part in finished.result.content] == [Text("a"), Text("b")]
    assert len({"part_1", *(part.part_id for part in finished.result.content)}) == 3


@pytest.mark.requirement("TURN-21", "TURN-2")
def test_progress_counts_only_while_the_tool_runs_and_the_first_result_wins() -> None:
    run = Driven()
    run.answers(*calls(2), stop())
    run.feed(ToolProgress(ONE, 0.1))
    run.resolves()
    run.feed(ToolProgress(ONE, 0.5, 1.0, "half"))
    run.finishes(ONE, ok(ONE, "first"))
    run.feed(ToolProgress(ONE, 0.9))
    run.finishes(ONE, ok(ONE, "late"))
    run.feed(ToolResolved(ONE, ref("look")))
    run.feed(ToolProgress("call_of_nobody", 0.5))
    run.finishes("call_of_nobody")
    assert [event.progress for event in run.events(ToolCallProgressed)] == [0.5]
    assert len(run.events(ToolCallFinished)) == 1
    assert run.machine.ignored == 6


@pytest.mark.requirement("TURN-15", "TURN-24")
def test_calls_whose_fragments_cannot_be_told_apart_do_not_run() -> None:
    run = Driven()
    run.answers(
        ToolCallOpened(0, "a", "look"),
        ToolCallOpened(1, "b", "write"),
        ToolArgumentsChunk(7, '{"path":"x"}'),
        stop(),
    )
    assert run.every(ResolveTool) == []
    results = [event.result for event in run.events(ToolCallFinished)]
    assert [result.status for result in results] == [ToolResultStatus.ERROR] * 2
    assert len(run.every(CallModel)) == 2
    assert run.every(Settle) == []
