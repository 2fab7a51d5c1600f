"""Listings by name: pages that fit what clients take, and tokens that only their own listing has given."""

from __future__ import annotations

import base64
from collections.abc import Callable

import grpc
import pytest
from execution.served import SECONDS, Served, served
from waiting.kit import reason

from turnwire.v1 import agent_service_pb2, turn_service_pb2
from turnwired.rpc import paging
from turnwired.tools.python import tool

pytestmark = pytest.mark.anyio
COUNT = 7


def tool_number(number: int) -> Callable[..., str]:
    """A tool whose description is long."""

    @tool(name=f"tool_{number}", description="word " * 40)
    def act() -> str:
        return ""

    return act


def tools() -> list[Callable[..., str]]:
    """Several of them."""
    return [tool_number(number) for number in range(COUNT)]


async def list_tools(s: Served, token: str = "", size: int = 1000) -> turn_service_pb2.ListToolsResponse:
    """One page of tools."""
    request = turn_service_pb2.ListToolsRequest(page_size=size, page_token=token)
    return await s.turns.ListTools(request, timeout=SECONDS)


async def list_agents(s: Served, token: str = "", size: int = 500) -> agent_service_pb2.ListAgentsResponse:
    """One page of agents."""
    request = agent_service_pb2.ListAgentsRequest(page_size=size, page_token=token)
    return await s.agents.ListAgents(request, timeout=SECONDS)


@pytest.mark.requirement("RPC-30")
async def test_tools_are_listed_in_pages_that_clients_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 700)  # as if the schemas were very large
    async with served([], *tools()) as s:
        names: list[str] = []
        sizes: list[int] = []
        token = ""
        for _ in range(COUNT):
            page = await list_tools(s, token)
            names += [listed.ref.routed_name for listed in page.tools]
            sizes.append(page.ByteSize())
            token = page.next_page_token
            if not token:
                break
    assert names == [f"tool_{number}" for number in range(COUNT)]
    assert len(sizes) > 1
    assert max(sizes) < 900


@pytest.mark.requirement("RPC-30")
async def test_a_token_that_the_listing_did_not_give_is_refused() -> None:
    async with served([], *tools()) as s:
        put = agent_service_pb2.PutAgentRequest(agent=agent_service_pb2.Agent(agent_id="another"))
        await s.agents.PutAgent(put, timeout=SECONDS)
        of_tools = (await list_tools(s, size=2)).next_page_token
        of_agents = (await list_agents(s, size=1)).next_page_token
        assert [listed.agent_id for listed in (await list_agents(s, of_agents)).agents] == ["default"]
        assert len((await list_tools(s, of_tools)).tools) == COUNT - 2
        plain = base64.urlsafe_b64encode(b"ListTools:").decode().rstrip("=")
        for listing, tokens in (
            (list_tools, ("tool_2", of_agents, plain, "\u00ff", "=", of_tools[:-3] + "*")),
            (list_agents, ("another", of_tools, "zzz")),
        ):
            for token in tokens:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await listing(s, token)
                assert reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"), token
