"""MCP servers over HTTP that break: each fault is its own request's, and is told as it was."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from execution.served import served
from scenarios.kit import play
from tools.kit import RecordingTelemetry, at, eventually, invocation, mcp_server, run_tool, view_of, words_of
from tools.servers.http_server import Body, Fault, HttpMcp, Kill, Status, Wait, http_mcp, tool

from turnwire.v1 import message_pb2, outcome_pb2, turn_service_pb2
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.testing.provider import answer, calls
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Source

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["2025", "2026"])
NOT_EXECUTED, UNKNOWN, ERROR, OK = (
    ToolResultStatus.NOT_EXECUTED,
    ToolResultStatus.OUTCOME_UNKNOWN,
    ToolResultStatus.ERROR,
    ToolResultStatus.OK,
)


def reason(result: ToolResult) -> Reason | None:
    """Why it failed."""
    return None if result.failure is None else result.failure.reason


@pytest.mark.requirement("MCPH-2", "MCPH-3", "SCN-128")
@ERAS
@pytest.mark.parametrize(
    ("fault", "status", "why", "code"),
    [
        (Status(500), ERROR, Reason.TOOL_FAILED, "500"),
        (Status(400), ERROR, Reason.TOOL_FAILED, "400"),
        (Status(401), NOT_EXECUTED, Reason.MCP_AUTH_FAILED, "401"),
        (Status(403), NOT_EXECUTED, Reason.MCP_AUTH_FAILED, "403"),
        (Status(429), NOT_EXECUTED, Reason.MCP_UNAVAILABLE, "429"),
        (Status(502), UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN, "502"),
        (Status(503), NOT_EXECUTED, Reason.MCP_UNAVAILABLE, "503"),
        (Status(504), UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN, "504"),
        (Kill(), UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN, ""),
        (Kill(begun=True), UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN, ""),
        (Body(b"{"), UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN, ""),
        (Body(b"data: {\n\n", "text/event-stream"), UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN, ""),
        (Body(b"<html>", "text/html"), ERROR, Reason.TOOL_FAILED, "-32600"),
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, str) else value,
)
async def test_a_fault_is_told_as_it_was_and_harms_nothing_beside_it(
    modern: bool, fault: Fault, status: ToolResultStatus, why: Reason, code: str
) -> None:
    release = asyncio.Event()
    telemetry = RecordingTelemetry()
    async with http_mcp(HttpMcp(modern=modern)) as server, mcp_server(at(server.url), telemetry) as (source, view):
        server.fail("other", Wait(release))
        server.fail("echo", fault)
        beside = asyncio.create_task(run_tool(view, "m__other", timeout=30))
        with anyio.fail_after(30):
            await server.until(lambda: server.count("tools/call", "other"))
        result = await run_tool(view, "m__echo", timeout=15)
        release.set()
        assert (result.status, reason(result)) == (status, why)
        assert result.failure is not None
        assert result.failure.origin_code == code
        assert (await beside).status is OK
        assert (await run_tool(view, "m__echo")).status is OK
        assert server.count("tools/call", "echo") == 2, "what may have been executed is not sent again"
        assert source.history.connected == 1
    failed = [item.error for item in telemetry.operations if item.method == "tools/call" and item.error]
    assert failed == [code or "connection_closed"]


@pytest.mark.requirement("MCPH-3", "MCPH-6")
async def test_a_server_that_asks_us_to_wait_is_left_alone_for_that_time() -> None:
    async with http_mcp() as server, mcp_server(at(server.url)) as (source, view):
        server.fail("echo", Status(429, {"retry-after": "1"}))
        first = await run_tool(view, "m__echo")
        assert first.failure is not None
        assert first.failure.retry_after == 1
        second = await run_tool(view, "m__other")
        assert (second.status, reason(second)) == (NOT_EXECUTED, Reason.MCP_UNAVAILABLE)
        assert second.failure is not None
        assert 0 < (second.failure.retry_after or 0) <= 1
        assert server.count("tools/call", "other") == 0

        async def over() -> bool:
            return not source.connection.backing_off

        await eventually(over)
        assert (await run_tool(view, "m__other")).status is OK


@pytest.mark.requirement("MCPH-4", "SCN-126")
@pytest.mark.parametrize("forget", [404, 410, 400])
@pytest.mark.parametrize("events", [False, True])
async def test_a_forgotten_session_is_renewed_once_for_all_calls(forget: int, events: bool) -> None:
    release = asyncio.Event()
    first = HttpMcp(modern=False, forget_status=forget, events=events)
    async with http_mcp(first) as server, mcp_server(at(server.url)) as (source, view):
        assert (await run_tool(view, "m__echo")).status is OK
        server.fail("other", Wait(release))
        beside = asyncio.create_task(run_tool(view, "m__other", timeout=30))
        with anyio.fail_after(30):
            await server.until(lambda: server.count("tools/call", "other"))
        server.known.clear()
        results = await asyncio.gather(*(run_tool(view, "m__echo") for _ in range(5)))
        server.known.add("session-1")  # what is in flight on the old session is answered on it
        release.set()
        assert [result.status for result in results] == [OK] * 5
        assert (await beside).status is OK
        assert server.count("initialize") == 2
        assert [s.headers.get("mcp-session-id") for s in server.seen if s.method == "initialize"] == [None, None]
        assert source.history.connected == 2
        assert server.executed.count("echo") == 6


@pytest.mark.requirement("MCPH-4", "SCN-126")
async def test_a_server_that_forgets_every_session_is_not_renewed_for_ever() -> None:
    async with http_mcp(HttpMcp(modern=False)) as server, mcp_server(at(server.url)) as (_, view):
        server.always["echo"] = Status(404)
        result = await run_tool(view, "m__echo", timeout=15)
        assert (result.status, reason(result)) == (NOT_EXECUTED, Reason.MCP_SESSION_LOST)
        assert server.count("initialize") <= 3


@pytest.mark.requirement("MCPH-4", "SCN-126")
async def test_a_404_of_the_tool_itself_is_no_lost_session() -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no session for order 7"}})
    async with http_mcp(HttpMcp(modern=False)) as server, mcp_server(at(server.url)) as (_, view):
        server.fail("echo", Status(404, {"content-type": "application/json"}, body.encode()))
        result = await run_tool(view, "m__echo")
        assert result.status is ERROR
        assert "Error -32602: no session for order 7" in words_of(result)
        assert server.count("initialize") == 1


@pytest.mark.requirement("MCPH-5")
@pytest.mark.parametrize(("trusted", "times"), [(False, 1), (True, 2)])
async def test_a_lost_call_is_made_again_only_if_it_is_trusted_to_be_idempotent(trusted: bool, times: int) -> None:
    pages = [[tool("echo", annotations={"idempotentHint": True})]]
    config: dict[str, Any] = {"trust_annotations": trusted}
    async with http_mcp(HttpMcp(pages=pages)) as server, mcp_server(at(server.url, **config)) as (_, view):
        server.fail("echo", Kill())
        result = await run_tool(view, "m__echo")
        assert result.status is (OK if trusted else UNKNOWN)
        assert server.executed.count("echo") == times


@pytest.mark.requirement("MCPH-5", "MCPH-6")
@ERAS
async def test_a_server_that_restarts_between_calls_is_used_again(modern: bool) -> None:
    async with http_mcp(HttpMcp(modern=modern)) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        source = McpToolset("m", at(server.url), RecordingTelemetry())
        view = await view_of(Source(source, namespace="m"))
        assert (await run_tool(view, "m__echo")).status is OK
    down = await run_tool(view, "m__echo")
    assert (down.status, reason(down)) == (NOT_EXECUTED, Reason.MCP_UNAVAILABLE)
    assert down.failure is not None
    assert "cannot be reached" in down.failure.message
    with anyio.fail_after(5):
        assert (await run_tool(view, "m__echo")).status is NOT_EXECUTED, "at once while it is left alone"
    async with http_mcp(HttpMcp(modern=modern), port) as server:

        async def works() -> bool:
            return (await run_tool(view, "m__echo")).status is OK

        await eventually(works)
        assert server.executed == ["echo"]
        await source.aclose()


@pytest.mark.requirement("MCPH-7")
@ERAS
async def test_a_mute_server_holds_up_nothing_but_its_call(modern: bool) -> None:
    async with http_mcp(HttpMcp(modern=modern)) as server, mcp_server(at(server.url)) as (_, view):
        server.fail("echo", Wait())
        server.always["notifications/cancelled"] = Wait()
        late = await run_tool(view, "m__echo", timeout=0.3)
        assert reason(late) is Reason.TOOL_TIMEOUT
        with anyio.fail_after(15):
            assert (await run_tool(view, "m__other")).status is OK
        if modern:  # the request itself is broken off; before, a notification says so
            with anyio.fail_after(30):
                await server.until(lambda: server.cancelled == ["echo"])
        server.always["DELETE"] = Wait()
        began = anyio.current_time()
    assert anyio.current_time() - began < 15


@pytest.mark.requirement("MCPH-7")
async def test_a_cancelled_call_that_is_never_answered_frees_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.tools.mcp.http._GIVE_UP_SECONDS", 0.2)
    async with http_mcp(HttpMcp(modern=False)) as server, mcp_server(at(server.url)) as (_, view):
        server.fail("echo", *[Wait()] * 5)
        await asyncio.gather(*(run_tool(view, "m__echo", timeout=0.2) for _ in range(5)))
        with anyio.fail_after(30):
            await server.until(lambda: len(server.cancelled) >= 10)
        assert server.cancelled.count("echo") == 10, "told by notification, and broken off afterwards"
        assert (await run_tool(view, "m__echo")).status is OK


@pytest.mark.requirement("MCPH-7")
async def test_cancelling_a_call_of_the_2025_era_tells_the_server() -> None:
    async with http_mcp(HttpMcp(modern=False)) as server, mcp_server(at(server.url)) as (_, view):
        server.fail("echo", Wait())
        with anyio.move_on_after(0.2):
            await view.execute("m__echo", invocation({}), None)
        with anyio.fail_after(30):
            await server.until(lambda: "echo" in server.cancelled)
        assert (await run_tool(view, "m__echo")).status is OK


@pytest.mark.requirement("MCPH-8")
@ERAS
@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
async def test_a_result_of_twenty_megabytes_fails_alone(modern: bool, events: bool) -> None:
    first = HttpMcp(modern=modern, events=events)
    async with http_mcp(first) as server, mcp_server(at(server.url)) as (_, view):
        result = await run_tool(view, "m__echo", json.dumps({"bytes": 20 << 20}), timeout=30)
        assert result.status is ERROR
        assert "longer than max_message_bytes" in words_of(result)
        assert (await run_tool(view, "m__echo", json.dumps({"bytes": 1 << 20}), timeout=30)).status is OK


def _forged(**fields: Any) -> Callable[[], Body]:
    return lambda: Body(json.dumps({"jsonrpc": "2.0", **fields}).encode())


@pytest.mark.requirement("MCPH-21")
async def test_an_answer_to_another_request_is_taken_as_the_answer_to_its_own() -> None:
    async with http_mcp() as server, mcp_server(at(server.url)) as (_, view):
        done = {"resultType": "complete", "content": [{"type": "text", "text": "mine"}]}
        server.fail("echo", _forged(id=999_999, result=done)())
        assert words_of(await run_tool(view, "m__echo", timeout=15)) == "mine"


@pytest.mark.requirement("MCPH-21")
async def test_a_forged_fault_does_not_make_us_repeat_a_call() -> None:
    async with http_mcp() as server, mcp_server(at(server.url)) as (_, view):
        for code in (-32000, -32001, -32098, -32099):
            server.fail("echo", _forged(id=1, error={"code": code, "message": "x", "data": {"sent": False}})())
            assert (await run_tool(view, "m__echo")).status is ERROR
        assert server.count("tools/call", "echo") == 4


@pytest.mark.requirement("MCPH-6", "MCPH-14")
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Status(401), Reason.MCP_AUTH_FAILED),
        (Status(429, {"retry-after": "60"}), Reason.MCP_UNAVAILABLE),
        (Status(500), Reason.MCP_UNAVAILABLE),
        (Kill(), Reason.MCP_UNAVAILABLE),
    ],
)
async def test_a_server_that_cannot_be_connected_says_why(fault: Fault, why: Reason) -> None:
    async with http_mcp() as server:
        server.always["POST"] = fault
        async with mcp_server(at(server.url)) as (source, view):
            (failure,) = view.failures
            assert failure.reason is why
            if isinstance(fault, Status) and fault.code == 429:
                assert source.connection.backing_off > 30
            if isinstance(fault, Status):
                assert failure.origin_code == str(fault.code)


@asynccontextmanager
async def fifteen_and_five(grace: float) -> AsyncIterator[list[Source]]:
    """Fifteen servers that work, and five that are broken in five ways, one of them mute for ten minutes."""
    async with (
        http_mcp() as good,
        http_mcp() as mute,
        http_mcp() as failing,
        http_mcp() as wrong,
        http_mcp() as deadly,
    ):
        mute.always["POST"] = Wait()
        failing.always["POST"] = Status(500)
        wrong.always["tools/list"] = Body(b"{}")
        deadly.always["POST"] = Kill()
        broken = [at("http://127.0.0.1:9/mcp"), *(at(server.url) for server in (mute, failing, wrong, deadly))]
        waits = {"discovery_grace": grace, "connect_timeout": 600.0}
        configs = [at(good.url)] * 15 + [config.model_copy(update=waits) for config in broken]
        yield [
            Source(McpToolset(f"s{number}", config, RecordingTelemetry()), namespace=f"s{number}")
            for number, config in enumerate(configs)
        ]
        with anyio.fail_after(30):
            await good.until(lambda: not good.open)


@pytest.mark.requirement("MCPH-2", "MCPH-11")
@ERAS
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_breaks_at_once_every_call_ends_and_nothing_is_left(modern: bool, seed: int) -> None:
    random_, before = random.Random(seed), asyncio.all_tasks()
    faults: list[Fault | None] = [
        Status(500),
        Status(404),
        Status(429),
        Kill(),
        Kill(begun=True),
        Wait(),
        Body(b"{"),
        None,
    ]
    async with http_mcp(HttpMcp(modern=modern, list_changed=True)) as server:
        async with mcp_server(at(server.url)) as (_, view):

            async def one() -> ToolResult | None:
                fault = random_.choice(faults)
                if fault is not None:
                    server.fail(random_.choice(["echo", "other", "tools/call"]), fault)
                if random_.random() < 0.1:
                    server.known.clear()
                if random_.random() < 0.1:
                    await server.notify("notifications/tools/list_changed")
                with anyio.move_on_after(random_.choice([0.05, 5])):
                    return await run_tool(view, random_.choice(["m__echo", "m__other"]), timeout=1)
                return None

            results = await asyncio.gather(*(one() for _ in range(120)))
            server.faults.clear()
            assert all(result is None or result.status in (OK, ERROR, UNKNOWN, NOT_EXECUTED) for result in results)

            async def works() -> bool:
                return (await run_tool(view, "m__echo", timeout=5)).status is OK

            await eventually(works)
            began = anyio.current_time()
        assert anyio.current_time() - began < 15
        with anyio.fail_after(30):
            await server.until(lambda: not server.open)
    new = asyncio.all_tasks() - before
    assert [task for task in new if task.get_name().startswith("mcp-")] == []


@pytest.mark.requirement("MCPH-20")
async def test_five_broken_servers_of_twenty_do_not_delay_a_turn() -> None:
    script = [step for _ in range(7) for step in (calls(("s0__echo", "{}"), ("s14__other", "{}")), answer("Done."))]
    async with fifteen_and_five(grace=5.0) as sources, served(script, sources=sources) as service:
        first = await play(service)
        others = [await play(service) for _ in range(6)]
        listed = await service.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=30)
    for run in (first, *others):
        assert run.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
        assert [result.status for result in run.results] == [message_pb2.TOOL_RESULT_STATUS_OK] * 2
    assert len(listed.tools) == 30
    assert {failure.origin for failure in listed.source_failures} == {f"s{number}" for number in range(15, 20)}
