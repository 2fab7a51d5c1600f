"""The user's words added to a run in progress."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from execution.served import SECONDS, Served, served, turn
from waiting.kit import ONCE, asking, reason

from turnwire.v1 import message_pb2, outcome_pb2, run_pb2, turn_service_pb2
from turnwired.codec.message import decode_message
from turnwired.testing.provider import answer, calls

pytestmark = pytest.mark.anyio

MAIL = calls(("send_mail", '{"to":"x"}'))


def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def addition(run_id: str, *texts: str, request_id: str = "") -> turn_service_pb2.AppendInputRequest:
    """A request to add these words."""
    request = turn_service_pb2.AppendInputRequest(run_id=run_id, request_id=request_id)
    for text in texts:
        request.input.add(role=message_pb2.ROLE_USER).parts.add().text = text
    return request


async def append(s: Served, *args: str, request_id: str = "") -> turn_service_pb2.AppendInputResponse:
    """Add words to a run."""
    return await s.turns.AppendInput(addition(args[0], *args[1:], request_id=request_id), timeout=SECONDS)


@pytest.mark.requirement("APPROVE-40")
async def test_words_added_while_a_call_waits_come_after_its_result_in_the_next_iteration() -> None:
    async with served([MAIL, answer("Sent, and hello Ann.")], send_mail, policy=asking()) as s:
        seen, task = s.follow(turn("Mail x", session_id="s"))
        await seen.until("run_waiting")
        added = await append(s, seen.run_id, "And greet Ann.")
        await s.resolve(seen.asked[0], ONCE)
        await task
        sent = [json.loads(piece) for piece in s.provider.requests[-1].messages]
        kept = [decode_message(item.body) for item in await s.store.load_messages("default", "s")]
    assert added.run.state == run_pb2.RUN_STATE_WAITING
    assert [message["role"] for message in sent] == ["USER", "ASSISTANT", "TOOL", "USER"]
    assert [message.role.value for message in kept] == ["USER", "ASSISTANT", "TOOL", "USER", "ASSISTANT"]
    assert kept[3].message_id == added.message_ids[0]
    (event,) = [item.input_appended for item in seen.events if item.HasField("input_appended")]
    assert [message.message_id for message in event.input] == list(added.message_ids)
    assert event.input[0].create_time.ToNanoseconds() > 0


@pytest.mark.requirement("APPROVE-41")
async def test_words_added_while_the_model_answers_make_it_answer_again_in_the_same_turn() -> None:
    gate = asyncio.Event()
    async with served([[*answer("First.")[:-1], gate.wait, *answer("")], answer("Second.")]) as s:
        seen, task = s.follow(turn())
        await seen.until("text_delta")
        await append(s, seen.run_id, "Wait, in French.")
        gate.set()
        await task
    assert seen.finished.iteration_count == 2
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert seen.finished.message.parts[-1].text == "Second."


@pytest.mark.requirement("APPROVE-42")
async def test_the_same_addition_again_adds_nothing_also_after_the_run_and_another_one_is_refused() -> None:
    async with served([MAIL, answer("Sent.")], send_mail, policy=asking()) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        both = await asyncio.gather(*(append(s, seen.run_id, "More.", request_id="once") for _ in range(3)))
        with pytest.raises(grpc.aio.AioRpcError) as other:
            await append(s, seen.run_id, "Else.", request_id="once")
        with pytest.raises(grpc.aio.AioRpcError) as longer:
            await append(s, seen.run_id, "More.", "Else.", request_id="once")
        await s.resolve(seen.asked[0], ONCE)
        await task
        after = await append(s, seen.run_id, "More.", request_id="once")
        with pytest.raises(grpc.aio.AioRpcError) as reused:
            await append(s, seen.run_id, "Else.", request_id="once")
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await append(s, seen.run_id, "Too late.")
    assert len({tuple(item.message_ids) for item in (*both, after)}) == 1
    assert seen.kinds().count("input_appended") == 1
    for refused in (other, longer, reused):
        assert reason(refused.value) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    assert reason(late.value) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_SETTLED")
    assert after.run.state == run_pb2.RUN_STATE_SETTLED


@pytest.mark.requirement("APPROVE-43")
async def test_nothing_is_taken_that_no_iteration_would_read() -> None:
    gate = asyncio.Event()
    request = turn()
    request.turn.policy.loop.max_steps.value = 1
    async with served([[*answer("Only.")[:-1], gate.wait, *answer("")]]) as s:
        seen, task = s.follow(request)
        await seen.until("text_delta")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await append(s, seen.run_id, "More.")
        gate.set()
        await task
    assert reason(refused.value) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_SETTLED")
    assert "turn of its own" in (refused.value.details() or "")
    assert "input_appended" not in seen.kinds()


@pytest.mark.requirement("APPROVE-44")
async def test_an_addition_that_breaks_a_rule_is_refused_by_its_path() -> None:
    async with served([]) as s:

        async def refusal(request: turn_service_pb2.AppendInputRequest) -> tuple[grpc.StatusCode, str]:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await s.turns.AppendInput(request, timeout=SECONDS)
            return refused.value.code(), refused.value.details() or ""

        assistant = addition("run_x", "Hello")
        assistant.input[0].role = message_pb2.ROLE_ASSISTANT
        call = addition("run_x", "Hello")
        call.input[0].parts.add().tool_call.call_id = "c"
        attached = addition("run_x", "Hello")
        attached.attachments.add(attachment_id="f")
        told = [
            await refusal(request)
            for request in (
                addition("run_x"),
                addition("run_x", " "),
                assistant,
                call,
                attached,
                addition("run_x", "a"),
            )
        ]
    assert [code for code, _ in told] == [
        *[grpc.StatusCode.INVALID_ARGUMENT] * 4,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
    ]
    for (_, said), path in zip(
        told, ("input", "input[0].parts", "input[0].role", "input[0].parts", "attachments"), strict=False
    ):
        assert said.startswith(f"{path}:")
