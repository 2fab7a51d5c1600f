"""Attachments of a request: what becomes of them, and what is refused by its path."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from execution.served import SECONDS, Seen, served, turn

from turnwire.v1 import message_pb2, session_service_pb2, turn_service_pb2
from turnwired.domain.policy import ContextPolicy, Policy
from turnwired.rpc.attachments import MAX_ATTACHMENTS
from turnwired.testing.provider import answer

Change = Callable[[turn_service_pb2.TurnSpec], object]
READY, PENDING, FAILED = (
    message_pb2.ATTACHMENT_STATE_READY,
    message_pb2.ATTACHMENT_STATE_PENDING,
    message_pb2.ATTACHMENT_STATE_FAILED,
)


def with_file(name: str = "photo", data: bytes | None = b"png", **fields: str) -> turn_service_pb2.RunTurnRequest:
    request = turn("What is this?")
    request.turn.input[0].parts.add(attachment_id=name)
    file = request.turn.attachments.add(attachment_id=name, media_type="image/png", **fields)
    if data is not None:
        file.data = data
    return request


def states(seen: Seen) -> list[message_pb2.AttachmentState.ValueType]:
    return [e.attachment_updated.attachment.state for e in seen.events if e.HasField("attachment_updated")]


@pytest.mark.requirement("CTX-15")
async def test_bytes_that_come_with_the_request_are_the_file_for_the_model_and_the_session() -> None:
    async with served([answer("A photo."), answer("The same.")]) as s:
        request = with_file(filename="photo.png")
        request.turn.session_id = "s"
        _, task = s.follow(request)
        seen = await task
        assert s.provider.messages(0)[1]["parts"] == ["What is this?", {"file": "image/png", "bytes": 3}]
        assert states(seen) == [READY]
        (update,) = [e.attachment_updated.attachment for e in seen.events if e.HasField("attachment_updated")]
        assert (update.filename, update.WhichOneof("source")) == ("photo.png", None)
        listed = await s.sessions.ListMessages(session_service_pb2.ListMessagesRequest(session_id="s"), timeout=SECONDS)
        assert listed.messages[0].parts[1].blob.data == b"png"
        await s.run("And now?", session_id="s")
        assert s.provider.messages(1)[1] == s.provider.messages(0)[1]


@pytest.mark.requirement("CTX-19")
async def test_a_file_that_is_to_come_and_does_not_is_told_of_in_its_place_and_in_a_note() -> None:
    soon = Policy(context=ContextPolicy(attachment_wait=0.01))
    async with served([answer("I have not received report.pdf.")], policy=soon) as s:
        _, task = s.follow(with_file("report", None, filename="report.pdf"))
        seen = await task
        asked, note = s.provider.messages(0)[1:]
    assert states(seen) == [PENDING, FAILED]
    assert "report.pdf (image/png): not here yet" in str(asked["parts"])
    assert "report.pdf (image/png): did not arrive" in str(note["parts"])


@pytest.mark.requirement("CTX-19")
async def test_a_turn_may_set_how_long_it_waits() -> None:
    async with served([answer("No file.")]) as s:
        request = with_file(data=None)
        request.turn.policy.context.attachment_wait.value.FromMilliseconds(10)
        _, task = s.follow(request)
        assert states(await task) == [PENDING, FAILED]


def twice(t: turn_service_pb2.TurnSpec) -> None:
    t.input[0].parts.add(attachment_id="photo")


def by_uri(t: turn_service_pb2.TurnSpec) -> None:
    t.attachments[0].uri = "https://example.org/photo.png"


def in_history(t: turn_service_pb2.TurnSpec) -> None:
    asked = message_pb2.Message()
    asked.CopyFrom(t.input[0])
    del t.input[:]
    t.input.add(role=message_pb2.ROLE_ASSISTANT).parts.add(attachment_id="photo")
    t.input.add(role=message_pb2.ROLE_USER).parts.add(text="What is this?")


def many(t: turn_service_pb2.TurnSpec) -> None:
    for number in range(MAX_ATTACHMENTS):
        t.attachments.add(attachment_id=f"a{number}", media_type="image/png", data=b"x")


@pytest.mark.requirement("CTX-16", "CTX-17")
@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("turn.input[0].parts[2].attachment_id", lambda t: t.input[0].parts.add(attachment_id="nobody")),
        ("turn.attachments[1]", lambda t: t.attachments.add(attachment_id="b", media_type="image/png", data=b"x")),
        ("turn.attachments", lambda t: t.attachments.add(attachment_id="photo", media_type="image/png", data=b"x")),
        ("turn.attachments[0]", twice),
        ("turn.input[0].parts[0].attachment_id", in_history),
        ("turn.attachments[0].uri", by_uri),
        ("turn.attachments[0].attachment_id", lambda t: setattr(t.attachments[0], "attachment_id", "a b")),
        ("turn.attachments[0].media_type", lambda t: setattr(t.attachments[0], "media_type", "png")),
        ("turn.attachments[0].media_type", lambda t: setattr(t.attachments[0], "media_type", "")),
        ("turn.attachments[0].data", lambda t: setattr(t.attachments[0], "data", b"")),
        ("turn.attachments[0].filename", lambda t: setattr(t.attachments[0], "filename", "x" * 257)),
        ("turn.attachments[0].filename", lambda t: setattr(t.attachments[0], "filename", "a\nb")),
        ("turn.attachments[0].state", lambda t: setattr(t.attachments[0], "state", READY)),
        ("turn.attachments", many),
    ],
)
async def test_what_an_attachment_may_not_be_is_refused_by_its_path(path: str, change: Change) -> None:
    async with served([]) as s:
        request = with_file()
        change(request.turn)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await s.turns.StartTurn(turn_service_pb2.StartTurnRequest(turn=request.turn), timeout=SECONDS)
        assert s.provider.requests == []
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"{path}:" in (caught.value.details() or "") or f"{path} " in (caught.value.details() or "")
