"""MCP servers over stdio, as real child processes: eras, listings, calls, faults."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tools.kit import Operation, RecordingTelemetry, invocation, mcp_server, misbehaving, run_tool, view_of, words_of

from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.tool import ToolAnnotations
from turnwired.tools.mcp.config import StdioServer
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Source

EVERY_ERA = pytest.mark.parametrize("era", ["legacy", "modern"])


# --- discovery and calls ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("MCP-1", "MCP-15")
@EVERY_ERA
async def test_a_server_of_either_era_is_discovered_and_called(era: str) -> None:
    telemetry = RecordingTelemetry()
    handshake: list[tuple[str, str | None, str | None, str]]
    async with mcp_server(misbehaving(era), telemetry) as (_, view):
        assert "m__echo" in [tool.ref.routed_name for tool in view.tools]
        result = await run_tool(view, "m__echo", '{"text":"héllo"}')
        assert (result.status, words_of(result)) == (ToolResultStatus.OK, "héllo")
    told = [(item.method, item.tool, item.protocol_version, item.error) for item in telemetry.operations]
    if era == "modern":
        version = "2026-07-28"
        handshake = [("server/discover", None, "2026-07-28", "")]
    else:
        version = "2025-11-25"
        handshake = [("server/discover", None, "2026-07-28", "-32601"), ("initialize", None, None, "")]
    assert told == [*handshake, ("tools/list", None, version, ""), ("tools/call", "echo", version, "")]
    assert all(item.id.isdigit() and item.transport == "pipe" for item in telemetry.operations)


@pytest.mark.requirement("MCP-1")
@pytest.mark.skipif(importlib.util.find_spec("mcp_server_time") is None, reason="mcp-server-time is not installed")
async def test_the_time_server_tells_the_time() -> None:
    config = StdioServer(command=sys.executable, args=("-m", "mcp_server_time"), connect_timeout=40, discovery_grace=40)
    async with mcp_server(config) as (_, view):
        result = await run_tool(view, "m__get_current_time", '{"timezone":"Asia/Tokyo"}', timeout=20)
        assert result.status is ToolResultStatus.OK
        assert result.structured_json is not None
        assert json.loads(result.structured_json)["timezone"] == "Asia/Tokyo"
        wrong = await run_tool(view, "m__get_current_time", '{"timezone":"Asia/Nowhere"}', timeout=20)
        assert wrong.status is ToolResultStatus.ERROR
        assert wrong.failure is not None


@pytest.mark.requirement("MCP-1")
async def test_a_server_that_ignores_the_probe_is_greeted_the_old_way() -> None:
    async with mcp_server(misbehaving("legacy", "silent-probe", connect_timeout=4)) as (_, view):
        assert words_of(await run_tool(view, "m__echo", '{"text":"x"}')) == "x"


@pytest.mark.requirement("MCP-2")
async def test_all_pages_are_read_and_the_filters_of_the_server_hold() -> None:
    pages = [
        [{"name": f"t{page}_{index}", "inputSchema": {"type": "object"}} for index in range(3)] for page in range(4)
    ]
    config = misbehaving("legacy", f"pages={json.dumps(pages)}", include=("t*",), exclude=("*_2",), namespace="m")
    toolset = McpToolset("m", config, RecordingTelemetry())
    view = await view_of(Source(toolset, config.namespace, config.include, config.exclude))
    assert len(view.tools) == 8
    assert not view.failures
    await toolset.aclose()


@pytest.mark.requirement("MCP-2")
@EVERY_ERA
async def test_a_list_that_does_not_end_is_cut_and_reported(era: str) -> None:
    async with mcp_server(misbehaving(era, "endless-list")) as (_, view):
        assert view.tools
        assert any("does not end" in failure.message for failure in view.failures)


@pytest.mark.requirement("MCP-3")
@EVERY_ERA
async def test_malformed_entries_are_left_out_alone(era: str) -> None:
    entries = [
        {"name": "good", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True, "idempotentHint": 1}},
        {"name": "schemaless"},
        {"name": "typeless", "inputSchema": {"properties": {"a": {"type": "integer"}}}},
        {"name": "stringly", "inputSchema": {"type": "string"}},
        {"inputSchema": {"type": "object"}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": 7, "inputSchema": {"type": "object"}},
        "no object",
        {"name": "task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "größe", "inputSchema": {"type": "object"}, "description": None, "outputSchema": {"type": "nonsense"}},
    ]
    async with mcp_server(misbehaving(era, f"pages={json.dumps([entries])}")) as (_, view):
        names = [tool.ref.native_name for tool in view.tools]
        assert names == ["good", "größe", "typeless"]
        assert view.tools[0].annotations == ToolAnnotations(read_only=True)
        origins = sorted(failure.origin for failure in view.failures)
        assert origins == ["m/", "m/", "m/", "m/", "m/schemaless", "m/stringly", "m/task"]
        assert [collision.routed_name for collision in view.collisions] == ["m__good"]


@pytest.mark.requirement("MCP-6")
async def test_a_server_that_refuses_to_list_its_tools_says_so() -> None:
    async with mcp_server(misbehaving("legacy", "refuse-list")) as (_, view):
        assert not view.tools
        (failure,) = view.failures
        assert (failure.reason, failure.origin_code) == (Reason.MCP_DISCOVERY_FAILED, "-32603")


@pytest.mark.requirement("MCP-16", "TOOL-14")
@EVERY_ERA
async def test_results_keep_their_types_and_what_is_unknown(era: str) -> None:
    content = [
        {"type": "text", "text": "words"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "no base64!", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGk=", "mimeType": "x/y"}},
        {"type": "hologram", "depth": 3},
        "not even an object",
    ]
    async with mcp_server(misbehaving(era)) as (_, view):
        arguments = {"result": {"content": content, "structuredContent": {"n": 1}}}
        result = await run_tool(view, "m__result", json.dumps(arguments))
        assert result.status is ToolResultStatus.OK
        kinds = [type(part.content).__name__ for part in result.content]
        assert kinds == ["Text", "Blob", "OpaqueBlock", "ResourceLink", "Text", "Blob", "OpaqueBlock", "OpaqueBlock"]
        assert '{"type":"hologram","depth":3}' in repr(result.content[6])
        assert result.structured_json == '{"n":1}'


@pytest.mark.requirement("MCP-16", "TOOL-14", "SCN-139")
@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        (
            {"isError": True, "structuredContent": {"code": "RATE_LIMITED"}},
            ToolResultStatus.ERROR,
            'The tool call failed.\n{"code":"RATE_LIMITED"}',
        ),
        (
            {"isError": True, "content": [{"type": "text", "text": "boom"}]},
            ToolResultStatus.ERROR,
            "The tool call failed.\nboom",
        ),
        ({"structuredContent": {"rows": 2}}, ToolResultStatus.OK, '{"rows":2}'),
        ({}, ToolResultStatus.OK, ""),
        ({"content": "not a list"}, ToolResultStatus.OK, ""),
        (
            {"resultType": "input_required", "inputRequests": {}},
            ToolResultStatus.ERROR,
            "The tool call failed.\nthe server asks for more before it answers than can be given here",
        ),
    ],
)
async def test_errors_and_structured_results_are_what_they_say(
    given: dict[str, object], status: ToolResultStatus, words: str
) -> None:
    telemetry = RecordingTelemetry()
    async with mcp_server(misbehaving("modern"), telemetry) as (_, view):
        result = await run_tool(view, "m__result", json.dumps({"result": given}))
        assert (result.status, words_of(result)) == (status, words)
    assert telemetry.operations[-1].error == ("tool_error" if given.get("isError") else "")


@pytest.mark.requirement("MCP-16", "MCP-15")
async def test_an_error_answer_is_an_error_result_with_its_code_and_the_server_stays_up() -> None:
    pages = json.dumps([[{"name": "ghost", "inputSchema": {"type": "object"}}]])
    telemetry = RecordingTelemetry()
    async with mcp_server(misbehaving("legacy", f"pages={pages}"), telemetry) as (toolset, view):
        result = await run_tool(view, "m__ghost")
        assert result.status is ToolResultStatus.ERROR
        assert words_of(result) == "The tool call failed.\nError -32602: Unknown tool: ghost"
        assert result.failure is not None
        assert result.failure.origin_code == "-32602"
        assert toolset.failure is None
    (called,) = [operation for operation in telemetry.operations if operation.method == "tools/call"]
    assert called.error == "-32602"


@pytest.mark.requirement("MCP-14")
@EVERY_ERA
async def test_trace_context_travels_in_meta(era: str) -> None:
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with mcp_server(misbehaving(era)) as (_, view):
        result = await view.execute("m__meta", invocation(headers=headers), None)
        meta = json.loads(words_of(result))
        assert meta["traceparent"] == headers["traceparent"]
        assert ("io.modelcontextprotocol/protocolVersion" in meta) is (era == "modern")


@pytest.mark.requirement("MCP-14", "MCP-15")
async def test_the_server_sees_the_span_of_the_request_where_there_is_one() -> None:
    tracer = TracerProvider().get_tracer("test")
    spans: list[int] = []

    class Tracing(RecordingTelemetry):
        @contextmanager
        def operation(
            self, method: str, *, tool: str | None, protocol_version: str | None, transport: str
        ) -> Iterator[Operation]:
            with tracer.start_as_current_span(method) as span:
                spans.append(span.get_span_context().span_id)
                yield Operation(method, tool, protocol_version, transport)

    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with mcp_server(misbehaving("legacy"), Tracing()) as (_, view):
        meta = json.loads(words_of(await view.execute("m__meta", invocation(headers=headers), None)))
    assert meta["traceparent"].split("-")[2] == f"{spans[-1]:016x}"


@pytest.mark.requirement("MCP-9")
@EVERY_ERA
async def test_progress_is_forwarded(era: str) -> None:
    told: list[tuple[float, float | None, str]] = []
    async with mcp_server(misbehaving(era)) as (_, view):
        call = invocation(on_progress=lambda done, total, words: told.append((done, total, words)))
        assert words_of(await view.execute("m__progress", call, None)) == "done"
    assert told == [(1.0, 2.0, "step 1"), (2.0, 2.0, "step 2")]


# --- calls that end early --------------------------------------------------------------------------------------------


@pytest.mark.requirement("MCP-8", "TOOL-9")
@EVERY_ERA
async def test_a_call_past_its_deadline_is_cancelled_at_the_server_and_the_next_one_works(era: str) -> None:
    async with mcp_server(misbehaving(era)) as (_, view):
        result = await run_tool(view, "m__hang", timeout=0.05)
        assert result.failure is not None
        assert result.failure.reason is Reason.TOOL_TIMEOUT
        seen = json.loads(words_of(await run_tool(view, "m__seen")))
        cancelled = [item["params"]["requestId"] for item in seen if item["method"] == "notifications/cancelled"]
        assert len(cancelled) == 1


@pytest.mark.requirement("MCP-8", "TOOL-13")
async def test_cancelling_the_caller_tells_the_server_once() -> None:
    async with mcp_server(misbehaving("legacy")) as (_, view):
        with anyio.move_on_after(0.05) as scope:
            await run_tool(view, "m__hang", timeout=60)
        assert scope.cancelled_caught
        seen = json.loads(words_of(await run_tool(view, "m__seen")))
        assert [item["method"] for item in seen] == ["notifications/initialized", "notifications/cancelled"]


@pytest.mark.requirement("MCP-8")
async def test_the_call_timeout_of_the_server_holds_beside_the_policy() -> None:
    async with mcp_server(misbehaving("legacy", call_timeout=0.05)) as (_, view):
        result = await run_tool(view, "m__hang", timeout=60)
        assert result.failure is not None
        assert result.failure.reason is Reason.TOOL_TIMEOUT
        assert "0.05 s; it may have taken effect" in words_of(result)


@pytest.mark.requirement("MCP-4", "MCP-5", "MCP-15", "SCN-127")
@EVERY_ERA
async def test_a_call_lost_with_its_server_is_of_unknown_outcome_and_never_repeated(era: str, tmp_path: Path) -> None:
    ledger, telemetry = tmp_path / "ledger", RecordingTelemetry()
    async with mcp_server(misbehaving(era, f"ledger={ledger}"), telemetry) as (toolset, view):
        with anyio.fail_after(5):
            result = await run_tool(view, "m__die", timeout=60)
        assert result.status is ToolResultStatus.OUTCOME_UNKNOWN
        assert result.failure is not None
        assert result.failure.reason is Reason.TOOL_OUTCOME_UNKNOWN
        assert "may have been executed" in words_of(result)
        assert telemetry.operations[-1].error == "connection_closed"
        assert words_of(await run_tool(view, "m__echo", '{"text":"again"}', timeout=30)) == "again"
        assert toolset.failure is None
    assert ledger.read_text() == "die\n"


@pytest.mark.requirement("MCP-4")
@pytest.mark.parametrize("trusted", [False, True])
async def test_a_lost_call_is_repeated_once_only_if_it_is_trusted_to_be_idempotent(
    trusted: bool, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    async with mcp_server(misbehaving("legacy", f"ledger={ledger}", trust_annotations=trusted)) as (_, view):
        result = await run_tool(view, "m__die_once", timeout=30)
        assert result.status is (ToolResultStatus.OK if trusted else ToolResultStatus.OUTCOME_UNKNOWN)
        other = await run_tool(view, "m__die", timeout=30)  # nobody calls this one idempotent
        assert other.status is ToolResultStatus.OUTCOME_UNKNOWN
    assert ledger.read_text().splitlines() == [*["die_once"] * (2 if trusted else 1), "die"]


@pytest.mark.requirement("MCP-4")
async def test_all_calls_in_flight_are_settled_when_the_server_dies(tmp_path: Path) -> None:
    async with mcp_server(misbehaving("legacy", f"ledger={tmp_path / 'ledger'}")) as (_, view):
        statuses: list[ToolResultStatus] = []

        async def call(name: str) -> None:
            statuses.append((await run_tool(view, name, timeout=30)).status)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for name in ("m__hang", "m__hang", "m__die"):
                    group.start_soon(call, name)
        assert statuses == [ToolResultStatus.OUTCOME_UNKNOWN] * 3


@pytest.mark.requirement("MCP-7", "MCP-5")
async def test_callers_share_one_attempt_to_connect(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with mcp_server(misbehaving("legacy", f"ledger={ledger}", "start")) as (_, view):
        await run_tool(view, "m__die", timeout=30)

        async def call() -> None:
            assert (await run_tool(view, "m__echo", '{"text":"x"}', timeout=30)).status is ToolResultStatus.OK

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(call)
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["start", "die", "start"]
