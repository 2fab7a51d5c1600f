"""History that does not fit, and attachments that are not there, over each wire."""

from __future__ import annotations

import grpc
import pytest
from execution.served import turn
from scenarios.kit import ANSWERED, ERRORED, kept, play, told
from scenarios.wires import CHAT, WIRES, over

from turnwire.v1 import message_pb2, outcome_pb2, turn_service_pb2
from turnwired.domain.policy import ContextPolicy, HistoryOverflowMode, MissingAttachmentMode, Policy

pytestmark = pytest.mark.anyio

FILLER = "x" * 400


async def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return f"{order_id}: {FILLER}"


def truncating(tokens: int) -> Policy:
    """A limit on history that cuts it."""
    return Policy(context=ContextPolicy(max_history_tokens=tokens, overflow_mode=HistoryOverflowMode.TRUNCATE))


@pytest.mark.requirement("SCN-021", "MATRIX-12")
@pytest.mark.parametrize("tokens", [200, 320, 450, 600])
@pytest.mark.parametrize("name", WIRES)
async def test_a_limit_on_history_keeps_whole_groups_and_the_systems_framing(name: str, tokens: int) -> None:
    wire = WIRES[name]
    bodies = [
        body
        for number in range(4)
        for body in (wire.answer(("lookup_order", f'{{"order_id":"{number}"}}')), wire.answer(f"Answer {number}."))
    ]
    async with over(wire, bodies, lookup_order, policy=truncating(tokens)) as line:
        runs = [await play(line.service, f"Question {number}", session_id="s") for number in range(4)]
        stored = await kept(line.service, "s")
    assert all(run.outcome.kind == ANSWERED for run in runs)
    counts = []
    for number in range(len(bodies)):
        counts.append(len(line.pairs(number)))  # each call has its result, and each result its call
        body = line.calls[number].body.decode()
        assert "Be brief." in body, "the framing stays"
        assert f"Question {number // 2}" in body, "and what was asked last"
        request = line.requests[number]
        conversation = [item for item in request.get("messages") or request["input"] if item.get("role") != "system"]
        assert conversation[0].get("role") == "user", "a window begins with the user"
    assert counts[-1] < 4, "something was left out"
    assert sum("history_truncated" in run.seen.kinds() for run in runs) >= 1
    assert len(stored) == 16, "what is stored is not touched"
    assert sum(part.HasField("tool_result") for message in stored for part in message.parts) == 4


def with_file(media_type: str, data: bytes = b"", name: str = "report.pdf") -> turn_service_pb2.RunTurnRequest:
    """A turn with one file; without data it is still to come."""
    request = turn("What does it say?")
    request.turn.input[0].parts.add(attachment_id="file")
    file = request.turn.attachments.add(attachment_id="file", media_type=media_type, filename=name)
    if data:
        file.data = data
    return request


@pytest.mark.requirement("SCN-162")
@pytest.mark.parametrize("name", WIRES)
async def test_a_file_that_is_not_there_is_told_to_the_model_by_name_and_reason(name: str) -> None:
    soon = Policy(context=ContextPolicy(attachment_wait=0.01))
    wire = WIRES[name]
    async with over(wire, [wire.answer("I have not received report.pdf yet.")], policy=soon) as line:
        _, task = line.service.follow(with_file("application/pdf"))
        run = await told(line.service, await task)
    states = [e.attachment_updated.attachment.state for e in run.seen.events if e.HasField("attachment_updated")]
    assert states == [message_pb2.ATTACHMENT_STATE_PENDING, message_pb2.ATTACHMENT_STATE_FAILED]
    body = line.calls[0].body.decode()
    assert "report.pdf (application/pdf)" in body
    assert "base64" not in body
    assert run.outcome.kind == ANSWERED
    assert len(line.requests) == 1


def with_three() -> turn_service_pb2.RunTurnRequest:
    """A file that is still being processed, one of a kind that no model takes, and a photo."""
    request = with_file("application/pdf")
    files = (("zip", "application/zip", "scan.zip", b"PK"), ("photo", "image/png", "photo.png", b"\x89PNG"))
    for attachment_id, media_type, name, data in files:
        request.turn.input[0].parts.add(attachment_id=attachment_id)
        request.turn.attachments.add(attachment_id=attachment_id, media_type=media_type, filename=name, data=data)
    return request


@pytest.mark.requirement("SCN-162", "CTX-42")
@pytest.mark.parametrize("name", WIRES)
async def test_each_file_that_the_model_cannot_see_is_told_to_it_by_name_and_reason(name: str) -> None:
    wire = WIRES[name]
    soon = Policy(context=ContextPolicy(attachment_wait=0.01))
    bodies = [wire.answer("I have not received the text of report.pdf yet.")]
    async with over(wire, bodies, policy=soon, row={"inputs": []}) as line:
        _, task = line.service.follow(with_three())
        run = await told(line.service, await task)
    states = {
        e.attachment_updated.attachment.attachment_id: e.attachment_updated.attachment
        for e in run.seen.events
        if e.HasField("attachment_updated")
    }
    failed = message_pb2.ATTACHMENT_STATE_FAILED
    assert {key: file.state for key, file in states.items()} == {"file": failed, "zip": failed, "photo": failed}
    assert [states[key].failure.reason for key in ("file", "zip", "photo")] == [
        outcome_pb2.REASON_ATTACHMENT_NOT_READY,
        outcome_pb2.REASON_ATTACHMENT_FAILED,
        outcome_pb2.REASON_ATTACHMENT_FAILED,
    ]
    body = line.calls[0].body.decode()
    assert "report.pdf (application/pdf): did not arrive in time" in body
    assert "scan.zip (application/zip): you are not able to read files of this kind" in body
    assert "photo.png (image/png): you are not able to read files of this kind" in body
    assert "base64" not in body
    assert "iVBOR" not in body
    assert run.outcome.kind == ANSWERED
    assert len(line.requests) == 1


@pytest.mark.requirement("SCN-162", "CTX-42")
async def test_a_photo_is_shown_to_a_model_that_takes_photos_beside_a_file_that_it_does_not_take() -> None:
    soon = Policy(context=ContextPolicy(attachment_wait=0.01))
    async with over(CHAT, [CHAT.answer("A photo.")], policy=soon) as line:
        _, task = line.service.follow(with_three())
        run = await told(line.service, await task)
    body = line.calls[0].body.decode()
    assert body.count("data:image/png;base64,") == 1
    assert "scan.zip (application/zip): you are not able" in body
    assert run.outcome.kind == ANSWERED


FAILS = Policy(
    context=ContextPolicy(attachment_wait=0.01, missing_attachments=MissingAttachmentMode.FAIL),
)


@pytest.mark.requirement("SCN-162", "CTX-41")
@pytest.mark.parametrize("name", WIRES)
async def test_where_the_policy_says_so_a_file_that_did_not_come_fails_the_run_and_nothing_is_spent(name: str) -> None:
    async with over(WIRES[name], [], policy=FAILS) as line:
        _, task = line.service.follow(with_file("application/pdf"))
        run = await told(line.service, await task)
    assert run.outcome.kind == ERRORED
    assert run.outcome.failure.phase == outcome_pb2.FAILURE_PHASE_PREPARATION
    assert run.outcome.failure.reason == outcome_pb2.REASON_ATTACHMENT_NOT_READY
    assert line.requests == []


@pytest.mark.requirement("SCN-162", "CTX-42")
@pytest.mark.parametrize("name", WIRES)
async def test_where_the_policy_says_so_a_file_that_the_model_cannot_read_fails_the_run_at_once(name: str) -> None:
    async with over(WIRES[name], [], policy=FAILS, row={"inputs": []}) as line:
        _, task = line.service.follow(with_three())
        run = await told(line.service, await task)
    assert run.outcome.kind == ERRORED
    assert run.outcome.failure.phase == outcome_pb2.FAILURE_PHASE_PREPARATION
    assert run.outcome.failure.reason == outcome_pb2.REASON_ATTACHMENT_FAILED
    states = [e.attachment_updated.attachment.state for e in run.seen.events if e.HasField("attachment_updated")]
    pending, failed = message_pb2.ATTACHMENT_STATE_PENDING, message_pb2.ATTACHMENT_STATE_FAILED
    assert states == [pending, failed, failed], "each is told before the run ends"
    assert line.requests == []


@pytest.mark.requirement("SCN-162", "CTX-42")
async def test_bytes_that_are_no_attachment_are_refused_by_their_place_whatever_the_policy_says() -> None:
    request = turn("What does it say?")
    request.turn.input[0].parts.add().blob.CopyFrom(message_pb2.Blob(media_type="application/zip", data=b"PK"))
    async with over(CHAT, []) as line:
        _, task = line.service.follow(request)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await task
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "turn.input[0].parts[1]" in (caught.value.details() or "")
    assert line.requests == []
