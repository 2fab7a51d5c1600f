"""Our tool sources hold to the toolset's port, and the suite that says so notices sources that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tools.grpc_kit import Reflection, Server, compiled, up
from tools.kit import RecordingTelemetry, at, misbehaving
from tools.servers.http_server import HttpMcp, Wait, http_mcp, tool

from turnwire.host import ToolHost
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.domain.tool import Tool
from turnwired.testing import (
    BROKEN_TOOLSET_CHECKS,
    TOOLSET_CHECKS,
    FakeMcpServer,
    FakeTool,
    NotConforming,
    Refuse,
    SampleToolset,
    name_of,
    toolset_conformance,
)
from turnwired.testing.toolset_checks import OpenSample, invocation
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.descriptors import link
from turnwired.tools.grpc.toolset import GrpcToolset
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.mcp.config import StdioServer
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.port import ToolInvocation, ToolOutput, Toolset
from turnwired.tools.python import PythonToolset

pytestmark = pytest.mark.anyio

CHECKS = {name_of(check): check for check in TOOLSET_CHECKS}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@asynccontextmanager
async def python() -> AsyncIterator[SampleToolset]:
    """Python functions."""
    cancelled = asyncio.Event()

    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    def fails() -> str:
        """Fail."""
        raise LookupError("nothing is there")

    async def hangs() -> str:
        """Never end."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    toolset = PythonToolset([echo, fails, hangs])
    yield SampleToolset(toolset, cancelled.wait)
    await toolset.aclose()


def fake_server() -> FakeMcpServer:
    """The three tools on a fake MCP server."""

    async def echo(arguments: dict[str, Any]) -> str:
        return str(arguments["text"])

    async def fails(arguments: dict[str, Any]) -> str:
        raise LookupError("nothing is there")

    async def hangs(arguments: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return ""

    return FakeMcpServer(tools={"echo": FakeTool(echo, TEXT), "fails": fails, "hangs": hangs})


@asynccontextmanager
async def mcp_in_memory() -> AsyncIterator[SampleToolset]:
    """An MCP server without a process."""
    server = fake_server()
    toolset = server.toolset()
    yield SampleToolset(toolset, server.told.wait)
    await toolset.aclose()


@asynccontextmanager
async def mcp_over_stdio() -> AsyncIterator[SampleToolset]:
    """An MCP server in a child process."""
    toolset = McpToolset("m", misbehaving("legacy"), RecordingTelemetry())

    async def cancelled() -> None:
        seen = ""
        while "notifications/cancelled" not in seen:
            output = await toolset.call(invocation("seen"))
            seen = "".join(part.content.text for part in output.content if isinstance(part.content, Text))

    failing = {"result": {"content": [{"type": "text", "text": "nothing is there"}], "isError": True}}
    yield SampleToolset(toolset, cancelled, fails="result", hangs="hang", fails_arguments=failing)
    await toolset.aclose()


def over_http(modern: bool) -> OpenSample:
    """An MCP server at an address."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[SampleToolset]:
        tools = [tool("echo", inputSchema=dict(TEXT)), tool("fails"), tool("hangs")]
        async with http_mcp(HttpMcp(modern=modern, pages=[tools])) as server:
            server.always["hangs"] = Wait()
            toolset = McpToolset("m", at(server.url), RecordingTelemetry())

            async def cancelled() -> None:
                await server.until(lambda: "hangs" in server.cancelled)

            yield SampleToolset(toolset, cancelled)
            await toolset.aclose()

    opened.__name__ = f"mcp_over_http_{2026 if modern else 2025}"
    return opened


@asynccontextmanager
async def no_address() -> AsyncIterator[Toolset]:
    """A server where nobody listens."""
    toolset = McpToolset("m", at("http://127.0.0.1:9/mcp"), RecordingTelemetry())
    yield toolset
    await toolset.aclose()


@asynccontextmanager
async def no_command() -> AsyncIterator[Toolset]:
    """A server whose command is not there."""
    toolset = McpToolset("m", StdioServer(command="no-such-command-here"), RecordingTelemetry())
    yield toolset
    await toolset.aclose()


@asynccontextmanager
async def no_list() -> AsyncIterator[Toolset]:
    """A server that does not list its tools."""
    server = fake_server()
    server.fail(*[Refuse()] * 9, method="tools/list")
    toolset = server.toolset()
    yield toolset
    await toolset.aclose()


SAMPLE = """syntax = "proto3"; package sample;
import "google/api/field_behavior.proto";
message Text { string text = 1 [(google.api.field_behavior) = REQUIRED]; } message Nothing {}
service Sample { rpc Echo(Text) returns (Text); rpc Fails(Nothing) returns (Text); rpc Hangs(Nothing) returns (Text); }
"""


@asynccontextmanager
async def grpc_service() -> AsyncIterator[SampleToolset]:
    """A gRPC service on the loopback."""
    cancelled = asyncio.Event()
    files = list(compiled(SAMPLE).file)
    server, linked = Server(Reflection(files, ["sample.Sample"])), link(files)

    async def echo(request: Any, context: Any) -> Any:
        return {"text": request.text}

    async def fails(request: Any, context: Any) -> Any:
        raise LookupError("nothing is there")

    async def hangs(request: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    for name, handler in (("Echo", echo), ("Fails", fails), ("Hangs", hangs)):
        server.add(f"sample.Sample/{name}", handler, linked)
    async with up(server):
        toolset = GrpcToolset("sample", GrpcService(address=server.address))
        yield SampleToolset(toolset, cancelled.wait)
        await toolset.aclose()


@asynccontextmanager
async def no_service() -> AsyncIterator[Toolset]:
    """A gRPC service that nobody runs."""
    toolset = GrpcToolset("sample", GrpcService(address="127.0.0.1:1"))
    yield toolset
    await toolset.aclose()


@asynccontextmanager
async def tool_host() -> AsyncIterator[SampleToolset]:
    """Functions of an app on the loopback."""
    host, cancelled = ToolHost(), asyncio.Event()

    @host.tool()
    async def echo(text: str) -> str:
        return text

    @host.tool()
    async def fails() -> str:
        raise LookupError("nothing is there")

    @host.tool()
    async def hangs() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with host.serve() as address:
        toolset = HostToolset("sample", ToolHostConfig(address=address))
        yield SampleToolset(toolset, cancelled.wait)
        await toolset.aclose()


@asynccontextmanager
async def no_host() -> AsyncIterator[Toolset]:
    """An app that nobody runs."""
    toolset = HostToolset("sample", ToolHostConfig(address="127.0.0.1:1"))
    yield toolset
    await toolset.aclose()


OURS = [python, mcp_in_memory, mcp_over_stdio, over_http(False), over_http(True), grpc_service, tool_host]


@pytest.mark.requirement("KIT-22", "MCPH-1")
@pytest.mark.parametrize("check", TOOLSET_CHECKS, ids=name_of)
@pytest.mark.parametrize("open_sample", OURS, ids=name_of)
async def test_each_of_our_sources_conforms(open_sample: OpenSample, check: Any) -> None:
    await check(open_sample)


@pytest.mark.requirement("KIT-22")
@pytest.mark.parametrize("check", BROKEN_TOOLSET_CHECKS, ids=name_of)
@pytest.mark.parametrize("open_broken", [no_command, no_list, no_address, no_service, no_host], ids=name_of)
async def test_each_of_our_sources_is_broken_alone(open_broken: Any, check: Any) -> None:
    await check(open_broken)


class Broken:
    """The fake MCP toolset with a fault of a kind that sources have."""

    def __init__(self, inner: Toolset) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class StartsSlowly(Broken):
    async def start(self) -> None:
        await asyncio.Event().wait()


class ForgetsTools(Broken):
    async def tools(self) -> Sequence[Tool]:
        return (await self.inner.tools())[1:]


class Shuffles(Broken):
    turn = 0

    async def tools(self) -> Sequence[Tool]:
        Shuffles.turn += 1
        return tuple(reversed(await self.inner.tools())) if Shuffles.turn % 2 else await self.inner.tools()


class CutsResults(Broken):
    async def call(self, call: ToolInvocation) -> ToolOutput:
        output = await self.inner.call(call)
        return replace(output, content=(Part("", Text("Hello")),))


class HidesErrors(Broken):
    async def call(self, call: ToolInvocation) -> ToolOutput:
        return replace(await self.inner.call(call), is_error=False, failure=None)


class ShowsTracebacks(Broken):
    async def call(self, call: ToolInvocation) -> ToolOutput:
        output = await self.inner.call(call)
        if not output.is_error:
            return output
        return replace(output, content=(Part("", Text("Traceback (most recent call last):\n...")),))


class DiesOfAnError(Broken):
    """After one error it answers nothing."""

    dead = False

    async def call(self, call: ToolInvocation) -> ToolOutput:
        if self.dead:
            raise ToolError(Failure(FailurePhase.TOOL, Reason.INTERNAL, "dead"))
        output = await self.inner.call(call)
        self.dead = output.is_error
        return output


class RunsOn(Broken):
    """A cancelled call is left running."""

    async def call(self, call: ToolInvocation) -> ToolOutput:
        task = asyncio.create_task(self.inner.call(call))
        LEFT.append(task)
        return await asyncio.shield(task)


LEFT: list[asyncio.Task[ToolOutput]] = []


class Swallows(Broken):
    """A cancellation becomes a result."""

    async def call(self, call: ToolInvocation) -> ToolOutput:
        try:
            return await self.inner.call(call)
        except asyncio.CancelledError:
            return ToolOutput((Part("", Text("cancelled")),), is_error=True)


class OneAtATime(Broken):
    def __init__(self, inner: Toolset) -> None:
        super().__init__(inner)
        self.lock = asyncio.Lock()

    async def call(self, call: ToolInvocation) -> ToolOutput:
        async with self.lock:
            return await self.inner.call(call)


class NeverCloses(Broken):
    async def aclose(self) -> None:
        await asyncio.Event().wait()


class RunsWhenClosed(Broken):
    async def aclose(self) -> None:
        """Closes nothing."""

    async def call(self, call: ToolInvocation) -> ToolOutput:
        output = await self.inner.call(call)
        return ToolOutput(()) if output.is_error else output


class NoSchemas(Broken):
    async def tools(self) -> Sequence[Tool]:
        return [replace(tool, input_schema_json='{"type":"object"}') for tool in await self.inner.tools()]


FAULTS: list[tuple[type[Broken], str]] = [
    (StartsSlowly, "it_starts_at_once_and_lists_its_tools"),
    (ForgetsTools, "it_starts_at_once_and_lists_its_tools"),
    (Shuffles, "it_starts_at_once_and_lists_its_tools"),
    (CutsResults, "a_call_gives_its_result"),
    (HidesErrors, "a_tool_that_fails_fails_alone"),
    (ShowsTracebacks, "a_tool_that_fails_fails_alone"),
    (HidesErrors, "a_name_that_is_not_there_is_an_error"),
    (RunsOn, "cancelling_reaches_the_tool"),
    (Swallows, "cancelling_reaches_the_tool"),
    (OneAtATime, "calls_run_side_by_side"),
    (NeverCloses, "closing_ends_what_it_started"),
    (RunsWhenClosed, "closing_ends_what_it_started"),
    (NoSchemas, "the_registry_takes_it"),
]


@pytest.mark.requirement("KIT-23")
@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=lambda item: getattr(item, "__name__", item))
async def test_the_suite_notices_a_source_that_breaks_a_rule(
    fault: type[Broken], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwired.testing.conformance.CHECK_SECONDS", 1.5)
    monkeypatch.setattr("turnwired.testing.toolset_checks.START_SECONDS", 0.2)

    @asynccontextmanager
    async def opened() -> AsyncIterator[SampleToolset]:
        async with mcp_in_memory() as sample:
            broken: Any = fault(sample.toolset)
            yield replace(sample, toolset=broken)

    try:
        with pytest.raises(NotConforming):
            await CHECKS[check](opened)
    finally:
        for task in LEFT:
            task.cancel()
        await asyncio.gather(*LEFT, return_exceptions=True)
        LEFT.clear()


@pytest.mark.requirement("KIT-23")
async def test_an_error_that_ends_the_source_is_noticed_and_all_checks_are_told_of() -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[SampleToolset]:
        async with mcp_in_memory() as sample:
            broken: Any = DiesOfAnError(sample.toolset)
            yield replace(sample, toolset=broken)

    with pytest.raises(ExceptionGroup) as failed:
        await toolset_conformance(opened)
    notes = {note for error in failed.value.exceptions for note in error.__notes__}
    assert notes == {"a_tool_that_fails_fails_alone", "a_name_that_is_not_there_is_an_error"}
    await toolset_conformance(mcp_in_memory, no_list)
