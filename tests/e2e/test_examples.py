"""The example of the README, run as the README says, and the README's own words about it."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.provider import Provider, answer, calls, provider
from e2e.service import ROOT, START_SECONDS, TIME_SERVER, child_environment, run_cli

pytestmark = pytest.mark.anyio

EXAMPLE = ROOT / "examples" / "bookshop"
README = ROOT / "README.md"
QUESTION = "Where is order 4711, and what time is it there?"
SCRIPT = (
    calls(("find_order", {"number": 4711})),
    calls(("time__get_current_time", {"timezone": "Asia/Tokyo"})),
    answer("Order 4711 ", "has been shipped to Tokyo."),
)


@dataclass(frozen=True, slots=True)
class Shop:
    """The example in a directory of its own, and the environment of its commands."""

    directory: Path
    environment: dict[str, str]
    provider: Provider


@asynccontextmanager
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A copy of the example beside a scripted model."""
    directory = tmp_path / "bookshop"
    await asyncio.to_thread(shutil.copytree, EXAMPLE, directory, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    async with provider(*SCRIPT) as p:
        path = f"{TIME_SERVER.parent}:{child_environment()['PATH']}"
        environment = child_environment(PATH=path, OPENAI_BASE_URL=f"{p.url}/v1", OPENAI_API_KEY="k")
        yield Shop(directory, environment | {"OPENAI_MODEL": "scripted"}, p)


def same_shape(text: str) -> str:
    """The text with ids, times and durations made alike, and without the padding of tables."""
    for pattern, word in (
        (r"run_[0-9a-f]{32}", "RUN"),
        (r"\d{4}-\d\d-\d\dT[\d:]+\+\d\d:\d\d", "TIME"),
        (r'"day_of_week": "\w+"', '"day_of_week": DAY'),
        (r"\d+ ms", "MS"),
        (r" +", " "),
        (r" *\n", "\n"),
    ):
        text = re.sub(pattern, word, text)
    return text.strip()


@pytest.mark.requirement("E2E-70")
async def test_the_first_agent_runs_as_the_readme_shows_it(tmp_path: Path) -> None:
    async with shop(tmp_path) as s:
        listed = await run_cli("tools", cwd=s.directory, environment=s.environment)
        ended = await run_cli("run", QUESTION, cwd=s.directory, environment=s.environment)
        results = [message["content"] for message in s.provider.requests[2]["messages"] if message["role"] == "tool"]
    assert (ended.code, ended.stderr) == (0, "")
    assert "The Left Hand of Darkness" in results[0]
    assert "Asia/Tokyo" in results[1]
    readme = same_shape(README.read_text(encoding="utf-8"))
    assert same_shape(f'$ turnwire run "{QUESTION}"\n{ended.stdout}') in readme, ended.stdout
    assert same_shape(f"$ turnwire tools\n{listed.stdout}") in readme, listed.stdout


@pytest.mark.requirement("E2E-71")
async def test_the_call_from_python_runs_as_the_readme_shows_it(tmp_path: Path) -> None:
    async with shop(tmp_path) as s:
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "turnwired.cli.main", "serve", "--listen", "127.0.0.1:0"),
            cwd=s.directory,
            env=s.environment,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            async with asyncio.timeout(START_SECONDS):
                address = (await server.stdout.readline()).decode().split()[-1]
                # A turn goes on without a tool server that takes its time, as it may on a busy machine.
                listed = ("tools", "--server", address)
                while "time__" not in (await run_cli(*listed, cwd=s.directory, environment=s.environment)).stdout:
                    pass
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "ask.py", address, QUESTION),
                cwd=s.directory,
                env=s.environment,
                stdout=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(START_SECONDS):
                out, _ = await client.communicate()
        finally:
            server.terminate()
            async with asyncio.timeout(START_SECONDS):
                await server.communicate()
    assert client.returncode == 0
    assert out.decode().splitlines() == [
        "calls find_order",
        "calls time__get_current_time",
        "Order 4711 has been shipped to Tokyo.",
        "OUTCOME_KIND_ANSWERED ",
    ]


@pytest.mark.requirement("E2E-72")
@pytest.mark.parametrize("name", ["bookshop.py", "turnwire.toml", "ask.py"])
def test_the_readme_shows_the_example_word_for_word(name: str) -> None:
    assert (EXAMPLE / name).read_text(encoding="utf-8") in README.read_text(encoding="utf-8")
