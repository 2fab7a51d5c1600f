"""The registry: names, collisions, quarantine, order, selection, and sources that fail."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import anyio
import pytest
from tools.kit import FakeToolset, described, run_tool, view_of

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.run import Caller
from turnwired.domain.tool import CollisionResolution, Tool, ToolCollision, ToolRef, ToolSelection, ToolSource
from turnwired.tools.naming import routed_name
from turnwired.tools.port import ToolOutput
from turnwired.tools.registry import Registry, Source

TEXT = ToolOutput((Part("", Text("done")),))


@pytest.mark.requirement("TOOL-1")
@pytest.mark.parametrize(
    ("namespace", "native"),
    [(None, "ok"), ("m", "a.b"), ("m", "ü"), ("m", "x" * 200), (None, "a b"), ("m", ""), (None, "\ud800")],
)
def test_a_routed_name_fits_every_provider(namespace: str | None, native: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", routed_name(namespace, native))


@pytest.mark.requirement("TOOL-1")
def test_a_name_is_kept_where_it_fits_and_told_apart_by_a_hash_where_it_does_not() -> None:
    assert routed_name("time", "now") == "time__now"
    assert routed_name(None, "now") == "now"
    altered = [routed_name("m", name) for name in ("a.b", "a_b", "a/b", "x" * 80 + "1", "x" * 80 + "2")]
    assert len(set(altered)) == 5
    assert routed_name("m", "a.b") == "m__a_b_95d3c1ff"


@pytest.mark.requirement("TOOL-1")
async def test_a_call_reaches_the_source_under_its_own_name() -> None:
    source = FakeToolset("m", [described("a.b", source=ToolSource.MCP)])
    view = await view_of(Source(source, namespace="m"))
    (tool,) = view.tools
    assert (tool.ref.native_name, tool.ref.source) == ("a.b", ToolSource.MCP)
    assert tool.ref.routed_name == routed_name("m", "a.b")


@pytest.mark.requirement("TOOL-2")
async def test_a_collision_goes_to_the_first_source_and_is_reported() -> None:
    first = FakeToolset("first", [described("x", server_id="first")])
    second = FakeToolset("second", [described("x", server_id="second"), described("y")])
    view = await view_of(Source(first), Source(second))
    assert [tool.ref.routed_name for tool in view.tools] == ["x", "y"]
    (collision,) = view.collisions
    assert (collision.routed_name, collision.resolution) == ("x", CollisionResolution.PRIORITY)
    assert collision.winner is not None
    assert (collision.winner.server_id, [loser.server_id for loser in collision.losers]) == ("first", ["second"])
    assert not view.failures


@pytest.mark.requirement("TOOL-2")
async def test_two_tools_of_one_name_in_one_source_are_one_tool_and_a_report() -> None:
    view = await view_of(Source(FakeToolset("m", [described("x"), described("x")]), namespace="m"))
    assert [tool.ref.routed_name for tool in view.tools] == ["m__x"]
    ref = ToolRef("m__x", "x", ToolSource.LOCAL)
    assert view.collisions == (ToolCollision("m__x", ref, (ref,), CollisionResolution.PRIORITY),)


@pytest.mark.requirement("TOOL-2")
async def test_all_losers_of_a_name_are_in_one_collision_whatever_the_selection() -> None:
    sources = [Source(FakeToolset(name, [described("x", server_id=name)])) for name in ("a", "b", "c")]
    view = await view_of(*sources, selection=ToolSelection(exclude=("*",)))
    (collision,) = view.collisions
    assert [loser.server_id for loser in collision.losers] == ["b", "c"]


@pytest.mark.requirement("TOOL-3", "SCN-045")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type":"string"}', 'of type "string"'),
        ("[1]", "not a JSON object"),
        ("{", "not valid JSON"),
        ('{"type":"object","properties":{"a":{"type":"objekt"}}}', "not valid"),
        ('{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:9/x.json"}}}', "Retrieval is disabled"),
        ('{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}', "does not exist"),
        ('{"type":"object","properties":{"a":{"pattern":"("}}}', "regex"),
        ('{"anyOf":[{"type":"string"},{"type":"number"}]}', "no branch"),
        ('{"$schema":"http://example.test/own"}', "meta-schema"),
        ('{"type":"object","properties":' + '{"a":{"type":"object","properties":' * 400 + "{}" + "}}" * 400 + "}", ""),
        ('{"description":"' + "x" * 300_000 + '"}', "longer than"),
    ],
)
async def test_a_schema_that_cannot_be_used_leaves_out_its_tool_alone(schema: str, words: str) -> None:
    view = await view_of(Source(FakeToolset("docs", [described("lookup", schema), described("find")])))
    assert [tool.ref.routed_name for tool in view.tools] == ["find"]
    (failure,) = view.failures
    assert failure.message.startswith("tool 'lookup' of 'docs' is left out: ")
    assert words in failure.message


@pytest.mark.requirement("TOOL-3")
async def test_a_tool_without_a_name_is_left_out() -> None:
    view = await view_of(Source(FakeToolset("docs", [described("")])))
    assert not view.tools
    assert "it has no name" in view.failures[0].message


@pytest.mark.requirement("TOOL-3")
async def test_a_schema_composed_at_its_top_is_shown_as_an_object_and_still_checked_in_full() -> None:
    schema = {
        "$defs": {"ById": {"properties": {"id": {"type": "integer"}}, "required": ["id"]}},
        "properties": {"verbose": {"type": "boolean"}},
        "anyOf": [
            {"$ref": "#/$defs/ById"},
            {"properties": {"name": {"type": "string"}}, "required": ["name"]},
            {"type": "null"},
        ],
    }
    view = await view_of(Source(FakeToolset("docs", [described("pick", json.dumps(schema))])))
    shown = json.loads(view.tools[0].input_schema_json)
    assert shown["type"] == "object"
    assert list(shown["properties"]) == ["verbose", "id", "name"]
    assert not {"anyOf", "oneOf", "allOf", "$ref", "required"} & shown.keys()
    assert view.check("pick", '{"id":1}', ArgumentValidation.STRICT).failure is None
    assert view.check("pick", "{}", ArgumentValidation.STRICT).failure is not None


@pytest.mark.requirement("TOOL-3")
async def test_requirements_of_all_branches_are_shown() -> None:
    schema = {
        "allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}],
        "oneOf": [{"required": ["c", "d"]}, {"required": ["d"]}],
    }
    view = await view_of(Source(FakeToolset("docs", [described("pick", json.dumps(schema))])))
    shown = json.loads(view.tools[0].input_schema_json)
    assert sorted(shown["required"]) == ["a", "b", "d"]


@pytest.mark.requirement("TOOL-4")
async def test_sources_that_fail_in_every_way_leave_the_others_untouched() -> None:
    down = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, "is down", origin="down")
    odd = Failure(FailurePhase.ROUTING, Reason.MCP_DISCOVERY_FAILED, "entry 3 is odd", origin="odd")
    registry = Registry(
        [
            Source(FakeToolset("broken", error=RuntimeError("bug"))),
            Source(FakeToolset("refusing", error=ToolError(down))),
            Source(FakeToolset("down", failure=down)),
            Source(FakeToolset("hangs", hangs=True)),
            Source(FakeToolset("odd", [described("fine")], left_out=[odd])),
        ],
        discovery_timeout=0.05,
    )
    view = await registry.view(ToolSelection(), Caller())
    assert [tool.ref.routed_name for tool in view.tools] == ["fine"]
    told = [failure.message for failure in view.failures]
    assert [("RuntimeError" in told[0]), told[1], told[2], ("'hangs'" in told[3]), told[4]] == [
        True,
        "is down",
        "is down",
        True,
        "entry 3 is odd",
    ]


@pytest.mark.requirement("TOOL-19")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ToolSource.MCP, Reason.MCP_UNAVAILABLE),
        (ToolSource.GRPC, Reason.TOOL_SOURCE_UNAVAILABLE),
        (ToolSource.LOCAL, Reason.TOOL_SOURCE_UNAVAILABLE),
    ],
)
async def test_a_slow_and_a_broken_source_are_missed_by_the_reason_of_their_kind(
    kind: ToolSource, reason: Reason
) -> None:
    slow, broken = FakeToolset("slow", hangs=True), FakeToolset("broken", error=RuntimeError("bug"))
    registry = Registry([Source(slow, kind=kind), Source(broken, kind=kind)], discovery_timeout=0.05)
    view = await registry.view(ToolSelection(), Caller())
    assert [(failure.origin, failure.reason) for failure in view.failures] == [("slow", reason), ("broken", reason)]


@pytest.mark.requirement("TOOL-4")
async def test_a_source_that_is_down_keeps_the_tools_that_are_known() -> None:
    down = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, "is down", origin="down")
    view = await view_of(Source(FakeToolset("down", [described("x")], failure=down), required=True))
    assert len(view.tools) == 1
    assert [failure.message for failure in view.failures] == ["is down"]


@pytest.mark.requirement("TOOL-4")
async def test_closing_the_registry_closes_every_source() -> None:
    sources = [FakeToolset("a"), FakeToolset("b")]
    await Registry([Source(source) for source in sources]).aclose()
    assert all(source.closed for source in sources)


@pytest.mark.requirement("TOOL-5", "SCN-131")
async def test_a_required_source_that_is_down_stops_the_run_before_it_starts() -> None:
    down = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, "crm is down", origin="crm")
    with pytest.raises(ToolError, match="crm is down"):
        await view_of(Source(FakeToolset("crm", failure=down), required=True))


@pytest.mark.requirement("TOOL-6", "SCN-076")
async def test_the_order_is_by_source_and_name_whatever_the_order_of_discovery() -> None:
    def sources(backwards: bool) -> list[Source]:
        names = ["z", "y", "a"] if backwards else ["a", "y", "z"]
        return [
            Source(FakeToolset("python", [described(name) for name in ("b_local", "a_local")])),
            Source(FakeToolset("m1", [described(name) for name in names]), namespace="m1"),
        ]

    one, other = await view_of(*sources(backwards=False)), await view_of(*sources(backwards=True))
    assert one.tools == other.tools
    assert [tool.ref.routed_name for tool in one.tools] == ["a_local", "b_local", "m1__a", "m1__y", "m1__z"]


@pytest.mark.requirement("TOOL-6")
async def test_patterns_select_routed_names_and_sources_filter_native_ones() -> None:
    toolset = FakeToolset("m", [described(name) for name in ("get_a", "get_b", "drop", "hidden.x")])
    source = Source(toolset, namespace="m", exclude=("hidden*",))
    view = await view_of(source, selection=ToolSelection(include=("m__get*", "m__drop"), exclude=("*_b",)))
    assert [tool.ref.routed_name for tool in view.tools] == ["m__drop", "m__get_a"]
    assert not view.failures
    only = await view_of(Source(toolset, include=("get_a", "[gd]*", "get?b")))
    assert [tool.ref.routed_name for tool in only.tools] == ["get_a"]


@pytest.mark.requirement("TOOL-6")
async def test_a_selection_that_no_tool_matches_is_reported() -> None:
    view = await view_of(Source(FakeToolset("m", [described("x")])), selection=ToolSelection(include=("y",)))
    assert not view.tools
    assert [failure.reason for failure in view.failures] == [Reason.TOOL_NOT_FOUND]


@pytest.mark.requirement("TOOL-6")
async def test_a_view_is_fixed_while_its_source_changes() -> None:
    toolset = FakeToolset("m", [described("old")])
    registry = Registry([Source(toolset)])
    before = await registry.view(ToolSelection(), Caller())
    assert await registry.view(ToolSelection(), Caller()) is before
    toolset.listed = [described("new")]
    after = await registry.view(ToolSelection(), Caller())
    assert [tool.ref.routed_name for tool in before.tools] == ["old"]
    assert [tool.ref.routed_name for tool in after.tools] == ["new"]


@pytest.mark.requirement("TOOL-18")
async def test_the_tools_of_one_run_stand_behind_those_of_the_deployment() -> None:
    own = FakeToolset("caller", [described("mine"), described("bad", "[]"), described("other")], output=lambda _: TEXT)
    registry = Registry([Source(FakeToolset("m", [described("theirs")], output=lambda _: TEXT), namespace="m")])
    selection = ToolSelection(include=("m__*",), exclude=("other",))
    view = await registry.view(selection, Caller(), [own])
    assert [tool.ref.routed_name for tool in view.tools] == ["m__theirs", "mine"]
    assert [failure.reason for failure in view.failures] == [Reason.TOOL_QUARANTINED]
    assert (await run_tool(view, "mine")).status is ToolResultStatus.OK
    assert (await run_tool(view, "m__theirs")).status is ToolResultStatus.OK
    assert [call.native_name for call in own.calls] == ["mine"]
    assert [tool.ref.routed_name for tool in (await registry.view(ToolSelection(), Caller())).tools] == ["m__theirs"]
    await registry.aclose()
    assert not own.closed


@pytest.mark.requirement("TOOL-18")
async def test_a_name_of_a_run_that_is_taken_is_refused() -> None:
    registry = Registry([Source(FakeToolset("m", [described("same")]))])
    for more in (
        [FakeToolset("a", [described("same")])],
        [FakeToolset("a", [described("x")]), FakeToolset("b", [described("x")])],
    ):
        with pytest.raises(ToolError) as raised:
            await registry.view(ToolSelection(), Caller(), more)
        assert raised.value.failure.reason is Reason.TOOL_NAME_COLLISION


class _Late(FakeToolset):
    """A source that is known only after others have been given up."""

    async def tools(self) -> Sequence[Tool]:
        await anyio.sleep(0.2)
        return self.listed


@pytest.mark.requirement("TOOL-5")
async def test_a_required_source_is_waited_for_longer_than_one_that_may_be_missing() -> None:
    sources = [
        Source(_Late("required", [described("needed")]), required=True),
        Source(_Late("optional", [described("spare")])),
    ]
    registry = Registry(sources, discovery_timeout=0.05, required_timeout=10.0)
    view = await registry.view(ToolSelection(), Caller())
    assert [tool.ref.routed_name for tool in view.tools] == ["needed"]
    assert [failure.origin for failure in view.failures] == ["optional"]
