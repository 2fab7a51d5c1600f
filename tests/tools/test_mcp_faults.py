"""MCP servers that do not come up, make noise or say too much, and what their configuration is held to."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from tools.kit import eventually, mcp_server, misbehaving, run_tool, words_of

from turnwired.domain.errors import ConfigError
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.tools.mcp.config import StdioServer

EVERY_ERA = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.mark.requirement("MCP-6", "MCP-5")
async def test_a_mute_server_fails_within_its_bound_and_then_at_once() -> None:
    async with mcp_server(misbehaving("mute", connect_timeout=0.5)) as (toolset, view):
        assert not view.tools
        (failure,) = view.failures
        assert failure.reason is Reason.MCP_UNAVAILABLE
        assert "no answer within 0.5 s" in failure.message
        with anyio.fail_after(0.2):
            assert not await toolset.tools()


@pytest.mark.requirement("MCP-6")
async def test_a_command_that_is_not_there_is_named() -> None:
    async with mcp_server(StdioServer(command="no-such-command-here")) as (_, view):
        assert "there is no command 'no-such-command-here'" in view.failures[0].message


@pytest.mark.requirement("MCP-6")
async def test_a_relative_command_is_seen_from_the_directory_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "serve").symlink_to(sys.executable)
    config = misbehaving("legacy", command="bin/serve", cwd=str(tmp_path))
    async with mcp_server(config) as (_, view):
        assert words_of(await run_tool(view, "m__echo", '{"text":"x"}')) == "x"
    async with mcp_server(misbehaving("legacy", cwd=str(tmp_path / "none"))) as (_, view):
        assert "none" in view.failures[0].message


@pytest.mark.requirement("MCP-6")
async def test_a_server_that_ends_at_once_says_how_without_its_secrets() -> None:
    async with mcp_server(misbehaving("exit=4")) as (_, view):
        message = view.failures[0].message
        assert message == "MCP server 'm' exited with code 4 (boom: no password=[redacted] given) before it answered"


@pytest.mark.requirement("MCP-6", "MCP-13")
async def test_a_variable_that_is_not_set_is_named_and_fails_its_server_alone() -> None:
    async with mcp_server(misbehaving("legacy", env={"TOKEN": "${TURNWIRE_TEST_NOT_SET}"})) as (_, view):
        assert "environment variable TURNWIRE_TEST_NOT_SET is not set" in view.failures[0].message


@pytest.mark.requirement("MCP-5")
async def test_a_server_that_keeps_failing_is_backed_off_from_and_calls_fail_at_once(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with mcp_server(misbehaving("legacy", f"ledger={ledger}")) as (toolset, view):
        statuses: list[ToolResultStatus] = []
        for _ in range(4):
            with anyio.fail_after(10):
                statuses.append((await run_tool(view, "m__die", timeout=30)).status)
        unknown, not_executed = ToolResultStatus.OUTCOME_UNKNOWN, ToolResultStatus.NOT_EXECUTED
        assert statuses[:2] == [unknown, unknown]
        assert not_executed in statuses
        assert toolset.failure is not None
        assert "exited with code 3" in toolset.failure.message
    assert len(ledger.read_text().splitlines()) == statuses.count(unknown)


@pytest.mark.requirement("MCP-5")
async def test_a_server_that_worked_in_between_is_not_backed_off_from() -> None:
    async with mcp_server(misbehaving("legacy")) as (toolset, view):
        for _ in range(4):
            assert words_of(await run_tool(view, "m__echo", '{"text":"up"}', timeout=30)) == "up"
            assert (await run_tool(view, "m__die", timeout=30)).status is ToolResultStatus.OUTCOME_UNKNOWN
        assert toolset.history.connected == 4
        assert not toolset.connection.backing_off


# --- noise and bounds ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("MCP-10", "SCN-138")
@EVERY_ERA
async def test_noise_on_stdout_and_a_flood_on_stderr_harm_nothing(era: str) -> None:
    config = misbehaving(era, "banner", "stderr-flood", max_message_bytes=64 * 1024)
    async with mcp_server(config) as (_, view):
        assert words_of(await run_tool(view, "m__noise")) == "heard"
        assert words_of(await run_tool(view, "m__echo", '{"text":"x"}')) == "x"


@pytest.mark.requirement("MCP-10", "SCN-138")
async def test_an_answer_that_is_too_long_fails_its_call_alone() -> None:
    async with mcp_server(misbehaving("legacy", max_message_bytes=64 * 1024)) as (_, view):
        result = await run_tool(view, "m__big", '{"bytes":1000000}')
        assert result.status is ToolResultStatus.ERROR
        assert "longer than max_message_bytes" in words_of(result)
        assert words_of(await run_tool(view, "m__echo", '{"text":"x"}')) == "x"


@pytest.mark.requirement("TOOL-11")
async def test_a_large_result_of_a_server_is_capped_like_any_other() -> None:
    async with mcp_server(misbehaving("legacy")) as (_, view):
        result = await run_tool(view, "m__big", '{"bytes":1000000}')
        assert result.original_size_bytes == 1_000_000
        assert len(words_of(result)) < 65_700


# --- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("MCP-13")
async def test_a_server_gets_a_safe_base_and_what_its_configuration_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    monkeypatch.setenv("TURNWIRE_TEST_TOKEN", "theirs")
    env = {"TOKEN": "token ${TURNWIRE_TEST_TOKEN}", "PLAIN": "$${HOME} $HOME"}
    async with mcp_server(misbehaving("legacy", env=env)) as (_, view):
        environment = json.loads(words_of(await run_tool(view, "m__environment")))
    assert environment["TOKEN"] == "token theirs"
    assert environment["PLAIN"] == "${HOME} $HOME"
    assert environment["PATH"] == os.environ["PATH"]
    assert "OPENAI_API_KEY" not in environment
    assert "ours" not in environment.values()


@pytest.mark.requirement("MCP-13")
def test_an_unset_variable_is_a_config_error() -> None:
    server = StdioServer(command="x", env={"A": "${B}"})
    with pytest.raises(ConfigError, match=r"environment variable B is not set, but env\.A needs it"):
        server.environment({})
    assert server.environment({"B": "b", "HOME": "/h", "OTHER": "o"}) == {"HOME": "/h", "A": "b"}


@pytest.mark.requirement("MCPH-18", "MCP-11")
async def test_a_process_that_hangs_while_it_is_idle_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.tools.mcp.connection._SIGN_OF_LIFE_SECONDS", 1.0)
    async with mcp_server(misbehaving("legacy", keepalive=0.1)) as (source, view):
        (child,) = psutil.Process().children()
        child.suspend()

        async def noticed() -> bool:
            return source.failure is not None

        await eventually(noticed)
        assert "no sign of life" in repr(source.failure)
        assert words_of(await run_tool(view, "m__echo", '{"text":"new"}')) == "new"
        assert not child.is_running()
        assert source.history.connected >= 2
