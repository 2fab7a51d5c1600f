"""What the tests of tools share: fake sources, registries over a few functions, and MCP servers that misbehave."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from turnwired.domain.failure import Failure
from turnwired.domain.message import Data, Text, ToolResult
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool, ToolRef, ToolSelection, ToolSource
from turnwired.tools.mcp.config import HttpServer, McpServer, StdioServer
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.port import ProgressReporter, ToolInvocation, ToolOutput, ToolRegistry, ToolView
from turnwired.tools.python import PythonToolset
from turnwired.tools.registry import Registry, Source

SERVER = Path(__file__).parent / "servers" / "stdio_server.py"
EMPTY_SCHEMA = '{"type":"object"}'


def described(
    name: str, schema: str = EMPTY_SCHEMA, source: ToolSource = ToolSource.LOCAL, server_id: str | None = None
) -> Tool:
    """A tool of a source."""
    return Tool(ref=ToolRef(name, name, source, server_id), description=f"Does {name}.", input_schema_json=schema)


@dataclass
class FakeToolset:
    """A source whose behaviour a test gives."""

    set_id: str
    listed: Sequence[Tool] = ()
    failure: Failure | None = None
    left_out: Sequence[Failure] = ()
    error: Exception | None = None
    hangs: bool = False
    output: Callable[[ToolInvocation], ToolOutput] | None = None
    calls: list[ToolInvocation] = field(default_factory=list)
    closed: bool = False

    async def start(self) -> None:
        """Nothing to do."""

    async def tools(self) -> Sequence[Tool]:
        """What the test gave."""
        if self.error is not None:
            raise self.error
        if self.hangs:
            await anyio.sleep_forever()
        return self.listed

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """What the test gave."""
        self.calls.append(invocation)
        assert self.output is not None
        return self.output(invocation)

    async def aclose(self) -> None:
        """Remember it."""
        self.closed = True


def invocation(
    arguments: dict[str, object] | None = None,
    *,
    timeout: float | None = 5.0,
    headers: dict[str, str] | None = None,
    on_progress: ProgressReporter | None = None,
) -> ToolInvocation:
    """One call of a run."""
    return ToolInvocation(
        run_id="run-1",
        call_id="call-1",
        native_name="",
        arguments=arguments or {},
        caller=Caller(),
        timeout=timeout,
        headers=headers or {},
        on_progress=on_progress,
    )


async def view_of(*sources: Source, selection: ToolSelection | None = None) -> ToolView:
    """A view over these sources."""
    registry: ToolRegistry = Registry(sources)
    return await registry.view(selection or ToolSelection(), Caller())


async def view_of_functions(*functions: Callable[..., object]) -> ToolView:
    """A view over Python functions."""
    return await view_of(Source(PythonToolset(functions)))


async def run_tool(
    view: ToolView,
    name: str,
    arguments_json: str = "{}",
    *,
    timeout: float | None = 15.0,  # noqa: ASYNC109  the call's own
) -> ToolResult:
    """Check and execute a call that is expected to pass the check."""
    checked = view.check(name, arguments_json, ArgumentValidation.STRICT)
    assert checked.arguments is not None, checked.failure
    return await view.execute(name, invocation(dict(checked.arguments), timeout=timeout), 65536)


def words_of(result: ToolResult) -> str:
    """All that the model reads of a result."""
    contents = (part.content for part in result.content)
    return "\n".join(
        item.text if isinstance(item, Text) else item.json for item in contents if isinstance(item, (Text, Data))
    )


@dataclass
class Operation:
    """One request that telemetry was told about."""

    method: str
    tool: str | None
    protocol_version: str | None
    transport: str
    id: str = ""
    error: str = ""

    def failed(self, error_type: str) -> None:
        """Part of the port."""
        self.error = error_type

    def request_id(self, jsonrpc_id: str) -> None:
        """Part of the port."""
        self.id = jsonrpc_id


@dataclass
class RecordingTelemetry:
    """Keeps what it is told."""

    operations: list[Operation] = field(default_factory=list)

    @contextmanager
    def operation(
        self, method: str, *, tool: str | None, protocol_version: str | None, transport: str
    ) -> Iterator[Operation]:
        """Part of the port."""
        operation = Operation(method, tool, protocol_version, transport)
        self.operations.append(operation)
        yield operation


def misbehaving(*options: str, **settings: object) -> StdioServer:
    """The configuration of our own server with these options."""
    return StdioServer.model_validate(
        {
            "command": sys.executable,
            "args": (str(SERVER), *options),
            "connect_timeout": 20,
            "discovery_grace": 20,  # a machine that is busy with other tests is no broken server
            "close_timeout": 2,
            **settings,
        }
    )


def at(url: str, **settings: object) -> HttpServer:
    """The configuration of the server at this address."""
    return HttpServer.model_validate({"url": url, "connect_timeout": 20, "discovery_grace": 20, **settings})


async def eventually(condition: Callable[[], Awaitable[bool]], within: float = 30.0) -> None:
    """Return when the condition holds, of which nobody tells; it is asked a hundred times a second."""
    with anyio.fail_after(within):
        while not await condition():  # noqa: ASYNC110 - it has no event
            await anyio.sleep(0.01)


@asynccontextmanager
async def mcp_server(
    config: McpServer, telemetry: RecordingTelemetry | None = None
) -> AsyncIterator[tuple[McpToolset, ToolView]]:
    """A started server ``m`` and a view over it alone; ended afterwards."""
    toolset = McpToolset("m", config, telemetry or RecordingTelemetry())
    await toolset.start()
    try:
        yield toolset, await view_of(Source(toolset, namespace="m"))
    finally:
        await toolset.aclose()


def blocking(event: threading.Event) -> Callable[..., object]:
    """A tool that blocks its thread until the event."""

    def block() -> str:
        """Block."""
        event.wait(10)
        return "late"

    return block


Speaking = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Speaking) -> AsyncIterator[str]:
    """Something that answers each connection in its own way; its address. No connection outlives the block."""
    writers: list[asyncio.StreamWriter] = []
    over = False

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if over:  # it was accepted while the block was left
            writer.transport.abort()
        else:
            await answer(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        over = True
        server.close()
        for writer in writers:
            writer.transport.abort()


async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read and say nothing."""
    while await reader.read(4096):
        pass
