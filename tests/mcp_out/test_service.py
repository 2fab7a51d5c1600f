"""The endpoint as part of the service: its section, what it costs those who do not use it, start, and stop."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from config.kit import load, refusal
from e2e.service import child_environment
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_out.kit import SECONDS

from turnwired.app import configured, running
from turnwired.domain.errors import ConfigError

TOKEN = "shop-token-0123456789"


def settings(listen: str) -> dict[str, object]:
    """A configuration with the endpoint, two callers and a rule, and one tool."""
    return {
        "server": {"listen": "127.0.0.1:0", "grace_seconds": 5},
        "store": {"path": "memory"},
        "http": {"listen": listen, "mcp": True},
        "tools": {"entry_points": False, "python": ["agent_tools:add"]},
        "callers": [{"principal": "shop", "roles": ["support"], "token_env": "SHOP_TOKEN"}],
        "access": [{"roles": ["support"], "allow": ["add"]}],
    }


@pytest.mark.anyio
@pytest.mark.requirement("MCPOUT-1", "MCPOUT-11")
async def test_a_service_serves_its_tools_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "e2e")
    environ = {"SHOP_TOKEN": TOKEN}
    before = asyncio.all_tasks()
    async with running(configured(settings("127.0.0.1:0"), environ), environ) as service:
        assert service.http is not None
        assert service.http.mcp_url.startswith("http://127.0.0.1:")
        async with (
            asyncio.timeout(SECONDS),
            httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(service.http.mcp_url, http_client=http)) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert (result.is_error, result.content[0].type) == (False, "text")
        async with asyncio.timeout(SECONDS):
            await service.drain()
    assert [task for task in asyncio.all_tasks() - before if not task.done()] == []


@pytest.mark.anyio
@pytest.mark.requirement("MCPOUT-13")
async def test_an_address_that_cannot_be_had_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        environ = {"SHOP_TOKEN": TOKEN}
        config = configured({**settings(listen), "tools": {"entry_points": False}}, environ)
        with pytest.raises(ConfigError) as error:
            async with running(config, environ):
                pass
    assert str(error.value) == f"http.listen: cannot listen on {listen}: address already in use; choose another"


@pytest.mark.requirement("MCPOUT-13")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mcp = true", "http.mcp: needs http.listen, which says where to listen"),
        ('listen = "127.0.0.1:0"', "http.listen: there is nothing to serve; set mcp = true or connect = true"),
        ('listen = "x"\nmcp = true', 'http.listen: takes "host:port", "[v6 address]:port" or "unix:path"'),
        (
            'listen = "0.0.0.0:80"\nmcp = true',
            (
                "http.listen: 0.0.0.0:80 can be reached from other machines, and this version has no TLS; listen on"
                " 127.0.0.1, or set http.insecure_listen = true behind a proxy that has it"
            ),
        ),
        (
            'listen = "0.0.0.0:80"\nmcp = true\ninsecure_listen = true',
            "http.hosts: is required where other machines can connect: the names that they know this server by",
        ),
        (
            'hosts = ["https://a"]',
            'http.hosts.0: takes a host as it stands in a URL, such as "tools.example.com" or "10.0.0.7:8080"',
        ),
        ('origins = ["a"]', 'http.origins.0: takes the origin of a page, such as "https://chat.example.com"'),
        ("max_request_bytes = 1", "http.max_request_bytes: must be greater than or equal to 1024"),
        ("mcpp = true", "http.mcpp: unknown key; did you mean mcp?"),
    ],
)
def test_a_section_that_cannot_work_is_refused(tmp_path: Path, text: str, line: str) -> None:
    assert refusal(tmp_path, f"[http]\n{text}\n") == f"turnwire.toml: {line}"


@pytest.mark.requirement("MCPOUT-13")
def test_a_server_for_other_machines_says_its_names(tmp_path: Path) -> None:
    text = '[http]\nlisten = "0.0.0.0:80"\nmcp = true\ninsecure_listen = true\nhosts = ["Tools.example.com"]\n'
    assert load(tmp_path, text).http.hosts == ("tools.example.com",)


@pytest.mark.requirement("MCPOUT-2")
def test_without_the_section_nothing_of_it_is_imported(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from turnwired.app import configured, running

async def main():
    config = configured({"server": {"listen": "127.0.0.1:0"}, "store": {"path": "memory"}}, {})
    async with running(config, {}) as service:
        assert service.http is None
        print(sorted(name for name in sys.modules if name in ("mcp", "starlette", "uvicorn", "turnwired.http")))

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    assert ran.stdout == "[]\n"


@pytest.mark.requirement("MCPOUT-15")
def test_servers_of_both_kinds_connect_while_the_endpoint_starts(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from turnwired.app import configured, running
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection

async def main():
    here = {"command": sys.executable, "args": sys.argv[1:], "connect_timeout": 60, "discovery_grace": 60}
    gone = {"url": "http://127.0.0.1:9/mcp", "discovery_grace": 60}
    config = {
        "server": {"listen": "127.0.0.1:0"},
        "store": {"path": "memory"},
        "http": {"listen": "127.0.0.1:0", "mcp": True},
        "mcp_servers": {"here": here, "gone": gone, "away": gone},
    }
    async with running(configured(config, {}), {}) as service:
        assert service.http is not None
        await service.discovery.wait()
        listed = await service.engine.list_tools(Caller(), "default", ToolSelection())
        print([tool.ref.routed_name for tool in listed.tools if tool.ref.native_name == "echo"])
        print(["cannot be reached" in failure.message for failure in listed.failures])

asyncio.run(main())
"""
    server = Path(__file__).parents[1] / "tools" / "servers" / "stdio_server.py"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(server), "modern"],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
    )
    assert ran.stdout == "['here__echo']\n[True, True]\n", ran.stderr
