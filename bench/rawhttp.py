"""The least HTTP that reads a provider's stream: keep-alive, content-length out, chunked in. For the relay only."""

from __future__ import annotations

import asyncio
from typing import cast

from bench.handloop import EventSplitter, OnEvents
from bench.turn import TurnFailure


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = b""
        self._in_body = False
        self._splitter = EventSplitter()
        self._on_events: OnEvents | None = None
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._fail(exc or TurnFailure("the provider closed the connection"))

    def ask(self, request: bytes, on_events: OnEvents) -> asyncio.Future[None]:
        """Send a request; the future is done with the answer's end."""
        assert self.transport is not None
        self._buffer, self._in_body, self._splitter = b"", False, EventSplitter()
        self._on_events = on_events
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        position = 0
        if not self._in_body:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                self._buffer = buffer
                return
            if not buffer.startswith(b"HTTP/1.1 200"):
                self._fail(TurnFailure(buffer[:500].decode()))
                return
            self._in_body = True
            position = end + 4
        self._read_chunks(buffer, position)

    def _read_chunks(self, buffer: bytes, position: int) -> None:
        content: list[bytes] = []
        ended = False
        while (line_end := buffer.find(b"\r\n", position)) >= 0:
            size = int(buffer[position:line_end], 16)
            after = line_end + 2 + size + 2
            if after > len(buffer):
                break
            position = after
            if not size:
                ended = True
                break
            content.append(buffer[line_end + 2 : after - 2])
        self._buffer = buffer[position:]
        if content and self._on_events is not None:
            self._on_events(self._splitter.feed(b"".join(content)))
        if ended and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)


class RawClient:
    """A pool of connections to one host."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._host, self._port = host, port
        self._head = (
            f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer x\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()
        self._idle: list[_Connection] = []

    async def post(self, body: bytes, on_events: OnEvents) -> None:
        """Post a body and tell the events of each read."""
        connection = self._idle.pop() if self._idle else None
        if connection is None or connection.transport is None:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(_Connection, self._host, self._port)
        await connection.ask(self._head + b"%d\r\n\r\n" % len(body) + body, on_events)
        self._idle.append(connection)

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            if connection.transport is not None:
                connection.transport.close()
