"""Questions of tools that run: told, waited for, answered, and gone with their calls."""

from __future__ import annotations

import pytest
from turn.asking import ALWAYS, CALLS, FIRST, ONCE, REJECT, SECOND, answer, calls_tools, driven, results, rule

from turnwired.domain.approval import ApprovalKind
from turnwired.domain.event import ApprovalRequested, ApprovalResolved, RunResumed, RunWaiting, ToolCallExecuting
from turnwired.domain.policy import PermissionAction
from turnwired.policy.permissions import Permissions
from turnwired.turn.effects import AnswerTool, AwaitCaller
from turnwired.turn.facts import InputAsked, InputDropped, WaitExpired

ALLOWED = Permissions((rule("*", PermissionAction.ALLOW, "*"),), auto_approve=True)


@pytest.mark.requirement("APPROVE-66", "APPROVE-68")
def test_a_question_of_a_tool_is_told_waited_for_and_answered_whatever_the_answer_is() -> None:
    for decision in (ONCE, ALWAYS, REJECT):
        run = driven(ALLOWED)
        calls_tools(run, ("look", "{}"))
        run.feed(InputAsked(CALLS[0], "Which?", '{"type":"object"}'))
        (asked,) = run.events(ApprovalRequested)
        assert (asked.approval.kind, asked.approval.title, asked.approval.permission) == (
            ApprovalKind.INPUT,
            "Which?",
            "input",
        )
        assert asked.approval.input_schema_json == '{"type":"object"}'
        assert asked.approval.patterns == asked.approval.always_patterns == ()
        assert run.every(AwaitCaller) == [AwaitCaller(FIRST)]
        waited_for = run.machine.waiting
        assert waited_for == RunWaiting((asked.approval,), ())
        answer(run, FIRST, decision)
        assert run.every(AnswerTool) == [AnswerTool(CALLS[0], FIRST, decision)]
        assert run.events(RunResumed)
        assert run.machine.waiting is None
        assert results(run) == [], "its call goes on"
        run.finishes(CALLS[0])
        assert len(results(run)) == 1


@pytest.mark.requirement("APPROVE-66")
def test_silence_is_told_to_the_tool_and_its_call_goes_on() -> None:
    run = driven(ALLOWED)
    calls_tools(run, ("look", "{}"))
    run.feed(InputAsked(CALLS[0], "Which?"))
    run.feed(WaitExpired(FIRST, 5.0))
    assert run.every(AnswerTool) == [AnswerTool(CALLS[0], FIRST, None)]
    assert [(event.decision, event.resolved_by) for event in run.events(ApprovalResolved)] == [(REJECT, "timeout")]
    assert results(run) == []
    run.feed(WaitExpired(FIRST, 5.0))
    assert len(run.every(AnswerTool)) == 1


@pytest.mark.requirement("APPROVE-66", "APPROVE-69")
def test_only_a_call_that_runs_asks_one_thing_at_a_time_and_its_end_is_the_end_of_its_question() -> None:
    run = driven(Permissions((rule("write", PermissionAction.ASK),)))
    calls_tools(run, ("look", "{}"), ("write", "{}"))
    run.feed(InputAsked(CALLS[1], "Not yet?"))
    run.feed(InputAsked("call_of_nobody", "Who?"))
    run.feed(InputAsked(CALLS[0], "Which?"))
    run.feed(InputAsked(CALLS[0], "And another?"))
    assert [event.approval.title for event in run.events(ApprovalRequested)] == ["Call write?", "Which?"]
    run.finishes(CALLS[0])
    assert [(e.approval_id, e.decision, e.resolved_by) for e in run.events(ApprovalResolved)] == [
        (SECOND, REJECT, "tool")
    ]
    assert list(run.machine.pending_approvals) == [FIRST]
    assert run.every(AnswerTool) == []
    run.feed(InputAsked(CALLS[0], "Too late?"))
    assert len(run.events(ApprovalRequested)) == 2


@pytest.mark.requirement("APPROVE-66", "APPROVE-69")
def test_a_question_that_its_tool_drops_is_over_and_the_tool_may_ask_again() -> None:
    run = driven(ALLOWED)
    calls_tools(run, ("look", "{}"))
    run.feed(InputDropped(CALLS[0]))
    assert run.events(ApprovalResolved) == [], "nothing was asked"
    run.feed(InputAsked(CALLS[0], "Which?"))
    run.feed(InputDropped(CALLS[0]))
    assert [(e.approval_id, e.resolved_by) for e in run.events(ApprovalResolved)] == [(FIRST, "tool")]
    assert run.events(RunResumed)
    assert run.machine.waiting is None
    answer(run, FIRST, ONCE)
    assert run.every(AnswerTool) == [], "it was dropped"
    run.feed(InputAsked(CALLS[0], "And this?"))
    answer(run, SECOND, ONCE)
    assert run.every(AnswerTool) == [AnswerTool(CALLS[0], SECOND, ONCE)]


@pytest.mark.requirement("APPROVE-66", "APPROVE-68")
def test_a_rejection_elsewhere_and_new_rules_leave_the_question_of_a_tool_alone() -> None:
    for decision in (REJECT, ALWAYS):
        run = driven(Permissions((rule("write", PermissionAction.ASK), rule("*", PermissionAction.ALLOW, "input"))))
        calls_tools(run, ("look", "{}"), ("write", "{}"))
        run.feed(InputAsked(CALLS[0], "Which?"))
        answer(run, FIRST, decision)
        assert list(run.machine.pending_approvals) == [SECOND]
        answer(run, SECOND, ONCE)
        assert run.every(AnswerTool) == [AnswerTool(CALLS[0], SECOND, ONCE)]


@pytest.mark.requirement("APPROVE-68")
def test_a_call_that_waits_for_a_free_place_is_no_reason_not_to_say_that_the_run_waits() -> None:
    run = driven(ALLOWED, max_parallel_calls=1)
    calls_tools(run, ("look", "{}"), ("write", "{}"))
    run.feed(InputAsked(CALLS[0], "Which?"))
    assert run.machine.waiting is not None
    assert [event.call_id for event in run.events(ToolCallExecuting)] == [CALLS[0]]
    answer(run, FIRST, ONCE)
    run.finishes(CALLS[0])
    assert [event.call_id for event in run.events(ToolCallExecuting)] == [CALLS[0], CALLS[1]]
