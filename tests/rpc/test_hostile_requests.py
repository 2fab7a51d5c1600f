"""Requests that no friend sends: bytes that are no message, and more of everything than anybody needs."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2
from rpc.server import SECONDS, connected, details, prompt

from turnwire.v1 import message_pb2, outcome_pb2, turn_service_pb2
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import Message, OpaqueBlock
from turnwired.rpc.server import Listen
from turnwired.testing.provider import ScriptedProvider, answer

pytestmark = pytest.mark.anyio

METADATA_BYTES = 8192
"""What clients of every language take without being told to."""
LONG = "\u20ac\n" * 100_000


def _bytes(value: bytes) -> bytes:
    return value


@pytest.mark.requirement("RPC-23")
@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("StartTurn", b"\xff" * 100),
        ("StartTurn", prompt().SerializeToString()[:-1]),
        ("GetRun", b"\x0a\x03\xff\xfe\xfd"),
        ("CancelRun", b"\x0a\xff\xff\xff\xff\x7f"),
    ],
)
async def test_bytes_that_are_no_message_are_a_bad_request_and_are_not_logged(
    method: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected([]) as c:
        call = c.channel.unary_unary(
            f"/turnwire.v1.TurnService/{method}", request_serializer=_bytes, response_deserializer=_bytes
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(data, timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(caught.value)[0].reason == "INVALID_REQUEST"
    assert not caplog.records


@pytest.mark.requirement("RPC-23")
async def test_bytes_that_are_no_message_are_a_bad_request_of_a_stream_too() -> None:
    async with connected([]) as c:
        call = c.channel.unary_stream(
            "/turnwire.v1.TurnService/RunTurn", request_serializer=_bytes, response_deserializer=_bytes
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [frame async for frame in call(b"\xff", timeout=SECONDS)]
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _empty_messages() -> ProtoMessage:
    request = prompt()
    for _ in range(5000):
        request.turn.input.add(role=message_pb2.ROLE_USER)
    return turn_service_pb2.StartTurnRequest(turn=request.turn)


def _open_calls() -> ProtoMessage:
    request = prompt()
    message = request.turn.input.add(role=message_pb2.ROLE_ASSISTANT)
    for index in range(5000):
        message.parts.add().tool_call.call_id = f"{index}{LONG[:20]}"
    request.turn.input.add(role=message_pb2.ROLE_USER).parts.add().text = "and?"
    return turn_service_pb2.StartTurnRequest(turn=request.turn)


def _model_nobody_has() -> ProtoMessage:
    request = prompt()
    request.turn.model.provider = LONG
    return turn_service_pb2.StartTurnRequest(turn=request.turn)


LARGE: list[tuple[str, Callable[[], ProtoMessage]]] = [
    ("StartTurn", _empty_messages),
    ("StartTurn", _open_calls),
    ("StartTurn", _model_nobody_has),
    ("GetRun", lambda: turn_service_pb2.GetRunRequest(run_id=LONG)),
    ("CancelRun", lambda: turn_service_pb2.CancelRunRequest(run_id=LONG)),
    ("ListTools", lambda: turn_service_pb2.ListToolsRequest(agent_id=LONG)),
    ("ResolvePolicy", lambda: turn_service_pb2.ResolvePolicyRequest(agent_id=LONG)),
]


@pytest.mark.requirement("RPC-6")
@pytest.mark.parametrize(("method", "request_"), LARGE, ids=[f"{i}-{m}" for i, (m, _) in enumerate(LARGE)])
async def test_an_error_fits_into_what_every_client_takes_whatever_was_sent(
    method: str, request_: Callable[[], ProtoMessage]
) -> None:
    async with connected([]) as c:
        call = c.channel.unary_unary(
            f"/turnwire.v1.TurnService/{method}", request_serializer=_bytes, response_deserializer=_bytes
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request_().SerializeToString(), timeout=SECONDS)
    assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    info, others = details(caught.value)
    assert info.domain == "turnwire.v1"
    metadata = dict(caught.value.trailing_metadata() or ())
    raw = metadata["grpc-status-details-bin"]
    text = caught.value.details() or ""
    assert len(raw) * 4 / 3 + 3 * len(text.encode()) < METADATA_BYTES - 500
    if method == "StartTurn" and request_ is _empty_messages:
        assert isinstance(others[0], error_details_pb2.BadRequest)
        assert others[0].field_violations[0].field == "turn.input[1].parts"


@pytest.mark.requirement("RPC-24")
async def test_more_parts_than_one_look_can_take_in_are_refused() -> None:
    request = prompt()
    result = request.turn.input[0].parts.add().tool_result
    for _ in range(20_000):
        result.content.add().text = ""
    async with connected([]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (caught.value.details() or "").startswith("turn.input: has 20002 parts")


@pytest.mark.requirement("RPC-24")
@pytest.mark.parametrize(
    "options", ['{"a":' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":' + "[" * 70 + "]" * 70 + "}", '{"a": NaN}']
)
async def test_provider_options_that_no_provider_could_read_are_refused(options: str) -> None:
    request = prompt()
    request.turn.model.provider_options_json = options
    async with connected([]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (caught.value.details() or "").startswith("turn.model.provider_options_json: ")


@pytest.mark.requirement("RPC-24")
async def test_names_of_models_and_providers_have_a_bound() -> None:
    request = prompt()
    request.turn.model.model = "m" * 257
    async with connected([]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.requirement("RPC-27", "SCN-145")
async def test_a_request_above_the_limit_gets_grpcs_own_answer_and_harms_nobody() -> None:
    async with connected([answer("fine")]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(prompt("x" * Listen("").max_request_bytes))
        frames = await c.run(prompt())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    # The contract says that this one has no ErrorInfo: gRPC answers before any code of ours is asked.
    assert "grpc-status-details-bin" not in dict(caught.value.trailing_metadata() or ())
    assert frames[-1].events[-1].run_finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("RPC-25")
async def test_what_the_provider_cannot_be_sent_never_enters_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def picky(self: ScriptedProvider, message: Message) -> bytes:
        if any(isinstance(part.content, OpaqueBlock) for part in message.parts):
            raise InvalidRequest([FieldViolation("parts[0]", "cannot be sent")])
        return b'{"role": "any"}'

    monkeypatch.setattr(ScriptedProvider, "encode_message", picky)
    odd = prompt("ok", session_id="s")
    odd.turn.input.add(role=message_pb2.ROLE_USER).parts.add().opaque.kind = "odd"
    async with connected([answer("fine")]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(odd)
        frames = await c.run(prompt("next", session_id="s"))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "turn.input[1].parts[0]: cannot be sent"
    assert frames[-1].events[-1].run_finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
