"""The gRPC server over an in-memory world, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from engine.harness import World, world
from google.protobuf.message import Message as ProtoMessage
from google.rpc import error_details_pb2, status_pb2

from turnwire.v1 import server_service_pb2_grpc, turn_service_pb2, turn_service_pb2_grpc
from turnwired.domain.model import ModelSelection
from turnwired.rpc.server import Listen, RpcServer
from turnwired.rpc.server_service import ServerService
from turnwired.rpc.turn_service import TurnService
from turnwired.store.port import Store
from turnwired.testing.provider import Step
from turnwired.testing.registry import Function

SECONDS = 10.0
LOOPBACK = Listen("127.0.0.1:0")


@dataclass
class Connected:
    """A world behind a server, and stubs that talk to it."""

    world: World
    channel: grpc.aio.Channel
    turns: turn_service_pb2_grpc.TurnServiceAsyncStub
    server: server_service_pb2_grpc.ServerServiceAsyncStub
    address: str

    async def run(self, request: turn_service_pb2.RunTurnRequest) -> list[turn_service_pb2.RunTurnResponse]:
        """All frames of a turn."""
        return [frame async for frame in self.turns.RunTurn(request, timeout=SECONDS)]


async def has_price(model: ModelSelection) -> bool:
    """Only the default model has a price."""
    return model == ModelSelection("scripted", "scripted-model")


@asynccontextmanager
async def connected(
    script: Sequence[Sequence[Step]],
    functions: Mapping[str, Function] | None = None,
    *,
    store: Store | None = None,
    listen: Listen = LOOPBACK,
) -> AsyncIterator[Connected]:
    """A server on a free loopback port."""
    async with world(script, functions, store=store) as w:
        model = ModelSelection("scripted", "scripted-model")
        info = ServerService(w.engine, "default", model, 1 << 20, has_price, durable=False)
        server = RpcServer(listen, TurnService(w.engine), info)
        await server.start()
        address = f"127.0.0.1:{server.port}"
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                turns: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
                servers: server_service_pb2_grpc.ServerServiceAsyncStub = server_service_pb2_grpc.ServerServiceStub(
                    channel
                )
                yield Connected(w, channel, turns, servers, address)
        finally:
            await server.stop(0)


def prompt(text: str = "Hello", **fields: object) -> turn_service_pb2.RunTurnRequest:
    """A turn with one user message."""
    request = turn_service_pb2.RunTurnRequest()
    request.turn.input.add(role=2).parts.add().text = text
    for name, value in fields.items():
        setattr(request.turn, name, value)
    return request


def details(error: grpc.aio.AioRpcError) -> tuple[error_details_pb2.ErrorInfo, list[ProtoMessage]]:
    """ErrorInfo and the other details of an error."""
    metadata = dict(error.trailing_metadata() or ())
    raw = metadata["grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    info: error_details_pb2.ErrorInfo | None = None
    others: list[ProtoMessage] = []
    packed: Any
    for packed in status_pb2.Status.FromString(raw).details:
        for kind in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.BadRequest,
            error_details_pb2.ResourceInfo,
            error_details_pb2.RetryInfo,
        ):
            if packed.Is(kind.DESCRIPTOR):
                message = kind()
                packed.Unpack(message)
                if isinstance(message, error_details_pb2.ErrorInfo):
                    info = message
                else:
                    others.append(message)
    assert info is not None
    return info, others
