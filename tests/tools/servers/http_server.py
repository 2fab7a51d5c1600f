"""An MCP server over Streamable HTTP that misbehaves on demand, in the event loop of its test, on the loopback.

Raw asyncio: what a well-made server would never do has to be possible, byte by byte.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MODERN = "2026-07-28"
OBJECT = {"type": "object"}
Json = dict[str, Any]
QUESTION: Json = {
    "message": "Which size?",
    "requestedSchema": {
        "type": "object",
        "properties": {"size": {"type": "string"}, "colour": {"type": "string", "default": "red"}},
        "required": ["size"],
    },
}
Route = Callable[[Mapping[str, str], bytes], tuple[int, Json]]
"""Answers another path than MCP's: headers and body to status and JSON."""


@dataclass(frozen=True)
class Status:
    """The answer has this status."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"no"


@dataclass(frozen=True)
class Kill:
    """The request is taken, and the connection closed without an answer; with ``begun``, after an answer has begun."""

    begun: bool = False


@dataclass(frozen=True)
class Wait:
    """The answer comes when the event is set; never, without one."""

    until: asyncio.Event | None = None


@dataclass(frozen=True)
class Body:
    """The answer's body is this, word for word."""

    data: bytes
    kind: str = "application/json"


Fault = Status | Kill | Wait | Body


@dataclass
class Seen:
    """A request that came in."""

    verb: str
    headers: Mapping[str, str]
    message: Json

    @property
    def method(self) -> str:
        """Of the JSON-RPC message; empty for a response."""
        return str(self.message.get("method", ""))

    @property
    def tool(self) -> str:
        """The tool that it calls."""
        return str((self.message.get("params") or {}).get("name", ""))


@dataclass
class HttpMcp:
    """``pages`` are the pages of the tool list. ``events``: requests are answered with a stream of events.

    ``secret``: requests must bear this token. ``cancelled`` has the tools whose request broke off or was cancelled.
    """

    modern: bool = True
    events: bool = False
    sessions: bool = True
    ttl_ms: int = 0
    secret: str = ""
    challenge: str = "Bearer"
    list_changed: bool = False
    pages: Sequence[Sequence[Any]] = field(default_factory=lambda: [[tool("echo"), tool("other")]])
    seen: list[Seen] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    open: int = 0
    url: str = ""
    question: Json = field(default_factory=lambda: dict(QUESTION))
    forget_status: int = 404
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    always: dict[str, Fault] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    routes: dict[str, Route] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _sessions: int = 0

    def fail(self, what: str, *faults: Fault) -> None:
        """The next requests of this method, or calls of this tool, meet these faults, one each."""
        self.faults.setdefault(what, deque()).extend(faults)

    def methods(self) -> list[str]:
        """Methods of the JSON-RPC messages so far."""
        return [seen.method for seen in self.seen if seen.verb == "POST"]

    def count(self, method: str, name: str = "") -> int:
        """How many requests of a method there were, or calls of a tool."""
        return sum(seen.method == method and (not name or seen.tool == name) for seen in self.seen)

    async def until(self, condition: Any) -> None:
        """Return when the condition holds; it is asked again whenever something has come in."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    async def notify(self, method: str, times: int = 1) -> None:
        """Tell everybody who listens."""
        message = {"jsonrpc": "2.0", "method": method}
        for writer in list(self._streams):
            meta = getattr(writer, "subscription", None)
            told = (
                {**message, "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": meta}}} if meta else message
            )
            writer.write(event(told) * times)
            await writer.drain()

    # --- HTTP --------------------------------------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            self._tasks.discard(task)
            if writer in self._streams:
                self._streams.remove(writer)
            writer.close()
            self.changed.set()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        verb, path = head[0].split(" ")[:2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if (route := self.routes.get(path)) is not None:
            status, answer = route(headers, body)
            return await send(writer, status, {"content-type": "application/json"}, json.dumps(answer).encode())
        message: Json = json.loads(body) if body else {}
        seen = Seen(verb, headers, message)
        self.seen.append(seen)
        self.changed.set()
        fault = self._fault(seen)
        if isinstance(fault, Kill) and not fault.begun:
            self._executes(seen)
            return False
        if isinstance(fault, Wait):
            self._executes(seen)
            await self._waited(fault, reader, seen)
        if isinstance(fault, Status):
            return await send(writer, fault.code, fault.headers, fault.body)
        if self.secret and headers.get("authorization") != f"Bearer {self.secret}":
            return await send(writer, 401, {"www-authenticate": self.challenge}, b"")
        if (refused := self._session_refused(seen)) is not None:
            return await send(writer, refused.code, {}, refused.body)
        if isinstance(fault, Body):
            self._executes(seen)
            return await send(writer, 200, {"content-type": fault.kind}, fault.data)
        return await self._answered(seen, fault, reader, writer)

    async def _waited(self, fault: Wait, reader: asyncio.StreamReader, seen: Seen) -> None:
        """Until the event, or until the other side has gone."""
        gone = asyncio.create_task(reader.read(1))
        waits = [gone] if fault.until is None else [gone, asyncio.create_task(fault.until.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                self.cancelled.append(seen.tool)
                raise ConnectionResetError
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _fault(self, seen: Seen) -> Fault | None:
        for what in (seen.tool, seen.method, seen.verb):
            if what and (waiting := self.faults.get(what)):
                return waiting.popleft()
            if what and what in self.always:
                return self.always[what]
        return None

    def _session_refused(self, seen: Seen) -> Status | None:
        if self.modern or not self.sessions or seen.method in ("initialize", "server/discover"):
            return None
        if seen.headers.get("mcp-session-id", "") in self.known:
            return None
        return Status(self.forget_status, {}, b'{"error":"no valid session"}')

    def _executes(self, seen: Seen) -> None:
        if seen.method == "tools/call":
            self.executed.append(seen.tool)

    async def _answered(
        self, seen: Seen, fault: Fault | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if seen.verb == "GET" or seen.method == "subscriptions/listen":
            return await self._listen(seen, reader, writer)
        if seen.verb == "DELETE":
            self.known.discard(seen.headers.get("mcp-session-id", ""))
            return await send(writer, 200, {}, b"")
        if "id" not in seen.message or "method" not in seen.message:
            if seen.method == "notifications/cancelled":
                asked = seen.message["params"]["requestId"]
                self.cancelled += [item.tool for item in self.seen if item.message.get("id") == asked]
                self.changed.set()
            return await send(writer, 202, {}, b"")
        if not isinstance(fault, Wait):
            self._executes(seen)
        headers: dict[str, str] = {}
        if seen.method == "initialize" and not self.modern and self.sessions:
            self._sessions += 1
            headers["mcp-session-id"] = f"session-{self._sessions}"
            self.known.add(headers["mcp-session-id"])
        if seen.tool == "ask" and not self.modern:
            return await self._asks(seen, writer)
        answer = {"jsonrpc": "2.0", "id": seen.message["id"], **self._result(seen)}
        if isinstance(fault, Kill):
            await begin_events(writer)
            writer.write(event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}))
            await writer.drain()
            return False
        if self.events and seen.method == "tools/call":
            await begin_events(writer)
            token = (seen.message["params"].get("_meta") or {}).get("progressToken")
            if token is not None:
                told = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
                writer.write(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}))
            writer.write(event(answer))
            await writer.drain()
            return False
        return await send(writer, 200, {"content-type": "application/json", **headers}, json.dumps(answer).encode())

    async def _asks(self, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        """Ask in the stream of the call, wait for the answer, and say it again as the result."""
        call = seen.message["id"]
        await begin_events(writer)
        question = {"jsonrpc": "2.0", "id": f"question-{call}", "method": "elicitation/create", "params": self.question}
        writer.write(event(question))
        await writer.drain()
        given: list[Json] = []

        def told() -> bool:
            given[:] = [s.message["result"] for s in self.seen if s.message.get("id") == question["id"]]
            return bool(given)

        while not told():
            self.changed.clear()
            await self.changed.wait()
        content = [{"type": "text", "text": json.dumps(given[0], sort_keys=True)}]
        writer.write(event({"jsonrpc": "2.0", "id": call, "result": {"content": content}}))
        await writer.drain()
        return False

    async def _listen(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if not self.list_changed:
            return await send(writer, 405, {}, b"")
        await begin_events(writer)
        if seen.verb == "POST":
            told = {
                "_meta": {"io.modelcontextprotocol/subscriptionId": seen.message["id"]},
                "notifications": {"toolsListChanged": True},
            }
            writer.write(
                event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told})
            )
            writer.subscription = seen.message["id"]  # type: ignore[attr-defined]
        self._streams.append(writer)
        self.changed.set()
        await reader.read()
        return False

    @property
    def listening(self) -> int:
        """How many listen to changes."""
        return len(self._streams)

    def close_all(self) -> None:
        """Drop all connections, as a server that restarts does."""
        for task in list(self._tasks):
            task.cancel()

    # --- JSON-RPC ----------------------------------------------------------------------------------------------------

    def _result(self, seen: Seen) -> Json:
        capabilities = {"tools": {"listChanged": self.list_changed}, "resources": {}, "prompts": {}}
        done: Json = {"resultType": "complete"} if self.modern else {}
        caching = {"ttlMs": self.ttl_ms, "cacheScope": "private"} if self.modern else {}
        params = seen.message.get("params") or {}
        match seen.method:
            case "server/discover" if self.modern:
                return {"result": {**done, **caching, "supportedVersions": [MODERN], "capabilities": capabilities}}
            case "initialize" if not self.modern:
                info = {"name": "faulty", "version": "1"}
                version = params["protocolVersion"]
                return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
            case "tools/list":
                number = int(params.get("cursor") or 0)
                page: Json = {"tools": list(self.pages[number])}
                if number + 1 < len(self.pages):
                    page["nextCursor"] = str(number + 1)
                return {"result": {**done, **caching, **page}}
            case "tools/call":
                return self._called(params, done)
            case "ping":
                return {"result": {}}
            case "resources/list":
                return {"result": {**done, **caching, "resources": [{"uri": "note://1", "name": "one"}]}}
            case "resources/templates/list":
                return {
                    "result": {**done, **caching, "resourceTemplates": [{"uriTemplate": "note://{n}", "name": "n"}]}
                }
            case "resources/read":
                contents = [{"uri": params["uri"], "mimeType": "text/plain", "text": f"about {params['uri']}"}]
                return {"result": {**done, **caching, "contents": contents}}
            case "prompts/list":
                return {"result": {**done, **caching, "prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}}
            case "prompts/get":
                text = f"Greet {params['arguments']['who']}."
                messages = [{"role": "user", "content": {"type": "text", "text": text}}]
                return {"result": {**done, "messages": messages}}
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}

    def _called(self, params: Json, done: Json) -> Json:
        names = [item["name"] for page in self.pages for item in page if isinstance(item, dict) and "name" in item]
        if params["name"] not in names:
            return {"error": {"code": -32602, "message": "Unknown tool"}}
        if params["name"] == "fails":
            words = [{"type": "text", "text": "nothing is there"}]
            return {"result": {**done, "content": words, "isError": True}}
        if params["name"] == "ask":
            if "inputResponses" not in params:
                wanted = {"q": {"method": "elicitation/create", "params": self.question}}
                return {"result": {"resultType": "input_required", "inputRequests": wanted, "requestState": "s-1"}}
            text = json.dumps(params["inputResponses"]["q"], sort_keys=True)
            return {"result": {**done, "content": [{"type": "text", "text": text}]}}
        size = params["arguments"].get("bytes")
        text = "x" * size if size else params["arguments"].get("text", "done")
        return {"result": {**done, "content": [{"type": "text", "text": text}]}}


def tool(name: str, **more: Any) -> Json:
    """A tool of a list."""
    return {"name": name, "inputSchema": OBJECT} | more


def event(message: Json) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(message).encode() + b"\n\n"


async def begin_events(writer: asyncio.StreamWriter) -> None:
    """The head of an answer that is a stream of events, to its close."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    await writer.drain()


async def send(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """A whole answer; the connection goes on."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1") + body)
    await writer.drain()
    return True


@asynccontextmanager
async def http_mcp(server: HttpMcp | None = None, port: int = 0) -> AsyncIterator[HttpMcp]:
    """The server, listening."""
    server = server or HttpMcp()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    try:
        yield server
    finally:
        listening.close()
        server.close_all()
        await asyncio.gather(*server._tasks, return_exceptions=True)
