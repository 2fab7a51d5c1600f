"""The C++ client against the service: its tests, its example, its page, and what the conformance set does not reach."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from clients.programs import SECONDS, Case, cuttable, ended, left_waiting, running, settled, turn
from e2e.provider import Finish, Say, Wait, answer, calls, provider
from e2e.service import config_text, service

from scripts.clients import cpp
from scripts.clients.languages import cache_of
from scripts.toolchains import Missing
from turnwire.v1 import run_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

BUILD_SECONDS = 600.0
CACHE = cache_of("C++")
PAGE = (cpp.CPP / "README.md").read_text(encoding="utf-8")
PROJECT = """
cmake_minimum_required(VERSION 3.23)
project(page LANGUAGES CXX)
{found}
find_package(nlohmann_json REQUIRED)
add_executable(asks page.cc)
target_link_libraries(asks PRIVATE nlohmann_json::nlohmann_json)
{linked}
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """The cache with all programs in it. Skips where the packages are not to be had, or C++ is not asked for."""
    if "C++" not in os.environ.get("TURNWIRE_CLIENTS", "").split(","):
        pytest.skip("make clients builds the C++ client and runs this")
    try:
        cpp.build(CACHE)
    except Missing as error:
        if "error:" in str(error):
            raise
        pytest.skip(f"the C++ client cannot be built here: {error}")
    return CACHE


def blocks(language: str) -> list[str]:
    """The code of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def project(place: Path, found: str, linked: str) -> Path:
    """A project of all the code of the page."""
    place.mkdir()
    (place / "page.cc").write_text("\n".join(blocks("cpp")), encoding="utf-8")
    (place / "CMakeLists.txt").write_text(PROJECT.format(found=found, linked=linked), encoding="utf-8")
    return place


async def done(*command: str | Path) -> None:
    """Run a command that is to end well."""
    status, out, err = await ended(*map(str, command), seconds=BUILD_SECONDS)
    assert status == 0, out + err


@pytest.mark.requirement("CLIENT-CPP-1", "CLIENT-CPP-9", "CLIENT-CPP-11")
async def test_its_own_tests_hold_and_sanitizers_find_nothing(programs: Path) -> None:
    status, out, err = await ended(*cpp.unit_tests(programs), seconds=BUILD_SECONDS)
    assert status == 0, out + err
    plain, sanitized = (int(count) for count in re.findall(r"\[  PASSED  \] ([1-9]\d*) tests", out))
    assert sanitized == plain + 2, "the same, and that the sanitizers see what they are for"


@pytest.mark.requirement("CLIENT-CPP-2")
async def test_the_code_is_in_the_one_format(programs: Path) -> None:
    commands = cpp.lint(programs)
    if not commands:
        pytest.skip(f"{cpp.FORMATTER} is not installed")
    for command in commands:
        await done(*command)


@pytest.mark.requirement("CLIENT-CPP-3")
async def test_the_example_prints_what_its_page_shows(programs: Path, tmp_path: Path) -> None:
    shown = re.search(r'```console\n\$ build/cpp/ask \S+ "(.+)"\n(.*?)```', PAGE, re.DOTALL)
    assert shown is not None
    script = (calls(("add", {"a": 1, "b": 2})), answer("1 + 2 ", "is 3."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        status, out, err = await ended(*cpp.example(programs), s.address, shown[1])
    assert (status, out, err) == (0, shown[2], "")


@pytest.mark.requirement("CLIENT-CPP-10")
async def test_an_installed_client_is_found_and_the_code_of_its_page_asks_with_it(
    programs: Path, tmp_path: Path
) -> None:
    cpp.install(programs, tmp_path / "installed")
    found, linked = blocks("cmake")[0].splitlines()
    page = project(tmp_path / "page", found, linked)
    await done("cmake", "-S", page, "-B", page / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")
    await done("cmake", "--build", page / "build")
    script = (calls(("add", {"a": 1, "b": 2})), answer("1 + 2 ", "is 3."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        status, out, err = await ended(str(page / "build" / "asks"), s.address)
    assert (status, out, err) == (0, "1 + 2 is 3.\n", "")


@pytest.mark.requirement("CLIENT-CPP-10")
async def test_a_client_beside_the_code_is_the_same_target(programs: Path, tmp_path: Path) -> None:
    del programs  # there is a compiler
    assert "`add_subdirectory(turnwire/clients/cpp)`" in PAGE
    _, linked = blocks("cmake")[0].splitlines()
    page = project(tmp_path / "page", f"add_subdirectory({cpp.CPP} turnwire)", linked)
    await done("cmake", "-S", page, "-B", page / "build")
    made = (page / "build" / "Makefile").read_text(encoding="utf-8")
    assert "turnwire_client:" in made
    assert "conformance:" not in made, "what is for this repository is not built with somebody's program"
    assert "ask:" not in made


@pytest.mark.requirement("CLIENT-CPP-4", "CLIENT-CPP-8")
async def test_a_result_is_handed_in_while_another_function_runs_and_what_has_none_is_left(
    programs: Path, tmp_path: Path
) -> None:
    script = calls(("patient", {}), ("quick", {"n": 9007199254740993}), ("nobody", {}))
    async with provider(script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        case: Case = {"target": s.address, "run": turn("patient", "quick", "nobody"), "cancel_on": "tool_call_finished"}
        case["tools"] = {"patient": {"hang": True}, "quick": {"echo": True}}
        async with running(cpp.runner(programs), case) as told:
            left = await told
        p.script(script)
        del case["cancel_on"], case["tools"]["patient"]
        async with running(cpp.runner(programs), case) as told:
            waits = await told
        await left_waiting(s, waits["run_id"])
    assert left["tool_arguments"] == {"patient": ["{}"], "quick": ['{"n": 9007199254740993}']}
    assert left["error"] == {"type": "Cancelled"}
    assert (len(left["waiting"]), len(waits["waiting"])) == (2, 2)
    assert waits["error"] is None


@pytest.mark.requirement("CLIENT-CPP-5")
@pytest.mark.parametrize("stopped_at", ["run_waiting", "tool_call_finished"])
async def test_a_run_that_is_stopped_while_it_waits_ends_unless_it_was_to_go_on(
    programs: Path, tmp_path: Path, stopped_at: str
) -> None:
    script = calls(("patient", {}), ("quick", {}))
    case: Case = {"tools": {"patient": {"hang": True}, "quick": {"return": 1}}, "cancel_on": stopped_at}
    async with provider() as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        p.script(script)
        async with running(
            cpp.runner(programs), {**case, "target": s.address, "run": turn("patient", "quick")}
        ) as told:
            run = await settled(s, (await told)["run_id"])
        p.script(script)
        kept = {**case, "target": s.address, "run": turn("patient", "quick", session_id="s")}
        async with running(cpp.runner(programs), kept) as told:
            going_on = (await told)["run_id"]
        await left_waiting(s, going_on)
    assert run.state == run_pb2.RUN_STATE_SETTLED


@pytest.mark.requirement("CLIENT-CPP-6")
async def test_a_deadline_that_passes_while_a_function_runs_ends_the_run(programs: Path, tmp_path: Path) -> None:
    async with provider(calls(("patient", {}))) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        case = {"target": s.address, "run": turn("patient"), "tools": {"patient": {"hang": True}}, "timeout_ms": 1500}
        async with running(cpp.runner(programs), case) as told:
            left = await told
            run = await settled(s, left["run_id"])
    assert left["error"] == {"type": "DeadlineExceeded"}
    assert run.state == run_pb2.RUN_STATE_SETTLED


@pytest.mark.requirement("CLIENT-CPP-7")
async def test_a_run_whose_connection_is_cut_is_read_to_its_end(programs: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    steps: Sequence[Say | Wait | Finish] = (Say("Eins, "), Wait(gate), Say("zwei."), Finish())
    async with provider(steps) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s, cuttable(s) as way:
        resume = {"attempts": 50, "initial_delay_ms": 20, "max_delay_ms": 100}
        run = {**turn(), "onDisconnect": "ON_DISCONNECT_CONTINUE"}
        case = {"target": way.address, "run": run, "resume": resume}
        async with running(cpp.runner(programs), case) as told:
            await p.until_requests(1)
            async with asyncio.timeout(SECONDS):
                await way.passed_text.wait()
            way.cut()
            gate.set()
            read = await told
    assert way.connections > 1
    assert (read["text"], read["outcome"], read["error"]) == ("Eins, zwei.", "OUTCOME_KIND_ANSWERED", None)
    assert read["sequences_dense"]
