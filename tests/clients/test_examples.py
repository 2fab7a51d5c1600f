"""The example of each client, run as a user would run it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from e2e.provider import answer, calls, provider
from e2e.service import ROOT, child_environment, config_text, service

from scripts.clients.languages import LANGUAGES, cache_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
PLAYING = list(filter(None, os.environ.get("TURNWIRE_CLIENTS", "").split(",")))
needs_clients = pytest.mark.skipif(not PLAYING, reason="make clients builds the clients and runs this")
SECONDS = 60.0


async def printed(command: list[str]) -> tuple[int | None, str, str]:
    """Run a program to its end: its status and what it wrote."""
    environment = child_environment() | {"HOME": str(Path.home())}
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment, cwd=ROOT)
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode, out.decode(), err.decode()


@needs_clients
@pytest.mark.requirement("CLIENT-12")
@pytest.mark.parametrize("language", PLAYING)
async def test_the_example_shows_the_turn_as_it_comes_and_how_it_ended(language: str, tmp_path: Path) -> None:
    command = LANGUAGES[language].example(cache_of(language))
    script = (calls(("add", {"a": 1, "b": 2})), answer("1 + 2 ", "is 3."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        status, out, err = await printed([*command, s.address, "What is 1 + 2?"])
    refused, _, words = await printed(command)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert "add" in lines[0], "the call of a tool is shown"
    assert lines[1] == "1 + 2 is 3."
    assert lines[2].strip().endswith("ANSWERED")
    assert refused != 0
    assert "usage" in words.lower()
