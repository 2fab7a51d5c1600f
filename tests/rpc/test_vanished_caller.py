"""A caller whose machine is gone: nothing closes the connection, and nothing comes over it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from engine.harness import LIMIT
from rpc.server import SECONDS, Connected, connected, prompt

from turnwire.v1 import outcome_pb2, turn_service_pb2, turn_service_pb2_grpc
from turnwired.rpc.server import Listen
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio

IMPATIENT = Listen("127.0.0.1:0", keepalive_seconds=0.5, keepalive_timeout_seconds=2)


class Link:
    """A connection to the server in between, which can be cut so that neither end notices."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """Carry nothing from here on."""
        self._open.clear()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes both ways."""
        there, back = await asyncio.open_connection(*self._to)
        self._writers += [writer, back]
        for source, sink in ((reader, back), (there, writer)):
            self._tasks.add(asyncio.create_task(self._carry(source, sink)))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._open.wait()
            sink.write(data)

    async def aclose(self) -> None:
        """End it all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def link_to(c: Connected) -> AsyncIterator[tuple[Link, str]]:
    """A link to the server, and its own address."""
    host, _, port = c.address.rpartition(":")
    link = Link(host, int(port))
    listener = await asyncio.start_server(link.accept, "127.0.0.1", 0)
    try:
        yield link, f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await link.aclose()


@pytest.mark.requirement("RPC-29", "SCN-096")
async def test_a_caller_that_vanished_ends_its_run_as_one_that_cut_its_stream() -> None:
    never = asyncio.Event()
    script = [[*answer("begun ")[:1], never.wait, *answer("done")]]
    async with (
        connected(script, listen=IMPATIENT) as c,
        link_to(c) as (link, address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        turns: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
        call = turns.RunTurn(prompt())
        frame = await anext(aiter(call))
        link.cut()
        watch = turn_service_pb2.WatchRunRequest(run_id=frame.events[0].run_started.run_id)
        async with asyncio.timeout(LIMIT):
            events = [event async for seen in c.turns.WatchRun(watch, timeout=SECONDS) for event in seen.events]
    outcome = events[-1].run_finished.outcome
    assert outcome.kind == outcome_pb2.OUTCOME_KIND_ABORTED
    assert outcome.failure.reason == outcome_pb2.REASON_CALLER_DISCONNECTED
