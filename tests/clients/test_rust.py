"""The Rust client against the service: its own tests, its example, and what the conformance set does not reach."""

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

from scripts.clients import rust
from scripts.toolchains import RUST, Missing, cache
from turnwire.v1 import run_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

BUILD_SECONDS = 600.0
CACHE = cache("rust")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The cache with the runner and the example in it. Skips where Rust is not to be had, or not asked for."""
    if "Rust" not in os.environ.get("TURNWIRE_CLIENTS", "").split(","):
        pytest.skip("make clients builds the Rust client and runs this")
    try:
        rust.build(CACHE)
    except Missing as error:
        if ".rs:" in str(error):
            raise
        pytest.skip(f"the Rust client cannot be built here: {error}")
    return CACHE


@pytest.mark.requirement("CLIENT-RUST-1", "CLIENT-RUST-9")
async def test_what_needs_no_server_holds(programs: Path) -> None:
    status, out, err = await ended(*rust.unit_tests(programs), seconds=BUILD_SECONDS)
    assert status == 0, out + err
    assert out.count("test result: ok.") > out.count("test result: ok. 0 passed")


@pytest.mark.requirement("CLIENT-RUST-2")
async def test_the_code_is_in_the_one_format_and_clippy_has_nothing_to_say(programs: Path) -> None:
    for command in rust.lint(programs):
        status, out, err = await ended(*command, seconds=BUILD_SECONDS)
        assert status == 0, out + err


@pytest.mark.requirement("CLIENT-RUST-3")
async def test_the_example_prints_what_its_page_shows(programs: Path, tmp_path: Path) -> None:
    page = (RUST / "README.md").read_text(encoding="utf-8")
    shown = re.search(r'```console\n\$ cargo run --example ask -- \S+ "(.+)"\n(.*?)```', page, re.DOTALL)
    assert shown is not None
    script = (calls(("add", {"a": 1, "b": 2})), answer("1 + 2 ", "is 3."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        status, out, err = await ended(*rust.example(programs), s.address, shown[1])
        refused, _, words = await ended(*rust.example(programs), s.address)
    assert (status, out, err) == (0, shown[2], "")
    assert (refused, "usage: ask ADDRESS QUESTION" in words) == (1, True)


@pytest.mark.requirement("CLIENT-RUST-4", "CLIENT-RUST-8")
async def test_a_result_is_handed_in_while_another_function_runs_and_what_has_none_is_left(
    programs: Path, tmp_path: Path
) -> None:
    script = calls(("patient", {}), ("quick", {"n": 9007199254740993}), ("nobody", {}))
    async with provider(script) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        case: Case = {"target": s.address, "run": turn("patient", "quick", "nobody"), "cancel_on": "tool_call_finished"}
        case["tools"] = {"patient": {"hang": True}, "quick": {"echo": True}}
        async with running(rust.runner(programs), case) as told:
            left = await told
        p.script(script)
        del case["cancel_on"], case["tools"]["patient"]
        async with running(rust.runner(programs), case) as told:
            waits = await told
        await left_waiting(s, waits["run_id"])
    assert left["tool_arguments"] == {"patient": ["{}"], "quick": ['{"n": 9007199254740993}']}
    assert left["error"] == {"type": "Cancelled"}
    assert (len(left["waiting"]), len(waits["waiting"])) == (2, 2)
    assert waits["error"] is None


@pytest.mark.requirement("CLIENT-RUST-5")
@pytest.mark.parametrize("dropped_at", ["run_waiting", "tool_call_finished"])
async def test_a_run_that_is_dropped_while_it_waits_ends_unless_it_was_to_go_on(
    programs: Path, tmp_path: Path, dropped_at: str
) -> None:
    script = calls(("patient", {}), ("quick", {}))
    case: Case = {"tools": {"patient": {"hang": True}, "quick": {"return": 1}}, "cancel_on": dropped_at}
    async with provider() as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        p.script(script)
        async with running(
            rust.runner(programs), {**case, "target": s.address, "run": turn("patient", "quick")}
        ) as told:
            run_id = (await told)["run_id"]
            run = await settled(s, run_id)
        p.script(script)
        kept = {**case, "target": s.address, "run": turn("patient", "quick", session_id="s")}
        async with running(rust.runner(programs), kept) as told:
            going_on = (await told)["run_id"]
        await left_waiting(s, going_on)
    assert run.state == run_pb2.RUN_STATE_SETTLED


@pytest.mark.requirement("CLIENT-RUST-6")
async def test_a_deadline_that_passes_while_a_function_runs_ends_the_run(programs: Path, tmp_path: Path) -> None:
    async with provider(calls(("patient", {}))) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        case = {"target": s.address, "run": turn("patient"), "tools": {"patient": {"hang": True}}, "timeout_ms": 1500}
        async with running(rust.runner(programs), case) as told:
            left = await told
            run = await settled(s, left["run_id"])
    assert left["error"] == {"type": "DeadlineExceeded"}
    assert run.state == run_pb2.RUN_STATE_SETTLED


@pytest.mark.requirement("CLIENT-RUST-7")
async def test_a_run_whose_connection_is_cut_is_read_to_its_end(programs: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    steps: Sequence[Say | Wait | Finish] = (Say("Eins, "), Wait(gate), Say("zwei."), Finish())
    async with provider(steps) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s, cuttable(s) as way:
        resume = {"attempts": 50, "initial_delay_ms": 20, "max_delay_ms": 100}
        run = {**turn(), "onDisconnect": "ON_DISCONNECT_CONTINUE"}
        async with running(rust.runner(programs), {"target": way.address, "run": run, "resume": resume}) as told:
            await p.until_requests(1)
            async with asyncio.timeout(SECONDS):
                await way.passed_text.wait()
            way.cut()
            gate.set()
            read = await told
    assert way.connections > 1
    assert (read["text"], read["outcome"], read["error"]) == ("Eins, zwei.", "OUTCOME_KIND_ANSWERED", None)
    assert read["sequences_dense"]
