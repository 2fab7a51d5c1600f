"""The fake MCP server: the protocol without a process, and faults that are one call's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from turnwired import Runtime
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.message import Text, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.testing import (
    Crash,
    Delay,
    Drop,
    EventCollector,
    FakeMcpServer,
    FakeTool,
    Malformed,
    Refuse,
    ScriptedProvider,
    StaleSession,
    answer,
    calls,
)
from turnwired.testing.toolset_checks import invocation
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.port import ToolOutput

pytestmark = pytest.mark.anyio

LIMIT = 10.0


async def echo(arguments: dict[str, Any]) -> str:
    """Give the text back."""
    return str(arguments.get("text", ""))


async def hang(arguments: dict[str, Any]) -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


@asynccontextmanager
async def connected(server: FakeMcpServer, **settings: object) -> AsyncIterator[McpToolset]:
    """A started toolset over the server."""
    toolset = server.toolset(**settings)
    async with asyncio.timeout(LIMIT):
        await toolset.start()
        await toolset.tools()
        try:
            yield toolset
        finally:
            await toolset.aclose()


async def failure_of(toolset: McpToolset, name: str = "echo") -> Failure:
    """How a call fails."""
    with pytest.raises(ToolError) as failed:
        await toolset.call(invocation(name, {"text": "x"}))
    return failed.value.failure


def words(output: ToolOutput) -> str:
    """The text of a result."""
    return "".join(part.content.text for part in output.content if isinstance(part.content, Text))


@pytest.mark.requirement("KIT-12")
@pytest.mark.parametrize("modern", [False, True])
async def test_tools_are_discovered_and_called_over_real_messages(modern: bool) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    server = FakeMcpServer(
        "shop", {"echo": FakeTool(echo, schema, {"readOnlyHint": True}), "hang": hang}, modern=modern
    )
    async with connected(server) as toolset:
        tools = await toolset.tools()
        assert [tool.ref.native_name for tool in tools] == ["echo", "hang"]
        assert tools[0].annotations.read_only is True
        assert words(await toolset.call(invocation("echo", {"text": "hé"}))) == "hé"
        assert (await toolset.call(invocation("nothing"))).is_error
    assert server.calls("echo") == [{"text": "hé"}]
    assert server.connections == 1
    assert ("initialize" in [request["method"] for request in server.requests]) is not modern


@pytest.mark.requirement("KIT-12")
async def test_results_may_be_given_whole_and_a_tool_that_raises_gives_an_error_result() -> None:
    async def typed(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "1"}], "structuredContent": {"n": 1}}

    async def broken(arguments: dict[str, Any]) -> str:
        raise LookupError("gone")

    async with connected(FakeMcpServer(tools={"typed": typed, "broken": broken})) as toolset:
        assert (await toolset.call(invocation("typed"))).structured_json == '{"n":1}'
        failed = await toolset.call(invocation("broken"))
    assert (failed.is_error, words(failed)) == (True, "LookupError: gone")


@pytest.mark.requirement("KIT-12")
async def test_a_cancelled_call_is_told_to_the_server() -> None:
    server = FakeMcpServer(tools={"hang": hang, "echo": echo})
    async with connected(server) as toolset:
        call = asyncio.create_task(toolset.call(invocation("hang")))
        await server.asked("hang")
        call.cancel()
        await server.told.wait()
        assert server.cancelled == ["hang"]
        await toolset.call(invocation("echo"))


@pytest.mark.requirement("KIT-12")
async def test_a_listing_may_be_given_word_for_word() -> None:
    server = FakeMcpServer(tools={"echo": echo}, listing=[{"name": "echo", "inputSchema": {"type": "object"}}, "none"])
    async with connected(server) as toolset:
        assert len(await toolset.tools()) == 1
        assert [failure.reason for failure in toolset.left_out] == [Reason.TOOL_QUARANTINED]


@pytest.mark.requirement("KIT-13")
async def test_a_delayed_answer_comes_when_the_test_says_so() -> None:
    gate = asyncio.Event()
    server = FakeMcpServer(tools={"echo": echo})
    server.fail(Delay(gate))
    async with connected(server) as toolset:
        slow = asyncio.create_task(toolset.call(invocation("echo", {"text": "slow"})))
        await server.asked("echo")
        assert words(await toolset.call(invocation("echo", {"text": "fast"}))) == "fast"
        assert not slow.done()
        gate.set()
        assert words(await slow) == "slow"


@pytest.mark.requirement("KIT-13")
@pytest.mark.parametrize(
    ("fault", "says"), [(Drop(), "closed the connection"), (Crash(3, "out of memory"), "code 3 (out of memory)")]
)
async def test_a_lost_call_has_an_unknown_outcome_and_the_next_one_connects_anew(
    fault: Drop | Crash, says: str
) -> None:
    server = FakeMcpServer(tools={"echo": echo})
    server.fail(fault)
    async with connected(server) as toolset:
        failure = await failure_of(toolset)
        assert failure.reason is Reason.TOOL_OUTCOME_UNKNOWN
        assert says in failure.message
        assert words(await toolset.call(invocation("echo", {"text": "again"}))) == "again"
    assert server.connections == 2
    assert len(server.calls("echo")) == 2


@pytest.mark.requirement("KIT-13")
async def test_a_stale_session_is_met_with_a_new_one_since_the_call_reached_nobody() -> None:
    server = FakeMcpServer(tools={"echo": echo})
    server.fail(StaleSession())
    async with connected(server) as toolset:
        assert words(await toolset.call(invocation("echo", {"text": "x"}))) == "x"
        server.fail(StaleSession(), StaleSession())
        assert (await failure_of(toolset)).reason is Reason.MCP_UNAVAILABLE
    assert server.calls("echo") == [{"text": "x"}]


@pytest.mark.requirement("KIT-13")
async def test_malformed_answers_and_refusals_are_the_calls_own() -> None:
    server = FakeMcpServer(tools={"echo": echo})
    server.fail(
        Malformed((b"noise", b'{"jsonrpc":"2.0","id":ID,"result":{"content":"no list"}}')),
        Refuse(-32602, "no such argument"),
        Malformed(),
    )
    async with connected(server, call_timeout=0.2) as toolset:
        assert words(await toolset.call(invocation("echo"))) != "x"
        refused = await toolset.call(invocation("echo"))
        assert refused.is_error
        assert refused.failure is not None
        assert refused.failure.origin_code == "-32602"
        assert (await failure_of(toolset)).reason is Reason.TOOL_TIMEOUT
        assert words(await toolset.call(invocation("echo", {"text": "on"}))) == "on"
    assert server.connections == 1


@pytest.mark.requirement("KIT-13")
async def test_discovery_can_fail_too() -> None:
    server = FakeMcpServer(tools={"echo": echo})
    server.fail(Refuse(), method="tools/list")
    async with connected(server) as toolset:
        assert await toolset.tools() == ()
        assert toolset.failure is not None
        assert toolset.failure.reason is Reason.MCP_DISCOVERY_FAILED


@pytest.mark.requirement("KIT-16")
async def test_a_server_that_crashes_in_a_run_harms_neither_the_run_nor_its_other_tools() -> None:
    def clock() -> str:
        """Tell the time."""
        return "noon"

    server = FakeMcpServer("shop", {"echo": echo})
    server.fail(Crash())
    provider = ScriptedProvider(
        [calls(("shop__echo", '{"text":"a"}'), ("clock", "{}")), calls(("shop__echo", '{"text":"b"}')), answer("Done.")]
    )
    told = EventCollector()
    runtime = Runtime({}, tools=[clock], toolsets=[server.toolset()], providers={"scripted": provider}, environ={})
    async with runtime, asyncio.timeout(LIMIT):
        result = await runtime.run_turn("x", on_event=told, include_trace=True)
    assert result.outcome.kind is OutcomeKind.ANSWERED
    told.expect_in_order(
        ["call 1 finished: OUTCOME_UNKNOWN (TOOL/TOOL_OUTCOME_UNKNOWN)", "call 3 finished: OK", "text: 'Done.'"]
    )
    told.expect_in_order(["call 2 finished: OK"])
    results = [part for message in provider.messages(2) for part in message["parts"] if "result" in str(part)]  # type: ignore[attr-defined]
    assert [part["status"] for part in results] == [
        ToolResultStatus.OUTCOME_UNKNOWN.value,
        ToolResultStatus.OK.value,
        ToolResultStatus.OK.value,
    ]
