"""A line between a client and the server in a scenario, which is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

CHUNK = 1024


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
