"""Many tools: what is shown of them, how the model finds the others, and what it may call."""

from __future__ import annotations

import json
import random
import threading
from functools import partial

import pytest
from engine.chaos import Chaos, DyingStore
from execution.served import SECONDS, Served, served, turn
from hypothesis import given
from hypothesis import strategies as st
from scenarios.kit import ANSWERED, OK, play, told
from tools.kit import FakeToolset, described, invocation, run_tool, words_of

from turnwire.v1 import approval_pb2, event_pb2, tool_pb2, turn_service_pb2
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.policy import ApprovalPolicy, ArgumentValidation, PermissionAction, PermissionRule, Policy
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool, ToolRef, ToolSelection, ToolSource
from turnwired.runtime import Runtime
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.access import Access, AccessRule
from turnwired.tools.finding import MOST_FOUND, Finder
from turnwired.tools.port import ToolOutput
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio

FOUND = event_pb2.TOOLS_CHANGE_CAUSE_FOUND
FEW = 10
compose = partial(Registry, find_above=FEW, pinned=("m__always*",))


def many(*extra: Tool) -> Source:
    """A source of more tools than are shown."""
    plain = [described(f"tool_{number:02}") for number in range(30)]
    named = [
        Tool(ToolRef(name, name, ToolSource.MCP, "m"), words, '{"type":"object"}')
        for name, words in (
            ("getInvoice", "Reads a bill of a customer."),
            ("refund_payment", "Gives money back to a customer."),
            ("always_there", "Is shown."),
        )
    ]
    toolset = FakeToolset("m", [*plain, *named, *extra], output=lambda it: ToolOutput((Part("", Text("ran")),)))
    return Source(toolset, namespace="m")


def shown(s: Served) -> list[list[str]]:
    """Names of the tools of each request, in order."""
    return [json.loads(request.tools) for request in s.provider.requests]


def find(query: str, limit: int = 1) -> tuple[str, str]:
    """A call that looks for tools."""
    return "find_tools", json.dumps({"query": query, "limit": limit})


@pytest.mark.requirement("REG-16", "REG-17")
async def test_a_model_finds_a_tool_and_calls_it() -> None:
    script = [calls(find("refund a customer")), calls(("m__refund_payment", "{}")), answer("Done.")]
    async with served(script, sources=[many()], compose=compose) as s:
        run = await play(s)
    assert shown(s)[0] == ["find_tools", "m__always_there"]
    assert shown(s)[1:] == 2 * [["find_tools", "m__always_there", "m__refund_payment"]]
    assert list(run.seen.events[0].run_started.tool_names) == shown(s)[0]
    (change,) = [event.tools_changed for event in run.seen.events if event.HasField("tools_changed")]
    assert (change.cause, list(change.added)) == (FOUND, ["m__refund_payment"])
    assert "m__refund_payment: Gives money back" in run.said[0]
    assert run.results[1].status == OK
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("REG-17")
@pytest.mark.parametrize("last", ["refund", "read an invoice"])
async def test_what_is_found_in_two_searches_stands_in_the_order_of_the_calls_and_once(
    last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, other_is_done = Finder.search, threading.Event()

    def in_another_order(finder: Finder, query: str, limit: int) -> list[Tool]:
        """As it is, but this one is done after the other."""
        if query == last:
            assert other_is_done.wait(SECONDS)
        found = search(finder, query, limit)
        other_is_done.set()
        return found

    monkeypatch.setattr(Finder, "search", in_another_order)
    script = [
        calls(find("refund"), find("read an invoice")),
        calls(find("refund")),
        calls(find("tool 07")),
        answer("Done."),
    ]
    async with served(script, sources=[many()], compose=compose) as s:
        run = await play(s)
    base = ["find_tools", "m__always_there", "m__refund_payment", "m__getInvoice"]
    assert shown(s)[1] == shown(s)[2] == base
    assert shown(s)[3] == [*base, "m__tool_07"]
    assert run.seen.kinds().count("tools_changed") == 2


@pytest.mark.requirement("REG-19")
async def test_a_tool_that_is_known_and_not_shown_can_be_called() -> None:
    async with served([calls(("m__tool_03", "{}")), answer("Done.")], sources=[many()], compose=compose) as s:
        run = await play(s)
    assert run.results[0].status == OK
    assert "m__tool_03" not in shown(s)[1]


@pytest.mark.requirement("REG-16")
async def test_few_tools_are_shown_and_there_is_nothing_to_find() -> None:
    selection = tool_pb2.ToolSelection(include=["m__tool_0*"])
    async with served([calls(find("x")), answer("Done.")], sources=[many()], compose=compose) as s:
        run = await play(s, tools=selection)
    assert shown(s)[0] == [f"m__tool_{number:02}" for number in range(10)]
    assert "There is no tool 'find_tools'" in run.said[0]


@pytest.mark.requirement("REG-16")
async def test_tools_that_a_selection_names_the_callers_own_and_the_chosen_one_are_shown() -> None:
    own = tool_pb2.ClientTool(name="ask_user", input_schema_json='{"type":"object"}')
    choice = tool_pb2.ToolChoice(routed_name="m__tool_09")
    selection = tool_pb2.ToolSelection(include=["m__*", "m__tool_05"], client_tools=[own], choice=choice)
    async with served([answer("Hi.")], sources=[many()], compose=compose) as s:
        await play(s, tools=selection)
    assert shown(s)[0] == ["find_tools", "m__always_there", "m__tool_05", "ask_user", "m__tool_09"]


@pytest.mark.requirement("REG-16")
async def test_a_listing_says_which_tools_are_found_and_not_shown() -> None:
    async with served([], sources=[many()], compose=compose) as s:
        listed = (await s.turns.ListTools(turn_service_pb2.ListToolsRequest(page_size=100), timeout=SECONDS)).tools
    assert len(listed) == 34
    assert [tool.ref.routed_name for tool in listed if not tool.lazy] == ["find_tools", "m__always_there"]


@pytest.mark.requirement("REG-16")
async def test_whoever_calls_tools_itself_is_shown_all_of_them() -> None:
    async with served([], sources=[many()], compose=compose) as s:
        names = [tool.ref.routed_name for tool in await s.engine.outside.tools(Caller())]
    assert len(names) == 33
    assert "find_tools" not in names


@pytest.mark.requirement("REG-16")
@pytest.mark.parametrize(
    ("section", "names"),
    [
        ({"find_above": 20, "pinned": ["m__always*"]}, ["find_tools", "m__always_there"]),
        ({"find_above": 20}, ["find_tools"]),
        ({"find_above": 0}, None),
        ({}, None),
    ],
)
async def test_the_configuration_says_from_how_many_on_and_what_is_shown_all_the_same(
    section: dict[str, object], names: list[str] | None
) -> None:
    data = {"agents": {"default": {}}, "tools": section}
    toolset = many().toolset
    async with Runtime(data, toolsets=[toolset], providers={"scripted": ScriptedProvider([])}, environ={}) as runtime:
        view = await runtime.list_tools()
    offered = [tool.ref.routed_name for tool in view.offered]
    assert offered == ([tool.ref.routed_name for tool in view.tools] if names is None else names)


@pytest.mark.requirement("REG-16")
async def test_a_tool_of_that_name_keeps_it() -> None:
    taken = Source(FakeToolset("own", [described("find_tools")]))
    view = await compose([taken, many()]).view(ToolSelection(include=("*", "find_tools")), Caller())
    assert [tool.ref.routed_name for tool in view.offered] == ["turnwire__find_tools", "find_tools", "m__always_there"]
    assert view.finder == "turnwire__find_tools"


@pytest.mark.requirement("REG-22")
async def test_a_caller_finds_what_it_may_have_and_nothing_else() -> None:
    rules = Access((AccessRule(allow=("m__*",), deny=("m__refund*",)),))
    view = await compose([many()], access=rules).view(ToolSelection(), Caller())
    assert view.check("find_tools", '{"query":"refund"}', ArgumentValidation.STRICT).failure is None
    results = [await run_tool(view, *find(words)) for words in ("refund payment", "invoice")]
    assert [json.loads(it.structured_json or "")["tools"][:1] for it in results] == [
        [],
        [{"name": "m__getInvoice", "description": "Reads a bill of a customer."}],
    ]


@pytest.mark.requirement("REG-20")
async def test_what_was_found_is_shown_after_a_restart() -> None:
    asks = Policy(
        approval=ApprovalPolicy(rules=(PermissionRule("tool", "m__refund_payment", PermissionAction.ASK),)),
    )
    store = DyingStore(chaos=Chaos(random.Random(0)))
    store.live_for(None)
    first = [calls(find("invoice")), calls(find("refund"), ("m__refund_payment", "{}"))]
    async with served(first, sources=[many()], compose=compose, store=store, policy=asks) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        (approval,) = seen.asked
        store.dead = True
        task.cancel()
    store.live_for(None)
    async with served([answer("Done.")], sources=[many()], compose=compose, store=store, policy=asks) as s:
        await s.resolve(approval, approval_pb2.APPROVAL_DECISION_ONCE)
        run = await told(s, await s.watch(seen.run_id))
    assert shown(s) == [["find_tools", "m__always_there", "m__getInvoice", "m__refund_payment"]]
    assert [list(it.tools_changed.added) for it in run.seen.events if it.HasField("tools_changed")] == [
        ["m__getInvoice"],
        ["m__refund_payment"],
    ]
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("REG-20")
@pytest.mark.parametrize(
    ("now", "told_shown", "added", "removed"),
    [
        ("abz", ["m__a", "m__z", "m__b"], ["m__b"], ["m__x"]),
        ("abxz", ["m__a", "m__x", "m__z", "m__b"], ["m__b"], []),
        ("axz", ["m__a", "m__x", "m__z"], [], []),
    ],
)
async def test_what_is_not_there_after_a_restart_is_told_gone_and_what_is_new_stands_behind(
    now: str, told_shown: list[str], added: list[str], removed: list[str]
) -> None:
    asks = Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "m__a", PermissionAction.ASK),)))
    store = DyingStore(chaos=Chaos(random.Random(0)))
    store.live_for(None)

    def source(*names: str) -> Source:
        toolset = FakeToolset("m", [described(name) for name in names])
        toolset.output = lambda _: ToolOutput((Part("", Text("ran")),))
        return Source(toolset, namespace="m")

    async with served([calls(("m__a", "{}"))], sources=[source("a", "x", "z")], store=store, policy=asks) as s:
        seen, task = s.follow(turn())
        await seen.until("run_waiting")
        (approval,) = seen.asked
        store.dead = True
        task.cancel()
    store.live_for(None)
    async with served([answer("Done.")], sources=[source(*now)], store=store, policy=asks) as s:
        await s.resolve(approval, approval_pb2.APPROVAL_DECISION_ONCE)
        run = await told(s, await s.watch(seen.run_id))
    assert shown(s) == [told_shown]
    changes = [event.tools_changed for event in run.seen.events if event.HasField("tools_changed")]
    assert [(list(it.added), list(it.removed)) for it in changes] == ([(added, removed)] if added else [])


# --- the search ------------------------------------------------------------------------------------------------------


def finder(*pairs: tuple[str, str]) -> Finder:
    """A search over tools of these names and descriptions."""
    return Finder(
        "find_tools", [Tool(ToolRef(name, name, ToolSource.LOCAL), words, '{"type":"object"}') for name, words in pairs]
    )


SHOP = (
    ("shop__getProduct", "Reads one."),
    ("shop__list_orders", "Lists what was bought, by product."),
    ("crm__delete_customers", "Deletes people."),
    ("mail__send", "Sends a message to a customer."),
)


@pytest.mark.requirement("REG-18")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("product", ["shop__getProduct", "shop__list_orders"]),
        ("deleting a CUSTOMER", ["crm__delete_customers", "mail__send"]),
        ("getProduct", ["shop__getProduct", "shop__list_orders"]),
        ("crm__delete", ["crm__delete_customers"]),
        ("unheard", []),
        ("", []),
        ('" OR name:*) --', []),
        ("\ud800 \0", []),
    ],
)
def test_names_rank_above_descriptions_and_forms_of_a_word_are_one(query: str, found: list[str]) -> None:
    assert [tool.ref.routed_name for tool in finder(*SHOP).search(query, 20)] == found


@pytest.mark.requirement("REG-18")
@given(query=st.text(max_size=200), limit=st.integers(1, 30))
def test_any_words_give_the_same_every_time_and_never_more_than_asked_for(query: str, limit: int) -> None:
    one, other = finder(*SHOP), finder(*SHOP)
    found = one.search(query, limit)
    assert found == other.search(query, limit) == one.search(query, limit)
    assert len(found) <= min(limit, MOST_FOUND)


@pytest.mark.requirement("REG-18")
async def test_a_search_without_a_hit_says_so_and_one_with_too_much_is_refused() -> None:
    view = await compose([many()]).view(ToolSelection(), Caller())
    nothing = await run_tool(view, "find_tools", '{"query":"quantum"}')
    assert (nothing.status, nothing.structured_json) == (ToolResultStatus.OK, '{"tools":[]}')
    assert "No tool fits" in words_of(nothing)
    usual = await run_tool(view, "find_tools", '{"query":"tool"}')
    assert len(json.loads(usual.structured_json or "")["tools"]) == 5
    for wrong in ('{"query":"x","limit":21}', '{"query":""}', "{}", '{"query":"x","more":1}'):
        assert view.check("find_tools", wrong, ArgumentValidation.STRICT).failure is not None
    unchecked = await view.execute("find_tools", invocation({"query": "tool", "limit": 10_000}), None)
    assert len(json.loads(unchecked.structured_json or "")["tools"]) == MOST_FOUND
