"""Lists of tools that are made to cost: a million entries, names and descriptions that nothing can carry."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tools.kit import EMPTY_SCHEMA, FakeToolset, described, mcp_server, view_of

from turnwired.domain.failure import Reason
from turnwired.tools.catalog import MAX_DESCRIPTION, MAX_NAME, MAX_QUARANTINED_TOLD
from turnwired.tools.mcp.config import StdioServer
from turnwired.tools.mcp.listing import MAX_LEFT_OUT, MAX_TOOLS
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

LISTS = Path(__file__).parent / "servers" / "list_server.py"


def lists(expression: str) -> StdioServer:
    """A server whose list of tools is what this Python expression gives, as JSON text of the result."""
    settings = {"connect_timeout": 60, "discovery_grace": 60, "close_timeout": 2}
    return StdioServer.model_validate({"command": sys.executable, "args": (str(LISTS), expression), **settings})


@dataclass
class Turns:
    """Seconds of the loop's thread that one turn of it took at most."""

    longest: float = 0.0
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        """Look, until the watching is over."""
        while not self._over.is_set():
            began = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - began)

    @classmethod
    @asynccontextmanager
    async def watched(cls) -> AsyncIterator[Turns]:
        """While inside."""
        turns = cls()
        task = asyncio.create_task(turns.watch())
        try:
            yield turns
        finally:
            turns._over.set()
            await task


@pytest.mark.requirement("HOSTILE-17")
async def test_a_list_of_a_million_entries_that_are_no_tools_holds_up_nobody() -> None:
    async with Turns.watched() as turns, mcp_server(lists("'[' + ','.join(['1'] * 1_000_000) + ']'")) as (_, view):
        assert len(view.failures) == MAX_LEFT_OUT + 2
    assert "more entries that are left out" in view.failures[-2].message
    assert "does not end" in view.failures[-1].message
    assert turns.longest < 2


@pytest.mark.requirement("HOSTILE-17")
async def test_of_too_many_tools_on_one_page_only_as_many_as_there_may_be_are_read() -> None:
    many = """json.dumps([{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(60_000)])"""
    async with mcp_server(lists(many)) as (_, view):
        assert len(view.tools) == MAX_TOOLS
        (failure,) = view.failures
        assert f"{MAX_TOOLS} tools of it are used" in failure.message


@pytest.mark.requirement("HOSTILE-17")
@pytest.mark.parametrize("ttl", ["9" * 400, "1e400", "NaN", "-1", '"soon"', "true"])
async def test_a_time_that_a_list_holds_for_is_taken_whatever_it_is(ttl: str) -> None:
    async with mcp_server(lists(f"""'[{{"name":"a","inputSchema":{EMPTY_SCHEMA}}}],"ttlMs":{ttl}'""")) as (_, view):
        assert [tool.ref.native_name for tool in view.tools] == ["a"]


@pytest.mark.requirement("HOSTILE-17", "HOSTILE-18")
async def test_a_source_of_bad_tools_alone_is_told_in_few_words() -> None:
    bad = [described(f"t{number}", schema="[]") for number in range(5_000)]
    view = await view_of(Source(FakeToolset("bad", bad)))
    assert not view.tools
    assert len(view.failures) == MAX_QUARANTINED_TOLD + 1
    assert view.failures[-1].message == f"{5_000 - MAX_QUARANTINED_TOLD} more tools of 'bad' are left out"


@pytest.mark.requirement("HOSTILE-18")
@pytest.mark.parametrize("name", ["x" * (MAX_NAME + 1), "a\ud800b", "nul\0", "two\nlines", "x" * 1_000_000])
async def test_a_tool_whose_name_nothing_can_carry_is_left_out_alone(name: str) -> None:
    view = await view_of(Source(FakeToolset("src", [described(name), described("good")]), namespace="src"))
    assert [tool.ref.native_name for tool in view.tools] == ["good"]
    (failure,) = view.failures
    assert failure.reason is Reason.TOOL_QUARANTINED
    assert len(failure.message.encode()) < 2_000
    assert len(failure.origin.encode()) < 2_000


@pytest.mark.requirement("HOSTILE-18")
async def test_a_tool_that_says_more_than_a_request_takes_is_left_out_alone() -> None:
    wordy = replace(described("wordy"), description="x" * (MAX_DESCRIPTION + 1))
    vast = replace(described("vast"), output_schema_json='{"type":"object","title":"' + "x" * 300_000 + '"}')
    view = await view_of(Source(FakeToolset("src", [wordy, described("good"), vast])))
    assert [tool.ref.native_name for tool in view.tools] == ["good"]
    assert len(view.failures) == 2


@pytest.mark.requirement("HOSTILE-18")
async def test_names_that_an_mcp_server_lists_are_held_to_the_same() -> None:
    names = r"""['a\\ud800b', 'x' * 1_000_000, 'nul\\u0000', 'good']"""
    entries = f"""'[' + ','.join('{{"name":"' + name + '","inputSchema":{EMPTY_SCHEMA}}}' for name in {names}) + ']'"""
    async with mcp_server(lists(entries)) as (_, view):
        assert [tool.ref.native_name for tool in view.tools] == ["good"]
        assert len(view.failures) == 3
        assert all(len(failure.message.encode()) < 2_000 for failure in view.failures)
