"""History that does not fit, and attachments that are not there, over each wire."""

from __future__ import annotations

import grpc
import pytest
from execution.served import turn
from scenarios.kit import ANSWERED, kept, play, told
from scenarios.wires import WIRES, over

from turnwire.v1 import message_pb2, turn_service_pb2
from turnwired.domain.policy import ContextPolicy, HistoryOverflowMode, Policy

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


@pytest.mark.requirement("SCN-162")
@pytest.mark.parametrize("name", WIRES)
async def test_a_file_that_the_model_cannot_read_is_refused_by_its_place_before_anything_is_spent(name: str) -> None:
    async with over(WIRES[name], []) as line:
        _, task = line.service.follow(with_file("application/zip", b"PK", "scan.zip"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await task
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "turn.input[0].parts[1]" in (caught.value.details() or "")
    assert line.requests == []
