"""A machine made of the log of a run that waits, as another process makes it after a restart.

That it goes on as the machine before would have is also asserted by the property tests, at any point.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from turn.asking import (
    ALWAYS,
    ASKS,
    CALLS,
    FIRST,
    ONCE,
    REJECT,
    SECOND,
    answer,
    calls_tools,
    driven,
    finishes_all,
    rule,
    statuses,
)
from turn.expectations import alike
from turn.machinekit import RUN_ID, Driven, a_call, assert_well_formed, bounds_with, failure, ok, ref, setup_with, stop

from turnwired.domain.event import (
    ApprovalRequested,
    PartFinished,
    RunFinished,
    RunWaiting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason, TextChunk, UsageReported
from turnwired.domain.message import Message, Part, Role, Text, ToolResultStatus
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode, PermissionAction
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.domain.usage import Cost, Usage
from turnwired.policy.permissions import Permissions
from turnwired.turn.effects import CallModel, ResolveTool
from turnwired.turn.facts import (
    CallerResult,
    InputAsked,
    InputGiven,
    ModelCalled,
    ModelEnded,
    RetryDue,
    ToolResolved,
    WaitExpired,
)
from turnwired.turn.recovery import closing_step
from turnwired.turn.resume import resumed
from turnwired.turn.waiting import FEW

OK = ToolResultStatus.OK
CLIENT = ToolRef("write", "write", ToolSource.CLIENT)


def take_over(run: Driven, epoch: int = 2) -> Driven:
    """Another process goes on with the run, from its log."""
    machine = resumed(run.machine.setup, run.log(), epoch)
    assert machine is not None
    other = Driven(run.machine.setup, begin=False)
    other.machine = machine
    return other


def both_finish(run: Driven, other: Driven) -> None:
    """What is pending is answered and the model says one more thing, in both; they do the same."""
    for each in (run, other):
        for approval_id in list(each.machine.pending_approvals):
            answer(each, approval_id, ONCE)
        for call_id in list(each.machine.pending_calls):
            each.feed(CallerResult(ok(call_id), 5))
        finishes_all(each)
        each.answers(TextChunk(0, "Done."), UsageReported(Usage(7, 3)), stop())
    end, other_end = run.events(RunFinished), other.events(RunFinished)
    assert simple(end) == simple(other_end)
    assert simple(run.settled) == simple(other.settled)
    assert_well_formed(other.settled)


def simple(value: object) -> str:
    return re.sub(r"'part_(e\d+_)?\d+", "'part", repr(value))


def a_long_run() -> Driven:
    """Usage, a retry, tools, a limit, repairs, input; then a question and a call of the caller's."""
    setup = setup_with(
        bounds_with(completion_mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, max_tool_calls_per_tool={"look": 2}),
        permissions=ASKS,
        price=lambda usage, _: Cost("USD", usage.input_tokens or 0),
    )
    run = Driven(setup)
    run.produced(UsageReported(Usage(3)))
    run.failed(failure(retryable=True))
    run.feed(RetryDue(1, 2))
    run.answers(
        TextChunk(0, "Let me look."), *a_call(1), *a_call(2, "look", '{"b":1}'), UsageReported(Usage(5, 2)), stop()
    )
    run.resolves()
    run.feed(InputGiven((Message(Role.USER, (Part("given_1", Text("Hurry.")),), "msg_given_1"),)))
    finishes_all(run)
    calls_tools(run, ("look", '{"c":1}'))
    run.answers(
        *a_call(0, "write"), *a_call(1, "write", '{"n":1}'), *a_call(2, "slow"), UsageReported(Usage(4, 4)), stop()
    )
    asked, handed, denied = run.every(ResolveTool)[-3:]
    run.feed(ToolResolved(asked.call_id, ref("write")))
    run.feed(ToolResolved(handed.call_id, CLIENT, repairs=("/n: text became an integer",)))
    run.feed(ToolResolved(denied.call_id, ref("slow")))
    answer(run, SECOND, ONCE)
    run.feed(InputGiven((Message(Role.USER, (Part("given_2", Text("Please.")),), "msg_given_2"),)))
    assert run.machine.waiting is not None
    return run


@pytest.mark.requirement("WAIT-50", "WAIT-52")
def test_a_run_is_taken_over_whole_and_ends_as_it_would_have() -> None:
    run = a_long_run()
    other = take_over(run)
    assert other.machine.pending_approvals == run.machine.pending_approvals
    assert other.machine.pending_calls == run.machine.pending_calls
    assert other.machine.waiting == run.machine.waiting
    assert (other.machine.iteration, other.machine.takes_input) == (run.machine.iteration, True)
    both_finish(run, other)
    result = other.events(ToolCallFinished)[0].result
    assert "/n: text became an integer" in simple(result), "what was repaired is told by whoever takes the result"
    assert other.finished.usage == Usage(19, 9)


@pytest.mark.requirement("WAIT-52")
def test_the_first_request_carries_the_whole_run_and_new_ids_are_new() -> None:
    run = a_long_run()
    other = take_over(run)
    both_finish(run, other)
    (call,) = other.every(CallModel)
    assert [message.role for message in call.append] == [
        *[Role.ASSISTANT, Role.TOOL, Role.USER] * 1,
        *[Role.ASSISTANT, Role.TOOL],
        *[Role.ASSISTANT, Role.TOOL, Role.USER],
    ]
    parts = [event.part.part_id for each in (run, other) for event in each.events(PartFinished)]
    assert parts[-1].startswith("part_e2_")
    assert len(parts) == len(set(parts))
    assert [message.message_id for message in other.settled] == [message.message_id for message in run.settled]


@pytest.mark.requirement("WAIT-50")
def test_calls_and_questions_after_a_takeover_have_ids_of_their_own() -> None:
    run = driven(ASKS, max_steps=5)
    calls_tools(run, ("write", "{}"))
    other = take_over(run, epoch=3)
    answer(other, FIRST, ONCE)
    finishes_all(other)
    calls_tools(other, ("write", "{}"))
    assert [event.call_id for event in other.events(ToolCallStarted)] == [CALLS[1]]
    assert [event.approval.approval_id for event in other.events(ApprovalRequested)] == [SECOND]


@pytest.mark.requirement("WAIT-50", "WAIT-26")
def test_rules_that_a_person_added_and_circles_that_were_seen_are_known_after_a_takeover() -> None:
    permissions = Permissions((rule("*", PermissionAction.ASK),))
    run = driven(permissions, repeated_call_threshold=1, max_steps=9)
    calls_tools(run, ("look", "{}"))
    answer(run, FIRST, ALWAYS)
    finishes_all(run)
    calls_tools(run, ("look", "{}"))
    other = take_over(run)
    (approval,) = other.machine.pending_approvals.values()
    assert approval.permission == "doom_loop"
    for each in (run, other):
        answer(each, SECOND, ALWAYS)
        finishes_all(each)
        calls_tools(each, ("look", "{}"))
        assert each.machine.executing == (CALLS[2],), "both rules hold"
    assert statuses(other) == [OK]


@pytest.mark.requirement("WAIT-50")
def test_a_bound_and_a_circle_that_was_rejected_go_on_to_count() -> None:
    run = driven(Permissions(), repeated_call_threshold=2, max_steps=9, max_tool_calls=5)
    for _ in range(2):
        calls_tools(run, ("look", "{}"))
        finishes_all(run)
    calls_tools(run, ("look", "{}"))
    run.feed(WaitExpired(FIRST, 5.0))
    calls_tools(run, ("look", "{}"))
    other = take_over(run)
    for each in (run, other):
        each.feed(WaitExpired(SECOND, 5.0))
        assert each.outcome.kind is OutcomeKind.ERRORED
        assert each.outcome.failure is not None
        assert each.outcome.failure.reason is Reason.TOOL_LOOP_DETECTED


@pytest.mark.requirement("WAIT-50")
def test_a_pass_that_waits_is_taken_over_as_one() -> None:
    bounds = bounds_with(completion_mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, completion_tools=True)
    run = Driven(setup_with(bounds, permissions=ASKS))
    calls_tools(run, ("look", "{}"))
    finishes_all(run)
    run.answers(stop())
    calls_tools(run, ("write", "{}"))
    other = take_over(run)
    assert not other.machine.takes_input
    both_finish(run, other)
    assert other.every(CallModel)[-1].kind is IterationKind.SYNTHESIS
    assert not other.every(CallModel)[-1].offer_tools


@pytest.mark.requirement("WAIT-50")
def test_what_is_told_once_in_a_run_is_not_told_again_after_a_takeover() -> None:
    run = driven(ASKS, max_tool_calls_per_tool={"look": 1}, max_steps=9)
    calls_tools(run, ("look", "{}"), ("look", '{"b":1}'))
    finishes_all(run)
    run.produced(*a_call(0, "write"), stop())
    run.ended()
    run.resolves(run.every(ResolveTool)[-1].call_id)
    other = take_over(run)
    answer(other, FIRST, ONCE)
    finishes_all(other)
    calls_tools(other, ("look", '{"c":1}'))
    assert other.events(Notice) == []
    assert statuses(other) == [OK, ToolResultStatus.NOT_EXECUTED]


@pytest.mark.requirement("WAIT-51")
def test_only_a_log_that_ends_in_waiting_is_taken_over() -> None:
    run = a_long_run()
    log = run.log()
    waiting = [place for place, logged in enumerate(log) if isinstance(logged.event, RunWaiting)]
    good = {place + 1 for place in waiting}
    for length in range(len(log) + 1):
        machine = resumed(run.machine.setup, log[:length], 2)
        still = length > waiting[-1] and not any(
            not isinstance(logged.event, RunWaiting) and type(logged.event).__name__ != "InputAppended"
            for logged in log[waiting[-1] : length]
        )
        assert (machine is not None) == (length in good or still), f"after {length} of {len(log)} events"
    answer(run, FIRST, ONCE)
    for length in range(len(log) + 1, len(run.log()) + 1):
        assert resumed(run.machine.setup, run.log()[:length], 2) is None, "a call is under way, or may be"


@pytest.mark.requirement("WAIT-50", "WAIT-60")
def test_a_run_is_taken_over_that_told_the_last_time_only_what_was_new() -> None:
    run = driven(ASKS)
    calls_tools(run, *(("write", f'{{"n":{n}}}') for n in range(FEW + 3)))
    answer(run, SECOND, ONCE)
    finishes_all(run)
    assert run.events(RunWaiting)[-1].only_new
    other = take_over(run)
    assert list(other.machine.pending_approvals) == list(run.machine.pending_approvals)
    answer(other, FIRST, ONCE)
    finishes_all(other)
    assert [(event.approvals, event.only_new) for event in other.events(RunWaiting)] == [((), True)]


@pytest.mark.requirement("WAIT-51")
def test_a_settled_run_and_one_that_goes_on_are_not_taken_over() -> None:
    run = driven(ASKS)
    calls_tools(run, ("write", "{}"))
    answer(run, FIRST, ALWAYS)
    assert resumed(run.machine.setup, run.log(), 2) is None
    finishes_all(run)
    run.says("Done.")
    assert resumed(run.machine.setup, run.log(), 2) is None
    assert resumed(run.machine.setup, [], 2) is None


@pytest.mark.requirement("WAIT-51", "APPROVE-69")
def test_a_run_whose_tool_asks_is_not_taken_over_for_its_call_is_gone() -> None:
    run = driven(ASKS)
    calls_tools(run, ("look", "{}"), ("write", "{}"))
    run.feed(InputAsked(CALLS[0], "Which?"))
    assert resumed(run.machine.setup, run.log(), 2) is None
    answer(run, SECOND, ONCE)
    run.finishes(CALLS[0])
    assert run.machine.waiting is not None
    assert resumed(run.machine.setup, run.log(), 2) is not None, "only the question before the call is left"


@pytest.mark.requirement("WAIT-50", "WAIT-43")
def test_a_second_crash_closes_the_log_of_both_processes_well() -> None:
    run = a_long_run()
    other = take_over(run)
    answer(other, FIRST, ONCE)
    log = [*run.log(), *(replace(each, sequence=each.sequence + len(run.log())) for each in other.log())]
    closing = closing_step(RUN_ID, "agent", None, log, failure(Reason.SERVER_RESTARTED))
    assert_well_formed(closing.messages)
    open_calls = [event.event.result.status for event in closing.events if isinstance(event.event, ToolCallFinished)]
    assert open_calls == [ToolResultStatus.OUTCOME_UNKNOWN] * 2


@pytest.mark.requirement("WAIT-50")
def test_steps_of_both_machines_are_alike_to_the_end() -> None:
    run = a_long_run()
    other = take_over(run)
    call_id = next(iter(run.machine.pending_calls))
    assert alike(run.feed(CallerResult(ok(call_id)))) == alike(other.feed(CallerResult(ok(call_id))))
    assert alike(run.feed(WaitExpired(FIRST, 5.0))) == alike(other.feed(WaitExpired(FIRST, 5.0)))
    ended = ModelEnded(run.machine.iteration, run.machine.attempt)
    assert alike(run.feed(ended)) == alike(other.feed(ended))


@pytest.mark.requirement("WAIT-50", "WAIT-26")
def test_a_circle_that_a_person_let_go_does_not_count_after_a_takeover() -> None:
    run = driven(Permissions(), repeated_call_threshold=2, max_steps=9)
    for _ in range(3):
        calls_tools(run, ("look", "{}"))
        for approval_id in list(run.machine.pending_approvals):
            answer(run, approval_id, ONCE)
        finishes_all(run)
    calls_tools(run, ("look", "{}"))
    other = take_over(run)
    for each in (run, other):
        answer(each, SECOND, REJECT)
        assert each.machine.outcome is None, "it is the first that was rejected"


def ends_without_text(run: Driven) -> None:
    """What the caller is waited for is refused, and the model says nothing."""
    answer(run, FIRST, REJECT)
    run.answers(stop())


@pytest.mark.requirement("WAIT-50")
def test_results_before_a_takeover_are_something_to_answer_from_unless_they_expired() -> None:
    completion = {"completion_mode": CompletionMode.REQUIRE_TEXT_AFTER_TOOLS}
    run = driven(ASKS, **completion)
    calls_tools(run, ("look", "{}"))
    finishes_all(run)
    calls_tools(run, ("write", "{}"))
    other = take_over(run)
    ends_without_text(other)
    assert other.every(CallModel)[-1].kind is IterationKind.SYNTHESIS
    expired = driven(ASKS, **completion)
    expired.answers(*a_call(0, "write"), stop(FinishReason.TOOL_CALLS))
    expired.feed(ToolResolved(CALLS[0], CLIENT))
    answer(expired, FIRST, ONCE)
    expired.feed(WaitExpired(CALLS[0], 5.0))
    calls_tools(expired, ("write", "{}"))
    last = take_over(expired)
    answer(last, SECOND, REJECT)
    last.answers(stop())
    assert last.outcome.kind is OutcomeKind.TOOL_ONLY
    assert all(call.kind is IterationKind.STEP for call in last.every(CallModel))


@pytest.mark.requirement("WAIT-50")
def test_a_model_that_was_told_of_its_cut_answer_is_not_told_again_after_a_takeover() -> None:
    run = driven(ASKS)
    run.answers(*a_call(0, "look"), stop(FinishReason.OUTPUT_LIMIT))
    calls_tools(run, ("write", "{}"))
    other = take_over(run)
    answer(other, FIRST, ONCE)
    finishes_all(other)
    other.answers(*a_call(0, "look"), stop(FinishReason.OUTPUT_LIMIT))
    assert other.outcome.kind is OutcomeKind.OUTPUT_LIMIT


@pytest.mark.requirement("WAIT-50")
def test_missing_usage_is_told_once_whoever_goes_on_with_the_run() -> None:
    run = driven(ASKS)
    run.feed(ModelCalled(1, 1, 9))
    calls_tools(run, ("write", "{}"))
    assert [notice.reason for notice in run.events(Notice)] == [Reason.USAGE_UNREPORTED]
    other = take_over(run)
    answer(other, FIRST, ONCE)
    finishes_all(other)
    other.feed(ModelCalled(2, 1, 9))
    other.says("Done.")
    assert other.events(Notice) == []
