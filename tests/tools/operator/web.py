"""A web server on the loopback that says what a test wants, and names that a test resolves."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Page = bytes | Callable[[asyncio.StreamWriter], "asyncio.Future[None]"]


def page(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; underscores in names of headers are dashes."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join((f"HTTP/1.1 {status}", *lines, f"content-length: {len(body)}", "connection: close", "", ""))
    return head.encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """An answer that leads elsewhere."""
    return page(b"", status, location=location)


@dataclass
class Web:
    """The server: pages by path, and the requests that came, word for word."""

    pages: dict[str, bytes]
    port: int = 0
    requests: list[str] = field(default_factory=list)
    sent: int = 0

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [request.split(" ")[1] for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            path = head.split(" ")[1]
            if path == "/endless":
                await self._endless(writer)
            elif path == "/mute":
                await reader.read()
            else:
                writer.write(self.pages.get(path, page(b"none", "404 Not Found")))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _endless(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        for _ in range(10_000):
            writer.write(b"x" * 65536)
            self.sent += 65536
            await writer.drain()


@asynccontextmanager
async def web(pages: Mapping[str, bytes], tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """The server, for as long as it is needed."""
    site = Web(dict(pages))
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    async with server:
        yield site


@dataclass
class Names:
    """A resolver: each time that a name is asked for it gives the next of its answers, and the last from then on."""

    answers: Mapping[str, Sequence[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name."""
        before = self.asked.count(host)
        self.asked.append(host)
        if host not in self.answers:
            raise OSError("there is no such name")
        given = self.answers[host]
        return given[min(before, len(given) - 1)]


def loopback(*names: str) -> Names:
    """All these names are this machine."""
    return Names({name: [["127.0.0.1"]] for name in names})
