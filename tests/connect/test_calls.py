"""What is asked over Connect and gRPC-Web is answered as over gRPC: every RPC, its errors, its bounds."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from connect.kit import HELLO, SECONDS, TURNS, Frame, Web, envelope, events, split, web
from google.protobuf import descriptor, json_format, message_factory
from google.rpc import code_pb2, status_pb2

import turnwired.rpc.server
from turnwire.v1 import (
    agent_service_pb2,
    mcp_server_service_pb2,
    server_service_pb2,
    session_service_pb2,
    tool_host_registry_service_pb2,
    turn_service_pb2,
)
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio

SERVICES = (
    agent_service_pb2.DESCRIPTOR.services_by_name["AgentService"],
    mcp_server_service_pb2.DESCRIPTOR.services_by_name["McpServerService"],
    server_service_pb2.DESCRIPTOR.services_by_name["ServerService"],
    session_service_pb2.DESCRIPTOR.services_by_name["SessionService"],
    tool_host_registry_service_pb2.DESCRIPTOR.services_by_name["ToolHostRegistryService"],
    turn_service_pb2.DESCRIPTOR.services_by_name["TurnService"],
)
METHODS = [method for service in SERVICES for method in service.methods]
RPC_SERVER = Path(turnwired.rpc.server.__file__)


def path(method: descriptor.MethodDescriptor) -> str:
    return f"{method.containing_service.full_name}/{method.name}"


Bytes = Any
"""gRPC's stubs infer the types of messages from serializers, and bytes need none."""
Told = tuple[str, object, list[tuple[str, bytes]]]
"""The name of a status, the answer or the words of the error, and its details."""


async def over_grpc(w: Web, method: descriptor.MethodDescriptor) -> Told:
    try:
        if method.server_streaming:
            stream: Bytes = w.channel.unary_stream(f"/{path(method)}")
            async for _ in stream(b"", timeout=SECONDS):
                pass
            return "ok", b"", []
        unary: Bytes = w.channel.unary_unary(f"/{path(method)}")
        return "ok", await unary(b"", timeout=SECONDS), []
    except grpc.aio.AioRpcError as error:
        metadata: dict[str, Any] = dict(error.trailing_metadata() or ())
        status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
        details = [(detail.type_url.rpartition("/")[2], detail.value) for detail in status.details]
        return code_pb2.Code.Name(status.code).lower(), status.message, details


def told(error: dict[str, Any]) -> Told:
    details = [(d["type"], base64.b64decode(d["value"] + "===")) for d in error.get("details", ())]
    return error["code"], error["message"], details


async def over_connect(w: Web, method: descriptor.MethodDescriptor, *, as_json: bool) -> Told:
    if method.server_streaming:
        kind = f"application/connect+{'json' if as_json else 'proto'}"
        async with w.stream(path(method), b"{}" if as_json else b"", kind=kind) as response:
            assert response.status_code == 200
            last = split(await response.aread())[-1]
            assert last.flags == 2
            return told(last.json["error"]) if "error" in last.json else ("ok", b"", [])
    response = await w.call(
        path(method), b"{}" if as_json else b"", kind=f"application/{'json' if as_json else 'proto'}"
    )
    if response.status_code != 200:
        return told(response.json())
    answered = message_factory.GetMessageClass(method.output_type)()
    if as_json:
        json_format.Parse(response.content, answered)
    else:
        answered.ParseFromString(response.content)
    return "ok", answered.SerializeToString(), []


async def over_grpc_web(w: Web, method: descriptor.MethodDescriptor) -> Told:
    response = await w.call(path(method), envelope(b""), kind="application/grpc-web+proto")
    found = split(response.content)
    answers = [frame.data for frame in found if not frame.flags]
    trailers: dict[str, str] = dict(response.headers.items())
    for frame in found:
        if frame.flags & 0x80:
            lines = frame.data.decode().strip().split("\r\n")
            trailers |= {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if trailers["grpc-status"] == "0":
        return "ok", answers[0] if answers else b"", []
    status = status_pb2.Status.FromString(base64.b64decode(trailers["grpc-status-details-bin"] + "==="))
    details = [(detail.type_url.rpartition("/")[2], detail.value) for detail in status.details]
    return code_pb2.Code.Name(status.code).lower(), status.message, details


@pytest.mark.requirement("WEB-1", "WEB-4")
async def test_every_rpc_answers_an_empty_request_as_over_grpc() -> None:
    async with web(server={"listen": "127.0.0.1:0", "allow_tool_host_registration": True}) as w:
        for method in METHODS:
            wanted = await over_grpc(w, method)
            assert (path(method), await over_connect(w, method, as_json=True)) == (path(method), wanted)
            assert (path(method), await over_connect(w, method, as_json=False)) == (path(method), wanted)
            assert (path(method), await over_grpc_web(w, method)) == (path(method), wanted)


@pytest.mark.requirement("WEB-1")
def test_every_service_that_grpc_serves_is_among_those_asked() -> None:
    served = set(re.findall(r'services_by_name\["(\w+)"\]', RPC_SERVER.read_text(encoding="utf-8")))
    assert served - {"Health"} == {service.name for service in SERVICES}


@pytest.mark.requirement("WEB-1")
async def test_what_one_transport_makes_the_other_finds() -> None:
    async with web(answer("Hi")) as w:
        frames = await w.run({"turn": {**HELLO["turn"], "sessionId": "session_1"}})
        found = (await w.call(f"{TURNS}/ListRuns", {"sessionId": "session_1"})).json()["runs"]
        assert [run["outcome"]["kind"] for run in found] == ["OUTCOME_KIND_ANSWERED"]
        stored = await w.outcome(found[0]["runId"])
        assert stored.message.parts[0].text == "Hi"
        assert events(frames)[-1]["runFinished"]["message"] == json_format.MessageToDict(stored.message)


@pytest.mark.requirement("WEB-1")
async def test_a_probe_asks_for_health_without_a_token() -> None:
    callers = [{"principal": "shop", "token_env": "SHOP_TOKEN"}]
    async with web(callers=callers, environ={"SHOP_TOKEN": "shop-token-0123456789"}) as w:
        response = await w.call("grpc.health.v1.Health/Check", {})
        assert (response.status_code, response.json()) == (200, {"status": "SERVING"})


@pytest.mark.requirement("WEB-1")
async def test_what_has_no_effects_can_be_asked_for_in_a_url() -> None:
    async with web() as w:
        query = {"connect": "v1", "encoding": "json", "message": "{}"}
        response = await w.http.get(f"{w.url}/turnwire.v1.ServerService/GetServerInfo", params=query)
        assert response.json()["apiVersion"] == "v1"
        refused = await w.http.get(f"{w.url}/{TURNS}/StartTurn", params=query)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


@pytest.mark.requirement("WEB-4")
async def test_an_error_says_in_words_what_its_details_hold() -> None:
    async with web() as w:
        response = await w.call(f"{TURNS}/GetRun", {"runId": "run_none"})
        assert response.status_code == 404
        debug = [detail["debug"] for detail in response.json()["details"]]
        assert debug[0] == {"reason": "RUN_NOT_FOUND", "domain": "turnwire.v1", "metadata": {"run_id": "run_none"}}
        assert debug[1] == {"resourceType": "turnwire.v1.Run", "resourceName": "run_none"}


@pytest.mark.requirement("WEB-7")
@pytest.mark.parametrize(
    "body", [b'{"turn":', b"\xff\xfe", b"[]", b'"x"', b'{"turn":{"input":"secret words"}}', b"[" * 100_000, b"{}x"]
)
async def test_what_is_no_request_in_json_is_refused_without_being_quoted(body: bytes) -> None:
    async with web() as w:
        response = await w.call(f"{TURNS}/StartTurn", body)
        assert response.status_code == 400
        error = response.json()
        assert error["message"] == "request: is no turnwire.v1.StartTurnRequest in JSON"
        assert [d["debug"].get("reason") for d in error["details"]] == ["INVALID_REQUEST", None]


@pytest.mark.requirement("WEB-7")
@pytest.mark.parametrize(
    ("kind", "status"),
    [("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("", 415), ("application/grpc", 415)],
)
async def test_a_body_of_another_kind_is_refused(kind: str, status: int) -> None:
    async with web() as w:
        assert (await w.call(f"{TURNS}/StartTurn", HELLO, kind=kind)).status_code == status
        assert (await w.http.get(f"{w.url}/{TURNS}/Nothing")).status_code == 404


@pytest.mark.requirement("WEB-7", "WEB-10")
async def test_a_request_that_is_too_large_is_refused_packed_or_not_and_one_that_fits_is_taken() -> None:
    async with web(answer("Hi"), answer("Hi"), http={"max_request_bytes": 1 << 20}) as w:

        def turn(size: int) -> bytes:
            return json.dumps({"turn": {"input": [{"role": "ROLE_USER", "parts": [{"text": "a" * size}]}]}}).encode()

        fits, large = turn(900_000), turn(2_000_000)
        packed = {"content-encoding": "gzip"}
        assert (await w.call(f"{TURNS}/StartTurn", fits)).status_code == 200
        assert (await w.call(f"{TURNS}/StartTurn", gzip.compress(fits), packed)).status_code == 200
        for body, headers in ((large, {}), (gzip.compress(large), packed)):
            response = await w.call(f"{TURNS}/StartTurn", body, headers)
            assert (response.status_code, response.json()["code"]) == (429, "resource_exhausted")
        (end,) = await w.run(json.loads(large))
        assert end.json["error"]["code"] == "resource_exhausted"


@pytest.mark.requirement("WEB-1", "WEB-11")
async def test_a_message_of_four_mebibytes_goes_both_ways() -> None:
    text = "ü" * (2 << 20)
    async with web(answer(text)) as w:
        turn = {"turn": {"input": [{"role": "ROLE_USER", "parts": [{"text": text}]}]}}
        frames = await w.run(turn)
        assert events(frames)[-1]["runFinished"]["message"]["parts"][0]["text"] == text
        assert text in json.dumps(w.model.messages(0), ensure_ascii=False)


@pytest.mark.requirement("WEB-10")
async def test_answers_are_packed_for_who_takes_that() -> None:
    async with web(answer("Hi " * 1000)) as w:
        response = await w.call("turnwire.v1.ServerService/GetServerInfo", {}, {"accept-encoding": "gzip"})
        assert response.headers["content-encoding"] == "gzip"
        assert response.json()["apiVersion"] == "v1"
        frames = await w.run(HELLO, {"connect-accept-encoding": "gzip"})
        assert {frame.flags for frame in frames} == {1, 3}
        plain = [Frame(frame.flags & 2, gzip.decompress(frame.data)) for frame in frames]
        assert events(plain)[-1]["runFinished"]["outcome"]["kind"] == "OUTCOME_KIND_ANSWERED"
        assert plain[-1].json == {}


@pytest.mark.requirement("WEB-11")
async def test_large_integers_are_strings_both_ways_and_text_is_whole_in_any_script() -> None:
    large = 2**53 + 1
    async with web(answer("Grüße, 世界 🚀")) as w:
        limit = {"policy": {"budget": {"maxTotalTokens": {"value": str(large)}}}}
        asked = {"turn": {**HELLO["turn"], **limit}}
        frames = await w.run(asked)
        started = events(frames)[0]["runStarted"]
        assert started["effectivePolicy"]["policy"]["budget"]["maxTotalTokens"]["value"] == str(large)
        assert "".join(e["textDelta"]["text"] for e in events(frames) if "textDelta" in e) == "Grüße, 世界 🚀"
        info = (await w.call("turnwire.v1.ServerService/GetServerInfo", {})).json()
        assert info["maxRequestBytes"] == str(16 << 20)


@pytest.mark.requirement("WEB-11")
async def test_fields_and_values_that_this_release_does_not_know_are_passed_over() -> None:
    async with web(answer("Hi")) as w:
        newer = {**HELLO, "fromLater": {"a": [1]}, "streamDetail": "STREAM_DETAIL_FROM_LATER"}
        assert events(await w.run(newer))[-1]["runFinished"]["outcome"]["kind"] == "OUTCOME_KIND_ANSWERED"
