"""A service with a scripted model behind Connect, and clients that speak its wire byte by byte."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import httpx2

from turnwire.v1 import turn_service_pb2
from turnwired.app import Additions, Service, configured, running
from turnwired.testing.provider import ScriptedProvider, Step

SECONDS = 20.0
TURNS = "turnwire.v1.TurnService"
HELLO: dict[str, Any] = {"turn": {"input": [{"role": "ROLE_USER", "parts": [{"text": "Hello"}]}]}}
PAGE = "https://chat.example.com"


@dataclass(frozen=True, slots=True)
class Frame:
    """An envelope of a stream, as it came."""

    flags: int
    data: bytes

    @property
    def json(self) -> dict[str, Any]:
        """What it says."""
        found: dict[str, Any] = json.loads(self.data)
        return found


def envelope(data: bytes, flags: int = 0) -> bytes:
    """One message of a stream."""
    return struct.pack(">BI", flags, len(data)) + data


def split(body: bytes) -> list[Frame]:
    """All envelopes of a body."""
    found: list[Frame] = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        assert len(body) >= 5 + size, "the last one is whole"
        found.append(Frame(flags, body[5 : 5 + size]))
        body = body[5 + size :]
    return found


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    """The envelopes of a stream as they come."""
    buffer = b""
    async for chunk in response.aiter_raw():
        buffer += chunk
        while len(buffer) >= 5 and len(buffer) >= 5 + (size := int.from_bytes(buffer[1:5], "big")):
            yield Frame(buffer[0], buffer[5 : 5 + size])
            buffer = buffer[5 + size :]
    assert not buffer


@dataclass
class Web:
    """A service that is up."""

    service: Service
    model: ScriptedProvider
    http: httpx2.AsyncClient
    channel: grpc.aio.Channel

    @property
    def url(self) -> str:
        """Where Connect is."""
        assert self.service.http is not None
        return self.service.http.connect_url

    async def call(
        self, method: str, request: object, headers: Mapping[str, str] | None = None, kind: str = "application/json"
    ) -> httpx2.Response:
        """One unary call; ``request`` is JSON, or the bytes of a body."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        given = {"content-type": kind, **(headers or {})}
        return await self.http.post(f"{self.url}/{method}", content=body, headers=given)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        request: object,
        headers: Mapping[str, str] | None = None,
        kind: str = "application/connect+json",
    ) -> AsyncIterator[httpx2.Response]:
        """A stream under way; leaving it closes the connection."""
        body = envelope(request if isinstance(request, bytes) else json.dumps(request).encode())
        given = {"content-type": kind, **(headers or {})}
        async with self.http.stream("POST", f"{self.url}/{method}", content=body, headers=given) as response:
            yield response

    async def run(self, request: object = HELLO, headers: Mapping[str, str] | None = None) -> list[Frame]:
        """All frames of a turn."""
        async with self.stream(f"{TURNS}/RunTurn", request, headers) as response:
            return [frame async for frame in frames(response)]

    async def outcome(self, run_id: str) -> turn_service_pb2.GetRunResponse:
        """A run as gRPC tells it."""
        call = self.channel.unary_unary(
            f"/{TURNS}/GetRun",
            turn_service_pb2.GetRunRequest.SerializeToString,
            turn_service_pb2.GetRunResponse.FromString,
        )
        response = await call(turn_service_pb2.GetRunRequest(run_id=run_id), timeout=SECONDS)
        assert isinstance(response, turn_service_pb2.GetRunResponse)
        return response


def events(found: Sequence[Frame]) -> list[dict[str, Any]]:
    """The events of JSON frames."""
    return [event for frame in found if not frame.flags for event in frame.json.get("events", ())]


def run_of(frame: Frame) -> str:
    """The run that a first frame tells of."""
    (started,) = [event["runStarted"] for event in frame.json["events"] if "runStarted" in event]
    return str(started["runId"])


@asynccontextmanager
async def web(
    *script: Sequence[Step],
    environ: Mapping[str, str] | None = None,
    http: Mapping[str, object] | None = None,
    tools: Sequence[object] = (),
    **sections: object,
) -> AsyncIterator[Web]:
    """A service on free ports of the loopback."""
    model = ScriptedProvider(list(script))
    provider = {"profile": "openai-compatible", "base_url": "http://127.0.0.1:9/v1", "models": ["scripted-model"]}
    configuration: dict[str, object] = {
        "server": {"listen": "127.0.0.1:0", "grace_seconds": 5},
        "store": {"path": "memory"},
        "tools": {"entry_points": False},
        "providers": {"scripted": {**provider, "list_prices": False}},
        "http": {"listen": "127.0.0.1:0", "connect": True, **(http or {})},
        **sections,
    }
    known = environ or {}
    additions = Additions(tools=tools, providers={"scripted": model})
    async with (
        running(configured(configuration, known), known, additions=additions) as service,
        httpx2.AsyncClient(timeout=SECONDS, trust_env=False) as client,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        yield Web(service, model, client, channel)
