"""Which tools a caller sees and calls: rules by role, operator tools, and what is told of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from execution.served import SECONDS, served, turn
from hypothesis import given
from hypothesis import strategies as st
from identity.kit import ADMIN, BANK, SHOP, people, shows
from tools.kit import FakeToolset, described, invocation

from turnwire.v1 import message_pb2, turn_service_pb2
from turnwired import Rewound, Runtime
from turnwired.domain.event import LoggedEvent, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.policy import ApprovalPolicy, ArgumentValidation, PermissionAction, PermissionRule, Policy
from turnwired.domain.run import OPERATOR_ROLE, Agent, Caller
from turnwired.domain.tool import ToolRef, ToolSelection, ToolSource
from turnwired.engine.prepare import selection as selection_of
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.access import Access, AccessRule
from turnwired.tools.catalog import CollisionPolicy
from turnwired.tools.port import ToolOutput, ToolView
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio

SUPPORT, ACCOUNTS, OPERATOR = (frozenset((role,)) for role in ("support", "accounts", OPERATOR_ROLE))
RULES = Access(
    (
        AccessRule(allow=("find_*",)),
        AccessRule(SUPPORT | OPERATOR, allow=("*",), deny=("delete_*",)),
        AccessRule(ACCOUNTS, allow=("delete_order",)),
    )
)
NAMES = ("find_order", "change_order", "delete_order")


def source(
    set_id: str, *names: str, kind: ToolSource = ToolSource.LOCAL, namespace: str | None = None
) -> tuple[Source, FakeToolset]:
    """A source of tools that tell their names."""
    toolset = FakeToolset(
        set_id,
        [described(name, source=kind) for name in names],
        output=lambda call: ToolOutput((Part("", Text(call.native_name)),)),
    )
    return Source(toolset, namespace), toolset


def names(view: ToolView) -> list[str]:
    return [tool.ref.routed_name for tool in view.tools]


async def seen(registry: Registry, roles: frozenset[str], selection: ToolSelection | None = None) -> ToolView:
    return await registry.view(selection or ToolSelection(), Caller(roles=roles))


@pytest.mark.requirement("IDENT-14")
async def test_each_sees_what_the_rules_of_its_roles_allow_and_none_of_them_denies() -> None:
    registry = Registry([source("shop", *NAMES)[0]], access=RULES)
    assert names(await seen(registry, frozenset())) == ["find_order"]
    assert names(await seen(registry, frozenset(("unheard of",)))) == ["find_order"]
    assert names(await seen(registry, SUPPORT)) == ["change_order", "find_order"]
    assert names(await seen(registry, ACCOUNTS)) == ["delete_order", "find_order"]
    assert names(await seen(registry, SUPPORT | ACCOUNTS)) == ["change_order", "find_order"]  # denied wins


@pytest.mark.requirement("IDENT-14")
async def test_without_rules_everybody_has_every_tool_but_those_of_operators() -> None:
    sources = [source("shop", *NAMES)[0], source("operator", "read_file", kind=ToolSource.OPERATOR)[0]]
    registry = Registry(sources)
    assert names(await seen(registry, SUPPORT)) == sorted(NAMES)
    assert names(await seen(registry, OPERATOR)) == [*sorted(NAMES), "read_file"]


@pytest.mark.requirement("IDENT-15")
async def test_no_rule_gives_an_operator_tool_to_anybody_else() -> None:
    registry = Registry(
        [source("operator", "read_file", "http_fetch", kind=ToolSource.OPERATOR)[0]],
        access=Access((AccessRule(allow=("*",)), AccessRule(OPERATOR, deny=("http_fetch",)))),
    )
    assert names(await seen(registry, SUPPORT)) == []
    assert names(await seen(registry, OPERATOR)) == ["read_file"]


@pytest.mark.requirement("IDENT-16")
async def test_a_tool_that_is_not_for_the_caller_is_not_told_of() -> None:
    sources = [
        source("shop", "find_order", "search")[0],
        source("operator", "read_file", "search", kind=ToolSource.OPERATOR)[0],
    ]
    registry = Registry(sources, collisions=CollisionPolicy.PRIORITY)
    wanted = ToolSelection(include=("read_file", "find_*"))
    hidden = await seen(registry, SUPPORT, wanted)
    words = repr([hidden.failures, hidden.collisions, hidden.own_collisions]).replace("'read_file', which", "")
    assert "operator" not in words.lower()
    assert [failure.reason for failure in hidden.failures] == [Reason.TOOL_NOT_FOUND]
    asked = hidden.check("read_fil", "{}", ArgumentValidation.STRICT)
    assert asked.failure is not None
    assert asked.failure.reason is Reason.TOOL_NOT_FOUND
    assert "read_file" not in asked.failure.message
    shown = await seen(registry, OPERATOR, wanted)
    assert names(shown) == ["find_order", "read_file"]
    assert [collision.routed_name for collision in shown.collisions] == ["search"]


@pytest.mark.requirement("IDENT-17")
async def test_a_rule_that_denies_wins_over_a_listing_made_before() -> None:
    first, toolset = source("shop", *NAMES)
    registry = Registry([first])
    view = await seen(registry, SUPPORT)
    allowed = view.check("delete_order", "{}", ArgumentValidation.STRICT)
    assert allowed.failure is None
    registry.allow(RULES)
    again = view.check("delete_order", "{}", ArgumentValidation.STRICT)
    assert again.failure is not None
    assert again.failure.reason is Reason.TOOL_DENIED
    call = replace(invocation(), caller=Caller(roles=SUPPORT))
    result = await view.execute("delete_order", call, None)  # it was checked before the rule came
    assert result.status is ToolResultStatus.DENIED
    assert toolset.calls == []
    assert (await view.execute("find_order", call, None)).status is ToolResultStatus.OK
    assert names(await seen(registry, SUPPORT)) == ["change_order", "find_order"]


@pytest.mark.requirement("IDENT-17")
async def test_a_view_of_somebody_else_gives_nobody_a_tool() -> None:
    first, toolset = source("operator", "read_file", kind=ToolSource.OPERATOR)
    view = await seen(Registry([first]), OPERATOR)
    result = await view.execute("read_file", replace(invocation(), caller=Caller(roles=SUPPORT)), None)
    assert (result.status, toolset.calls) == (ToolResultStatus.DENIED, [])


@pytest.mark.requirement("IDENT-17")
async def test_a_run_that_saw_a_tool_is_neither_asked_about_it_nor_calls_it() -> None:
    made: list[Registry] = []
    called: list[str] = []

    def compose(sources: Sequence[Source]) -> Registry:
        made.append(Registry(sources))
        return made[-1]

    def find_order() -> str:
        """Find it; the rules change meanwhile."""
        made[0].allow(RULES)
        return "found"

    def delete_order() -> str:
        """Delete it."""
        called.append("delete_order")
        return "deleted"

    ask = Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "delete_*", PermissionAction.ASK),)))
    script = [calls(("find_order", "{}")), calls(("delete_order", "{}")), answer("Done.")]
    async with served(script, find_order, delete_order, policy=ask, compose=compose, callers=people()) as s:
        stream = s.turns.RunTurn(turn(), timeout=SECONDS, metadata=shows(SHOP))
        events = [event async for frame in stream for event in frame.events]
    statuses = [e.tool_call_finished.result.status for e in events if e.HasField("tool_call_finished")]
    assert statuses == [message_pb2.TOOL_RESULT_STATUS_OK, message_pb2.TOOL_RESULT_STATUS_DENIED]
    assert not any(event.HasField("approval_requested") for event in events)
    assert called == []


ROLES = st.frozensets(st.sampled_from(("a", "b", OPERATOR_ROLE)))
PATTERNS = st.lists(st.sampled_from(("x*", "y1", "*2", "op*", "*", "z")), max_size=3).map(tuple)
ACCESS = st.lists(st.builds(AccessRule, ROLES, PATTERNS, PATTERNS), max_size=4).map(lambda rules: Access(tuple(rules)))
SELECTIONS = st.builds(ToolSelection, PATTERNS, PATTERNS)


@pytest.mark.requirement("IDENT-18")
@given(ACCESS, ROLES, SELECTIONS, SELECTIONS)
async def test_no_selection_widens_what_a_caller_or_an_agent_has(
    access: Access, roles: frozenset[str], of_agent: ToolSelection, asked: ToolSelection
) -> None:
    sources = [source("s", "x1", "x2", "y1", "z")[0], source("o", "op1", "op2", kind=ToolSource.OPERATOR)[0]]
    registry = Registry(sources, access=access)
    everything = set(names(await seen(registry, roles)))
    agents = set(names(await seen(registry, roles, of_agent)))
    runs = set(names(await seen(registry, roles, selection_of(Agent("agent", tools=of_agent), asked))))
    assert runs <= agents <= everything
    if asked.include:
        assert runs <= set(names(await seen(registry, roles, ToolSelection(asked.include, asked.exclude))))
    for tool in (await Registry(sources).view(ToolSelection(), Caller(roles=OPERATOR))).tools:
        assert (tool.ref.routed_name in everything) is access.allows(roles, tool.ref)


@pytest.mark.requirement("IDENT-18")
@given(ACCESS, ROLES, ROLES)
def test_roles_that_no_rule_names_make_no_difference(
    access: Access, roles: frozenset[str], others: frozenset[str]
) -> None:
    strangers = frozenset(f"stranger_{role}" for role in others)
    for name, kind in (("x1", ToolSource.LOCAL), ("op1", ToolSource.OPERATOR), ("own", ToolSource.CLIENT)):
        ref = ToolRef(name, name, kind)
        assert access.allows(roles | strangers, ref) is access.allows(access.scope(roles | strangers), ref)
        assert access.allows(roles | strangers, ref) is access.allows(roles, ref)


@pytest.mark.requirement("IDENT-14", "IDENT-15")
async def test_the_listing_of_an_agent_shows_what_its_caller_may_know() -> None:
    operators, _ = source("operator", "read_file", kind=ToolSource.OPERATOR)
    agents = [Agent("janitor", run_as="admin")]

    def compose(sources: Sequence[Source]) -> Registry:
        return Registry(sources, access=Access((AccessRule(SUPPORT | OPERATOR, allow=("*",)),)))

    async with served([], sources=[operators], compose=compose, callers=people(), agents=agents) as s:

        async def listed(token: str, **fields: Any) -> list[str]:
            request = turn_service_pb2.ListToolsRequest(**fields)
            found = await s.turns.ListTools(request, timeout=SECONDS, metadata=shows(token))
            return [tool.ref.routed_name for tool in found.tools]

        assert await listed(ADMIN) == ["read_file"]
        assert await listed(ADMIN, agent_id="janitor") == ["read_file"]
        assert await listed(BANK) == await listed(BANK, agent_id="janitor") == []


@pytest.mark.requirement("REG-27", "IDENT-14")
async def test_of_two_callers_of_one_service_each_is_told_of_its_own_sources_in_lists_and_in_runs() -> None:
    good, _ = source("good", "read", namespace="good")
    broken = Source(FakeToolset("secret", error=RuntimeError("broken")), namespace="secret")

    def compose(sources: Sequence[Source]) -> Registry:
        rules = (AccessRule(SUPPORT, allow=("good__*",)), AccessRule(OPERATOR, allow=("secret__*",)))
        return Registry(sources, access=Access(rules))

    script = [answer("Done."), answer("Done.")]
    async with served(script, sources=[good, broken], compose=compose, callers=people()) as s:

        async def told(token: str) -> tuple[list[str], set[str], set[str]]:
            """Of a list: the tools and the sources that fail; and the latter of a run."""
            listed = await s.turns.ListTools(
                turn_service_pb2.ListToolsRequest(), timeout=SECONDS, metadata=shows(token)
            )
            stream = s.turns.RunTurn(turn(), timeout=SECONDS, metadata=shows(token))
            events = [event async for frame in stream for event in frame.events]
            notices = {event.notice.message for event in events if event.HasField("notice")}
            failures = {failure.origin for failure in listed.source_failures}
            return [tool.ref.routed_name for tool in listed.tools], failures, notices

        assert await told(SHOP) == (["good__read"], set(), set())
        tools, failures, notices = await told(ADMIN)
        assert (tools, failures) == ([], {"secret"})
        assert [("secret" in notice, "good" in notice) for notice in notices] == [(True, False)]


@pytest.mark.requirement("IDENT-14")
async def test_a_configuration_has_rules() -> None:
    def find_order() -> str:
        """Find it."""
        return "found"

    def delete_order() -> str:
        """Delete it."""
        return "deleted"

    config = {"access": [{"allow": ["find_*"]}, {"roles": ["accounts"], "allow": ["delete_order"]}]}
    scripted = ScriptedProvider([calls(("delete_order", "{}")), answer("Done.")])
    runtime = Runtime(config, tools=[find_order, delete_order], providers={"scripted": scripted}, environ={})
    async with runtime as r:
        assert names(await r.list_tools()) == ["find_order"]
        assert names(await r.list_tools(caller=Caller(roles=ACCOUNTS))) == ["delete_order", "find_order"]
        told: list[LoggedEvent | Rewound] = []
        await r.run_turn("Delete it.", on_event=told.append)
    events = [item.event for item in told if isinstance(item, LoggedEvent)]
    (finished,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert finished.result.failure is not None
    assert finished.result.failure.reason is Reason.TOOL_NOT_FOUND
