"""Names that several tools claim: every policy, in every order, and what runs and listings are told of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
import pytest
from execution.served import served
from hypothesis import given
from hypothesis import strategies as st
from scenarios.kit import ANSWERED, play
from tools.kit import FakeToolset, described

from turnwire.v1 import outcome_pb2, tool_pb2
from turnwired.domain.run import Caller
from turnwired.domain.tool import CollisionResolution, Tool, ToolSelection
from turnwired.runtime import Runtime
from turnwired.testing.provider import ScriptedProvider, answer
from turnwired.tools.catalog import CollisionPolicy
from turnwired.tools.port import ToolView
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio


def source(set_id: str, *names: str, priority: int = 0, namespace: str | None = None) -> Source:
    """A source with tools of these names."""
    tools = [described(name, server_id=set_id) for name in names]
    return Source(FakeToolset(set_id, tools), priority=priority, namespace=namespace)


async def view(policy: CollisionPolicy, *sources: Source) -> ToolView:
    """All tools under a policy."""
    return await Registry(sources, collisions=policy).view(ToolSelection(), Caller())


def owners(view: ToolView) -> dict[str, str | None]:
    """Who has each name, in order."""
    return {tool.ref.routed_name: tool.ref.server_id for tool in view.tools}


@pytest.mark.requirement("REG-4")
async def test_the_source_of_the_highest_priority_has_the_name_and_the_order_stays() -> None:
    sources = (source("a", "x", "y"), source("b", "x", priority=2), source("c", "x", priority=2))
    found = await view(CollisionPolicy.PRIORITY, *sources)
    assert list(owners(found).items()) == [("y", "a"), ("x", "b")]
    (collision,) = found.collisions
    assert collision.winner is not None
    assert (collision.winner.server_id, [ref.server_id for ref in collision.losers]) == ("b", ["a", "c"])


@pytest.mark.requirement("REG-4")
async def test_under_namespace_every_claimant_gets_its_source_in_front_and_keeps_its_place() -> None:
    found = await view(CollisionPolicy.NAMESPACE, source("a", "w", "x", "y"), source("b", "x"))
    assert list(owners(found)) == ["w", "a__x", "y", "b__x"]
    (collision,) = found.collisions
    assert (collision.routed_name, collision.winner) == ("x", None)
    assert [ref.routed_name for ref in collision.losers] == ["a__x", "b__x"]
    assert collision.resolution is CollisionResolution.NAMESPACED


@pytest.mark.requirement("REG-4")
async def test_a_name_that_the_namespace_makes_and_another_has_is_settled_by_priority() -> None:
    found = await view(CollisionPolicy.NAMESPACE, source("a", "x"), source("b", "x"), source("c", "a__x"))
    assert owners(found) == {"a__x": "a", "b__x": "b"}
    assert [(it.routed_name, it.resolution.value) for it in found.collisions] == [
        ("x", "NAMESPACED"),
        ("a__x", "PRIORITY"),
    ]


@pytest.mark.requirement("REG-4")
async def test_under_reject_nobody_has_the_name_and_the_rest_is_untouched() -> None:
    found = await view(CollisionPolicy.REJECT, source("a", "x", "y"), source("b", "x"), source("c", "z", "z"))
    assert owners(found) == {"y": "a", "z": "c"}
    assert {it.routed_name: it.resolution for it in found.collisions} == {
        "x": CollisionResolution.REJECTED,
        "z": CollisionResolution.PRIORITY,
    }


class _Slow(FakeToolset):
    """A source that answers after the ones before it have."""

    delay = 0

    async def tools(self) -> Sequence[Tool]:
        for _ in range(self.delay):
            await anyio.lowlevel.checkpoint()
        return await super().tools()


@pytest.mark.requirement("REG-5")
@pytest.mark.parametrize("policy", CollisionPolicy)
@given(delays=st.permutations([0, 3, 6]), shuffled=st.permutations(["p", "q", "x", "x"]))
async def test_the_order_of_answers_decides_nothing(
    policy: CollisionPolicy, delays: list[int], shuffled: list[str]
) -> None:
    def sources(delays: Sequence[int], names: Sequence[str]) -> list[Source]:
        made = [_Slow(set_id, [described(name, server_id=set_id) for name in names]) for set_id in "abc"]
        for toolset, delay in zip(made, delays, strict=True):
            toolset.delay = delay
        return [Source(toolset, priority=index % 2) for index, toolset in enumerate(made)]

    one = await view(policy, *sources([0, 0, 0], ["p", "q", "x", "x"]))
    other = await view(policy, *sources(delays, shuffled))
    assert (one.tools, one.collisions) == (other.tools, other.collisions)


@pytest.mark.requirement("REG-6", "REG-4")
@pytest.mark.parametrize("policy", CollisionPolicy)
async def test_a_run_is_told_of_a_collision_that_concerns_it_and_the_listing_of_all(policy: CollisionPolicy) -> None:
    sources = [source("a", "x", "y"), source("b", "x")]
    script = [answer("One."), answer("Two.")]
    async with served(script, sources=sources, compose=partial(Registry, collisions=policy)) as s:
        concerned = await play(s)
        other = await play(s, tools=tool_pb2.ToolSelection(include=["y"]))
    assert concerned.reasons == [outcome_pb2.REASON_TOOL_NAME_COLLISION]
    (notice,) = concerned.seen.notices
    assert notice.metadata["tool"] == "x"
    assert "'x'" in notice.message
    assert other.reasons == []
    assert concerned.outcome.kind == other.outcome.kind == ANSWERED


@pytest.mark.requirement("REG-4")
@pytest.mark.parametrize(("word", "names"), [("priority", ["x"]), ("namespace", ["a__x", "b__x"]), ("reject", [])])
async def test_the_configuration_chooses_the_policy(word: str, names: list[str]) -> None:
    data = {"agents": {"default": {}}, "tools": {"collisions": word}}
    toolsets = [source(set_id, "x").toolset for set_id in "ab"]
    async with Runtime(data, tools=toolsets, providers={"scripted": ScriptedProvider([])}, environ={}) as runtime:
        view = await runtime.list_tools()
    assert [tool.ref.routed_name for tool in view.tools] == names


@pytest.mark.requirement("REG-8")
async def test_a_source_that_never_answers_holds_up_the_first_view_only() -> None:
    registry = Registry([Source(FakeToolset("m", hangs=True)), source("a", "x")], discovery_timeout=0.6)
    started = anyio.current_time()
    assert len((await registry.view(ToolSelection(), Caller())).tools) == 1
    between = anyio.current_time()
    for _ in range(3):
        assert len((await registry.view(ToolSelection(), Caller())).tools) == 1
    assert between - started >= 0.6
    assert anyio.current_time() - between < 0.6


@pytest.mark.requirement("REG-9")
async def test_sources_come_and_go_and_those_that_went_are_closed() -> None:
    registry = Registry([source("a", "x")])
    later = FakeToolset("b", [described("y")])
    await registry.add(Source(later, namespace="b"))
    assert [tool.ref.routed_name for tool in (await registry.view(ToolSelection(), Caller())).tools] == ["x", "b__y"]
    assert await registry.remove("b")
    assert later.closed
    assert [tool.ref.routed_name for tool in (await registry.view(ToolSelection(), Caller())).tools] == ["x"]
    assert not await registry.remove("b")
