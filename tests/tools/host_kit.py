"""An app that serves tools, for tests: with everything that a test wants to see or spoil."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from turnwire.v1 import tool_host_service_pb2 as pb2
from turnwire.v1 import tool_host_service_pb2_grpc as stubs
from turnwire.v1.message_pb2 import Part
from turnwire.v1.tool_pb2 import ToolAnnotations
from turnwired.domain.run import Caller
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.port import ProgressReporter, ToolInvocation

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Callable[[pb2.CallToolRequest, Context], AsyncIterator[pb2.CallToolResponse]]
Page = pb2.ToolHostServiceListToolsResponse
SCHEMA = '{"type":"object","properties":{"name":{"type":"string"}},"additionalProperties":false}'


def tool(name: str, *, deduplicated: bool = False, **hints: bool) -> pb2.HostedTool:
    """A tool that takes a name."""
    return pb2.HostedTool(
        name=name,
        description=f"Does {name}.",
        input_schema_json=SCHEMA,
        annotations=ToolAnnotations(**hints),
        deduplicated=deduplicated,
    )


def text(words: str, *, is_error: bool = False) -> pb2.CallToolResponse:
    """A result of text."""
    return result(Part(text=words), is_error=is_error)


def result(*parts: Part, structured: str | None = None, is_error: bool = False) -> pb2.CallToolResponse:
    """A result."""
    gave = pb2.HostedToolResult(content=parts, structured_json=structured, is_error=is_error)
    return pb2.CallToolResponse(result=gave)


def progress(done: float, total: float | None = None, message: str = "") -> pb2.CallToolResponse:
    """A report of progress."""
    return pb2.CallToolResponse(progress=pb2.ToolProgress(done=done, total=total, message=message))


async def echo(request: pb2.CallToolRequest, context: Context) -> AsyncIterator[pb2.CallToolResponse]:
    """Gives its arguments back."""
    yield text(request.arguments_json)


@dataclass
class App(stubs.ToolHostServiceServicer):
    """One app. ``watches`` and ``healthy``: whether it implements WatchTools and the health service."""

    tools: list[pb2.HostedTool] = field(default_factory=lambda: [tool("echo"), tool("look", read_only=True)])
    version: str = "1"
    call: Handler = echo
    watches: bool = True
    healthy: bool = True
    page: Callable[[pb2.ToolHostServiceListToolsRequest], Page] | None = None
    port: int = 0
    asked: list[pb2.ToolHostServiceListToolsRequest] = field(default_factory=list)
    calls: list[pb2.CallToolRequest] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    deadlines: list[float | None] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    changes: int = 0
    watchers: int = 0
    _server: grpc.aio.Server | None = None
    _health: Any = None

    async def ListTools(  # noqa: N802 - the contract's name
        self, request: pb2.ToolHostServiceListToolsRequest, context: Any
    ) -> Page:
        """All tools on one page, unless the test says otherwise."""
        self.asked.append(request)
        if self.page is not None:
            return self.page(request)
        if self.version and request.known_version == self.version:
            return Page(version=self.version, unchanged=True)
        return Page(tools=self.tools, version=self.version)

    async def WatchTools(  # noqa: N802 - the contract's name
        self, request: pb2.WatchToolsRequest, context: Any
    ) -> AsyncIterator[pb2.WatchToolsResponse]:
        """The version now, and after each change."""
        if not self.watches:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no")
        self.watchers += 1
        told = -1
        while True:
            async with self.changed:
                while told == self.changes:
                    await self.changed.wait()
                told = self.changes
            yield pb2.WatchToolsResponse(version=self.version)

    async def CallTool(  # noqa: N802 - the contract's name
        self, request: pb2.CallToolRequest, context: Any
    ) -> AsyncIterator[pb2.CallToolResponse]:
        """What the test's handler gives."""
        self.calls.append(request)
        self.metadata.append({str(key): str(value) for key, value in context.invocation_metadata() or ()})
        self.deadlines.append(context.time_remaining())
        try:
            async for frame in self.call(request, context):
                yield frame
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def change(self, *tools: pb2.HostedTool, version: str) -> None:
        """Have other tools, and tell whoever listens."""
        self.tools, self.version = list(tools), version
        async with self.changed:
            self.changes += 1
            self.changed.notify_all()

    async def serving(self, *, works: bool) -> None:
        """What the health service says."""
        status = health_pb2.HealthCheckResponse
        await self._health.set("", status.SERVING if works else status.NOT_SERVING)

    async def start(self) -> None:
        """Listen on the loopback, on the same port as before."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        stubs.add_ToolHostServiceServicer_to_server(self, self._server)
        if self.healthy:
            self._health = health.aio.HealthServicer()
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
            await self.serving(works=True)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        """Cut every connection."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def up(app: App) -> AsyncIterator[App]:
    """The app, listening; ended afterwards."""
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


@asynccontextmanager
async def toolset_of(app: App, **settings: object) -> AsyncIterator[HostToolset]:
    """A started source over the app, whose tools are known; closed afterwards."""
    toolset = HostToolset("shop", ToolHostConfig.model_validate({"address": app.address, **settings}))
    await toolset.start()
    try:
        async with asyncio.timeout(20):
            await toolset.tools()
        yield toolset
    finally:
        await toolset.aclose()


def call_of(
    name: str = "echo",
    arguments: dict[str, object] | None = None,
    *,
    timeout: float | None = 10.0,
    on_progress: ProgressReporter | None = None,
) -> ToolInvocation:
    """One call of a run."""
    return ToolInvocation(
        "run_1",
        "call_1",
        name,
        arguments or {},
        Caller("acme", "ada"),
        session_id="session_1",
        timeout=timeout,
        headers={"traceparent": "00-11111111111111111111111111111111-2222222222222222-01"},
        on_progress=on_progress,
    )


async def names(toolset: HostToolset) -> list[str]:
    """What it lists now."""
    return [item.ref.native_name for item in await toolset.tools()]


async def until(condition: Callable[[], Awaitable[object]], seconds: float = 10.0) -> None:
    """Return when the condition holds; fail when it does not within so many seconds."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)
