"""Operator tools in the service as a process of its own: who sees them, and a run that uses one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from e2e.provider import answer, calls, provider
from e2e.service import SECONDS, child_environment, config_text, prompt, run_cli, service

from turnwire.v1 import outcome_pb2, tool_pb2, turn_service_pb2

pytestmark = pytest.mark.anyio

ANN, BOB = (f"{name}-has-a-token-of-{name}" for name in ("ann", "bob"))
READING = ["grep_files", "list_dir", "read_file", "tail_file"]


def configuration(directory: Path, url: str) -> str:
    """Two callers, of whom one is an operator, and a root for reading."""
    root = directory / "shop"
    root.mkdir()
    (root / "note").write_text("The kettle is broken.\n")
    callers = ""
    for name, token, role in (("ann", ANN, "operator"), ("bob", BOB, "support")):
        (directory / name).write_text(token)
        callers += f'[[callers]]\nprincipal = "{name}"\nroles = ["{role}"]\ntoken_file = "{directory / name}"\n'
    return config_text(url, more=f'{callers}[operator.files]\nroots = [{{path = "{root}"}}]\n')


@pytest.mark.requirement("OPER-1", "OPER-40")
async def test_an_operator_uses_what_nobody_else_sees(tmp_path: Path) -> None:
    by_ann, by_bob = ((("authorization", f"Bearer {token}"),) for token in (ANN, BOB))
    async with (
        provider(calls(("read_file", {"path": "shop/note"})), answer("It is.")) as model,
        service(tmp_path, configuration(tmp_path, model.url)) as s,
    ):
        listing = turn_service_pb2.ListToolsRequest()
        anns = (await s.turns.ListTools(listing, metadata=by_ann, timeout=SECONDS)).tools
        bobs = (await s.turns.ListTools(listing, metadata=by_bob, timeout=SECONDS)).tools
        async with asyncio.timeout(SECONDS):
            frames = [frame async for frame in s.turns.RunTurn(prompt(), metadata=by_ann)]
        await s.stop()
    mine = [tool for tool in anns if tool.ref.source == tool_pb2.TOOL_SOURCE_OPERATOR]
    assert [tool.ref.routed_name for tool in mine] == READING
    assert {tool.ref.routed_name for tool in anns} - {tool.ref.routed_name for tool in bobs} == set(READING)
    events = [event for frame in frames for event in frame.events]
    finished = [event.tool_call_finished.result for event in events if event.HasField("tool_call_finished")]
    assert [result.content[0].text for result in finished] == ["The kettle is broken.\n"]
    assert events[-1].run_finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("OPER-1", "OPER-20")
async def test_the_command_line_lists_them_and_a_mistake_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "turnwire.toml"
    environment = child_environment(OPENAI_BASE_URL="http://x/v1")
    config.write_text(f'[operator.files]\nroots = [{{path = "{tmp_path}", name = "here"}}]\n')
    listed = await run_cli("tools", cwd=tmp_path, environment=environment)
    rows = [" ".join(line.split())[:24] for line in listed.stdout.splitlines()]
    assert listed.code == 0 and next(row for row in rows if "operator" in row).startswith("grep_files operator")
    config.write_text('[operator.files]\nroots = [{path = "here"}]\n')
    mistaken = await run_cli("tools", cwd=tmp_path, environment=environment)
    assert mistaken.code != 0 and "operator.files.roots.0: path must be absolute" in mistaken.stderr
