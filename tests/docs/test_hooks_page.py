"""The page on hooks: its app runs as the page shows it, its Python object is a hook, and its configuration is one."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from docs.pages import ROOT, blocks
from e2e.provider import answer, provider
from e2e.service import SECONDS, START_SECONDS, child_environment, config_text, prompt, service
from execution.served import served

from turnwired.config.hooks import HooksConfig
from turnwired.domain.hook_kind import HookKind
from turnwired.engine.hook_loading import hook_of
from turnwired.testing.provider import answer as said

PAGE = ROOT / "docs" / "hooks.md"
EXAMPLE = ROOT / "examples" / "hooks" / "audit.py"

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def audit(directory: Path, address: str) -> AsyncIterator[asyncio.StreamReader]:
    """The app of the page as a process; what it prints."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), address),
        cwd=directory,
        env=child_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            assert (await child.stdout.readline()).decode() == f"listening on {address}\n"
        yield child.stdout
    finally:
        child.send_signal(signal.SIGKILL)
        async with asyncio.timeout(SECONDS):
            await child.stdout.read()
            await child.wait()


async def until_billed(output: asyncio.StreamReader) -> str:
    """What is printed until a run is billed."""
    lines = ""
    async with asyncio.timeout(START_SECONDS):
        while "tokens" not in lines:
            lines += (await output.readline()).decode()
    return lines


@pytest.mark.requirement("GHOOK-14", "GHOOK-13")
@pytest.mark.timeout(200)
async def test_the_app_of_the_page_prints_what_the_page_says_and_bills_each_run_once(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert EXAMPLE.read_text(encoding="utf-8") in page
    address = f"unix:{tmp_path}/audit.sock"
    config = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0].replace("127.0.0.1:7500", address)
    async with provider(answer("Yes."), answer("No.")) as model:
        text = config_text(model.url, more=config)
        async with service(tmp_path, text) as s:
            async with audit(tmp_path, address) as output:
                await s.run(prompt())
                printed = await until_billed(output)
            await s.run(prompt())  # the app was killed
        async with service(tmp_path, text) as s, audit(tmp_path, address) as output:
            again = await until_billed(output)
            assert (await s.stop()).code == 0
    shown = re.findall(r"^```text\n(listening.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    assert shown.replace("127.0.0.1:7500", address) == f"listening on {address}\n{printed}"
    # The app may have been killed before its answer was heard: then it is told of the first run once more.
    assert again.splitlines()[-1] == "ANSWERED: 25 tokens"
    bills = sqlite3.connect(tmp_path / "audit.db")
    try:
        assert bills.execute("SELECT outcome, tokens FROM bills").fetchall() == [("ANSWERED", 25)] * 2
        assert bills.execute("SELECT count(*) FROM events GROUP BY run_id").fetchall() == [(5,)] * 2
    finally:
        bills.close()


@pytest.mark.requirement("GHOOK-14")
async def test_the_python_object_of_the_page_is_a_hook(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(list(blocks(PAGE))[-1].code, namespace)
    async with served([said("Yes.")], hooks=[hook_of("audit", namespace["Audit"])]) as s:
        seen = await s.run()
        await s.engine.hooks.drain(SECONDS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{seen.run_id}/1 RunStarted"
    assert lines[-1].startswith(f"{seen.run_id} Outcome(")


@pytest.mark.requirement("GHOOK-14")
async def test_the_page_names_every_kind_of_events_and_its_sections_are_taken() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (paragraph,) = re.findall(r"^\*\*`events`\*\* chooses:.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind in HookKind if f"`{kind}`" not in paragraph] == []
    for section in re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        HooksConfig.model_validate(tomllib.loads(section)["hooks"])
