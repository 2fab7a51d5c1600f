"""Tools that block, fail, are found in any order or come from servers that break: what a run makes of them."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from execution.served import SECONDS, served, turn
from grpc_health.v1 import health_pb2, health_pb2_grpc
from scenarios.kit import ANSWERED, ERROR, ERRORED, INTERRUPTED, NOT_EXECUTED, OK, PARALLEL, SERIAL, play, told
from scenarios.wires import WIRES, over
from tools.kit import FakeToolset, described

from turnwire.v1 import outcome_pb2
from turnwired.domain.policy import Policy, TimeoutPolicy, ToolErrorMode
from turnwired.domain.tool import Tool
from turnwired.testing.provider import answer, calls
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("SCN-050")
async def test_a_blocking_tool_holds_up_no_other_run_no_health_check_and_not_its_own_limit() -> None:
    gate, blocked = threading.Event(), threading.Event()

    def block() -> str:
        """Block the thread."""
        blocked.set()
        gate.wait(SECONDS)
        return "late"

    policy = Policy(timeout=TimeoutPolicy(tool_call=0.1))
    script = [calls(("block", "{}")), answer("Other."), answer("Done.")]
    async with served(script, block, policy=policy) as s:
        seen, task = s.follow(turn())
        await seen.until("tool_call_executing")
        other = await s.run("Meanwhile")
        stub: Any = health_pb2_grpc.HealthStub(s.channel)
        health = await stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        await task
        assert blocked.is_set()
        assert not gate.is_set(), "all of it happened while the thread was blocked"
        first = await told(s, seen)
        gate.set()
    assert other.finished.outcome.kind == ANSWERED
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert first.outcome.kind == ANSWERED
    assert first.results[0].failure.reason == outcome_pb2.REASON_TOOL_TIMEOUT


@pytest.mark.requirement("SCN-048")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("name", WIRES)
async def test_with_errors_that_abort_nothing_acts_after_the_run_has_ended(name: str, policy: Policy) -> None:
    written: list[str] = []
    gate = asyncio.Event()

    async def bad() -> str:
        """Fail."""
        raise ValueError("no")

    async def slow_write() -> str:
        """Write later."""
        await gate.wait()
        written.append("written")
        return "written"

    wire = WIRES[name]
    aborting = replace(policy, tool=replace(policy.tool, error_mode=ToolErrorMode.ABORT))
    async with over(wire, [wire.answer(("bad", "{}"), ("slow_write", "{}"))], bad, slow_write, policy=aborting) as line:
        run = await play(line.service)
        gate.set()
    failed, beside = run.results
    assert failed.status == ERROR
    assert beside.status == (NOT_EXECUTED if policy is SERIAL else INTERRUPTED)
    assert run.outcome.kind == ERRORED
    assert run.outcome.failure.phase == outcome_pb2.FAILURE_PHASE_TOOL
    assert run.seen.finished.trace.entries
    assert written == []
    assert len(line.requests) == 1


class OddError(Exception):
    """An error of a tool's own library."""


@pytest.mark.requirement("SCN-056")
@pytest.mark.parametrize("error", [ValueError, OddError, KeyError, asyncio.CancelledError], ids=lambda e: e.__name__)
@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
async def test_a_tool_that_raises_has_one_error_result_and_its_sibling_a_good_one(
    error: type[BaseException], threaded: bool, policy: Policy
) -> None:
    async def bad() -> str:
        """Fail."""
        raise error("no such row")

    def bad_in_thread() -> str:
        """Fail."""
        raise error("no such row")

    async def good() -> str:
        """Work."""
        return "good"

    name = "bad_in_thread" if threaded else "bad"
    script = [calls((name, "{}"), ("good", "{}")), answer("Done.")]
    async with served(script, bad, bad_in_thread, good, policy=policy) as s:
        run = await play(s)
    failed, worked = run.results
    assert (failed.status, worked.status) == (ERROR, OK)
    assert failed.failure.phase == outcome_pb2.FAILURE_PHASE_TOOL
    assert __file__ not in str(run.seen.events)
    assert "Traceback" not in str(run.seen.events)
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("SCN-056")
@pytest.mark.parametrize("name", WIRES)
async def test_a_failing_tool_is_told_to_each_wire_as_a_failure(name: str) -> None:
    async def bad() -> str:
        """Fail."""
        raise LookupError("no such row")

    wire = WIRES[name]
    async with over(wire, [wire.answer(("bad", "{}")), wire.answer("Done.")], bad) as line:
        run = await play(line.service)
    assert run.results[0].status == ERROR
    ((_, words),) = line.pairs(1)
    assert "no such row" in words
    assert "error" in words.lower() or "fail" in words.lower() or b'"is_error":true' in line.calls[1].body
    assert "Traceback" not in words


class LateToolset(FakeToolset):
    """Lists its tools in another order each time, and not at once."""

    async def tools(self) -> Sequence[Tool]:
        """The tools, shuffled."""
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        return random.sample(list(self.listed), len(self.listed))


@pytest.mark.requirement("SCN-076")
@pytest.mark.parametrize("name", WIRES)
async def test_the_same_tools_are_the_same_bytes_in_every_request(name: str) -> None:
    async def b_local() -> str:
        """B."""
        return "b"

    async def a_local() -> str:
        """A."""
        return "a"

    wire = WIRES[name]
    prefixes: set[str] = set()
    for round_ in range(3):
        late = [LateToolset("m1", [described("z"), described("y")]), LateToolset("m2", [described("x")])]
        sources = [Source(toolset, namespace=toolset.set_id) for toolset in late]
        functions = (b_local, a_local) if round_ else (a_local, b_local)
        bodies = [wire.answer(("a_local", "{}")), wire.answer("Done."), wire.answer("Again.")]
        async with over(wire, bodies, *functions, sources=sources) as line:
            await play(line.service)
            await play(line.service)
        for body in line.requests:
            prefixes.add(json.dumps([body["tools"], body.get("system"), body.get("instructions")]))
    assert len(prefixes) == 1, "key order counts too: json keeps it"
