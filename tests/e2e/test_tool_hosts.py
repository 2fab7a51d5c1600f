"""Apps that serve tools, as they are shown: the page about them, and the examples in other languages."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from docs.pages import ROOT, printed_apart
from e2e.host_examples import BUILDERS, SECONDS, Example, built, started
from e2e.service import child_environment, run_cli
from tools.host_kit import App, tool, up

from turnwired import Runtime
from turnwired.domain.event import ToolCallFinished, ToolCallProgressed
from turnwired.domain.message import Text, ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.testing import EventCollector, ScriptedProvider, answer, calls
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("HOST-32", "HOST-1")
async def test_the_page_about_tool_hosts_prints_what_it_says(tmp_path: Path) -> None:
    shown = await printed_apart(ROOT / "docs" / "tool_hosts.md", tmp_path, child_environment())
    assert any(says for says, _ in shown)
    for says, printed in shown:
        assert printed == says


@pytest.mark.requirement("HOST-33", "HOST-6")
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILDERS)
async def test_the_example_in_another_language_is_built_and_used(language: str, tmp_path: Path) -> None:
    command = await built(language, tmp_path)
    model = ScriptedProvider(
        [
            calls(("shop__find_order", '{"number": 4711}')),
            calls(("shop__find_order", '{"number": 404}')),
            calls(("shop__ship_order", '{"number": 7}')),
            answer("Done."),
        ]
    )
    told = EventCollector()
    async with started(command) as host:
        config = {"tool_hosts": {"shop": {"address": host.address, "refresh_interval": 0.1}}}
        async with Runtime(config, providers={"scripted": model}) as runtime:
            tools = {tool.ref.routed_name: tool for tool in (await runtime.list_tools()).tools}
            await cancel_a_call(host)
            result = await runtime.run_turn("Ship it.", on_event=told, caller=Caller(principal="ada"))
    assert list(tools) == ["shop__find_order", "shop__ship_order"]
    assert tools["shop__find_order"].annotations.read_only
    assert result.answered
    found, missing, shipped = (event.result for event in told.of(ToolCallFinished))
    assert json.loads(found.structured_json or "") == {"number": 4711, "state": "PAID"}
    assert missing.status is ToolResultStatus.ERROR
    assert missing.content[1].content == Text("There is no such order.")
    assert shipped.content[0].content == Text("Order 7 is on its way, for ada.")
    first = told.of(ToolCallProgressed)[0]
    assert (first.progress, first.total, first.message) == (1.0, 2.0, "asked the warehouse")


@pytest.mark.requirement("HOST-1")
async def test_the_command_line_lists_the_tools_of_a_host_and_says_what_is_missing(tmp_path: Path) -> None:
    async with up(App([tool("look", read_only=True)])) as app:
        (tmp_path / "turnwire.toml").write_text(
            f'[tool_hosts.shop]\naddress = "{app.address}"\npriority = 1\n[tool_hosts.gone]\naddress = "127.0.0.1:1"\n',
            encoding="utf-8",
        )
        ended = await run_cli("tools", cwd=tmp_path, environment=child_environment(OPENAI_BASE_URL="http://x/v1"))
    assert ended.code == 0
    assert "shop__look host shop Does look." in [" ".join(line.split()) for line in ended.stdout.splitlines()]
    assert "not available: tool host 'gone': UNAVAILABLE: failed to connect" in ended.stderr


async def cancel_a_call(host: Example) -> None:
    """Have the host learn that nobody waits for a call of it."""
    toolset = HostToolset("shop", ToolHostConfig(address=host.address))
    await toolset.start()
    await toolset.tools()
    begun = asyncio.Event()
    invocation = ToolInvocation(
        *("run_1", "call_1", "find_order", {"number": 999}, Caller()),
        timeout=SECONDS,
        on_progress=lambda *_: begun.set(),
    )
    call = asyncio.create_task(toolset.call(invocation))
    async with asyncio.timeout(SECONDS):
        await begun.wait()
    call.cancel()
    await host.until("cancelled")
    await toolset.aclose()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.requirement("HOST-34")
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILDERS)
async def test_regenerating_the_code_of_another_language_leaves_no_difference(language: str) -> None:
    script = str(ROOT / "scripts" / "generate_clients.py")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, script, "--check", "--only", language), stderr=asyncio.subprocess.PIPE
    )
    _, err = await child.communicate()
    if child.returncode == 2:
        pytest.skip(err.decode().strip())
    assert (child.returncode, err.decode()) == (0, "")
