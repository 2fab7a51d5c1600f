"""Callers who look for what is not theirs, and connections that are there to keep others out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, closing
from urllib.parse import urlsplit

import anyio
import pytest
from mcp_out.kit import SECONDS, endpoint
from tools.kit import FakeToolset, described, eventually

from turnwired.domain.errors import NotFound
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.run import OPERATOR_ROLE, Caller
from turnwired.domain.tool import ToolSelection, ToolSource
from turnwired.engine.outside import OutsideCall
from turnwired.http import server
from turnwired.tools.access import Access, AccessRule
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio

OPERATOR = Caller(principal="ann", roles=frozenset((OPERATOR_ROLE,)))
PLAIN = Caller(principal="bob", roles=frozenset(("support",)))


def plain(*names: str, set_id: str = "shop") -> FakeToolset:
    return FakeToolset(set_id, [described(name) for name in names])


def operators() -> FakeToolset:
    """An operator's tool, one that cannot be offered, and a root that is not there."""
    listed = [described(name, schema, ToolSource.OPERATOR) for name, schema in (("peek", "{}"), ("poke", "[]"))]
    return FakeToolset("ops", listed)


@pytest.mark.requirement("HOSTILE-20", "MCPOUT-1")
async def test_a_search_from_outside_finds_no_operator_tools_not_even_for_an_operator() -> None:
    sources = [Source(operators()), Source(plain(*(f"t{n}" for n in range(5))))]
    async with endpoint(sources=sources) as up:
        up.registry.find_above = 3
        assert (await up.registry.view(ToolSelection(), OPERATOR)).finder == "find_tools"
        listed = [tool.ref.routed_name for tool in await up.engine.outside.tools(OPERATOR)]
        assert listed == ["t0", "t1", "t2", "t3", "t4"]
        with pytest.raises(NotFound):
            await up.engine.outside.call(OPERATOR, OutsideCall("find_tools", '{"query":"peek"}', {}))


@pytest.mark.requirement("HOSTILE-20")
@pytest.mark.parametrize("access", [Access(), Access((AccessRule(allow=("shop*",)),))])
async def test_what_is_wrong_with_tools_is_told_to_those_alone_who_may_have_them(access: Access) -> None:
    mixed = FakeToolset("shop", [described("shop_a"), described("shop_bad", "[]"), described("secret_bad", "[]")])
    registry = Registry([Source(operators()), Source(mixed)], access=access)
    told = [failure.origin for failure in (await registry.view(ToolSelection(), PLAIN)).failures]
    assert told == (["shop/shop_bad"] if access.rules else ["shop/secret_bad", "shop/shop_bad"])
    if not access.rules:
        view = await registry.view(ToolSelection(), OPERATOR)
        assert "ops/poke" in [failure.origin for failure in view.failures]


@pytest.mark.requirement("HOSTILE-20")
async def test_a_source_whose_tools_are_all_denied_is_not_told_of_when_it_fails() -> None:
    down = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, "it is down", origin="inner")
    inner = FakeToolset("inner", [described("inner_a")], failure=down)
    rules = Access((AccessRule(allow=("b",)),))
    assert (await Registry([Source(inner), Source(plain("b"))]).view(ToolSelection(), PLAIN)).failures == (down,)
    assert (
        await Registry([Source(inner), Source(plain("b"))], access=rules).view(ToolSelection(), PLAIN)
    ).failures == ()


@pytest.mark.requirement("HOSTILE-21", "MCPOUT-13")
@pytest.mark.parametrize("begun", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
async def test_connections_that_never_ask_anything_make_room(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    async with endpoint(sources=[Source(plain("a"))], max_connections=10) as up, AsyncExitStack() as stack:
        where = urlsplit(up.url)
        for _ in range(20):
            _, writer = await asyncio.open_connection(where.hostname, where.port)
            stack.callback(writer.close)
            writer.write(begun)
        listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

        async def let_in() -> bool:
            return (await up.post(listed)).status_code == 200

        await eventually(let_in)


@pytest.mark.requirement("HOSTILE-21")
async def test_a_connection_that_asks_and_then_stops_in_the_middle_of_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    async with endpoint(sources=[Source(plain("a"))]) as up:
        where = urlsplit(up.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        with closing(writer), anyio.fail_after(SECONDS):
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"GET / HTTP/1.1\r\n")
            while await reader.read(4096):
                pass


@pytest.mark.requirement("HOSTILE-21")
async def test_a_call_that_takes_long_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)

    async def slow() -> str:
        """Take long."""
        await anyio.sleep(0.6)
        return "done"

    async with endpoint(slow) as up, up.client() as client:
        result = await client.call_tool("slow", {})
        assert not result.is_error
