"""A scripted HTTP server on the loopback interface: each connection's requests are answered by a handler."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """What a client sent. ``connection`` counts connections from 1."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass(slots=True)
class Answer:
    """Writes the answer piece by piece, chunked. ``gone`` is set when the client closes the connection."""

    writer: asyncio.StreamWriter
    gone: asyncio.Event

    async def start(self, status: int = 200, content_type: str = "text/event-stream", **headers: str) -> None:
        """Send the head."""
        lines = [f"HTTP/1.1 {status} X", f"content-type: {content_type}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        await self.writer.drain()

    async def send(self, data: bytes) -> None:
        """Send one chunk of the body."""
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self.writer.drain()

    async def end(self) -> None:
        """End the body; the connection stays open."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def all(self, body: bytes, status: int = 200, **headers: str) -> None:
        """A whole answer at once."""
        await self.start(status, **headers)
        await self.send(body)
        await self.end()


Handler = Callable[[Request, Answer], Awaitable[None]]


@dataclass(slots=True)
class Server:
    """A running server. ``requests`` are those so far."""

    port: int
    requests: list[Request] = field(default_factory=list[Request])
    connections: int = 0

    @property
    def url(self) -> str:
        """Base URL as a profile has it."""
        return f"http://127.0.0.1:{self.port}/v1"


@asynccontextmanager
async def serve(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server, None]:
    """Run a server for the duration of the block."""
    running = Server(0)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        running.connections += 1
        try:
            await _serve_connection(reader, writer, running, handler, running.connections)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    running.port = listener.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, running: Server, handler: Handler, number: int
) -> None:
    while head := await _head(reader):
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(first.split()[1], headers, body, number)
        running.requests.append(request)
        gone = asyncio.Event()
        # Nothing more comes from a client that waits for an answer, so a read that ends means that it went away.
        watch = asyncio.create_task(_watch(reader, gone))
        try:
            await handler(request, Answer(writer, gone))
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


async def _watch(reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
    while not reader.at_eof() and not reader.exception():
        waiter = getattr(reader, "_wait_for_data")  # noqa: B009 - reads nothing, so the next request stays whole
        await waiter("watch")
    gone.set()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
