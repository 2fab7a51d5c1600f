"""Questions to people through the RPCs: asked, listed, answered once, always or not at all."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from execution.served import SECONDS, Seen, Served, served, turn, words
from waiting.kit import ALWAYS, DENIED, OK, ONCE, REJECT, asking, reason, rules

from turnwire.v1 import approval_pb2, event_pb2, outcome_pb2, policy_pb2, run_pb2, turn_service_pb2
from turnwired.config.load import read_config
from turnwired.domain.approval import digest_of_call
from turnwired.domain.errors import ConfigError
from turnwired.testing.provider import answer, calls
from turnwired.tools.python import tool

pytestmark = pytest.mark.anyio

MAIL = calls(("send_mail", '{"to":"x"}'))


class Mail:
    """Counts what was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_mail(self, to: str) -> str:
        """Send a mail."""
        self.sent.append(to)
        return f"sent to {to}"


def look_up(word: str) -> str:
    """Look something up."""
    return f"{word} means something"


@tool(destructive=True)
def delete_all() -> str:
    """Delete everything."""
    return "deleted"


async def asked(s: Served, **fields: object) -> tuple[approval_pb2.Approval, asyncio.Task[Seen]]:
    """A turn that runs until it waits: its question, and the task that reads it."""
    seen, task = s.follow(turn("Hello", **fields))
    await seen.until("run_waiting")
    return seen.asked[-1], task


@pytest.mark.requirement("APPROVE-10", "SCN-109")
async def test_scenario_109_a_call_that_was_approved_elsewhere_runs_and_its_result_is_told_in_order() -> None:
    mail = Mail()
    async with served([MAIL, answer("Sent.")], mail.send_mail, policy=asking("send_mail")) as s:
        seen, task = s.follow(turn("Mail x"))
        await seen.until("run_waiting")
        assert mail.sent == []
        run = await s.get(seen.run_id)
        assert run.state == run_pb2.RUN_STATE_WAITING
        assert [item.approval_id for item in run.waiting.approvals] == [seen.asked[0].approval_id]
        after = await s.resolve(seen.asked[0], ONCE)
        assert after.state == run_pb2.RUN_STATE_RUNNING
        await task
    told = [kind for kind in seen.kinds() if kind.startswith(("approval", "run_", "tool_call_exec", "tool_call_fin"))]
    assert told == [
        "run_started",
        "approval_requested",
        "run_waiting",
        "approval_resolved",
        "run_resumed",
        "tool_call_executing",
        "tool_call_finished",
        "run_finished",
    ]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert mail.sent == ["x"]
    assert [result.status for result in seen.results] == [OK]
    assert len(s.provider.requests) == 2


@pytest.mark.requirement("APPROVE-11")
async def test_a_question_says_all_that_a_person_needs_and_nothing_is_lost_between_event_list_and_run() -> None:
    async with served([MAIL, answer("Sent.")], Mail().send_mail, policy=asking("send_mail", wait=60)) as s:
        question, task = await asked(s, session_id="s")
        listed = await s.approvals()
        run = await s.get(question.run_id)
        by_session = await s.approvals(session_id="s")
        elsewhere = await s.approvals(session_id="t")
        runs = await s.turns.ListRuns(
            turn_service_pb2.ListRunsRequest(states=[run_pb2.RUN_STATE_WAITING]), timeout=SECONDS
        )
        await s.resolve(question, REJECT)
        await task
        left = await s.approvals()
        resolved = await s.approvals(run_id=question.run_id, states=[approval_pb2.APPROVAL_STATE_RESOLVED])
    assert listed == [question] == list(run.waiting.approvals) == by_session
    assert elsewhere == left == []
    assert question.call.arguments_json == '{"to":"x"}'
    assert question.call_digest == digest_of_call("send_mail", '{"to":"x"}')
    assert (question.permission, list(question.patterns), list(question.always_patterns)) == (
        "tool",
        ["send_mail"],
        ["send_mail"],
    )
    assert question.expire_time.ToNanoseconds() - question.create_time.ToNanoseconds() == 60 * 10**9
    assert run.waiting.expire_time == question.expire_time
    assert [item.run_id for item in runs.runs] == [question.run_id]
    assert [item.call.arguments_json for item in runs.runs[0].waiting.approvals] == [""]
    assert [(item.decision, item.resolved_by) for item in resolved] == [(REJECT, "anonymous")]
    assert resolved[0].resolve_time.ToNanoseconds() >= question.create_time.ToNanoseconds()


@pytest.mark.requirement("APPROVE-12")
async def test_a_rejection_reaches_the_model_with_the_words_of_the_person_and_the_run_goes_on() -> None:
    mail = Mail()
    async with served([MAIL, answer("Not sent.")], mail.send_mail, policy=asking()) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        await s.resolve(seen.asked[0], REJECT, comment="Ask Ann first.")
        await task
        told = b"".join(s.provider.requests[-1].messages).decode()
    (result,) = seen.results
    assert result.status == DENIED
    assert result.failure.reason == outcome_pb2.REASON_TOOL_REJECTED
    assert "Ask Ann first." in words(result)
    assert "Ask Ann first." in told
    assert seen.resolutions[0].comment == "Ask Ann first."
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert mail.sent == []


@pytest.mark.requirement("APPROVE-13", "SCN-103")
async def test_scenario_103_of_answers_at_once_one_counts_and_the_others_learn_which() -> None:
    mail = Mail()
    async with served([MAIL, answer("Sent.")], mail.send_mail, policy=asking()) as s:
        question, task = await asked(s)
        given = await asyncio.gather(
            s.resolve(question, ONCE), s.resolve(question, ONCE), s.resolve(question, REJECT), return_exceptions=True
        )
        await task
        again = await s.resolve(question, ONCE)
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await s.resolve(question, ALWAYS)
    assert [type(item) for item in given[:2]] == [run_pb2.Run, run_pb2.Run]
    loser = given[2]
    assert isinstance(loser, grpc.aio.AioRpcError)
    assert reason(loser) == (grpc.StatusCode.FAILED_PRECONDITION, "APPROVAL_ALREADY_RESOLVED")
    assert reason(late.value) == (grpc.StatusCode.FAILED_PRECONDITION, "APPROVAL_ALREADY_RESOLVED")
    assert "ONCE by anonymous" in (loser.details() or "")
    assert again.state == run_pb2.RUN_STATE_SETTLED
    assert mail.sent == ["x"]


@pytest.mark.requirement("APPROVE-14")
async def test_an_answer_for_another_call_or_nobodys_question_is_refused() -> None:
    async with served([MAIL, answer("Sent.")], Mail().send_mail, policy=asking()) as s:
        question, task = await asked(s)
        with pytest.raises(grpc.aio.AioRpcError) as other_call:
            await s.resolve(question, ONCE, call_digest=digest_of_call("send_mail", '{"to":"y"}'))
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await s.resolve(approval_pb2.Approval(run_id=question.run_id, approval_id="appr_no"), ONCE)
        with pytest.raises(grpc.aio.AioRpcError) as no_run:
            await s.resolve(approval_pb2.Approval(run_id="run_no", approval_id=question.approval_id), ONCE)
        with pytest.raises(grpc.aio.AioRpcError) as pattern:
            await s.resolve(question, ALWAYS, always_patterns=["*"])
        with pytest.raises(grpc.aio.AioRpcError) as comment:
            await s.resolve(question, ONCE, comment="go on")
        with pytest.raises(grpc.aio.AioRpcError) as undecided:
            await s.resolve(question, approval_pb2.APPROVAL_DECISION_UNSPECIFIED)
        await s.resolve(question, ONCE, call_digest=question.call_digest)
        await task
    assert reason(other_call.value) == (grpc.StatusCode.FAILED_PRECONDITION, "APPROVAL_DIGEST_MISMATCH")
    assert reason(unknown.value) == (grpc.StatusCode.NOT_FOUND, "APPROVAL_NOT_FOUND")
    assert reason(no_run.value) == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
    for refused in (pattern, comment, undecided):
        assert reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


@pytest.mark.requirement("APPROVE-15")
async def test_always_is_a_rule_of_the_session_exactly_as_shown_for_it_alone() -> None:
    mail = Mail()
    script = [MAIL, answer("Sent."), MAIL, answer("Sent again."), MAIL, answer("And again.")]
    async with served(script, mail.send_mail, policy=asking("send_mail")) as s:
        seen, task = s.follow(turn(session_id="s"))
        await seen.until("run_waiting")
        await s.resolve(seen.asked[0], ALWAYS)
        await task
        second = await s.run(session_id="s")
        request = turn_service_pb2.ResolvePolicyRequest(session_id="s")
        effective = (await s.turns.ResolvePolicy(request, timeout=SECONDS)).effective_policy
        tools = await s.turns.ListTools(turn_service_pb2.ListToolsRequest(session_id="s"), timeout=SECONDS)
        without = await s.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS)
        other, waiting = s.follow(turn(session_id="t"))
        await other.until("run_waiting")
        await s.resolve(other.asked[0], REJECT)
        await waiting
    added = policy_pb2.PermissionRule(permission="tool", pattern="send_mail", action=policy_pb2.PERMISSION_ACTION_ALLOW)
    assert list(seen.resolutions[0].added_rules) == [added]
    assert mail.sent == ["x", "x"]
    assert second.asked == []
    assert effective.policy.approval.rules[-1] == added
    (source,) = [item for item in effective.provenance if item.path == "approval.rules"]
    assert (source.layer, source.layer_ref) == (policy_pb2.POLICY_LAYER_SESSION, "s")
    assert [tool.permission for tool in tools.tools] == [policy_pb2.PERMISSION_ACTION_ALLOW]
    assert [tool.permission for tool in without.tools] == [policy_pb2.PERMISSION_ACTION_ASK]
    started = next(event.run_started for event in second.events if event.HasField("run_started"))
    assert added in started.effective_policy.policy.approval.rules


@pytest.mark.requirement("APPROVE-15")
async def test_rules_of_the_run_itself_come_after_those_of_the_session() -> None:
    async with served([MAIL, answer("Sent."), MAIL, answer("No.")], Mail().send_mail, policy=asking()) as s:
        question, task = await asked(s, session_id="s")
        await s.resolve(question, ALWAYS)
        await task
        seen = await s.run(session_id="s", policy=rules(("tool", "send_*", "DENY")))
    assert [result.status for result in seen.results] == [DENIED]


@pytest.mark.requirement("APPROVE-16")
async def test_free_calls_run_while_others_wait_and_answers_cascade() -> None:
    mail = Mail()
    many = calls(("send_mail", '{"to":"a"}'), ("look_up", '{"word":"w"}'), ("send_mail", '{"to":"b"}'))
    async with served([many, answer("Both.")], mail.send_mail, look_up, policy=asking("send_mail")) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        assert [words(result) for result in seen.results] == ["w means something"]
        assert len(seen.asked) == 2
        await s.resolve(seen.asked[0], ALWAYS)
        await task
    assert [(item.decision, item.resolved_by) for item in seen.resolutions] == [
        (ALWAYS, "anonymous"),
        (seen.resolutions[1].decision, "cascade"),
    ]
    assert sorted(mail.sent) == ["a", "b"]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("APPROVE-17")
async def test_a_question_that_nobody_answers_in_time_counts_as_rejected() -> None:
    mail = Mail()
    async with served([MAIL, answer("Not sent.")], mail.send_mail, policy=asking(wait=0.05)) as s:
        seen = await s.run()
        expired = await s.approvals(states=[approval_pb2.APPROVAL_STATE_EXPIRED])
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await s.resolve(seen.asked[0], ONCE)
        same = await s.resolve(seen.asked[0], REJECT)
    assert [(item.decision, item.resolved_by) for item in seen.resolutions] == [(REJECT, "timeout")]
    assert [result.status for result in seen.results] == [DENIED]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert [item.approval_id for item in expired] == [seen.asked[0].approval_id]
    assert reason(late.value) == (grpc.StatusCode.FAILED_PRECONDITION, "APPROVAL_ALREADY_RESOLVED")
    assert same.state == run_pb2.RUN_STATE_SETTLED
    assert mail.sent == []


@pytest.mark.requirement("APPROVE-18")
async def test_the_end_of_a_run_withdraws_its_questions_and_later_answers_learn_it() -> None:
    async with served([MAIL], Mail().send_mail, policy=asking()) as s:
        question, task = await asked(s, session_id="s")
        await s.cancel(question.run_id)
        await task
        withdrawn = await s.approvals(states=[approval_pb2.APPROVAL_STATE_WITHDRAWN])
        pending = await s.approvals()
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await s.resolve(question, ONCE)
    assert [item.approval_id for item in withdrawn] == [question.approval_id]
    assert pending == []
    assert reason(late.value) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_SETTLED")


@pytest.mark.requirement("APPROVE-19")
async def test_a_stream_may_end_where_the_run_waits_and_the_run_stays() -> None:
    async with served([MAIL, answer("Sent.")], Mail().send_mail, policy=asking()) as s:
        request = turn()
        request.on_wait = turn_service_pb2.ON_WAIT_CLOSE
        seen, task = s.follow(request)
        await task
        assert seen.kinds()[-1] == "run_waiting"
        again = await s.watch(seen.run_id, on_wait=turn_service_pb2.ON_WAIT_CLOSE)
        at_once = await s.watch(
            seen.run_id,
            on_wait=turn_service_pb2.ON_WAIT_CLOSE,
            after=event_pb2.Cursor(epoch=1, sequence=seen.events[-1].sequence),
        )
        outcome = await s.watch(
            seen.run_id,
            on_wait=turn_service_pb2.ON_WAIT_CLOSE,
            stream_detail=turn_service_pb2.STREAM_DETAIL_OUTCOME,
        )
        await s.resolve(seen.asked[0], ONCE)
        whole = await s.watch(seen.run_id, on_wait=turn_service_pb2.ON_WAIT_CLOSE)
    assert again.events == seen.events
    assert at_once.events == []
    assert outcome.kinds() == ["run_started", "run_waiting"]
    assert whole.events[: len(seen.events)] == seen.events
    assert whole.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("APPROVE-20")
async def test_time_spent_waiting_is_not_counted_against_the_run() -> None:
    policy = policy_pb2.Policy()
    policy.timeout.run.value.FromMilliseconds(400)
    async with served([MAIL, answer("Not sent.")], Mail().send_mail, policy=asking(wait=0.8)) as s:
        seen = await s.run(policy=policy)
    assert [item.resolved_by for item in seen.resolutions] == ["timeout"]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("APPROVE-21")
async def test_without_any_rule_a_destructive_tool_is_asked_about_and_auto_approve_runs_it() -> None:
    auto = policy_pb2.Policy()
    auto.approval.auto_approve = True
    never = policy_pb2.Policy()
    never.approval.allow_destructive = False
    delete = calls(("delete_all", "{}"))
    script = [delete, answer("No."), delete, answer("Yes."), delete, answer("Never.")]
    async with served(script, delete_all) as s:
        question, task = await asked(s)
        await s.resolve(question, REJECT)
        await task
        listed = await s.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS)
        approved = await s.run(policy=auto)
        denied = await s.run(policy=never)
    assert question.kind == approval_pb2.APPROVAL_KIND_DESTRUCTIVE
    assert [tool.permission for tool in listed.tools] == [policy_pb2.PERMISSION_ACTION_ASK]
    assert (approved.asked, [result.status for result in approved.results]) == ([], [OK])
    assert (denied.asked, [result.status for result in denied.results]) == ([], [DENIED])


@pytest.mark.requirement("APPROVE-61")
@pytest.mark.parametrize("permission", ["run_shell", "tools", "Tool", "tool*x", r"\*"])
async def test_a_rule_for_a_permission_that_nothing_asks_for_is_refused(permission: str) -> None:
    request = turn()
    request.turn.policy.CopyFrom(rules((permission, "*", "DENY")))
    async with served([answer("never")]) as s:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in s.turns.RunTurn(request, timeout=SECONDS):
                pass
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.value.details() or "").startswith("turn.policy.approval.rules[0].permission: matches no permission")
    data = {"policy": {"approval": {"rules": [{"permission": permission, "pattern": "*", "action": "deny"}]}}}
    with pytest.raises(ConfigError, match="matches no permission that is asked for"):
        read_config({**data, "providers": {"openai": {"models": ["m"]}}, "agents": {"default": {}}}, {})


@pytest.mark.requirement("APPROVE-61")
@pytest.mark.parametrize("permission", ["tool", "doom_loop", "*", "t*l"])
async def test_a_rule_for_a_permission_that_is_asked_for_is_taken(permission: str) -> None:
    request = turn()
    request.turn.policy.CopyFrom(rules((permission, "*", "DENY")))
    async with served([answer("done")]) as s:
        _, task = s.follow(request)
        await task


@pytest.mark.requirement("APPROVE-62", "SCN-113")
@pytest.mark.parametrize(("decision", "calls_made"), [(ONCE, 4), (REJECT, 3)])
async def test_a_call_that_goes_round_in_circles_asks_a_person(
    decision: approval_pb2.ApprovalDecision.ValueType, calls_made: int
) -> None:
    mail = Mail()
    request = turn()
    request.turn.policy.CopyFrom(rules(("tool", "*", "ALLOW"), ("*", "*", "ALLOW")))
    request.turn.policy.approval.auto_approve = True
    async with served([MAIL, MAIL, MAIL, MAIL, answer("Enough.")], mail.send_mail) as s:
        seen, task = s.follow(request)
        await seen.until("run_waiting")
        (question,) = seen.asked
        assert question.kind == approval_pb2.APPROVAL_KIND_LOOP_DETECTED
        assert (question.permission, list(question.patterns)) == ("doom_loop", ["send_mail"])
        await s.resolve(question, decision)
        await task
    assert len(mail.sent) == calls_made
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
