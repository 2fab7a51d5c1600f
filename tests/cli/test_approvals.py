"""Questions of runs at the command line: asked at a terminal, told in a pipe, answered from another terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.provider import Provider, answer, calls, provider
from e2e.service import SECONDS, Service, child_environment, config_text, run_cli, service, spawn_cli

from turnwired.cli.asking import decision_of
from turnwired.domain.approval import ApprovalDecision

pytestmark = pytest.mark.anyio

ASK = """
[agents.default]
instructions = "Be brief."
[[agents.default.policy.approval.rules]]
permission = "tool"
pattern = "add"
action = "ask"
"""
ADD = calls(("add", {"a": 20, "b": 22}))


@pytest.fixture(scope="module")
async def asking(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Provider, Service]]:
    """One service for all tests."""
    directory = tmp_path_factory.mktemp("cli_approvals")
    async with provider() as p, service(directory, config_text(p.url, more=ASK), GATES=p.url) as s:
        yield p, s


async def line_with(stream: asyncio.StreamReader, words: str) -> str:
    """The next line that has these words."""
    async with asyncio.timeout(SECONDS):
        while line := (await stream.readline()).decode():
            if words in line:
                return line
    raise AssertionError(f"{words!r} was not said")


@pytest.mark.requirement("APPROVE-22")
async def test_run_in_a_pipe_says_how_to_answer_and_another_terminal_answers(
    asking: tuple[Provider, Service], tmp_path: Path
) -> None:
    p, s = asking
    p.script(ADD, answer("It is 42."))
    running = await spawn_cli("run", "Add.", "--server", s.address, "--session", "pipe", cwd=tmp_path)
    assert running.stderr is not None and running.stdout is not None
    command = (await line_with(running.stderr, "turnwire approvals approve")).split()[1:]
    listed = await run_cli("approvals", "list", "--server", s.address, "--session", "pipe", cwd=tmp_path)
    approved = await run_cli(*command, "--always", cwd=tmp_path)
    async with asyncio.timeout(SECONDS):
        out, _ = await running.communicate()
    again = await run_cli(*command, cwd=tmp_path)
    every = await run_cli("approvals", "list", "--all", "--server", s.address, cwd=tmp_path)
    nothing = await run_cli("approvals", "list", "--server", s.address, "--session", "pipe", cwd=tmp_path)
    policy = await run_cli("policy", "--server", s.address, "--session", "pipe", cwd=tmp_path)
    assert running.returncode == 0
    assert "It is 42." in out.decode()
    assert "always by anonymous" in out.decode()
    assert "add" in listed.stdout and '{"a": 20, "b": 22}' in listed.stdout and "pending" in listed.stdout
    assert approved.stdout.startswith("always: run run_")
    assert again.code == 2
    assert "APPROVAL" not in again.stdout and "resolved before, as ALWAYS by anonymous" in again.stderr
    assert "resolved always by anonymous" in every.stdout
    assert nothing.stdout.strip() == "no questions"
    assert re.search(r"approval\.rules +tool add ask, tool add allow +session +pipe", policy.stdout), policy.stdout


@pytest.mark.requirement("APPROVE-22")
async def test_a_rejection_with_a_comment_reaches_the_model(asking: tuple[Provider, Service], tmp_path: Path) -> None:
    p, s = asking
    p.script(ADD, answer("I will not."))
    running = await spawn_cli("run", "Add.", "--server", s.address, cwd=tmp_path)
    assert running.stderr is not None
    command = (await line_with(running.stderr, "turnwire approvals reject")).split()[1:]
    rejected = await run_cli(*command, "--comment", "Not today.", cwd=tmp_path)
    async with asyncio.timeout(SECONDS):
        out, _ = await running.communicate()
    assert rejected.code == 0
    assert "reject by anonymous: Not today." in out.decode()
    assert "Not today." in str(p.requests[-1]["messages"])


@pytest.mark.requirement("APPROVE-23")
async def test_at_a_terminal_the_person_is_asked(asking: tuple[Provider, Service], tmp_path: Path) -> None:
    p, s = asking
    p.script(ADD, answer("It is 42."))
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "turnwired.cli.main", "run", "Add.", "--server", s.address),
        cwd=tmp_path,
        env=dict(child_environment(), COLUMNS="200", TERM="dumb"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    said = b""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()

    def read() -> None:
        nonlocal said
        with suppress(OSError):  # the other end is closed
            said += os.read(master, 4096)
        arrived.set()

    loop.add_reader(master, read)
    try:
        async with asyncio.timeout(SECONDS):
            while b"[n]o" not in said:
                arrived.clear()
                await arrived.wait()
            os.write(master, b"what?\ny\n")
            code = await process.wait()
    finally:
        loop.remove_reader(master)
        os.close(master)
        if process.returncode is None:
            process.kill()
    assert code == 0, said.decode()
    assert b"It is 42." in said
    assert b"once by anonymous" in said


@pytest.mark.requirement("APPROVE-23")
@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("y\n", (ApprovalDecision.ONCE, "")),
        (" Always \n", (ApprovalDecision.ALWAYS, "")),
        ("n ask Ann first\n", (ApprovalDecision.REJECT, "ask Ann first")),
        ("no\n", (ApprovalDecision.REJECT, "")),
        ("yes please\n", None),
        ("\n", None),
        ("maybe\n", None),
    ],
)
def test_a_line_is_an_answer_or_none(line: str, meant: tuple[ApprovalDecision, str] | None) -> None:
    assert decision_of(line) == meant
