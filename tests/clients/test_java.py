"""The Java client against the service: its own tests, its example and its page, and what the conformance set does not
reach.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.provider import answer, calls, provider
from e2e.service import Service, config_text, service

from scripts.clients import java
from scripts.clients.languages import cache_of
from scripts.toolchains import JAVA, Missing
from turnwire.v1 import run_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 60.0
BUILD_SECONDS = 600.0
CACHE = cache_of("Java")
Case = dict[str, Any]
PAGE = (JAVA / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The cache with the runner and the example in it. Skips where Java is not to be had, or not asked for."""
    if "Java" not in os.environ.get("TURNWIRE_CLIENTS", "").split(","):
        pytest.skip("make clients builds the Java client and runs this")
    try:
        java.build(CACHE)
    except Missing as error:
        if ".java:" in str(error) or "COMPILATION ERROR" in str(error):
            raise
        pytest.skip(f"the Java client cannot be built here: {error}")
    return CACHE


async def ended(*command: str, seconds: float = SECONDS) -> tuple[int | None, str, str]:
    """Run a command to its end: its status and what it wrote."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(seconds):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode, out.decode(), err.decode()


@asynccontextmanager
async def running(programs: Path, case: Case) -> AsyncIterator[asyncio.Task[Case]]:
    """The runner with one case, and its answer to come. It lives on until the block is left."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*java.runner(programs), stdin=pipe, stdout=pipe)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps({"id": "case", **case}).encode() + b"\n")
    line = asyncio.create_task(child.stdout.readline())

    async def told() -> Case:
        async with asyncio.timeout(SECONDS):
            read: Case = json.loads(await line)
        return read

    answered = asyncio.create_task(told())
    try:
        yield answered
    finally:
        answered.cancel()
        line.cancel()
        child.kill()
        await child.wait()


def turn(*tools: str, session_id: str | None = None) -> Case:
    """A request with client tools, as JSON."""
    declared = [{"name": name, "inputSchemaJson": '{"type":"object"}'} for name in tools]
    turn: Case = {"input": [{"role": "ROLE_USER", "parts": [{"text": "Go"}]}], "tools": {"clientTools": declared}}
    return {"turn": turn | ({"sessionId": session_id} if session_id else {})}


async def settled(s: Service, run_id: str) -> run_pb2.Run:
    """The run, once it has ended."""
    async with asyncio.timeout(SECONDS):
        view = await s.watch(run_id)
    assert view.view.outcome is not None
    return (await s.get(run_id)).run


@pytest.mark.requirement("CLIENT-JAVA-1", "CLIENT-JAVA-8", "CLIENT-JAVA-9")
async def test_what_needs_no_server_holds_and_so_do_calls_of_one_that_plays_a_script(programs: Path) -> None:
    status, out, err = await ended(*java.unit_tests(programs), seconds=BUILD_SECONDS)
    assert status == 0, out + err
    suites = {suite.get("name"): suite for suite in map(root_of, java.reports(programs))}
    written = {path.stem for path in (JAVA / "src" / "test").rglob("*Test.java")}
    assert {f"dev.turnwire.{name}" for name in written} == set(suites)
    assert all(int(suite.get("tests", 0)) > int(suite.get("skipped", 0)) for suite in suites.values())


def root_of(report: Path) -> ET.Element:
    """What a class of tests came to."""
    return ET.fromstring(report.read_bytes())


@pytest.mark.requirement("CLIENT-JAVA-2")
async def test_the_compiler_at_its_strictest_has_nothing_to_say(programs: Path) -> None:
    for command in java.lint(programs):
        status, out, err = await ended(*command, seconds=BUILD_SECONDS)
        assert (status, out + err) == (0, "")


@pytest.mark.requirement("CLIENT-JAVA-3")
async def test_the_example_prints_what_its_page_shows(programs: Path, tmp_path: Path) -> None:
    shown = re.search(r'dev\.turnwire\.examples\.Ask \S+ "([^"]+)"\n(.*?)```', PAGE, re.DOTALL)
    assert shown is not None
    script = (calls(("add", {"a": 1, "b": 2})), answer("1 + 2 ", "is 3."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        status, out, err = await ended(*java.example(programs), s.address, shown[1])
        refused, _, words = await ended(*java.example(programs), s.address)
    assert (status, out, err) == (0, shown[2], "")
    assert (refused, "usage: Ask ADDRESS QUESTION" in words) == (2, True)


def page_of(block: str, number: int, where: Path) -> Path:
    """A class with the imports and the members that the page shows."""
    lines = block.splitlines()
    imports = [line for line in lines if line.startswith("import ")]
    members = [line for line in lines if not line.startswith("import ")]
    path = where / f"Page{number}.java"
    path.write_text("\n".join([*imports, f"class Page{number} {{", *members, "}"]), encoding="utf-8")
    return path


@pytest.mark.requirement("CLIENT-JAVA-10")
async def test_the_code_of_the_page_compiles(programs: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```java\n(.*?)```", PAGE, re.DOTALL)
    pages = [page_of(block, number, tmp_path) for number, block in enumerate(blocks)]
    assert pages
    command = java.compiler(programs, tmp_path)
    status, out, err = await ended(*command, *map(str, pages), seconds=BUILD_SECONDS)
    assert (status, out + err) == (0, "")


@pytest.mark.requirement("CLIENT-JAVA-4", "CLIENT-JAVA-7")
async def test_a_result_is_handed_in_while_another_function_runs_and_what_has_none_is_left(
    programs: Path, tmp_path: Path
) -> None:
    script = calls(("patient", {}), ("quick", {"n": 9007199254740993}), ("nobody", {}))
    async with provider(script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        case: Case = {"target": s.address, "run": turn("patient", "quick", "nobody"), "cancel_on": "tool_call_finished"}
        case["tools"] = {"patient": {"hang": True}, "quick": {"echo": True}}
        async with running(programs, case) as told:
            left = await told
        p.script(script)
        del case["cancel_on"], case["tools"]["patient"]
        async with running(programs, case) as told:
            waits = await told
        state = (await s.get(waits["run_id"])).run.state
    assert left["tool_arguments"] == {"patient": ["{}"], "quick": ['{"n": 9007199254740993}']}
    assert left["error"] == {"type": "Cancelled"}
    assert (len(left["waiting"]), len(waits["waiting"])) == (2, 2)
    assert (waits["error"], state) == (None, run_pb2.RUN_STATE_WAITING)


@pytest.mark.requirement("CLIENT-JAVA-5")
@pytest.mark.parametrize("left_at", ["run_waiting", "tool_call_finished"])
async def test_a_run_that_is_cancelled_while_it_waits_ends_unless_it_was_to_go_on(
    programs: Path, tmp_path: Path, left_at: str
) -> None:
    script = calls(("patient", {}), ("quick", {}))
    case: Case = {"tools": {"patient": {"hang": True}, "quick": {"return": 1}}, "cancel_on": left_at}
    async with provider() as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        p.script(script)
        async with running(programs, {**case, "target": s.address, "run": turn("patient", "quick")}) as told:
            run = await settled(s, (await told)["run_id"])
        p.script(script)
        kept = {**case, "target": s.address, "run": turn("patient", "quick", session_id="s")}
        async with running(programs, kept) as told:
            going_on = (await told)["run_id"]
        state = (await s.get(going_on)).run.state
    assert run.state == run_pb2.RUN_STATE_SETTLED
    assert state == run_pb2.RUN_STATE_WAITING


@pytest.mark.requirement("CLIENT-JAVA-6")
async def test_a_deadline_that_passes_while_a_function_runs_ends_the_run(programs: Path, tmp_path: Path) -> None:
    async with provider(calls(("patient", {}))) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        case = {"target": s.address, "run": turn("patient"), "tools": {"patient": {"hang": True}}, "timeout_ms": 3000}
        async with running(programs, case) as told:
            left = await told
            run = await settled(s, left["run_id"])
    assert left["error"] == {"type": "DeadlineExceeded"}
    assert run.state == run_pb2.RUN_STATE_SETTLED
