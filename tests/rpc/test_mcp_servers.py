"""McpServerService over a whole service: list, enable, disable, reconnect, add and remove, and readiness."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rpc.server import details
from tools.grpc_kit import answering
from tools.host_kit import App, up
from tools.host_kit import tool as host_tool
from tools.kit import SERVER, eventually
from tools.servers.http_server import HttpMcp, Status, http_mcp, tool

from turnwire.v1 import mcp_server_service_pb2 as pb
from turnwire.v1 import (
    mcp_server_service_pb2_grpc,
    tool_host_registry_service_pb2_grpc,
    turn_service_pb2,
    turn_service_pb2_grpc,
)
from turnwire.v1 import tool_host_registry_service_pb2 as hosts_pb
from turnwired.app import configured, running
from turnwired.cli.mcp import changed, listed, server_table

pytestmark = pytest.mark.anyio
SECONDS = 20.0
SECRET = "key-4711-of-the-caller"


@dataclass
class Operated:
    """A service, and what an operator needs of it."""

    address: str
    mcp: mcp_server_service_pb2_grpc.McpServerServiceAsyncStub
    turns: turn_service_pb2_grpc.TurnServiceAsyncStub
    health: Any

    async def state(self, server_id: str) -> pb.McpServer:
        """A server as it is listed."""
        page = await self.mcp.ListMcpServers(pb.ListMcpServersRequest(), timeout=SECONDS)
        (found,) = [server for server in page.mcp_servers if server.server_id == server_id]
        return found

    async def tools(self) -> list[str]:
        """Names of all tools."""
        page = await self.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS)
        return [tool.ref.routed_name for tool in page.tools]

    async def serves(self) -> bool:
        """Whether health says so."""
        answer = await self.health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@asynccontextmanager
async def operated(servers: Mapping[str, Mapping[str, object]], **more: object) -> AsyncIterator[Operated]:
    """A service with these MCP servers."""
    config = configured(
        {
            "server": {"listen": "127.0.0.1:0", "grace_seconds": 0.1},
            "store": {"path": "memory"},
            "providers": {"scripted": {"profile": "openai", "base_url": "http://127.0.0.1:9/v1", "models": ["m"]}},
            "agents": {"default": {}},
            "tools": {"entry_points": False},
            "mcp_servers": servers,
            **more,
        },
        {"OPENAI_API_KEY": "k"},
    )
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(config, {"OPENAI_API_KEY": "k"}))
        await service.discovery.wait()
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(service.address))
        mcp: mcp_server_service_pb2_grpc.McpServerServiceAsyncStub = mcp_server_service_pb2_grpc.McpServerServiceStub(
            channel
        )
        turns: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
        health: Any = health_pb2_grpc.HealthStub(channel)
        yield Operated(service.address, mcp, turns, health)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    """How a call is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    info, _ = details(caught.value)
    assert SECRET not in repr(caught.value)
    return caught.value.code(), info.reason


@pytest.mark.requirement("MCPS-1", "MCPH-12")
async def test_servers_are_listed_by_id_in_pages_without_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K", SECRET)
    async with http_mcp() as server:
        url = f"{server.url}?key=${{K}}"
        servers: dict[str, Mapping[str, object]] = {f"s{number}": {"url": url, "lazy": True} for number in range(4)}
        servers["near"] = {"url": url, "headers": {"X-Key": "${K}"}, "required": True, "priority": 3}
        async with operated(servers) as s:
            await eventually(s.serves)
            found: list[pb.McpServer] = []
            token, pages = "", 0
            while token or not pages:
                page = await s.mcp.ListMcpServers(pb.ListMcpServersRequest(page_size=2, page_token=token))
                found += page.mcp_servers
                token, pages = page.next_page_token, pages + 1
            assert [item.server_id for item in found] == ["near", "s0", "s1", "s2", "s3"]
            assert pages == 3
            near = found[0]
            assert (near.state, near.tool_count) == (pb.MCP_SERVER_STATE_READY, 2)
            assert (near.transport, near.endpoint) == (pb.MCP_TRANSPORT_STREAMABLE_HTTP, server.url)
            assert (near.namespace, near.priority, near.required) == ("near", 3, True)
            assert (near.protocol_version, near.reconnect_count) == ("2026-07-28", 0)
            assert near.connect_time.seconds
            assert {item.state for item in found[1:]} == {pb.MCP_SERVER_STATE_IDLE}
            assert SECRET not in repr(found)
            bad = s.mcp.ListMcpServers(pb.ListMcpServersRequest(page_token="forged"))
            assert await refused(bad) == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID")


@pytest.mark.requirement("MCPS-2")
async def test_a_server_is_disabled_enabled_and_connected_anew_while_others_go_on() -> None:
    async with (
        http_mcp(HttpMcp(modern=False)) as one,
        http_mcp() as two,
        operated({"one": {"url": one.url}, "two": {"url": two.url}}) as s,
    ):
        assert await s.tools() == ["one__echo", "one__other", "two__echo", "two__other"]
        off = (await s.mcp.DisableMcpServer(pb.DisableMcpServerRequest(server_id="one"))).mcp_server
        assert (off.state, off.enabled, off.tool_count) == (pb.MCP_SERVER_STATE_DISABLED, False, 0)
        assert not one.known, "its session is ended"
        assert await s.tools() == ["two__echo", "two__other"]
        again = await s.mcp.DisableMcpServer(pb.DisableMcpServerRequest(server_id="one"))
        assert again.mcp_server.state == pb.MCP_SERVER_STATE_DISABLED
        await s.mcp.EnableMcpServer(pb.EnableMcpServerRequest(server_id="one"))
        assert await s.tools() == ["one__echo", "one__other", "two__echo", "two__other"]
        one.pages = [[tool("new")]]
        await s.mcp.ReconnectMcpServer(pb.ReconnectMcpServerRequest(server_id="one"))
        assert await s.tools() == ["one__new", "two__echo", "two__other"]
        assert (await s.state("one")).reconnect_count == 2
        missing = s.mcp.ReconnectMcpServer(pb.ReconnectMcpServerRequest(server_id="three"))
        assert await refused(missing) == (grpc.StatusCode.NOT_FOUND, "MCP_SERVER_NOT_FOUND")


@pytest.mark.requirement("MCPS-3")
async def test_a_broken_server_is_listed_with_its_failure_and_when_it_is_tried_again() -> None:
    async with http_mcp() as server:
        server.always["POST"] = Status(429, {"retry-after": "60"})
        async with operated({"m": {"url": server.url}}) as s:

            async def backs_off() -> bool:
                return (await s.state("m")).state == pb.MCP_SERVER_STATE_BACKING_OFF

            await eventually(backs_off)
            found = await s.state("m")
            assert found.next_attempt_time.seconds
            assert "HTTP status 429" in found.last_failure.message
            server.always.clear()
            await s.mcp.ReconnectMcpServer(pb.ReconnectMcpServerRequest(server_id="m"))
            assert await s.tools() == ["m__echo", "m__other"]
            assert "429" in (await s.state("m")).last_failure.message, "kept after recovery"


def new_http(url: str, server_id: str = "new", **fields: Any) -> pb.AddMcpServerRequest:
    """A request to add a server at an address."""
    connection = pb.McpHttpConnection(url=url, headers={"authorization": f"Bearer {SECRET}"})
    return pb.AddMcpServerRequest(server_id=server_id, streamable_http=connection, **fields)


@pytest.mark.requirement("MCPS-4")
async def test_nothing_is_added_unless_the_configuration_says_so() -> None:
    stdio = pb.AddMcpServerRequest(server_id="x", stdio=pb.McpStdioConnection(command="true"))
    denied = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
    async with operated({}) as s:
        assert await refused(s.mcp.AddMcpServer(new_http("http://127.0.0.1:9/mcp"))) == denied
        assert await refused(s.mcp.AddMcpServer(stdio)) == denied
    async with operated({}, mcp={"allow_add": ["streamable_http"]}) as s:
        assert await refused(s.mcp.AddMcpServer(stdio)) == denied
        assert (await s.mcp.ListMcpServers(pb.ListMcpServersRequest())).mcp_servers == []


@pytest.mark.requirement("MCPS-5", "MCPH-14")
async def test_a_server_is_added_with_its_own_key_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "a secret of the service")
    async with (
        http_mcp(HttpMcp(secret=SECRET)) as server,
        operated({"m": {"url": server.url, "lazy": True}}, mcp={"allow_add": ["streamable_http"]}) as s,
    ):
        request = new_http(
            f"{server.url}?a=${{OURS}}&b=${{file:/etc/hostname}}",
            exclude=["other"],
            namespace="n",
            resources=True,
            call_timeout=duration_pb2.Duration(seconds=5),
        )
        request.streamable_http.headers["x-more"] = "${OURS} {principal}"
        added = (await s.mcp.AddMcpServer(request)).mcp_server
        assert (added.added, added.namespace) == (True, "n")
        assert SECRET not in repr(added)

        async def connected() -> bool:
            return any(name.startswith("n__") for name in await s.tools())

        await eventually(connected)
        names = await s.tools()
        assert [name for name in names if name.startswith("n__")] == [
            "n__echo",
            "n__list_resources",
            "n__read_resource",
        ]
        (head, *_) = [seen for seen in server.seen if seen.headers.get("authorization") == f"Bearer {SECRET}"]
        assert head.headers["x-more"] == "${OURS} {principal}", "what is handed over refers to nothing of ours"
        twice = s.mcp.AddMcpServer(new_http(server.url))
        assert await refused(twice) == (grpc.StatusCode.ALREADY_EXISTS, "MCP_SERVER_EXISTS")
        await s.mcp.RemoveMcpServer(pb.RemoveMcpServerRequest(server_id="new"))
        assert not [name for name in await s.tools() if name.startswith("n__")]
        gone = s.mcp.RemoveMcpServer(pb.RemoveMcpServerRequest(server_id="new"))
        assert await refused(gone) == (grpc.StatusCode.NOT_FOUND, "MCP_SERVER_NOT_FOUND")
        mine = s.mcp.RemoveMcpServer(pb.RemoveMcpServerRequest(server_id="m"))
        assert (await refused(mine))[0] == grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.requirement("MCPS-5")
async def test_a_command_is_added_where_it_is_allowed_and_gets_only_its_own_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OURS", "a secret of the service")
    async with operated({}, mcp={"allow_add": ["stdio"]}) as s:
        stdio = pb.McpStdioConnection(command=sys.executable, args=[str(SERVER), "modern"], env={"A": "${OURS}"})
        await s.mcp.AddMcpServer(pb.AddMcpServerRequest(server_id="child", stdio=stdio))

        async def there() -> bool:
            return "child__echo" in await s.tools()

        await eventually(there)
        assert (await s.state("child")).endpoint == sys.executable


@pytest.mark.requirement("MCPS-5")
@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.AddMcpServerRequest(server_id="x"), "connection"),
        (new_http("", "x"), "streamable_http.url"),
        (new_http("ftp://x/y", "x"), "url"),
        (new_http("http://user:pw@x/y", "x"), "url"),
        (new_http("http://x/y", "a b"), "server_id"),
        (new_http("http://x/y", "x", namespace="a/b"), "namespace"),
        (new_http("http://x/y", "x", call_timeout=duration_pb2.Duration(seconds=-1)), "call_timeout"),
        (new_http("http://x/y", "x", call_timeout=duration_pb2.Duration(seconds=10**15)), "call_timeout"),
        (new_http("http://x/y", "x", call_timeout=duration_pb2.Duration(seconds=-(2**63))), "call_timeout"),
        (pb.AddMcpServerRequest(server_id="x", stdio=pb.McpStdioConnection()), "command"),
    ],
)
async def test_what_cannot_be_a_server_is_refused_by_its_field(request_: pb.AddMcpServerRequest, field: str) -> None:
    async with operated({}, mcp={"allow_add": ["streamable_http", "stdio"]}) as s:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await s.mcp.AddMcpServer(request_)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert (caught.value.details() or "").startswith(f"{field}:")
        assert SECRET not in repr(caught.value)


@pytest.mark.requirement("HOSTILE-33")
async def test_the_id_of_an_app_that_has_registered_is_taken_until_it_leaves() -> None:
    server = {"listen": "127.0.0.1:0", "grace_seconds": 0.1, "allow_tool_host_registration": True}
    async with (
        operated({}, server=server, mcp={"allow_add": ["streamable_http"]}) as s,
        grpc.aio.insecure_channel(s.address) as channel,
        up(App([host_tool("echo")])) as app,
    ):
        hosts: tool_host_registry_service_pb2_grpc.ToolHostRegistryServiceAsyncStub
        hosts = tool_host_registry_service_pb2_grpc.ToolHostRegistryServiceStub(channel)
        register = hosts_pb.RegisterToolHostRequest(host_id="new", address=app.address)
        await hosts.RegisterToolHost(register, timeout=SECONDS)
        taken = (grpc.StatusCode.ALREADY_EXISTS, "MCP_SERVER_EXISTS")
        assert await refused(s.mcp.AddMcpServer(new_http("http://127.0.0.1:9/mcp"))) == taken
        assert await s.tools() == ["new__echo"]
        await hosts.UnregisterToolHost(hosts_pb.UnregisterToolHostRequest(host_id="new"), timeout=SECONDS)
        await s.mcp.AddMcpServer(new_http("http://127.0.0.1:9/mcp"))
        taken = (grpc.StatusCode.ALREADY_EXISTS, "TOOL_HOST_TAKEN")
        assert await refused(hosts.RegisterToolHost(register, timeout=SECONDS)) == taken


@pytest.mark.requirement("MCPS-6", "SCN-131")
async def test_a_service_is_ready_when_its_required_servers_are() -> None:
    async with http_mcp() as server:
        server.always["POST"] = Status(503)
        async with operated({"m": {"url": server.url, "required": True, "connect_timeout": 2}}) as s:
            assert not await s.serves()
            await server.until(lambda: server.count("initialize") >= 2)
            assert not await s.serves()
            server.always.clear()
            await eventually(s.serves)


@pytest.mark.requirement("MCPS-6")
@pytest.mark.parametrize("section", ["tool_hosts", "grpc_services"])
async def test_a_service_is_ready_when_its_required_sources_are_whatever_they_are(section: str) -> None:
    app, methods = App([host_tool("echo")]), answering()
    async with AsyncExitStack() as stack:

        async def starts() -> str:
            if section == "tool_hosts":
                await stack.enter_async_context(up(app))
                return app.address
            await methods.start(methods.port)
            stack.push_async_callback(methods.stop)
            return methods.address

        address = await starts()
        await stack.pop_all().aclose()
        async with operated({}, **{section: {"s": {"address": address, "required": True}}}) as s:
            assert not await s.serves()
            with pytest.raises(grpc.aio.AioRpcError):
                await s.tools()
            assert not await s.serves()
            assert await starts() == address
            await eventually(s.serves)
            assert await s.tools()


@pytest.mark.requirement("MCPS-7")
async def test_the_command_line_lists_and_operates_them() -> None:
    async with (
        http_mcp() as server,
        operated({"m": {"url": server.url}, "down": {"url": "http://127.0.0.1:9/mcp"}}) as s,
    ):
        assert await s.tools()
        both = await listed(s.address, None)
        assert [item.server_id for item in both] == ["down", "m"]
        table = server_table(both)
        assert table.row_count == 2
        assert (await changed(s.address, None, "disable", "m")).state.value == "DISABLED"
        assert (await changed(s.address, None, "enable", "m")).enabled
        assert (await changed(s.address, None, "reconnect", "m")).server_id == "m"


@pytest.mark.requirement("MCPS-3")
async def test_a_server_that_cannot_be_reached_does_not_look_unneeded() -> None:
    async with operated({"down": {"url": "http://127.0.0.1:9/mcp"}}) as s:

        async def told() -> bool:
            found = await s.state("down")
            return found.state == pb.MCP_SERVER_STATE_BACKING_OFF and found.next_attempt_time.seconds > 0

        await eventually(told)
        await s.tools()

        async def shown() -> bool:
            return (await s.state("down")).state != pb.MCP_SERVER_STATE_IDLE

        assert await shown()
