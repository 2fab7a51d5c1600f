"""MCP servers that die, forget, refuse and talk beside the protocol, in whole runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from execution.served import SECONDS, served, turn, words
from scenarios.kit import ABORTED, ANSWERED, ERROR, ERRORED, OK, PARALLEL, SERIAL, kept, play, told
from scenarios.wires import WIRES, over
from tools.kit import RecordingTelemetry, at, misbehaving
from tools.servers.http_server import HttpMcp, Status, http_mcp

from turnwire.v1 import message_pb2, outcome_pb2
from turnwired.domain.policy import Policy, TimeoutPolicy
from turnwired.testing import Crash, Drop, FakeMcpServer, Malformed, Refuse, StaleSession
from turnwired.testing.mcp import Fault
from turnwired.testing.provider import answer, calls
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

policies = pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])


async def local() -> str:
    """A tool of the app."""
    return "local"


async def get(arguments: dict[str, Any]) -> str:
    """A tool of a server."""
    return "got"


def fake(server: FakeMcpServer) -> Source:
    """The server as a source."""
    return Source(server.toolset(), namespace=server.server_id)


@pytest.mark.requirement("SCN-126", "MATRIX-6")
@pytest.mark.parametrize("both", [False, True], ids=["one call", "two at once"])
async def test_a_server_that_forgot_the_session_is_greeted_anew_and_the_run_goes_on(both: bool) -> None:
    async def forgets(arguments: dict[str, Any]) -> str:
        server.fail(StaleSession(), tool="get")
        return "got"

    server = FakeMcpServer("orders", {"first": forgets, "get": get})
    second = [("orders__get", f'{{"n":{number}}}') for number in range(2 if both else 1)]
    script = [calls(("orders__first", "{}")), calls(*second), calls(("orders__get", '{"n":9}')), answer("Done.")]
    async with served(script, sources=[fake(server)]) as s:
        run = await play(s)
    assert run.outcome.kind == ANSWERED
    assert run.results[0].status == OK
    assert run.results[-1].status == OK, "the next call works"
    assert server.connections == 2, "one renewal, however many calls found the session lost"


FAULTS: Mapping[str, Fault] = {
    "crash": Crash(3),
    "drop": Drop(),
    "refusal": Refuse(-32603, "no"),
    "nonsense": Malformed(),
}


@pytest.mark.requirement("SCN-127", "SCN-128", "MATRIX-6")
@pytest.mark.parametrize("fault", ["crash", "drop", "refusal"])
@policies
async def test_a_fault_of_one_call_is_that_calls_own_and_the_next_one_works(fault: str, policy: Policy) -> None:
    server = FakeMcpServer("m", {"get": get})
    server.fail(FAULTS[fault], tool="get")
    script = [calls(("m__get", "{}"), ("local", "{}")), calls(("m__get", "{}")), answer("Done.")]
    async with served(script, local, sources=[fake(server)], policy=policy) as s:
        run = await play(s)
    lost, beside, next_ = run.results
    assert (beside.status, next_.status) == (OK, OK)
    assert lost.status != OK
    assert lost.failure.phase
    assert len(server.calls("get")) == 2, "what may have run is not sent again"
    assert run.outcome.kind == ANSWERED
    assert server.connections == (1 if fault == "refusal" else 2)


@pytest.mark.requirement("SCN-128")
async def test_a_fault_of_one_runs_call_is_nothing_to_another_run_on_the_same_server() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def waits(arguments: dict[str, Any]) -> str:
        begun.set()
        await gate.wait()
        return "waited"

    server = FakeMcpServer("m", {"get": get, "waits": waits})
    script = [calls(("m__waits", "{}")), calls(("m__get", "{}")), answer("Done."), answer("Done too.")]
    async with served(script, sources=[fake(server)]) as s:
        _, long = s.follow(turn("The long one"))
        async with asyncio.timeout(SECONDS):
            await begun.wait()
        server.fail(Refuse(-32603, "no"), tool="get")
        short = await play(s, "The short one")
        gate.set()
        other = await told(s, await long)
    assert [result.status == OK for result in short.results] == [False]
    assert [result.status for result in other.results] == [OK], "its call was under way all the time"
    assert (short.outcome.kind, other.outcome.kind) == (ANSWERED, ANSWERED)
    assert server.connections == 1, "a failed request is not a failed connection"


@pytest.mark.requirement("SCN-127")
async def test_a_server_process_that_dies_in_a_call_acts_once_and_the_run_goes_on(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    server = McpToolset("m", misbehaving("modern", f"ledger={ledger}"), RecordingTelemetry())
    script = [calls(("m__die", "{}"), ("local", "{}")), calls(("m__echo", '{"text":"up"}')), answer("It was down.")]
    async with served(script, local, sources=[Source(server, namespace="m")]) as s:
        run = await play(s)
    lost, beside, after = run.results
    assert lost.failure.reason == outcome_pb2.REASON_TOOL_OUTCOME_UNKNOWN
    assert (beside.status, after.status) == (OK, OK)
    assert ledger.read_text().count("die") == 1
    assert run.outcome.kind == ANSWERED
    assert psutil.Process().children() == []


@pytest.mark.requirement("SCN-099", "SCN-051")
@policies
async def test_a_call_past_its_time_is_told_to_the_server_once_and_not_made_again(policy: Policy) -> None:
    async def long(arguments: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return "late"

    server = FakeMcpServer("m", {"long": long, "get": get})
    timed = replace(policy, timeout=TimeoutPolicy(tool_call=0.05))
    script = [calls(("m__long", "{}"), ("m__get", "{}")), calls(("m__get", '{"id":2}')), answer("Done.")]
    async with served(script, sources=[fake(server)], policy=timed) as s:
        run = await play(s)
    late, beside, after = run.results
    assert late.failure.reason == outcome_pb2.REASON_TOOL_TIMEOUT
    assert (beside.status, after.status) == (OK, OK)
    assert server.cancelled == ["long"]
    assert len(server.calls("long")) == 1
    assert server.connections == 1, "the connection is as good as before"
    assert [request["method"] for request in server.requests].count("notifications/cancelled") == 1
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("SCN-129")
async def test_one_server_ends_while_a_run_uses_another_and_nothing_is_left() -> None:
    gate = asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> str:
        await gate.wait()
        return "slow"

    one, two = FakeMcpServer("one", {"get": get}), FakeMcpServer("two", {"slow": slow, "get": get})
    ending = one.toolset()
    sources = [Source(ending, namespace="one"), fake(two)]
    script = [calls(("two__slow", "{}")), calls(("one__get", "{}"), ("two__get", "{}")), answer("Done.")]
    script.append(calls(("two__slow", "{}")))
    async with served(script, sources=sources) as s:
        seen, task = s.follow(turn())
        await two.asked("slow")
        await asyncio.create_task(ending.aclose())  # from another task than the one that began it
        gate.set()
        await task
        run = await told(s, seen)
        gate.clear()
        cut, task = s.follow(turn("Again"))
        await cut.until("tool_call_executing")
        await s.cancel(await cut.id())
        await task
    assert run.outcome.kind == ANSWERED
    assert [result.status == OK for result in run.results] == [True, False, True]
    assert cut.finished.outcome.kind == ABORTED


@pytest.mark.requirement("SCN-131")
@pytest.mark.parametrize("required", [True, False])
async def test_a_run_without_its_required_server_asks_no_provider(required: bool) -> None:
    server = McpToolset("crm", misbehaving("exit=3"), RecordingTelemetry())
    async with served([answer("Hi.")], local, sources=[Source(server, namespace="crm", required=required)]) as s:
        run = await play(s, session_id="s")
        stored = await kept(s, "s")
    assert run.outcome.kind == (ERRORED if required else ANSWERED)
    assert len(s.provider.requests) == (0 if required else 1)
    assert stored[0].role == message_pb2.ROLE_USER
    if required:
        assert run.outcome.failure.phase == outcome_pb2.FAILURE_PHASE_PREPARATION
        assert "crm" in run.outcome.failure.message


@pytest.mark.requirement("SCN-138")
@policies
async def test_a_server_that_talks_beside_the_protocol_answers_all_the_same(policy: Policy) -> None:
    server = McpToolset("n", misbehaving("legacy", "banner", "stderr-flood"), RecordingTelemetry())
    script = [calls(("n__noise", "{}"), ("n__echo", '{"text":"hi"}')), answer("Done.")]
    async with served(script, sources=[Source(server, namespace="n")], policy=policy) as s:
        run = await play(s)
    assert [result.status for result in run.results] == [OK, OK]
    assert run.outcome.kind == ANSWERED


ROWS = [{"id": 1}, {"id": 2}]
RESULTS: Mapping[str, dict[str, Any]] = {
    "t1": {"isError": True, "content": [], "structuredContent": {"code": "RATE_LIMITED"}},
    "t2": {"content": [{"type": "text", "text": "2 rows"}], "structuredContent": {"rows": ROWS}},
    "t3": {"content": [], "structuredContent": {"rows": ROWS}},
}


@pytest.mark.requirement("SCN-139")
@pytest.mark.parametrize("name", WIRES)
async def test_an_mcp_error_is_an_error_and_a_structured_value_is_told_once_and_kept_whole(name: str) -> None:
    async def give(which: str) -> dict[str, Any]:
        return RESULTS[which]

    tools = {which: (lambda _, which=which: give(which)) for which in RESULTS}
    server = FakeMcpServer("m", tools)
    wire = WIRES[name]
    bodies = [wire.answer(*((f"m__{which}", "{}") for which in RESULTS)), wire.answer("Done.")]
    async with over(wire, bodies, sources=[fake(server)]) as line:
        run = await play(line.service)
    error, both, alone = run.results
    assert (error.status, both.status, alone.status) == (ERROR, OK, OK)
    assert "RATE_LIMITED" in words(error)
    assert json.loads(both.structured_json) == json.loads(alone.structured_json) == {"rows": ROWS}
    told_error, told_both, told_alone = (text for _, text in line.pairs(1))
    assert "RATE_LIMITED" in told_error
    assert "2 rows" in told_both
    assert "rows" not in told_both.replace("2 rows", ""), "the model pays once"
    assert "rows" in told_alone
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("SCN-126", "SCN-128", "MCPH-4", "MCPH-3")
@pytest.mark.parametrize("forget", [404, 400])
async def test_over_http_a_lost_session_and_a_500_cost_their_calls_nothing_more(forget: int) -> None:
    async with http_mcp(HttpMcp(modern=False, forget_status=forget)) as server:
        orders = McpToolset("orders", at(server.url), RecordingTelemetry())

        async def restart() -> str:
            """The server forgets its sessions."""
            server.known.clear()
            server.fail("other", Status(500))
            return "restarted"

        two = calls(("orders__echo", '{"n":1}'), ("orders__echo", '{"n":2}'), ("orders__other", "{}"))
        script = [calls(("orders__echo", "{}"), ("restart", "{}")), two, answer("Done.")]
        async with served(script, restart, sources=[Source(orders, namespace="orders")]) as s:
            run = await play(s)
        assert run.outcome.kind == ANSWERED
        by_status = [result.status for result in run.results]
        assert by_status.count(OK) == 4
        (failed,) = [result for result in run.results if result.status != OK]
        assert (failed.status, failed.failure.origin_code) == (ERROR, "500")
        assert server.count("initialize") == 2
        assert server.executed.count("echo") == 3
