"""What lies between a client and the server in a scenario: a line that is cut, and a relay that changes frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
from aiohttp import ClientSession, web

from turnwire.v1 import turn_service_pb2 as pb
from turnwire.v1.event_pb2 import RunEvent

CHUNK = 1024
UNKNOWN_CASE = b"\xa2\x38\x02hi"
"""Field 900, two bytes of it: a case that no client knows."""
SERVICE = "turnwire.v1.TurnService"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


@dataclass
class Line:
    """A relay of bytes. ``cuts``: after how many bytes of the server a connection breaks, one after the other; then it
    holds.

    ``gone``: connections beyond that are refused. ``held``: at its limit a connection first goes silent, until this is
    set.
    """

    host: str
    port: int
    cuts: list[int]
    gone: bool = False
    held: asyncio.Event | None = None
    address: str = ""
    broken: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the client."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.gone and self.broken and not self.cuts:
                return
            there, back = await asyncio.open_connection(self.host, self.port)
            try:
                limit = self.cuts[0] if self.cuts else None
                up = asyncio.create_task(_copy(reader, back, None))
                down = asyncio.create_task(_copy(there, writer, limit, self.held))
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                if down.done() and not down.cancelled() and down.result():
                    self.broken += 1
                    self.cuts = self.cuts[1:]
                for copy in (up, down):
                    copy.cancel()
                await asyncio.wait((up, down))
            finally:
                back.transport.abort()
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def aclose(self) -> None:
        """Break what is open."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None, held: asyncio.Event | None = None
) -> bool:
    """Until one side ends, or the limit. Whether it was the limit."""
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            if limit is not None and len(data) >= limit:
                writer.write(data[:limit])
                await writer.drain()
                if held is not None:
                    await held.wait()
                return True
            limit = None if limit is None else limit - len(data)
            writer.write(data)
            await writer.drain()
    return False


@asynccontextmanager
async def line(
    address: str, cuts: Sequence[int], *, gone: bool = False, held: asyncio.Event | None = None
) -> AsyncIterator[Line]:
    """A line to the server at ``address``."""
    host, _, port = address.rpartition(":")
    made = Line(host, int(port), list(cuts), gone, held)
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await made.aclose()


Change = Callable[[pb.RunTurnResponse], None]


class Relay(grpc.GenericRpcHandler):
    """The server with frames that are changed on the way."""

    def __init__(self, channel: grpc.aio.Channel, change: Change) -> None:
        self._channel = channel
        self._change = change
        methods = pb.DESCRIPTOR.services_by_name["TurnService"].methods
        self._streams = {f"/{SERVICE}/{method.name}": method.server_streaming for method in methods}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """A relay of the bytes of the method."""
        method = handler_call_details.method
        if method not in self._streams:
            return None

        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            made: Any = self._channel.unary_stream(method)
            call = made(request, metadata=context.invocation_metadata())
            async for frame in call:
                changed = pb.RunTurnResponse.FromString(frame)
                self._change(changed)
                yield changed.SerializeToString()

        async def unary(request: bytes, context: Any) -> bytes:
            made: Any = self._channel.unary_unary(method)
            answer: bytes = await made(request, metadata=context.invocation_metadata())
            return answer

        if self._streams[method]:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


def of_a_later_version(frame: pb.RunTurnResponse) -> None:
    """The second event of each run is of a case that nobody knows."""
    events = list(frame.events)
    del frame.events[:]
    for event in events:
        if event.sequence == 2:
            news = RunEvent.FromString(UNKNOWN_CASE)
            news.sequence = 2
            frame.events.append(news)
        if event.sequence >= 2:
            event.sequence += 1
        frame.events.append(event)
    frame.through_sequence += frame.through_sequence >= 2
    frame.last_sequence += frame.last_sequence >= 2


def with_large_counts(frame: pb.RunTurnResponse) -> None:
    """A run has read more tokens than a double can count."""
    for event in frame.events:
        if event.HasField("run_finished"):
            event.run_finished.usage.input_tokens = 2**53 + 1


class Repeating:
    """Each frame begins with the events of the frame before: a reader drops what it has."""

    def __init__(self) -> None:
        self._before: list[RunEvent] = []

    def __call__(self, frame: pb.RunTurnResponse) -> None:
        events = list(frame.events)
        del frame.events[:]
        frame.events.extend([*self._before, *events])
        self._before = events or self._before


@asynccontextmanager
async def relayed(address: str, change: Change) -> AsyncIterator[str]:
    """The address of a relay in front of the server at ``address``."""
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers((Relay(channel, change),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(1.0)


@asynccontextmanager
async def relayed_http(url: str, change: Change) -> AsyncIterator[str]:
    """The same in front of the HTTP port, for streams over Connect; everything else is passed on as it is."""

    async def handle(request: web.Request) -> web.StreamResponse:
        async with ClientSession(auto_decompress=False) as session:
            body = await request.read()
            headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
            async with session.request(request.method, url + request.path, headers=headers, data=body) as answer:
                kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                held = b""
                async for data in answer.content.iter_any():
                    streams = answer.content_type == "application/connect+proto"
                    held, out = _envelopes(held + data, change) if streams else (b"", data)
                    await response.write(out)
                return response

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


HOP = frozenset({"host", "content-length", "transfer-encoding", "connection", "keep-alive"})


def _envelopes(data: bytes, change: Change) -> tuple[bytes, bytes]:
    """What is not whole yet, and the envelopes that are, with their frames changed."""
    out = b""
    while len(data) >= 5 and len(data) >= 5 + (size := int.from_bytes(data[1:5], "big")):
        flags, body, data = data[0], data[5 : 5 + size], data[5 + size :]
        if not flags:
            frame = pb.RunTurnResponse.FromString(body)
            change(frame)
            body = frame.SerializeToString()
        out += bytes([flags]) + len(body).to_bytes(4, "big") + body
    return data, out
