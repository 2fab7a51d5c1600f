"""A scripted TurnService on a loopback port, for tests of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from client.scripted import ScriptedTurnService

from turnwire.v1 import turn_service_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from turnwire.v1.turn_service_pb2_grpc import TurnServiceAsyncStub


@pytest.fixture
async def service() -> AsyncIterator[ScriptedTurnService]:
    server = grpc.aio.server()
    scripted = ScriptedTurnService()  # type: ignore[abstract]  # what is not scripted answers UNIMPLEMENTED
    turn_service_pb2_grpc.add_TurnServiceServicer_to_server(scripted, server)
    scripted.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield scripted
    await server.stop(grace=None)


@pytest.fixture
async def stub(service: ScriptedTurnService) -> AsyncIterator[TurnServiceAsyncStub]:
    async with grpc.aio.insecure_channel(service.address) as channel:
        yield turn_service_pb2_grpc.TurnServiceStub(channel)
