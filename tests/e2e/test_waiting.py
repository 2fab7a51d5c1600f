"""Runs that wait for people, in a process that is killed or stopped under them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from e2e.history import assert_well_formed
from e2e.provider import answer, calls, provider
from e2e.service import Followed, Service, config_text, prompt, service

from turnwire.v1 import approval_pb2, message_pb2, outcome_pb2, run_pb2, turn_service_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

ASK = """
[[policy.approval.rules]]
permission = "tool"
pattern = "record"
action = "ask"
"""
SECONDS = 30.0
RECORD = calls(("record", {"word": "a"}), ("add", {"a": 1, "b": 2}))


def executed(directory: Path) -> Counter[str]:
    """How often each call was executed."""
    file = directory / "ledger"
    return Counter(file.read_text().split()) if file.exists() else Counter()


async def pending(s: Service) -> list[approval_pb2.Approval]:
    """The questions that nobody has answered."""
    request = turn_service_pb2.ListApprovalsRequest()
    # The address is that of the process before, to which the channel has learned that nobody is there.
    return list((await s.turns.ListApprovals(request, timeout=SECONDS, wait_for_ready=True)).approvals)


async def approve(s: Service, question: approval_pb2.Approval) -> run_pb2.Run:
    """Answer a question with yes."""
    request = turn_service_pb2.ResolveApprovalRequest(
        run_id=question.run_id,
        approval_id=question.approval_id,
        decision=approval_pb2.APPROVAL_DECISION_ONCE,
        call_digest=question.call_digest,
    )
    return (await s.turns.ResolveApproval(request, timeout=SECONDS)).run


@pytest.mark.requirement("APPROVE-60")
@pytest.mark.parametrize("ends", ["kill -9", "SIGTERM"])
async def test_a_question_outlives_its_process_and_the_reader_sees_one_story(tmp_path: Path, ends: str) -> None:
    async with provider() as p:
        p.script(RECORD, answer("Recorded."))
        view = Followed()
        async with service(tmp_path, config_text(p.url, more=ASK), GATES=p.url) as s:
            listen = s.address
            following = s.follow(prompt("Record a", session_id="s"), view)
            await view.until("run_waiting")
            assert executed(tmp_path) == Counter()
            ended = await (s.kill() if ends == "kill -9" else s.stop())
            assert "Traceback" not in ended.stderr, ended.stderr
        async with service(tmp_path, config_text(p.url, more=ASK), listen=listen, GATES=p.url) as s:
            (question,) = await pending(s)
            waiting = (await s.get(question.run_id)).run
            await approve(s, question)
            await following
            cold = await s.watch(question.run_id)
            again = await approve(s, question)
            left = await pending(s)
            ended = await s.stop()
        sent = p.requests[-1]["messages"]
    assert question.run_id == view.view.run_id
    assert waiting.state == run_pb2.RUN_STATE_WAITING
    assert waiting.epoch == 2
    assert view.view.events == cold.view.events
    assert view.view.text == "Recorded."
    assert [kind for kind in view.kinds() if kind in ("approval_requested", "approval_resolved")] == [
        "approval_requested",
        "approval_resolved",
    ]
    assert list(executed(tmp_path).values()) == [1]
    assert again.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert left == []
    assert len(p.requests) == 2
    assert_well_formed(sent)
    assert "Traceback" not in ended.stderr, ended.stderr


@pytest.mark.requirement("APPROVE-60")
async def test_a_call_that_the_caller_executes_outlives_the_process(tmp_path: Path) -> None:
    async with provider() as p:
        p.script(calls(("choose", {})), answer("The second."))
        request = prompt("Which?")
        request.turn.tools.client_tools.add(name="choose", description="Asks.", input_schema_json='{"type":"object"}')
        request.on_disconnect = turn_service_pb2.ON_DISCONNECT_CONTINUE
        view = Followed()
        async with service(tmp_path, config_text(p.url), GATES=p.url) as s:
            listen = s.address
            following = s.follow(request, view)
            await view.until("run_waiting")
            await s.kill()
        async with service(tmp_path, config_text(p.url), listen=listen, GATES=p.url) as s:
            assert view.view.waiting is not None
            (call,) = view.view.waiting.client_tool_calls
            result = message_pb2.ToolResult(call_id=call.call_id, status=message_pb2.TOOL_RESULT_STATUS_OK)
            result.content.add(text="the second")
            submitted = turn_service_pb2.SubmitToolResultsRequest(run_id=view.view.run_id or "", results=[result])
            response = await s.turns.SubmitToolResults(submitted, timeout=SECONDS, wait_for_ready=True)
            await following
            await s.stop()
    assert [item.status for item in response.receipts] == [turn_service_pb2.TOOL_RESULT_RECEIPT_STATUS_ACCEPTED]
    assert view.view.text == "The second."
    assert view.kinds().count("tool_call_finished") == 1
    assert view.view.waiting is None
