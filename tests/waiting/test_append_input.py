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
        *[grpc.StatusCode.INVALID_ARGUMENT] * 5,
        grpc.StatusCode.NOT_FOUND,
    ]
    for (_, said), path in zip(
        told, ("input", "input[0].parts", "input[0].role", "input[0].parts", "attachments[0].data"), strict=False
    ):
        assert said.startswith(f"{path}:")


PDF = b"%PDF-1.7"


def with_file(
    run_id: str, name: str, *texts: str, data: bytes = PDF, request_id: str = "", refers: bool = False
) -> turn_service_pb2.AppendInputRequest:
    """A request to add a file, alone, beside words, or in their message."""
    request = addition(run_id, *texts, request_id=request_id)
    request.attachments.add(attachment_id=name, media_type="application/pdf", data=data)
    if refers:
        request.input[0].parts.add().attachment_id = name
    return request


def awaiting(name: str) -> turn_service_pb2.RunTurnRequest:
    """A turn whose file is to follow."""
    request = turn()
    request.turn.attachments.add(attachment_id=name)
    request.turn.input[0].parts.add().attachment_id = name
    return request


def shown(s: Served, call: int) -> list[list[object]]:
    """What the messages of a model call hold."""
    return [json.loads(piece)["parts"] for piece in s.provider.requests[call].messages]


@pytest.mark.requirement("CTX-25")
async def test_a_file_that_a_run_awaits_comes_with_words_of_the_user() -> None:
    async with served([answer("I see it.")]) as s:
        seen, task = s.follow(awaiting("report"))
        await seen.until("attachment_updated")
        added = await s.turns.AppendInput(with_file(seen.run_id, "report", "Page 2."), timeout=SECONDS)
        await task
    assert len(added.message_ids) == 1, "the ids are those of the input's messages"
    assert shown(s, 0)[1] == ["Page 2."], "the words come with the first call, although the file lets it begin"
    assert {"file": "application/pdf", "bytes": 8} in shown(s, 0)[2]
    assert seen.finished.iteration_count == 1


@pytest.mark.requirement("CTX-25")
@pytest.mark.parametrize("refers", [True, False])
async def test_another_file_comes_in_a_message_or_behind_it(refers: bool) -> None:
    async with served([MAIL, answer("Sent.")], send_mail, policy=asking()) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        request = with_file(seen.run_id, "map", "Here is a map.", request_id="once", refers=refers)
        first = await s.turns.AppendInput(request, timeout=SECONDS)
        again = await s.turns.AppendInput(request, timeout=SECONDS)
        changed = with_file(seen.run_id, "map", "Here is a map.", data=b"else", request_id="once", refers=refers)
        with pytest.raises(grpc.aio.AioRpcError) as other:
            await s.turns.AppendInput(changed, timeout=SECONDS)
        await s.resolve(seen.asked[0], ONCE)
        await task
        after = await s.turns.AppendInput(request, timeout=SECONDS)
    assert first.message_ids == again.message_ids == after.message_ids
    assert reason(other.value) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    added = shown(s, 1)[3:]
    assert len(added) == (1 if refers else 2)
    assert sum({"file": "application/pdf", "bytes": 8} in parts for parts in added) == 1
    assert seen.kinds().count("input_appended") == (1 if refers else 2)


@pytest.mark.requirement("CTX-25", "CTX-21", "CTX-22")
async def test_a_file_alone_is_taken_once_and_one_that_does_not_fit_is_refused() -> None:
    async with served([MAIL, answer("Sent.")], send_mail, policy=asking()) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        alone = await s.turns.AppendInput(with_file(seen.run_id, "map"), timeout=SECONDS)
        refused: list[str] = []
        for request in (
            with_file(seen.run_id, "map"),
            with_file(seen.run_id, "big", data=b"x" * (3 << 20) + b"x"),
            with_file(seen.run_id, "big", "In words", data=b"x" * (3 << 20) + b"x", refers=True),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await s.turns.AppendInput(request, timeout=SECONDS)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            refused.append((caught.value.details() or "").partition(":")[0])
        await s.resolve(seen.asked[0], ONCE)
        await task
    assert not alone.message_ids
    assert refused == ["attachments[0].attachment_id", "attachments[0].data", "input"]
    assert seen.kinds().count("input_appended") == 1
