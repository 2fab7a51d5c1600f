"""Calls that go round in circles: a person is asked, unless a rule denies them."""

from __future__ import annotations

import pytest
from turn.asking import (
    ALWAYS,
    CALLS,
    DENIED,
    FIRST,
    NOT_EXECUTED,
    OK,
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
from turn.machinekit import (
    Driven,
    a_call,
    ref,
    stop,
)

from turnwired.domain.approval import (
    ApprovalKind,
)
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
)
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import PermissionAction
from turnwired.policy.permissions import Permissions
from turnwired.turn.effects import ResolveTool
from turnwired.turn.facts import ToolResolved

EVERYTHING = Permissions((rule("*", PermissionAction.ALLOW, "*"),), auto_approve=True)


def repeated(permissions: Permissions = EVERYTHING, times: int = 3, name: str = "look") -> Driven:
    """A run whose model has made the same call so many times, each with the same result."""
    run = driven(permissions, repeated_call_threshold=3, max_steps=50)
    for _ in range(times):
        calls_tools(run, (name, '{"a":1}'))
        finishes_all(run)
    return run


@pytest.mark.requirement("WAIT-25")
def test_the_fourth_equal_call_is_asked_about_whatever_rules_and_auto_approve_say() -> None:
    run = repeated(times=4)
    (asked,) = run.events(ApprovalRequested)
    approval = asked.approval
    assert approval.kind is ApprovalKind.LOOP_DETECTED
    assert (approval.permission, approval.patterns, approval.always_patterns) == ("doom_loop", ("look",), ("look",))
    assert "3 times" in approval.title
    assert statuses(run) == [OK] * 3
    assert run.machine.waiting is not None


@pytest.mark.requirement("WAIT-25")
def test_a_cycle_of_two_is_asked_about_before_its_fourth_round() -> None:
    run = driven(EVERYTHING, repeated_call_threshold=3, max_steps=50)
    for name in ("look", "write", "look", "write", "look", "write", "look"):
        calls_tools(run, (name, "{}"))
        finishes_all(run)
    assert statuses(run) == [OK] * 6
    assert [approval.kind for approval in run.machine.pending_approvals.values()] == [ApprovalKind.LOOP_DETECTED]
    answer(run, FIRST, REJECT)
    assert statuses(run) == [OK] * 6 + [DENIED]
    run.says("It does not change.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("WAIT-25")
def test_a_rule_that_denies_circles_tells_the_model_at_once() -> None:
    run = repeated(Permissions((rule("*", PermissionAction.DENY, "doom_loop"),)), times=4)
    assert not run.events(ApprovalRequested)
    assert statuses(run)[-1] is NOT_EXECUTED


@pytest.mark.requirement("WAIT-26")
def test_once_lets_the_circle_go_on_for_this_call_and_the_next_is_asked_about() -> None:
    run = repeated(times=4)
    answer(run, FIRST, ONCE)
    finishes_all(run)
    assert statuses(run) == [OK] * 4
    calls_tools(run, ("look", '{"a":1}'))
    assert list(run.machine.pending_approvals) == [SECOND]


@pytest.mark.requirement("WAIT-26")
def test_always_lets_this_tool_go_round_for_the_rest_of_the_run() -> None:
    run = repeated(times=4)
    answer(run, FIRST, ALWAYS)
    (resolved,) = run.events(ApprovalResolved)
    assert resolved.added_rules == (rule("look", PermissionAction.ALLOW, "doom_loop"),)
    finishes_all(run)
    for _ in range(3):
        calls_tools(run, ("look", '{"a":1}'))
        finishes_all(run)
    assert statuses(run) == [OK] * 7
    assert len(run.events(ApprovalRequested)) == 1


@pytest.mark.requirement("WAIT-26")
def test_rejections_count_as_circles_and_too_many_end_the_run() -> None:
    run = repeated()
    for number in range(3):
        calls_tools(run, ("look", '{"a":1}'))
        answer(run, f"appr_89abcdef_{number + 1}", REJECT)
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.TOOL_LOOP_DETECTED


@pytest.mark.requirement("WAIT-26")
def test_a_call_that_was_let_go_round_counts_for_the_bound_of_its_tool() -> None:
    run = driven(EVERYTHING, repeated_call_threshold=3, max_steps=50, max_tool_calls_per_tool={"look": 4})
    for _ in range(4):
        calls_tools(run, ("look", '{"a":1}'))
        finishes_all(run)
    answer(run, FIRST, ONCE)
    finishes_all(run)
    calls_tools(run, ("look", '{"a":1}'))
    assert list(run.machine.pending_approvals) == [], "nobody can lift the bound, so nobody is asked"
    assert statuses(run) == [OK] * 4 + [NOT_EXECUTED]


@pytest.mark.requirement("WAIT-27")
def test_there_is_one_question_for_a_circle_of_a_tool_that_is_asked_about_anyway() -> None:
    run = driven(repeated_call_threshold=3, max_steps=50)
    for number in range(4):
        calls_tools(run, ("write", '{"a":1}'))
        if number < 3:
            answer(run, f"appr_89abcdef_{number + 1}", ONCE)
            finishes_all(run)
    (approval,) = run.machine.pending_approvals.values()
    assert approval.kind is ApprovalKind.LOOP_DETECTED
    answer(run, approval.approval_id, ONCE)
    assert run.machine.executing == (CALLS[3],)


@pytest.mark.requirement("WAIT-27")
def test_a_circle_of_a_denied_tool_is_denied_and_nobody_is_asked() -> None:
    run = driven(repeated_call_threshold=3, max_steps=50)
    for _ in range(4):
        calls_tools(run, ("slow", "{}"))
    assert statuses(run) == [DENIED] * 4
    assert not run.events(ApprovalRequested)


@pytest.mark.requirement("WAIT-27")
def test_always_for_a_tool_settles_no_question_about_a_circle() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)), repeated_call_threshold=1, max_steps=50)
    calls_tools(run, ("look", "{}"))
    answer(run, FIRST, ONCE)
    finishes_all(run)
    calls_tools(run, ("look", "{}"), ("look", '{"b":1}'))
    circle, other = run.machine.pending_approvals.values()
    assert (circle.permission, other.permission) == ("doom_loop", "tool")
    answer(run, other.approval_id, ALWAYS)
    assert list(run.machine.pending_approvals) == [circle.approval_id]
    answer(run, circle.approval_id, ALWAYS)
    assert set(run.machine.executing) == set(CALLS[1:3])


@pytest.mark.requirement("WAIT-27", "WAIT-14")
def test_each_circle_is_answered_by_itself_also_when_one_is_let_go_for_always() -> None:
    run = driven(EVERYTHING, repeated_call_threshold=2, max_steps=50)
    for _ in range(3):
        calls_tools(run, ("look", "{}"), ("look", '{"b":1}'))
        finishes_all(run)
    assert list(run.machine.pending_approvals) == [FIRST, SECOND]
    answer(run, FIRST, ALWAYS)
    assert list(run.machine.pending_approvals) == [SECOND], "it may stand for a question about its tool"


@pytest.mark.requirement("WAIT-28")
@pytest.mark.parametrize("name", ["nobody", "look"], ids=["unknown", "invalid"])
def test_nobody_is_asked_about_a_repeated_call_that_cannot_run(name: str) -> None:
    run = driven(EVERYTHING, repeated_call_threshold=3, max_steps=50)
    for _ in range(6):
        run.answers(*a_call(0, name, "nonsense"), stop(FinishReason.TOOL_CALLS))
        pending = run.machine.executing
        for effect in run.every(ResolveTool)[-1:]:
            run.feed(ToolResolved(effect.call_id, ref(name), _invalid()))
        assert pending == ()
    assert not run.events(ApprovalRequested)
    assert statuses(run) == [ToolResultStatus.ERROR] * 3 + [NOT_EXECUTED] * 3
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.TOOL_LOOP_DETECTED


def _invalid() -> Failure:
    return Failure(FailurePhase.ROUTING, Reason.TOOL_ARGUMENTS_INVALID, "This is no JSON.")
