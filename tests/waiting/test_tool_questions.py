"""Tools that ask people while they run: what they get, what is kept of it, and how their questions end."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import grpc
import pytest
from engine.chaos import Chaos, DyingStore
from engine.harness import CALLER, Reader, world
from execution.served import SECONDS, Seen, Served, served, turn, words
from scenarios.kit import PARALLEL, SERIAL
from waiting.kit import ALWAYS, ERROR, OK, ONCE, REJECT, asking, reason, rules

from turnwire.v1 import approval_pb2, outcome_pb2, run_pb2, turn_service_pb2
from turnwired.domain.approval import ApprovalState
from turnwired.domain.errors import Unavailable
from turnwired.domain.event import RunWaiting, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import Policy, TimeoutPolicy
from turnwired.store.port import ApprovalFilter
from turnwired.testing.provider import answer, calls
from turnwired.tools.context import ToolContext
from turnwired.tools.port import InputRequest, ToolInvocation

pytestmark = pytest.mark.anyio

SIZE = {
    "type": "object",
    "properties": {"size": {"enum": ["S", "M"]}, "name": {"type": "string"}},
    "required": ["size"],
}
ORDER = calls(("order", "{}"))
INPUT = approval_pb2.APPROVAL_KIND_INPUT
EVERY = [value for value in approval_pb2.ApprovalState.values() if value]
MARKER = "marker-of-what-a-person-fills-in"


async def order(context: ToolContext) -> dict[str, object]:
    """Order a shirt."""
    told = await context.ask("Which size?", SIZE)
    return {"action": told.action, "size": told.values.get("size", "")}


async def confirm(context: ToolContext) -> str:
    """Ask for consent."""
    told = await context.ask("Really?")
    return f"{told.action} {dict(told.values)}"


async def begun(s: Served, request: turn_service_pb2.RunTurnRequest) -> tuple[Seen, asyncio.Task[Seen]]:
    """A turn that waits."""
    seen, task = s.follow(request)
    await seen.until("run_waiting")
    return seen, task


@pytest.mark.requirement("APPROVE-66", "APPROVE-67")
async def test_a_tool_gets_what_a_person_fills_in_and_nothing_else_does() -> None:
    async with served([ORDER, answer("Ordered.")], order) as s:
        seen, task = await begun(s, turn())
        (question,) = seen.asked
        assert (question.kind, question.title, question.permission) == (INPUT, "Which size?", "input")
        assert json.loads(question.input_schema_json) == SIZE
        assert (await s.get(seen.run_id)).state == run_pb2.RUN_STATE_WAITING
        assert [item.approval_id for item in await s.approvals()] == [question.approval_id]
        filled = json.dumps({"size": "M", "name": MARKER})
        await s.resolve(question, ONCE, input_json=filled, call_digest=question.call_digest)
        await task
        (told,) = await s.approvals(states=EVERY)
        kept = await s.store.read_rows(seen.run_id, 0, 1 << 20)
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert json.loads(seen.results[0].content[0].data_json) == {"action": "accept", "size": "M"}
    assert [kind for kind in seen.kinds() if kind.startswith(("approval", "run_w", "run_res", "tool_call_exec"))] == [
        "tool_call_executing",
        "approval_requested",
        "run_waiting",
        "approval_resolved",
        "run_resumed",
    ]
    assert told.state == approval_pb2.APPROVAL_STATE_RESOLVED
    assert MARKER not in repr((seen.events, told, kept))


@pytest.mark.requirement("APPROVE-66")
@pytest.mark.parametrize(
    ("decision", "wait", "result"),
    [(ONCE, SECONDS, "accept {}"), (REJECT, SECONDS, "decline {}"), (None, 0.05, "cancel {}")],
    ids=["yes", "no", "nobody"],
)
async def test_consent_refusal_and_silence_are_told_to_the_tool_and_the_run_goes_on(
    decision: approval_pb2.ApprovalDecision.ValueType | None, wait: float, result: str
) -> None:
    policy = Policy(timeout=TimeoutPolicy(wait=wait))
    async with served([calls(("confirm", "{}")), answer("Done.")], confirm, policy=policy) as s:
        seen, task = await begun(s, turn())
        assert not seen.asked[0].HasField("input_schema_json")
        if decision is not None:
            await s.resolve(seen.asked[0], decision)
        await task
    assert words(seen.results[0]) == result
    assert [item.status for item in seen.results] == [OK]
    assert seen.resolutions[0].resolved_by == ("timeout" if decision is None else "anonymous")
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("APPROVE-67")
async def test_what_does_not_match_is_refused_and_the_question_stays() -> None:
    async with served([ORDER, answer("Ordered.")], order) as s:
        seen, task = await begun(s, turn())
        for decision, filled, path in (
            (ONCE, None, "input_json"),
            (ONCE, "{", "input_json"),
            (ONCE, '{"size":NaN}', "input_json"),
            (ONCE, "[]", "input_json"),
            (ONCE, "{}", "input_json"),
            (ONCE, '{"size":"XXL"}', "input_json"),
            (REJECT, '{"size":"M"}', "input_json"),
            (ALWAYS, '{"size":"M"}', "decision"),
        ):
            fields: dict[str, Any] = {} if filled is None else {"input_json": filled}
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await s.resolve(seen.asked[0], decision, **fields)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert (refused.value.details() or "").startswith(path), filled
            assert "XXL" not in (refused.value.details() or ""), "values are not quoted"
        await s.resolve(seen.asked[0], ONCE, input_json='{"size":"S"}')
        await task
    assert json.loads(seen.results[0].content[0].data_json)["size"] == "S"


@pytest.mark.requirement("APPROVE-67")
async def test_a_question_of_a_rule_takes_no_input() -> None:
    async with served([ORDER, answer("Ordered.")], order, policy=asking("order")) as s:
        seen, task = await begun(s, turn())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await s.resolve(seen.asked[0], ONCE, input_json="{}")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await s.resolve(seen.asked[0], ONCE)
        await seen.until("run_waiting", 2)
        assert [question.kind for question in seen.asked] == [approval_pb2.APPROVAL_KIND_RULE, INPUT]
        await s.resolve(seen.asked[1], ONCE, input_json='{"size":"S"}')
        await task
    assert [item.status for item in seen.results] == [OK]


@pytest.mark.requirement("APPROVE-66")
async def test_no_rule_and_no_auto_approve_answers_for_a_person() -> None:
    request = turn()
    request.turn.policy.CopyFrom(rules(("*", "*", "ALLOW")))
    request.turn.policy.approval.auto_approve = True
    async with served([calls(("confirm", "{}")), answer("Done.")], confirm) as s:
        seen, task = await begun(s, request)
        await s.resolve(seen.asked[0], REJECT)
        await task
    assert words(seen.results[0]) == "decline {}"


@pytest.mark.requirement("APPROVE-68")
async def test_the_time_of_a_call_stands_still_while_its_tool_waits_for_a_person() -> None:
    async def hang(context: ToolContext) -> str:
        """Ask, then hang."""
        await context.ask("Really?")
        await asyncio.sleep(SECONDS)
        return "late"

    async def slow() -> str:
        """Hang."""
        await asyncio.sleep(SECONDS)
        return "late"

    script = [
        calls(("confirm", "{}")),
        calls(("slow", "{}")),
        answer("Timed out."),
        calls(("hang", "{}")),
        answer("A."),
    ]
    policy = Policy(timeout=TimeoutPolicy(tool_call=0.2))
    async with served([*script, answer("B.")], confirm, slow, hang, policy=policy) as s:
        seen, task = await begun(s, turn())
        meanwhile = await s.run("Something else")
        assert meanwhile.results[0].failure.reason == outcome_pb2.REASON_TOOL_TIMEOUT, "the time of a call has passed"
        again, other = await begun(s, turn())
        await s.resolve(again.asked[0], ONCE)
        await again.until("tool_call_finished")
        await s.resolve(seen.asked[0], ONCE)
        await task
        await other
    assert again.results[0].failure.reason == outcome_pb2.REASON_TOOL_TIMEOUT, "and goes on afterwards"
    assert words(seen.results[0]) == "accept {}"


@pytest.mark.requirement("APPROVE-68")
@pytest.mark.parametrize("serial", [False, True])
async def test_a_run_waits_for_an_answer_when_nothing_else_of_it_goes_on(serial: bool) -> None:
    gate = asyncio.Event()

    async def work() -> str:
        """Work."""
        await gate.wait()
        return "worked"

    both = calls(("confirm", "{}"), ("work", "{}"))
    policy = SERIAL if serial else PARALLEL
    async with served([both, answer("Done.")], confirm, work, policy=policy) as s:
        seen, task = s.follow(turn())
        await seen.until("approval_requested")
        if serial:
            await seen.until("run_waiting")
            assert seen.kinds().count("tool_call_executing") == 1
            await s.resolve(seen.asked[0], ONCE)
            await seen.until("tool_call_executing", 2)
            gate.set()
        else:
            await seen.until("tool_call_executing", 2)
            assert "run_waiting" not in seen.kinds(), "a call goes on"
            gate.set()
            await seen.until("run_waiting")
            await s.resolve(seen.asked[0], ONCE)
        await task
    assert sorted(map(words, seen.results)) == ["accept {}", "worked"]


@pytest.mark.requirement("APPROVE-66")
async def test_a_rejection_of_another_call_is_none_of_what_a_tool_asks() -> None:
    def plain() -> str:
        """Nothing."""
        return "ok"

    both = calls(("confirm", "{}"), ("plain", "{}"))
    async with served([both, answer("Done.")], confirm, plain, policy=asking("plain")) as s:
        seen, task = await begun(s, turn())
        kinds = {question.call.tool.routed_name: question for question in seen.asked}
        await s.resolve(kinds["plain"], REJECT)
        await s.resolve(kinds["confirm"], ONCE)
        await task
    assert "accept {}" in [words(result) for result in seen.results]
    assert [resolution.resolved_by for resolution in seen.resolutions] == ["anonymous", "anonymous"]


@pytest.mark.requirement("APPROVE-66")
async def test_a_tool_asks_one_thing_after_the_other_and_several_calls_side_by_side() -> None:
    async def twice(context: ToolContext) -> str:
        """Ask twice at once."""
        first, second = await asyncio.gather(context.ask("First?"), context.ask("Second?"))
        return f"{first.action} {second.action}"

    script = [calls(("twice", "{}"), ("confirm", "{}")), answer("Done.")]
    async with served(script, twice, confirm) as s:
        seen, task = s.follow(turn())
        await seen.until("approval_requested", 2)
        answers = {"First?": ONCE, "Second?": REJECT, "Really?": ONCE}
        assert sorted(question.title for question in seen.asked) == ["First?", "Really?"]
        for number in range(3):
            await seen.until("approval_requested", number + 1)
            question = seen.asked[number]
            await s.resolve(question, answers[question.title])
        await task
    assert sorted(map(words, seen.results)) == ["accept decline", "accept {}"]


@pytest.mark.requirement("APPROVE-69")
async def test_a_question_ends_with_the_call_that_does_not_wait_for_it() -> None:
    async def leave(context: ToolContext) -> str:
        """Ask and go."""
        asked = asyncio.ensure_future(context.ask("Anybody?"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        return "gone"

    async with served([calls(("leave", "{}")), answer("Done.")], leave) as s:
        seen = await s.run()
        (told,) = await s.approvals(states=EVERY)
    assert [item.status for item in seen.results] == [OK]
    assert [(item.decision, item.resolved_by) for item in seen.resolutions] == [(REJECT, "tool")]
    assert told.state == approval_pb2.APPROVAL_STATE_RESOLVED


@pytest.mark.requirement("APPROVE-66", "APPROVE-69")
async def test_an_answer_to_a_question_that_was_given_up_is_none_to_the_next() -> None:
    async def again(context: ToolContext) -> str:
        """Ask, think better of it, and ask something else."""
        given_up = asyncio.ensure_future(context.ask("Red?"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        return (await context.ask("Delete everything?")).action

    async with served([calls(("again", "{}")), answer("Done.")], again) as s:
        seen, task = await begun(s, turn())
        await seen.until("approval_requested", 2)
        first, second = seen.asked
        assert (first.title, second.title) == ("Red?", "Delete everything?")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await s.resolve(first, ONCE)
        assert reason(refused.value) == (grpc.StatusCode.FAILED_PRECONDITION, "APPROVAL_ALREADY_RESOLVED")
        assert (await s.get(seen.run_id)).state == run_pb2.RUN_STATE_WAITING
        await s.resolve(second, REJECT)
        await task
    assert words(seen.results[0]) == "decline"
    assert [(item.approval_id, item.resolved_by) for item in seen.resolutions] == [
        (first.approval_id, "tool"),
        (second.approval_id, "anonymous"),
    ]


@pytest.mark.requirement("APPROVE-69")
async def test_a_cancel_reaches_a_tool_that_waits_for_a_person() -> None:
    ended: list[str] = []

    async def watched(context: ToolContext) -> str:
        """Ask."""
        try:
            return (await context.ask("Anybody?")).action
        finally:
            ended.append("ended")

    async with served([calls(("watched", "{}"))], watched) as s:
        seen, task = await begun(s, turn())
        await s.cancel(seen.run_id)
        await task
        (told,) = await s.approvals(states=EVERY)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await s.resolve(seen.asked[0], ONCE)
    assert ended == ["ended"]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ABORTED
    assert told.state == approval_pb2.APPROVAL_STATE_WITHDRAWN
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.requirement("APPROVE-68")
async def test_a_tool_whose_schema_cannot_be_used_is_told_so() -> None:
    async def wrong(context: ToolContext) -> str:
        """Ask wrongly."""
        return (await context.ask("What?", {"type": "nothing that there is"})).action

    async with served([calls(("wrong", "{}")), answer("Done.")], wrong) as s:
        seen = await s.run()
    assert [item.status for item in seen.results] == [ERROR]
    assert "asks for input by a schema that cannot be used" in seen.results[0].failure.message
    assert seen.asked == []


async def ask(invocation: ToolInvocation) -> str:
    """Ask a person."""
    assert invocation.ask is not None
    return (await invocation.ask(InputRequest("Really?"))).action


@pytest.mark.requirement("APPROVE-69")
@pytest.mark.parametrize("dies", [False, True])
async def test_a_tool_that_waits_for_a_person_does_not_outlive_its_process_and_the_run_says_so(dies: bool) -> None:
    store = DyingStore(chaos=Chaos(random.Random(0)))
    store.live_for(None)
    async with world([calls(("ask", "{}")), answer("Done.")], {"ask": ask}, store=store) as w:
        run_id, reader, task = await w.start(session_id="s")
        await reader.until(RunWaiting)
        store.dead = dies
    if dies:
        with pytest.raises(Unavailable):
            await task
    else:
        await task
    store.live_for(None)
    async with world([], {"ask": ask}, store=store) as w:
        try:
            await w.follow(run_id, whole := Reader())
        except Unavailable:  # it was taken for one that waits
            await w.follow(run_id, whole := Reader())
        run = await w.engine.get_run(CALLER, run_id)
        listed, _ = await w.engine.steering.list_approvals(ApprovalFilter(CALLER.tenant), 10, "")
        assert w.provider.requests == []
    assert [approval.state for approval in listed] == [ApprovalState.WITHDRAWN]
    (finished,) = whole.of(ToolCallFinished)
    expected = ToolResultStatus.OUTCOME_UNKNOWN if dies else ToolResultStatus.INTERRUPTED
    assert isinstance(finished, ToolCallFinished)
    assert finished.result.status is expected
    assert len(whole.of(ToolCallExecuting)) == 1, "it is not run again"
    assert run.outcome is not None
    assert run.outcome.kind is (OutcomeKind.ERRORED if dies else OutcomeKind.ABORTED)
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is (Reason.SERVER_RESTARTED if dies else Reason.SHUTTING_DOWN)
