"""The span around connecting again."""

from __future__ import annotations

import pytest
from telemetry.collector import Collector
from tools.kit import at, run_tool, view_of
from tools.servers.http_server import HttpMcp, http_mcp

from turnwired.domain.message import ToolResultStatus
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Source


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
