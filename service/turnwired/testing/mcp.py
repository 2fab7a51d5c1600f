"""A fake MCP server in memory: real JSON-RPC over a pipe that no process holds, with faults where a test wants them.

What a toolset over it does is what it does with any server: handshake, listing, calls, recovery. Only the child process
is missing. Knows nothing of the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from turnwired.telemetry.null import NullTelemetry
from turnwired.tools.mcp.config import StdioServer
from turnwired.tools.mcp.link import Link
from turnwired.tools.mcp.process import Line
from turnwired.tools.mcp.toolset import McpToolset

MODERN_VERSION = "2026-07-28"
_CACHING = {"ttlMs": 0, "cacheScope": "private"}

Json = dict[str, Any]
Handler = Callable[[Json], Awaitable[str | Json]]
"""Takes the arguments; gives the text of the result, or a whole ``CallToolResult`` object."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The answer comes when the event is set."""

    until: asyncio.Event


@dataclass(frozen=True, slots=True)
class Drop:
    """The server takes the request, closes the connection and answers nothing: nobody knows what it has done."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The server ends during the request, with an exit code and last words on stderr."""

    code: int = 1
    words: str = ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """These lines come in place of the answer; ``ID`` in them is the id of the request."""

    lines: tuple[bytes, ...] = (b"this is no message",)


@dataclass(frozen=True, slots=True)
class Refuse:
    """The answer is a JSON-RPC error."""

    code: int = -32603
    message: str = "refused"


@dataclass(frozen=True, slots=True)
class StaleSession:
    """The server has forgotten the session: the request does not reach it, and the connection is over."""


Fault = Delay | Drop | Crash | Malformed | Refuse | StaleSession


@dataclass(frozen=True, slots=True)
class FakeTool:
    """What the server lists of a tool, and what it does."""

    run: Handler
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "object"})
    annotations: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(slots=True)
class FakeMcpServer:
    """``tools`` by name, or their functions alone; one that raises gives an error result. ``listing`` replaces what
    ``tools/list`` says of them, word for word.

    ``modern``: it speaks the era without a handshake, 2026-07-28, else the one before.
    ``requests`` are the messages so far, of all connections, and ``connections`` how many there were. ``cancelled`` are
    the names of tools whose call was cancelled by a notification; ``told`` is set when one was.
    """

    server_id: str = "fake"
    tools: Mapping[str, FakeTool | Handler] = field(default_factory=dict[str, "FakeTool | Handler"])
    listing: list[object] | None = None
    modern: bool = False
    requests: list[Json] = field(default_factory=list[Json])
    connections: int = 0
    cancelled: list[str] = field(default_factory=list[str])
    told: asyncio.Event = field(default_factory=asyncio.Event)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _faults: dict[tuple[str, str], deque[Fault]] = field(default_factory=dict[tuple[str, str], "deque[Fault]"])

    def fail(self, *faults: Fault, method: str = "tools/call", tool: str = "") -> None:
        """The next requests of this method, or calls of this tool, meet these faults, one each; later ones none.

        A request that is made again, on a new connection, is another request.
        """
        self._faults.setdefault((method, tool), deque()).extend(faults)

    def toolset(self, **settings: object) -> McpToolset:
        """A toolset over this server. ``settings`` are those of a configured server (``trust_annotations``, ...)."""
        config = StdioServer.model_validate({"command": "fake", **settings})
        return McpToolset(self.server_id, config, NullTelemetry().mcp, _Opener(self, config))

    def calls(self, tool: str) -> list[Json]:
        """The arguments of the calls of a tool that reached the server."""
        asked = [request["params"] for request in self.requests if request.get("method") == "tools/call"]
        return [params["arguments"] for params in asked if params["name"] == tool]

    async def asked(self, tool: str, times: int = 1) -> None:
        """Return when so many calls of a tool have reached the server."""
        while len(self.calls(tool)) < times:
            self._arrived.clear()
            await self._arrived.wait()

    def _took(self, message: Json) -> None:
        self.requests.append(message)
        self._arrived.set()

    def _fault(self, message: Json) -> Fault | None:
        method, tool = message.get("method", ""), (message.get("params") or {}).get("name", "")
        for key in ((method, tool), (method, "")):
            if waiting := self._faults.get(key):
                return waiting.popleft()
        return None

    def _listed(self) -> list[object]:
        if self.listing is not None:
            return self.listing
        found = {name: tool if isinstance(tool, FakeTool) else FakeTool(tool) for name, tool in self.tools.items()}
        return [
            {"name": name, "inputSchema": dict(tool.schema), "annotations": dict(tool.annotations)}
            for name, tool in found.items()
        ]

    async def _call(self, params: Json) -> Json:
        tool = self.tools.get(params["name"])
        if tool is None:
            return {"content": [{"type": "text", "text": "Unknown tool"}], "isError": True}
        run = tool.run if isinstance(tool, FakeTool) else tool
        try:
            given = await run(params.get("arguments") or {})
        except Exception as error:  # noqa: BLE001 - task boundary: a tool that raises is a tool that fails
            return {"content": [{"type": "text", "text": f"{type(error).__name__}: {error}"}], "isError": True}
        return {"content": [{"type": "text", "text": given}]} if isinstance(given, str) else given


class _Opener:
    """Opens links to a fake server."""

    transport = "pipe"

    def __init__(self, server: FakeMcpServer, config: StdioServer) -> None:
        self._server = server
        self._config = config

    async def prepare(self) -> None:
        """The SDK is loaded where it is imported: a test has the time."""

    def open(self) -> AbstractAsyncContextManager[Link]:
        """Connect."""
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Link]:
        from turnwired.tools.mcp.stdio import open_link

        self._server.connections += 1
        pipe = _Pipe(self._server)
        try:
            async with open_link(
                self._server.server_id, pipe, NullTelemetry().mcp, self._config.connect_timeout
            ) as link:
                yield link
        finally:
            await pipe.aclose()


class _Pipe:
    """Both ends of one connection."""

    def __init__(self, server: FakeMcpServer) -> None:
        self.name = f"MCP server {server.server_id!r}"
        self.ended = asyncio.Event()
        self.returncode: int | None = None
        self.last_words = ""
        self._server = server
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._work: dict[object, asyncio.Task[None]] = {}

    async def receive(self) -> Line | None:
        """The next line of the server."""
        return None if self.ended.is_set() and self._lines.empty() else await self._lines.get()

    async def send(self, line: bytes, *, wait: bool = True) -> None:
        """One line for the server, which answers in a task of its own."""
        if self.ended.is_set():
            raise BrokenPipeError(f"{self.name} does not read any more")
        message: Json = json.loads(line)
        method = message.get("method", "")
        fault = self._server._fault(message)  # noqa: SLF001 - one piece
        if isinstance(fault, StaleSession):
            self._end("does not know the session any more")
            raise BrokenPipeError(f"{self.name} does not know the session any more")
        self._server._took(message)  # noqa: SLF001 - one piece
        if "id" in message:
            self._work[message["id"]] = asyncio.create_task(self._answer(message, fault))
        elif method == "notifications/cancelled":
            self._cancel(message["params"]["requestId"])

    async def exits(self, within: float) -> bool:
        """It has no process to wait for."""
        return self.ended.is_set()

    async def aclose(self) -> None:
        """End it, and what it still works on."""
        self._end("")
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    def _end(self, words: str, code: int | None = None) -> None:
        if not self.ended.is_set():
            self.last_words, self.returncode = words, code
            self.ended.set()
            self._lines.put_nowait(None)

    def _cancel(self, request_id: object) -> None:
        asked = {message.get("id"): message for message in self._server.requests}
        task = self._work.get(request_id)
        if task is not None and not task.done():
            self._server.cancelled.append(asked[request_id]["params"].get("name", ""))
            task.cancel()
            self._server.told.set()

    async def _answer(self, message: Json, fault: Fault | None) -> None:
        match fault:
            case Drop():
                self._end("closed the connection")
                return
            case Crash(code, words):
                self._end(words, code)
                return
            case Malformed(lines):
                for line in lines:
                    self._lines.put_nowait(line.replace(b"ID", json.dumps(message["id"]).encode()))
                return
            case Refuse(code, words):
                self._reply(message, {"error": {"code": code, "message": words}})
                return
            case Delay(until):
                await until.wait()
            case _:
                pass
        self._reply(message, await self._result(message))

    async def _result(self, message: Json) -> Json:
        server = self._server
        match message["method"]:
            case "server/discover" if server.modern:
                offers = {"supportedVersions": [MODERN_VERSION], "capabilities": {"tools": {}}}
                return {"result": {"resultType": "complete", **offers, **_CACHING}}
            case "initialize" if not server.modern:
                version = message["params"]["protocolVersion"]
                info = {"name": server.server_id, "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
            case "tools/list":
                listed: Json = {"tools": server._listed()}  # noqa: SLF001 - one piece
                return {"result": {"resultType": "complete", **listed, **_CACHING} if server.modern else listed}
            case "tools/call":
                given = await server._call(message["params"])  # noqa: SLF001 - one piece
                return {"result": {"resultType": "complete", **given} if server.modern else given}
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}

    def _reply(self, message: Json, body: Json) -> None:
        if not self.ended.is_set():
            self._lines.put_nowait(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode())
