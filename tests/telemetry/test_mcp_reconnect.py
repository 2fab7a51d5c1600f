"""Spans of MCP servers: calls of a run, and connecting again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from telemetry.collector import Collector
from telemetry.test_engine_runs import check, start, traced_world
from tools.kit import at, run_tool, view_of
from tools.servers.http_server import HttpMcp, Status, http_mcp

from turnwired.domain.message import ToolResultStatus
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.testing.provider import answer, calls
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Registry, Source


@pytest.mark.anyio
@pytest.mark.requirement("MCPH-19", "SCN-126", "MCPH-14")
async def test_what_is_asked_while_a_session_is_renewed_stands_below_one_span(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    async with http_mcp(HttpMcp(modern=False)) as server:
        source = McpToolset("m", at(server.url), telemetry.mcp)
        view = await view_of(Source(source, namespace="m"))
        server.known.clear()
        assert (await run_tool(view, "m__echo")).status is ToolResultStatus.OK
        await source.aclose()
    telemetry.aclose()
    again = collector.span("reconnect")
    below = [span.name for span in collector.spans if span.parent_id == again.span_id]
    assert sorted(below) == ["initialize", "server/discover", "tools/list"]
    assert again.parent_id == ""
    calls = [span for span in collector.spans if span.name == "tools/call echo"]
    assert len(calls) == 2, "the one that found the session lost, and the one that was answered"
    assert "session-1" not in repr(collector.spans)


@pytest.mark.anyio
@pytest.mark.requirement("TEL-1", "TEL-5", "MCPH-19")
async def test_a_call_of_a_run_says_where_it_goes_and_how_the_server_answered(
    telemetry: OtelTelemetry, collector: Collector, tmp_path: Path
) -> None:
    script = [calls(("s__echo", '{"text":"KEY-ARGUMENT"}'), ("s__other", "{}")), answer("KEY-ANSWER")]
    async with http_mcp() as server:
        server.fail("other", Status(500, body=b"KEY-BODY"))
        registry = Registry([Source(McpToolset("shop", at(server.url), telemetry.mcp), namespace="s")])
        await registry.start()
        async with traced_world(telemetry, script, {}, registry) as world:
            _, _, task = await start(world, telemetry)
            await task
        await registry.aclose()
    await asyncio.to_thread(telemetry.aclose)
    check(collector, tmp_path)
    for native, error in (("echo", None), ("other", "500")):
        route, asked = (collector.span(name) for name in (f"execute_tool s__{native}", f"tools/call {native}"))
        assert (route.attributes["turnwire.tool.source"], route.attributes["turnwire.tool.server"]) == ("MCP", "shop")
        assert asked.parent_id == route.span_id
        assert asked.attributes.get("error.type") == error
        assert (route.attributes["turnwire.tool.status"] == "OK") is (error is None)
    for name in ("server/discover", "tools/list"):
        assert collector.span(name).parent_id == "", "finding out what a server has is no part of a run"
