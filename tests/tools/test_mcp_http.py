"""MCP servers over Streamable HTTP: eras, lists, changes, closing."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest
from tools.kit import RecordingTelemetry, at, eventually, invocation, mcp_server, run_tool, view_of, words_of
from tools.servers.http_server import Body, HttpMcp, Status, Wait, http_mcp, tool

from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Source

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["2025", "2026"])
FORMS = pytest.mark.parametrize("events", [False, True], ids=["json", "events"])


async def lists(source: McpToolset, *names: str) -> bool:
    """Whether these are the tools."""
    return [tool.ref.native_name for tool in await source.tools()] == list(names)


async def down(source: McpToolset) -> bool:
    """Whether the server is known not to be usable."""
    return source.failure is not None


@pytest.mark.requirement("MCPH-1", "MCPH-11")
@ERAS
@FORMS
async def test_a_server_of_either_era_is_discovered_called_and_left(modern: bool, events: bool) -> None:
    telemetry = RecordingTelemetry()
    async with http_mcp(HttpMcp(modern=modern, events=events)) as server:
        async with mcp_server(at(server.url), telemetry) as (_, view):
            assert [tool.ref.routed_name for tool in view.tools] == ["m__echo", "m__other"]
            result = await run_tool(view, "m__echo", '{"text":"héllo"}')
            assert (result.status, words_of(result)) == (ToolResultStatus.OK, "héllo")
        with anyio.fail_after(30):
            await server.until(lambda: not server.open)
        assert not server.known, "the session was ended with DELETE"
    called = [item for item in telemetry.operations if item.method == "tools/call"]
    assert [(item.tool, item.transport, item.error) for item in called] == [("echo", "tcp", "")]
    assert called[0].protocol_version == ("2026-07-28" if modern else "2025-11-25")
    asked = server.seen[-2 if not modern else -1]
    assert asked.headers["mcp-protocol-version"] == called[0].protocol_version
    assert ("mcp-session-id" in asked.headers) is not modern
    assert asked.headers.get("mcp-name") == ("echo" if modern else None)
    assert "turnwire-request" not in asked.headers


@pytest.mark.requirement("MCPH-1")
@ERAS
async def test_progress_is_forwarded_while_the_call_runs(modern: bool) -> None:
    told: list[tuple[float, float | None, str]] = []
    async with http_mcp(HttpMcp(modern=modern, events=True)) as server, mcp_server(at(server.url)) as (_, view):
        asked = invocation({}, on_progress=lambda done, total, words: told.append((done, total, words)))
        await view.execute("m__echo", asked, None)
    assert told == [(1, 2, "half")]


@pytest.mark.requirement("MCPH-9")
@ERAS
async def test_five_thousand_tools_in_pages_are_all_there(modern: bool) -> None:
    pages = [[tool(f"t{page}_{index}") for index in range(50)] for page in range(100)]
    async with http_mcp(HttpMcp(modern=modern, pages=pages)) as server, mcp_server(at(server.url)) as (_, view):
        assert len(view.tools) == 5000
        assert not view.failures


@pytest.mark.requirement("MCPH-9")
async def test_what_is_malformed_in_a_list_is_left_out_and_a_repeated_cursor_ends_it() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}
    entries: list[object] = [tool("good"), {"name": "schemaless"}, "text", {"name": "mirrored", "inputSchema": wrong}]
    page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": entries, "nextCursor": "same"}
    again = json.dumps({"jsonrpc": "2.0", "id": 1, "result": page}).encode()
    async with http_mcp() as server:
        server.always["tools/list"] = Body(again)
        async with mcp_server(at(server.url)) as (_, view):
            assert [tool.ref.native_name for tool in view.tools] == ["good"]
            origins = {failure.origin for failure in view.failures}
            assert {"m/schemaless", "m/mirrored", "m/"} <= origins
            assert any("does not end" in failure.message for failure in view.failures)
            assert server.count("tools/list") == 2


@pytest.mark.requirement("MCPH-9")
@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[]", b'{"jsonrpc":"2.0","id":7}', b'{"jsonrpc":"2.0","id":7,"result":5}', b"\xff\xfe"]
)
async def test_a_malformed_list_is_the_failure_of_its_server(body: bytes) -> None:
    async with http_mcp() as server:
        server.always["tools/list"] = Body(body)
        async with mcp_server(at(server.url, connect_timeout=10)) as (_, view):
            assert not view.tools
            (failure,) = view.failures
            assert failure.reason in (Reason.MCP_DISCOVERY_FAILED, Reason.MCP_UNAVAILABLE)


@pytest.mark.requirement("MCPH-10")
@ERAS
async def test_a_storm_of_changes_is_read_as_one(modern: bool) -> None:
    async with http_mcp(HttpMcp(modern=modern, list_changed=True)) as server, mcp_server(at(server.url)) as (source, _):
        with anyio.fail_after(30):
            await server.until(lambda: server.listening == 1)
            server.pages = [[tool("new")]]
            await server.notify("notifications/tools/list_changed", times=2000)
            await server.until(lambda: server.count("tools/list") >= 2)
        await eventually(lambda: lists(source, "new"))
        assert server.count("tools/list") <= 3


@pytest.mark.requirement("MCPH-10")
async def test_a_list_whose_time_has_passed_is_read_again_beside_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.tools.mcp.toolset._REFRESH_SECONDS", 0.0)
    async with http_mcp(HttpMcp(ttl_ms=3_600_000)) as server, mcp_server(at(server.url)) as (source, _):
        await source.tools()
        assert server.count("tools/list") == 1, "it holds for an hour"
    async with http_mcp(HttpMcp(ttl_ms=1)) as server, mcp_server(at(server.url)) as (source, _):
        server.pages = [[tool("new")]]
        await eventually(lambda: lists(source, "new"))


@pytest.mark.requirement("MCPH-12")
async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    async with http_mcp() as elsewhere, http_mcp() as server:
        server.always["POST"] = Status(307, {"location": elsewhere.url})
        settings: dict[str, Any] = {"headers": {"Authorization": "Bearer ${HOME}"}, "connect_timeout": 3}
        async with mcp_server(at(server.url, **settings)) as (_, view):
            assert not view.tools
        assert not elsewhere.seen


@pytest.mark.requirement("MCPH-12")
async def test_a_redirect_within_the_origin_is_followed() -> None:
    async with http_mcp() as server:
        server.fail("server/discover", Status(307, {"location": "/other"}))
        async with mcp_server(at(server.url)) as (_, view):
            assert view.tools


@pytest.mark.requirement("MCPH-13")
async def test_a_lazy_server_is_asked_when_a_run_needs_it() -> None:
    async with http_mcp() as server, mcp_server(at(server.url, lazy=True)) as (_, view):
        assert view.tools
    async with http_mcp() as server:
        source = McpToolset("m", at(server.url, lazy=True), RecordingTelemetry())
        await source.start()
        with anyio.move_on_after(0.1):
            await server.until(lambda: server.seen)
        assert not server.seen
        assert await source.tools()
        await source.aclose()


@pytest.mark.requirement("MCPH-13")
async def test_runs_wait_for_a_server_that_never_answered_only_so_long_after_it_was_first_asked() -> None:
    async with http_mcp() as server:
        server.always["POST"] = Wait()
        source = McpToolset("m", at(server.url, discovery_grace=0.3), RecordingTelemetry())
        await source.start()
        began = anyio.current_time()
        view = await view_of(Source(source, namespace="m"))
        assert "has not answered yet" in view.failures[0].message
        await view_of(Source(source, namespace="m"))
        assert anyio.current_time() - began < 10
        with anyio.fail_after(30):
            await source.aclose()


@pytest.mark.requirement("MCPH-17")
@ERAS
async def test_resources_and_prompts_are_tools_where_enabled(modern: bool) -> None:
    pages = [[tool("echo"), tool("get_prompt")]]
    config = {"resources": True, "prompts": True}
    async with http_mcp(HttpMcp(modern=modern, pages=pages)) as server:
        async with mcp_server(at(server.url, **config)) as (_, view):
            names = [tool.ref.native_name for tool in view.tools]
            assert names == ["echo", "get_prompt", "list_prompts", "list_resources", "read_resource"]
            assert "itself" in view.failures[0].message
            listed = json.loads(words_of(await run_tool(view, "m__list_resources")))
            assert listed["resources"] == [{"uri": "note://1", "name": "one"}]
            assert listed["templates"] == [{"uriTemplate": "note://{n}", "name": "n"}]
            read = await run_tool(view, "m__read_resource", '{"uri":"note://1"}')
            assert words_of(read) == "about note://1"
            assert "greet" in words_of(await run_tool(view, "m__list_prompts"))
            assert words_of(await run_tool(view, "m__get_prompt")) == "done", "the server's own tool"
        server.pages = [[tool("echo")]]
        async with mcp_server(at(server.url, **config)) as (_, view):
            given = await run_tool(view, "m__get_prompt", '{"name":"greet","arguments":{"who":"Ann"}}')
            assert words_of(given) == "user: Greet Ann."


@pytest.mark.requirement("MCPH-18")
async def test_an_idle_server_without_a_sign_of_life_is_connected_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.tools.mcp.connection._SIGN_OF_LIFE_SECONDS", 0.2)
    async with http_mcp(HttpMcp(modern=False)) as server, mcp_server(at(server.url, keepalive=0.1)) as (source, view):
        with anyio.fail_after(30):
            await server.until(lambda: server.count("ping") >= 2)
        assert source.history.connected == 1, "it answers"
        server.fail("ping", Wait())
        await eventually(lambda: down(source))
        assert "no sign of life" in repr(source.failure)
        assert (await run_tool(view, "m__echo")).status is ToolResultStatus.OK
        assert source.history.connected == 2


@pytest.mark.requirement("MCPH-14")
async def test_nothing_that_is_said_or_logged_holds_a_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TURNWIRE_TEST_KEY", "key-4711-secret")
    telemetry = RecordingTelemetry()
    async with http_mcp() as server:
        config = at(f"{server.url}?key=${{TURNWIRE_TEST_KEY}}", headers={"X-Key": "${TURNWIRE_TEST_KEY}"})
        assert config.endpoint == server.url
        async with mcp_server(config, telemetry) as (_, view):
            assert server.seen[0].headers["x-key"] == "key-4711-secret"
            server.fail("echo", Status(401), Status(500), Body(b"no key-4711-secret json"))
            said = [repr(await run_tool(view, "m__echo", '{"text":"words-of-a-prompt"}')) for _ in range(3)]
    for text in (*said, repr(telemetry.operations), caplog.text):
        assert "key-4711-secret" not in text
    assert "words-of-a-prompt" not in caplog.text
