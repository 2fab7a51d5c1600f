"""Questions about calls in the turn machine: who asks, who answers, and what the run does meanwhile."""

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
    THIRD,
    answer,
    calls_tools,
    driven,
    finishes_all,
    results,
    rule,
    statuses,
    words,
)
from turn.machinekit import (
    CANCELLED,
    RUN_ID,
    a_call,
    assert_well_formed,
    ref,
    stop,
)

from turnwired.domain.approval import (
    BY_CASCADE,
    BY_TIMEOUT,
    ApprovalKind,
    PermissionRequest,
    digest_of_call,
)
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    RunResumed,
    RunWaiting,
    ToolCallExecuting,
)
from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import PermissionAction, ToolExecutionMode, WaitExpiryMode
from turnwired.domain.tool import ToolAnnotations
from turnwired.policy.permissions import Permissions
from turnwired.turn.effects import Abandon, AwaitCaller, CallModel, ResolveTool, RunTool
from turnwired.turn.facts import CancelRequested, InputAsked, ToolResolved, ToolResultLate, WaitExpired
from turnwired.turn.waiting import FEW


@pytest.mark.requirement("WAIT-10", "WAIT-12", "WAIT-19")
def test_free_calls_run_while_one_waits_and_results_come_in_call_order() -> None:
    run = driven()
    calls_tools(run, ("write", '{"to":"x"}'), ("look", "{}"))
    assert run.machine.executing == (CALLS[1],)
    assert list(run.machine.pending_approvals) == [FIRST]
    assert not run.events(RunWaiting), "something still goes on"
    run.finishes(CALLS[1])
    (waiting,) = run.events(RunWaiting)
    assert waiting == run.machine.waiting
    assert [approval.approval_id for approval in waiting.approvals] == [FIRST]
    answer(run, FIRST, ONCE)
    assert run.names[-3:] == ["ApprovalResolved", "RunResumed", "ToolCallExecuting"]
    run.finishes(CALLS[0])
    assert statuses(run) == [OK, OK]
    follow_up = run.every(CallModel)[-1].append[-1]
    assert [part.content.call_id for part in follow_up.parts if isinstance(part.content, ToolResult)] == list(CALLS[:2])
    run.says("Sent.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert_well_formed(run.settled)


@pytest.mark.requirement("WAIT-11")
def test_a_question_says_what_it_is_about_and_nothing_of_the_arguments() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)))
    calls_tools(run, ("write", '{"to":"secret"}'))
    (asked,) = run.events(ApprovalRequested)
    approval = asked.approval
    assert (approval.approval_id, approval.run_id, approval.kind) == (FIRST, RUN_ID, ApprovalKind.RULE)
    assert (approval.permission, approval.patterns, approval.always_patterns) == ("tool", ("write",), ("write",))
    assert approval.call.arguments_json == '{"to":"secret"}'
    assert approval.call_digest == digest_of_call("write", '{"to":"secret"}')
    assert "write" in approval.title
    assert "secret" not in approval.title
    assert run.every(AwaitCaller) == [AwaitCaller(FIRST)]


@pytest.mark.requirement("WAIT-3", "WAIT-11")
def test_a_destructive_tool_that_no_rule_knows_asks_and_says_why() -> None:
    run = driven(Permissions(destructive_action=PermissionAction.ASK))
    run.answers(*a_call(0, "write"), stop(FinishReason.TOOL_CALLS))
    run.feed(ToolResolved(CALLS[0], ref("write"), annotations=ToolAnnotations(read_only=True, destructive=True)))
    assert [event.approval.kind for event in run.events(ApprovalRequested)] == [ApprovalKind.DESTRUCTIVE]


@pytest.mark.requirement("WAIT-4")
def test_auto_approve_runs_what_would_be_asked_about_but_not_what_is_always_asked() -> None:
    rules = (rule("write", PermissionAction.ASK), rule("slow", PermissionAction.ALWAYS_ASK))
    run = driven(Permissions(rules, auto_approve=True))
    calls_tools(run, ("write", "{}"), ("slow", "{}"))
    assert run.machine.executing == (CALLS[0],)
    assert [approval.call.call_id for approval in run.machine.pending_approvals.values()] == [CALLS[1]]


@pytest.mark.requirement("WAIT-16", "WAIT-12")
def test_the_first_answer_stands_and_a_call_runs_once() -> None:
    run = driven()
    calls_tools(run, ("write", "{}"))
    answer(run, FIRST, ONCE)
    for decision in (ONCE, REJECT, ALWAYS):
        answer(run, FIRST, decision)
    run.feed(WaitExpired(FIRST, 5.0))
    assert run.machine.ignored == 4
    assert len(run.every(RunTool)) == len(run.events(ApprovalResolved)) == 1
    run.finishes(CALLS[0])
    assert (
        run.names.index("ApprovalResolved") < run.names.index("ToolCallExecuting") < run.names.index("ToolCallFinished")
    )
    assert statuses(run) == [OK]


@pytest.mark.requirement("WAIT-12")
def test_once_is_for_one_call_and_the_next_is_asked_about_again() -> None:
    run = driven()
    for _ in range(2):
        calls_tools(run, ("write", "{}"))
        answer(run, next(iter(run.machine.pending_approvals)), ONCE)
        finishes_all(run)
    assert [event.approval.approval_id for event in run.events(ApprovalRequested)] == [FIRST, SECOND]


@pytest.mark.requirement("WAIT-13", "WAIT-14")
def test_always_adds_the_literal_rule_that_was_shown_and_settles_what_it_allows() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)))
    calls_tools(run, ("write", "{}"), ("write", '{"b":1}'), ("look", "{}"))
    answer(run, FIRST, ALWAYS)
    first, other = run.events(ApprovalResolved)
    assert first.added_rules == (rule("write", PermissionAction.ALLOW),)
    assert (other.approval_id, other.decision, other.resolved_by) == (SECOND, ONCE, BY_CASCADE)
    assert other.added_rules == ()
    assert list(run.machine.pending_approvals) == [THIRD]
    assert run.machine.executing == CALLS[:2]
    answer(run, THIRD, REJECT)
    finishes_all(run)
    calls_tools(run, ("write", "{}"), ("look", "{}"))
    assert run.machine.executing == (CALLS[3],), "write may run from now on, look may not"


@pytest.mark.requirement("WAIT-6", "WAIT-13")
def test_a_rule_of_the_run_itself_outlives_an_answer_of_always() -> None:
    run = driven(Permissions(run_rules=(rule("write", PermissionAction.ALWAYS_ASK),)))
    for _ in range(2):
        calls_tools(run, ("write", "{}"), ("write", '{"b":1}'))
        for approval_id in list(run.machine.pending_approvals):
            answer(run, approval_id, ALWAYS)
        finishes_all(run)
    assert len(run.events(ApprovalRequested)) == 4


SHELL = PermissionRequest("shell", ("git status", "rm -rf ./tmp"), ("git status", "rm -rf ./tmp"), "Run two commands")


@pytest.mark.requirement("WAIT-21", "WAIT-13")
def test_a_tool_may_ask_for_finer_permissions_and_a_person_choose_among_them() -> None:
    rules = (rule("*", PermissionAction.ASK, "shell"), rule("git status", PermissionAction.ALLOW, "shell"))
    run = driven(Permissions(rules))
    run.answers(*a_call(0, "write", '{"cmd":"git status && rm -rf ./tmp"}'), stop(FinishReason.TOOL_CALLS))
    run.feed(ToolResolved(CALLS[0], ref("write"), asks_for=SHELL))
    (asked,) = run.events(ApprovalRequested)
    assert asked.approval.patterns == SHELL.patterns
    assert asked.approval.title == "Run two commands"
    answer(run, FIRST, ALWAYS, "", "git status", "rm *")
    (resolved,) = run.events(ApprovalResolved)
    assert resolved.added_rules == (rule("git status", PermissionAction.ALLOW, "shell"),), "nothing but what was shown"
    finishes_all(run)
    run.answers(*a_call(0, "write"), stop(FinishReason.TOOL_CALLS))
    run.feed(ToolResolved(CALLS[1], ref("write"), asks_for=SHELL))
    assert list(run.machine.pending_approvals) == [SECOND], "each command is held against the rules"


@pytest.mark.requirement("WAIT-21", "WAIT-17")
def test_one_denied_pattern_of_several_denies_the_call() -> None:
    run = driven(Permissions((rule("rm *", PermissionAction.DENY, "shell"),)))
    run.answers(*a_call(0, "write"), stop(FinishReason.TOOL_CALLS))
    run.feed(ToolResolved(CALLS[0], ref("write"), asks_for=SHELL))
    assert statuses(run) == [DENIED]
    assert "'rm *'" in words(results(run)[0])


@pytest.mark.requirement("WAIT-15")
def test_a_rejection_tells_the_model_why_and_takes_the_other_questions_with_it() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)))
    calls_tools(run, ("write", "{}"), ("look", "{}"))
    answer(run, SECOND, REJECT, "Ask my wife first.")
    assert [(e.approval_id, e.decision, e.resolved_by, e.comment) for e in run.events(ApprovalResolved)] == [
        (SECOND, REJECT, "ann", "Ask my wife first."),
        (FIRST, REJECT, BY_CASCADE, ""),
    ]
    assert statuses(run) == [DENIED, DENIED]
    assert [result.failure.reason for result in results(run) if result.failure] == [Reason.TOOL_REJECTED] * 2
    rejected, other = results(run)
    assert "The user says: Ask my wife first." in words(rejected)
    assert "wife" not in words(other)
    assert rejected.failure is not None
    assert "wife" not in rejected.failure.message, "a failure goes to logs"
    assert run.events(RunResumed)
    run.says("I will.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert_well_formed(run.settled)


@pytest.mark.requirement("WAIT-17")
def test_a_denied_call_says_which_rule_and_the_run_goes_on() -> None:
    run = driven()
    calls_tools(run, ("slow", "{}"), ("look", "{}"))
    assert statuses(run) == [DENIED]
    (denied,) = results(run)
    assert denied.failure is not None
    assert denied.failure.reason is Reason.TOOL_DENIED
    assert "'slow'" in words(denied)
    assert not run.events(ApprovalRequested)
    finishes_all(run)
    run.says("I looked.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("WAIT-18")
def test_a_question_that_nobody_answers_counts_as_rejected() -> None:
    run = driven(wait_expiry=WaitExpiryMode.REJECT)
    calls_tools(run, ("write", "{}"), ("write", '{"b":1}'))
    run.feed(WaitExpired(FIRST, 5.0))
    (resolved,) = run.events(ApprovalResolved)
    assert (resolved.decision, resolved.resolved_by) == (REJECT, BY_TIMEOUT)
    assert list(run.machine.pending_approvals) == [SECOND], "the other has a time of its own"
    (expired,) = results(run)
    assert expired.status is DENIED
    assert expired.failure is not None
    assert expired.failure.reason is Reason.WAIT_EXPIRED


@pytest.mark.requirement("WAIT-18", "WAIT-20")
def test_a_policy_can_end_the_run_that_nobody_answers() -> None:
    run = driven(wait_expiry=WaitExpiryMode.ABORT)
    calls_tools(run, ("write", "{}"), ("write", '{"b":1}'))
    run.feed(WaitExpired(FIRST, 5.0))
    outcome = run.outcome
    assert outcome.kind is OutcomeKind.ABORTED
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.WAIT_EXPIRED
    assert outcome.limit_trip is not None
    assert (outcome.limit_trip.policy_path, outcome.limit_trip.limit) == ("timeout.wait", "5")
    assert statuses(run) == [DENIED, NOT_EXECUTED]
    assert_well_formed(run.settled)


@pytest.mark.requirement("WAIT-19")
def test_what_is_waited_for_is_told_once_a_step_and_in_full_when_it_changes() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)), wait_expiry=WaitExpiryMode.REJECT)
    calls_tools(run, ("write", "{}"), ("look", "{}"), ("slow", "{}"))
    assert [len(event.approvals) for event in run.events(RunWaiting)] == [3]
    run.feed(WaitExpired(SECOND, 5.0))
    run.feed(WaitExpired(SECOND, 5.0))
    assert [[a.approval_id for a in event.approvals] for event in run.events(RunWaiting)][1:] == [[FIRST, THIRD]]
    assert not run.events(RunResumed), "nothing goes on yet"
    answer(run, FIRST, REJECT)
    assert len(run.events(RunWaiting)) == 2
    assert len(run.events(RunResumed)) == 1


@pytest.mark.requirement("WAIT-60", "WAIT-19")
def test_of_many_questions_what_was_told_is_not_told_again_until_there_are_few() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)))
    calls_tools(run, *(("write", f'{{"n":{n}}}') for n in range(FEW + 3)))
    for _ in range(FEW + 3):
        answer(run, next(iter(run.machine.pending_approvals)), ONCE)
        finishes_all(run)
    told = [(len(event.approvals), event.only_new) for event in run.events(RunWaiting)]
    assert told == [(FEW + 3, False), (0, True), (0, True), *((left, False) for left in range(FEW, 0, -1))]


@pytest.mark.requirement("WAIT-60")
def test_of_many_calls_that_wait_those_that_a_yes_hands_to_the_caller_are_told() -> None:
    run = driven(Permissions((rule("*", PermissionAction.ASK),)), execution_mode=ToolExecutionMode.RETURN)
    calls_tools(run, *(("write", f'{{"n":{n}}}') for n in range(FEW + 2)))
    answer(run, FIRST, ONCE)
    waiting = run.events(RunWaiting)[-1]
    assert (waiting.approvals, waiting.only_new) == ((), True)
    assert [call.call_id for call in waiting.client_tool_calls] == [CALLS[0]]
    assert run.machine.waiting is not None
    assert len(run.machine.waiting.approvals) == FEW + 1, "what it waits for is known in full"


@pytest.mark.requirement("WAIT-60")
def test_of_many_questions_one_that_a_tool_asks_later_is_told_alone() -> None:
    run = driven()
    calls_tools(run, ("look", "{}"), *(("write", f'{{"n":{n}}}') for n in range(FEW + 1)))
    run.feed(InputAsked(CALLS[0], "Which size?", None))
    (first,) = [item for item in run.machine.pending_approvals.values() if item.kind is ApprovalKind.INPUT]
    answer(run, first.approval_id, ONCE)
    run.feed(InputAsked(CALLS[0], "Which colour?", None))
    told = [([item.title for item in event.approvals], event.only_new) for event in run.events(RunWaiting)]
    assert [(len(titles), only_new) for titles, only_new in told] == [(FEW + 2, False), (1, True)]
    assert told[-1][0] == ["Which colour?"]


@pytest.mark.requirement("WAIT-20")
def test_a_cancelled_run_settles_what_waited_and_asks_nothing_more() -> None:
    run = driven()
    calls_tools(run, ("write", "{}"), ("look", "{}"))
    run.feed(CancelRequested(CANCELLED))
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert statuses(run) == [ToolResultStatus.INTERRUPTED, NOT_EXECUTED]
    assert run.every(Abandon) == [Abandon(False, (CALLS[1],))]
    assert not run.events(ApprovalResolved)
    assert dict(run.machine.pending_approvals) == {}
    assert run.machine.waiting is None
    answer(run, FIRST, ONCE)
    assert run.names[-1] == "RunFinished"


@pytest.mark.requirement("WAIT-20")
def test_a_cancelled_run_that_only_waits_has_nothing_to_give_up() -> None:
    run = driven()
    calls_tools(run, ("write", "{}"))
    run.feed(CancelRequested(CANCELLED))
    assert run.every(Abandon) == []
    assert statuses(run) == [NOT_EXECUTED]
    assert not run.events(RunResumed)


@pytest.mark.requirement("WAIT-22")
def test_calls_that_wait_take_no_place_of_those_that_run() -> None:
    run = driven(max_parallel_calls=1)
    calls_tools(run, ("write", "{}"), ("look", "{}"), ("look", '{"b":1}'))
    assert run.machine.executing == (CALLS[1],)
    answer(run, FIRST, ONCE)
    assert run.machine.executing == (CALLS[1],), "the one place is taken"
    run.finishes(CALLS[1])
    assert run.machine.executing == (CALLS[0],), "in the model's order again"
    finishes_all(run)
    assert statuses(run) == [OK] * 3


@pytest.mark.requirement("WAIT-19")
def test_a_late_end_of_another_call_is_told_while_the_run_waits() -> None:
    run = driven()
    calls_tools(run, ("write", "{}"), ("look", "{}"))
    run.finishes(CALLS[1])
    run.feed(ToolResultLate(CALLS[1]))
    assert run.names[-1] == "Notice"
    assert run.machine.waiting is not None


@pytest.mark.requirement("WAIT-10")
def test_nothing_runs_before_all_calls_are_checked_even_if_it_was_allowed() -> None:
    run = driven()
    run.answers(*a_call(0, "write"), *a_call(1, "look"), stop(FinishReason.TOOL_CALLS))
    first, second = run.every(ResolveTool)
    run.feed(ToolResolved(first.call_id, ref("write")))
    answer(run, FIRST, ONCE)
    assert not run.events(ToolCallExecuting)
    run.feed(ToolResolved(second.call_id, ref("look")))
    assert [event.call_id for event in run.events(ToolCallExecuting)] == list(CALLS[:2])
