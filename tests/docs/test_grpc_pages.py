"""The programs that the pages show against a server run against one, and print what the pages say. A scripted model."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from docs.pages import ROOT
from e2e.provider import answer, calls, provider
from e2e.service import SECONDS, START_SECONDS, Ended, Followed, child_environment, prompt, run_cli, service

pytestmark = pytest.mark.anyio

APPROVALS = ROOT / "docs" / "approvals.md"
OPERATORS = ROOT / "docs" / "operators.md"
CHECKOUT = ROOT / "examples" / "caller" / "checkout.py"
DESK = ROOT / "examples" / "operator" / "desk.py"
SHOP = '''
def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} was paid back"
'''
REFUND = ("refund", {"order": 4711})


def toml(page: Path, holds: str) -> str:
    """The one block of TOML of the page that has these words."""
    sections = re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (section,) = [section for section in sections if holds in section]
    return str(section)


def configuration(url: str, more: str) -> str:
    """A server with one scripted model, and what the page says."""
    return (
        f'[store]\npath = "runs.db"\n[providers.scripted]\nprofile = "openai-compatible"\nbase_url = "{url}/v1"\n'
        f'api_key_env = "SCRIPTED_KEY"\nmodels = ["scripted-model"]\nlist_prices = false\n{more}'
    )


def same_shape(text: str) -> str:
    """Ids made alike, and tables without their padding."""
    for pattern, word in ((r"run_[0-9a-f]{32}", "RUN"), (r"appr_[0-9a-f]+_", "APPR_"), (r" +", " "), (r" *\n", "\n")):
        text = re.sub(pattern, word, text)
    return text


async def program(path: Path, *arguments: str, said: str = "") -> Ended:
    """Run an example to its end, with these words at its terminal."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, str(path), *arguments),
        env=child_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(START_SECONDS):
        out, err = await child.communicate(said.encode())
    return Ended(child.returncode or 0, out.decode(), err.decode())


@pytest.mark.requirement("PAGE-1")
async def test_the_caller_of_the_page_runs_its_tool_adds_its_word_and_answers_as_the_page_shows(tmp_path: Path) -> None:
    page = APPROVALS.read_text(encoding="utf-8")
    assert CHECKOUT.read_text(encoding="utf-8") in page
    (tmp_path / "shop.py").write_text(SHOP)
    script = (
        calls(("choose_address", {"order": 4711}), REFUND),
        answer("It goes to Ginza 4-6-16, to the door, and you have your money back."),
    )
    words = "Order 4711 never came."
    async with provider(*script) as model:
        async with service(tmp_path, configuration(model.url, toml(APPROVALS, "shop:refund"))) as s:
            ended = await program(CHECKOUT, s.address, words, said="y\n")
        sent = [(message["role"], message.get("content")) for message in model.requests[1]["messages"]]
    assert (ended.code, ended.stderr) == (0, "")
    # What a user types ends its line at a terminal, and not in a pipe.
    typed = ended.stdout.replace("[y/n] ", "[y/n] y\n")
    assert same_shape(f'$ python checkout.py 127.0.0.1:7443 "{words}"\n{typed}') in same_shape(page), ended.stdout
    assert [role for role, _ in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[-1] == ("user", "Leave it at the door.")
    assert {content for role, content in sent if role == "tool"} == {"Ginza 4-6-16", "order 4711 was paid back"}


@pytest.mark.requirement("PAGE-2")
async def test_a_question_is_answered_from_another_terminal_as_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    async with (
        provider(calls(REFUND), answer("Done.")) as model,
        service(tmp_path, configuration(model.url, toml(APPROVALS, "shop:refund"))) as s,
    ):
        seen = Followed()
        run = s.follow(prompt("My order never came."), seen)
        await seen.until("run_waiting")
        lines = ""
        run_id, approval_id = "", ""
        for command in (["list"], ["approve"], ["list"]):
            arguments = ["approvals", *command, *([run_id, approval_id] if command == ["approve"] else [])]
            ended = await run_cli(*arguments, "--server", s.address, cwd=tmp_path)
            assert (ended.code, ended.stderr) == (0, "")
            lines += f"$ turnwire {' '.join(arguments)}\n{ended.stdout}"
            if not run_id:
                run_id, approval_id = ended.stdout.splitlines()[1].split()[:2]
        async with asyncio.timeout(SECONDS):
            await run
    assert same_shape(lines) in same_shape(APPROVALS.read_text(encoding="utf-8")), lines


@pytest.mark.requirement("PAGE-3")
async def test_the_program_of_the_page_for_operators_prints_what_the_page_says(tmp_path: Path) -> None:
    page = OPERATORS.read_text(encoding="utf-8")
    assert DESK.read_text(encoding="utf-8") in page
    async with (
        provider(answer("Shelf 3."), answer("Sold out."), answer("Good morning.")) as model,
        service(tmp_path, configuration(model.url, toml(OPERATORS, "prices.scripted-model"))) as s,
    ):
        ended = await program(DESK, s.address)
    assert (ended.code, ended.stderr) == (0, "")
    assert f"$ python desk.py 127.0.0.1:7443\n{ended.stdout}```\n" in page, ended.stdout
