"""The page about browsers and curl shows what curl prints."""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest
from connect.kit import SECONDS, TURNS, web
from docs.pages import ROOT

from turnwired.testing.provider import answer

PAGE = (ROOT / "docs" / "browser.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8080"
BLOCKS = [
    block
    for text in (PAGE, README)
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    if ADDRESS in block
]


def same_shape(text: str) -> str:
    """Ids and times made alike."""
    for pattern, word in (
        (r"(run|msg)_[0-9a-f]{32}", "ID"),
        (r"msg_[0-9a-f]{8}_", "msg_"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    ):
        text = re.sub(pattern, word, text)
    return text.rstrip("\n")


async def shell(script: str) -> str:
    """What a shell prints."""
    child = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(SECONDS):
        out, _ = await child.communicate()
    return out.decode()


@pytest.mark.anyio
@pytest.mark.requirement("WEB-15")
@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="there is no curl")
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
async def test_curl_prints_what_the_page_says(block: str) -> None:
    shown = re.findall(r"\$ (.*)\n((?:(?!\$ ).*\n)*)", block)
    async with web(answer("Order 4711 was shipped on Monday.")) as w:
        known = ""
        setting = ""
        for command, printed in shown:
            if not printed:
                setting = f"{command}\n"  # a variable, for the command behind it
                continue
            own = re.sub(r"run_[0-9a-f]{32}", known, command).replace(ADDRESS, w.url)
            said = await shell(setting + own)
            assert same_shape(said) == same_shape(printed)
            if found := re.search(r"run_[0-9a-f]{32}", said):
                known = found.group()
                async with w.stream(f"{TURNS}/WatchRun", {"runId": known}) as response:
                    await response.aread()  # to its end


@pytest.mark.requirement("WEB-15")
def test_there_is_something_to_show() -> None:
    assert len(BLOCKS) == 3
