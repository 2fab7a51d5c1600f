"""The code of the documents runs, and prints what they say; their links lead somewhere; the example is the page's."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from docs.pages import ROOT, blocks, outputs
from e2e.provider import answer, calls, provider
from e2e.service import START_SECONDS, child_environment

import turnwired.testing
from turnwired.config.load import read_config

DOCS = ROOT / "docs"
EXAMPLE = ROOT / "examples" / "in_process" / "support.py"
PAGES = [
    "approvals",
    "in_process",
    "testing",
    "agents",
    "tool_errors",
    "abort",
    "budgets",
    "conversations",
    "policy_layers",
    "from_a_loop",
    "mcp",
    "operator_tools",
    "tools",
    "registry",
    "output",
]
QUESTION = "Where is order 4711?"


@pytest.mark.requirement("KIT-30", "BUDGET-21", "OPER-39")
@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_the_page_prints_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "TURNWIRE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    said = [block for block in blocks(DOCS / f"{name}.md") if block.says]
    assert said, "the page shows nothing"
    for block, printed in outputs(DOCS / f"{name}.md"):
        assert printed == block.says, f"{name}.md, the block at line {block.line}"


@pytest.mark.requirement("KIT-10")
def test_the_page_shows_the_example_word_for_word() -> None:
    page = (DOCS / "in_process.md").read_text(encoding="utf-8")
    assert EXAMPLE.read_text(encoding="utf-8") in page


@pytest.mark.requirement("KIT-10")
@pytest.mark.anyio
async def test_the_example_runs_as_the_page_shows_it(tmp_path: Path) -> None:
    script = (calls(("find_order", {"number": 4711})), answer("Order 4711 ", "has been shipped to Tokyo."))
    async with provider(*script) as model:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLE), QUESTION),
            cwd=tmp_path,
            env=child_environment(OPENAI_BASE_URL=f"{model.url}/v1", OPENAI_API_KEY="k", OPENAI_MODEL="scripted"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(START_SECONDS):
            out, err = await child.communicate()
    assert (child.returncode, err.decode()) == (0, "")
    shown = f'$ python support.py "{QUESTION}"\n{out.decode()}'
    assert shown in (DOCS / "in_process.md").read_text(encoding="utf-8"), shown
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a handful of names


@pytest.mark.requirement("KIT-30")
def test_the_page_of_the_test_kit_names_all_of_it() -> None:
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    assert [name for name in turnwired.testing.__all__ if f"`{name}" not in page and f"{name}(" not in page] == []


@pytest.mark.requirement("KIT-30")
def test_the_file_on_the_page_about_agents_says_the_same_as_its_code() -> None:
    page = DOCS / "agents.md"
    (file,) = re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(next(iter(blocks(page))).code, namespace)
    assert read_config(tomllib.loads(file), {}).agents == read_config(namespace["CONFIG"], {}).agents
