"""Decorators of sources: name, filter, cap, validation, alone and stacked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
from execution.served import served, turn
from hypothesis import given
from hypothesis import strategies as st
from scenarios.kit import OK, play
from tools.kit import FakeToolset, described, invocation, run_tool, view_of, words_of

from turnwire.v1 import message_pb2
from turnwired.config.load import read_config
from turnwired.domain.approval import PermissionRequest
from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.policy import ApprovalPolicy, ArgumentValidation, PermissionAction, PermissionRule, Policy
from turnwired.domain.tool import Tool
from turnwired.runtime import Runtime
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.decorators import capped, filtered, namespaced, permitted, validated
from turnwired.tools.port import ToolInvocation, ToolOutput, Toolset
from turnwired.tools.python import PythonToolset
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

OBJECT = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def text(words: str) -> ToolOutput:
    """An output of these words."""
    return ToolOutput((Part("", Text(words)),))


def called(native: str, arguments: dict[str, object] | None = None) -> ToolInvocation:
    """A call of a native tool."""
    made = invocation(arguments)
    return ToolInvocation(made.run_id, made.call_id, native, made.arguments, made.caller)


async def names(toolset: Toolset) -> list[str]:
    """Routed names, in order."""
    return [tool.ref.routed_name for tool in await toolset.tools()]


WRAPPERS: dict[str, Callable[[Toolset], Toolset]] = {
    "name": lambda inner: namespaced(inner, "n"),
    "filter": lambda inner: filtered(inner, exclude=("drop*",)),
    "cap": lambda inner: capped(inner, 10),
    "check": validated,
    "permission": lambda inner: permitted(inner, "acme.use"),
}


@pytest.mark.requirement("REG-1")
@given(order=st.permutations(sorted(WRAPPERS)))
async def test_decorators_do_the_same_in_any_order(order: list[str]) -> None:
    inner = FakeToolset("s", [described("get", OBJECT), described("drop_all")], output=lambda _: text("x" * 100))
    toolset: Toolset = inner
    for name in order:
        toolset = WRAPPERS[name](toolset)
    assert toolset.set_id == "s"
    assert await names(toolset) == ["n__get"]
    output = await toolset.call(called("get", {"n": 1}))
    assert output.cut_from == 100
    with pytest.raises(ToolError, match="do not match"):
        await toolset.call(called("get", {"n": "one"}))
    assert len(inner.calls) == 1
    await toolset.aclose()
    assert inner.closed


@pytest.mark.requirement("REG-1")
async def test_a_decorated_source_fails_as_the_source_does_and_lists_the_same_until_that_changes() -> None:
    down = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, "is down", origin="s")
    inner = FakeToolset("s", [described("x")], failure=down, left_out=[down])
    toolset = namespaced(filtered(inner, include=("*",)), "n")
    assert (toolset.failure, list(toolset.left_out)) == (down, [down])
    before = await toolset.tools()
    assert await toolset.tools() is before
    inner.listed = [described("y")]
    assert await names(toolset) == ["n__y"]


@pytest.mark.requirement("REG-1")
async def test_namespaces_nest_and_native_names_stay() -> None:
    toolset = namespaced(namespaced(FakeToolset("s", [described("a.b")]), "in"), "out")
    (tool,) = await toolset.tools()
    assert tool.ref.native_name == "a.b"
    assert tool.ref.routed_name.startswith("out__in__a_b_")


@pytest.mark.requirement("REG-2")
@pytest.mark.parametrize(("own", "kept"), [(40, 40), (100_000, 65_536)])
async def test_the_smaller_cap_cuts_and_the_original_size_is_told(own: int, kept: int) -> None:
    inner = FakeToolset("s", [described("long")], output=lambda _: text("x" * 90_000))
    result = await run_tool(await view_of(Source(capped(inner, own))), "long")
    assert result.original_size_bytes == 90_000
    assert words_of(result).startswith("x" * kept + "\n")
    assert "it has 90000 bytes" in words_of(result)


@pytest.mark.requirement("REG-2")
async def test_a_result_within_the_cap_is_untouched() -> None:
    output = ToolOutput((Part("", Text("ok")),), structured_json='{"a":1}')
    inner = FakeToolset("s", [described("x")], output=lambda _: output)
    assert await capped(inner, 100).call(called("x")) is output


def promising(schema: object) -> Tool:
    """A tool with an output schema."""
    return Tool(described("x").ref, "Does x.", '{"type":"object"}', json.dumps(schema))


@pytest.mark.requirement("REG-3")
@pytest.mark.parametrize(
    ("structured", "wrong"),
    [('{"n":1}', ""), ('{"n":"secret"}', "/n"), ("{", "no JSON"), (None, "no structured value")],
)
async def test_a_structured_result_is_held_to_its_schema_without_quoting_it(structured: str | None, wrong: str) -> None:
    output = ToolOutput((Part("", Text("done")),), structured_json=structured)
    inner = FakeToolset("s", [promising(json.loads(OBJECT))], output=lambda _: output)
    result = await run_tool(await view_of(Source(validated(inner))), "x")
    assert (result.status is ToolResultStatus.OK) is not bool(wrong)
    if wrong:
        assert result.failure is not None
        assert result.failure.reason is Reason.TOOL_RESULT_INVALID
        assert wrong in words_of(result)
        assert "may have taken effect" in words_of(result)
        assert "secret" not in words_of(result)


@pytest.mark.requirement("REG-3")
async def test_what_nothing_can_be_held_to_and_what_is_an_error_already_stays() -> None:
    odd = FakeToolset("s", [promising({"type": "objekt"})], output=lambda _: ToolOutput((), structured_json="1"))
    assert (await validated(odd).call(called("x"))).structured_json == "1"
    error = ToolOutput((), is_error=True)
    failing = FakeToolset("s", [promising(json.loads(OBJECT))], output=lambda _: error)
    assert await validated(failing).call(called("x")) is error


@pytest.mark.requirement("REG-1")
async def test_a_program_hands_over_a_decorated_source_under_its_own_names() -> None:
    async def long() -> str:
        """A long text."""
        return "y" * 1000

    async with Runtime(
        {"agents": {"default": {}}},
        tools=[capped(PythonToolset([long]), 50)],
        providers={"scripted": ScriptedProvider([calls(("long", "{}")), answer("Done.")])},
        environ={},
    ) as runtime:
        result = await runtime.run_turn("Go.", include_trace=True)
        assert result.trace is not None
    assert "the limit is 50" in repr(result.trace)


@pytest.mark.requirement("REG-10")
@pytest.mark.parametrize("action", [PermissionAction.ALLOW, PermissionAction.ASK, PermissionAction.DENY])
async def test_rules_about_a_source_s_permission_decide_by_native_names(action: PermissionAction) -> None:
    allowed = action is PermissionAction.ALLOW
    source = FakeToolset("shop", [described("buy"), described("look")], output=lambda _: text("done"))
    rules = (PermissionRule("acme.shop", "*", PermissionAction.ALLOW), PermissionRule("acme.shop", "buy", action))
    script = [calls(("shop__look", "{}"), ("shop__buy", "{}")), answer("Done.")]
    policy = Policy(approval=ApprovalPolicy(rules=rules))
    async with served(script, sources=[Source(permitted(source, "acme.shop"), namespace="shop")], policy=policy) as s:
        if action is PermissionAction.ASK:
            seen, task = s.follow(turn())
            await seen.until("approval_requested")
            (approval,) = seen.asked
            assert (approval.permission, list(approval.patterns)) == ("acme.shop", ["buy"])
            assert list(approval.always_patterns) == ["buy"]
            await s.cancel(seen.run_id)
            await task
        else:
            run = await play(s)
            denied = message_pb2.TOOL_RESULT_STATUS_DENIED
            assert run.results[1].status == (OK if allowed else denied)
    assert [call.native_name for call in source.calls] == (["look", "buy"] if allowed else ["look"])


@pytest.mark.requirement("REG-10")
async def test_what_a_tool_asks_for_itself_it_still_asks_for() -> None:
    class Asking(FakeToolset):
        def asks_for(self, native_name: str, arguments: Mapping[str, object]) -> PermissionRequest | None:
            return PermissionRequest("acme.own", ("a",)) if native_name == "x" else None

    toolset = permitted(capped(Asking("s", [described("x"), described("y")]), 100), "acme.outer")
    view = await view_of(Source(namespaced(toolset, "n")))
    asked = [view.check(name, "{}", ArgumentValidation.STRICT).asks_for for name in ("n__x", "n__y")]
    assert [it and it.permission for it in asked] == ["acme.own", "acme.outer"]


@pytest.mark.requirement("REG-10")
@pytest.mark.parametrize("name", ["tool", "shell", "deploy", ""])
def test_a_permission_that_is_none_of_ones_own_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="has a dot"):
        permitted(FakeToolset("s"), name)


@pytest.mark.requirement("REG-7")
@pytest.mark.parametrize("kind", ["mcp_servers", "grpc_services"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"priority": "high"}, "priority: Input should be a valid integer"),
        ({"max_result_bytes": 0}, "max_result_bytes: Input should be greater"),
        ({"permission": "tool"}, "permission: takes a name with a dot"),
        ({"validate": "x"}, "validate: Input should be a valid boolean"),
    ],
)
async def test_a_bad_option_of_any_source_is_refused_with_its_place(
    kind: str, options: dict[str, object], words: str
) -> None:
    section = {"command": "x"} if kind == "mcp_servers" else {"address": "127.0.0.1:1"}
    data = {"agents": {"default": {}}, kind: {"one": {**section, **options}}}
    with pytest.raises(ConfigError, match=f"{kind}.one.{words}"):
        async with Runtime(data, providers={"scripted": ScriptedProvider([])}, environ={}):
            pass


@pytest.mark.requirement("REG-7")
def test_a_policy_of_collisions_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"tools\.collisions"):
        read_config({"tools": {"collisions": "random"}}, {}, {})
