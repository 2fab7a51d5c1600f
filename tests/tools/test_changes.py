"""Sources that change while a run goes on: what enters when, what the model is shown, what a call of the gone gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from execution.served import Served, served
from hypothesis import given
from hypothesis import strategies as st
from scenarios.kit import ANSWERED, ERROR, OK, Told, play
from tools.kit import FakeToolset, described

from turnwire.v1 import event_pb2, outcome_pb2
from turnwired.domain.event import Event, LoggedEvent, RunStarted, ToolsChangeCause, ToolsChanged
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import EffectivePolicy, Policy
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool, ToolSelection
from turnwired.engine.run_tools import RunTools
from turnwired.testing import FakeMcpServer
from turnwired.testing.mcp import StaleSession
from turnwired.testing.provider import Step, answer, calls, fails
from turnwired.tools.port import ToolInvocation, ToolOutput, ToolView
from turnwired.tools.registry import Registry, Source
from turnwired.tools.schema import compile_schema

pytestmark = pytest.mark.anyio

SOURCES = event_pb2.TOOLS_CHANGE_CAUSE_SOURCES


class Changing(FakeToolset):
    """A source whose tool ``change`` makes it list the next of ``listings``."""

    def __init__(self, set_id: str, *listings: Sequence[Tool]) -> None:
        super().__init__(set_id, listings[0])
        self.left = list(listings[1:])
        self.output = self.act

    def act(self, invocation: ToolInvocation) -> ToolOutput:
        """The result names the tool that was called."""
        if invocation.native_name == "change":
            self.listed = self.left.pop(0)
        return ToolOutput((Part("", Text(f"{invocation.native_name} ran")),))


def tools(*names: str) -> list[Tool]:
    """Tools of these names."""
    return [described(name) for name in names]


def source(*listings: Sequence[Tool]) -> Source:
    """A changing source ``m``."""
    return Source(Changing("m", *listings), namespace="m")


def shown(s: Served) -> list[list[str]]:
    """Names of the tools of each request, in order."""
    return [json.loads(request.tools) for request in s.provider.requests]


def changed(run: Told) -> list[tuple[int, list[str], list[str], list[str]]]:
    """Iteration, added, removed and updated of each change."""
    found = [(event.iteration, event.tools_changed) for event in run.seen.events if event.HasField("tools_changed")]
    assert all(change.cause == SOURCES for _, change in found)
    return [(number, list(it.added), list(it.removed), list(it.updated)) for number, it in found]


CHANGE = calls(("m__change", "{}"))


@pytest.mark.requirement("REG-11", "REG-12", "SCN-076")
async def test_a_new_tool_enters_with_the_next_iteration_behind_the_others() -> None:
    script = [calls(("m__change", "{}"), ("m__new", "{}")), calls(("m__new", "{}")), answer("Done.")]
    async with served(script, sources=[source(tools("change", "z"), tools("a", "change", "new", "z"))]) as s:
        run = await play(s)
    assert shown(s) == [["m__change", "m__z"]] + 2 * [["m__change", "m__z", "m__a", "m__new"]]
    assert changed(run) == [(2, ["m__a", "m__new"], [], [])]
    assert [result.status for result in run.results] == [OK, ERROR, OK], "in its own iteration it is not there yet"
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("REG-11")
async def test_a_change_is_told_after_its_iteration_began_and_before_the_model_answers() -> None:
    async with served([CHANGE, answer("Done.")], sources=[source(tools("change"), tools("change", "x"))]) as s:
        run = await play(s)
    kinds = run.seen.kinds()
    assert kinds[kinds.index("tools_changed") - 1] == "iteration_started"
    assert kinds.index("tools_changed") < kinds.index("text_delta")


@pytest.mark.requirement("REG-12", "REG-13", "SCN-136")
async def test_a_tool_that_went_is_still_shown_and_a_call_of_it_says_so() -> None:
    script = [CHANGE, calls(("m__old", "{}"), ("m__change", "{}")), calls(("m__old", "{}")), answer("Done.")]
    listings = [tools("change", "old", "z"), tools("change", "z"), tools("change", "old", "z")]
    async with served(script, sources=[source(*listings)]) as s:
        run = await play(s)
    assert len({request.tools for request in s.provider.requests}) == 1, "not a byte of the list changes"
    assert changed(run) == [(2, [], ["m__old"], []), (3, ["m__old"], [], [])]
    _, gone, _, back = run.results
    assert gone.failure.reason == outcome_pb2.REASON_TOOL_NOT_FOUND
    assert "m__old is not there any more" in gone.content[0].text
    assert back.status == OK


@pytest.mark.requirement("REG-11")
async def test_an_attempt_that_is_made_again_has_the_tools_of_the_one_before() -> None:
    changing = Changing("m", tools("x"), tools("x", "y"))

    async def change() -> None:
        changing.listed = changing.left.pop()

    broken: list[Step] = [change, fails(Reason.PROVIDER_NETWORK, retryable=True)]
    script = [calls(("m__x", "{}")), broken, calls(("m__x", "{}")), answer("Done.")]
    async with served(script, sources=[Source(changing, namespace="m")]) as s:
        run = await play(s)
    assert shown(s) == [["m__x"], ["m__x"], ["m__x"], ["m__x", "m__y"]]
    assert changed(run) == [(3, ["m__y"], [], [])]


@pytest.mark.requirement("REG-12")
async def test_a_tool_with_another_schema_is_shown_as_it_is_now_at_its_place() -> None:
    other = described("x", '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}')
    script = [CHANGE, calls(("m__x", "{}")), answer("Done.")]
    async with served(script, sources=[source(tools("change", "x", "y"), [*tools("change", "y"), other])]) as s:
        run = await play(s)
    assert changed(run) == [(2, [], [], ["m__x"])]
    assert [tool.ref.routed_name for tool in s.provider.requests[1].offered] == ["m__change", "m__x", "m__y"]
    assert "required" in s.provider.requests[1].offered[1].input_schema_json
    assert run.results[1].failure.reason == outcome_pb2.REASON_TOOL_ARGUMENTS_INVALID


@pytest.mark.requirement("REG-14", "SCN-076")
async def test_a_server_that_connects_anew_changes_no_byte_and_announces_nothing() -> None:
    async def get(arguments: dict[str, object]) -> str:
        return "got"

    async def forgets(arguments: dict[str, object]) -> str:
        server.fail(StaleSession(), tool="get")
        return "forgot"

    server = FakeMcpServer("m", {"get": get, "forget": forgets})
    script = [calls(("m__forget", "{}")), calls(("m__get", "{}")), calls(("m__get", "{}")), answer("Done.")]
    async with served(script, sources=[Source(server.toolset(), namespace="m")]) as s:
        run = await play(s)
    assert server.connections == 2
    assert len({(request.tools, request.system) for request in s.provider.requests}) == 1
    assert changed(run) == []


@pytest.mark.requirement("REG-14")
@pytest.mark.parametrize("required", [False, True])
async def test_a_source_that_fails_and_keeps_what_it_knows_takes_nothing_away(required: bool) -> None:
    failing = Changing("m", tools("change", "x"), tools("change", "x"))

    def act(invocation: ToolInvocation) -> ToolOutput:
        failing.failure = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, "is down", origin="m")
        return ToolOutput((Part("", Text("ran")),))

    failing.output = act
    async with served([CHANGE, answer("Done.")], sources=[Source(failing, namespace="m", required=required)]) as s:
        run = await play(s)
    assert changed(run) == []
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("REG-11", "REG-13")
@pytest.mark.parametrize("required", [False, True])
async def test_a_source_that_breaks_takes_its_tools_and_leaves_the_run(required: bool) -> None:
    breaking = Changing("m", tools("change", "x"))

    def act(invocation: ToolInvocation) -> ToolOutput:
        breaking.error = RuntimeError("broken")
        return ToolOutput((Part("", Text("ran")),))

    breaking.output = act
    script = [CHANGE, calls(("m__x", "{}")), answer("Done.")]
    async with served(script, sources=[Source(breaking, namespace="m", required=required)]) as s:
        run = await play(s)
    assert changed(run) == ([] if required else [(2, [], ["m__change", "m__x"], [])])
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("REG-15")
async def test_a_change_is_in_the_trace() -> None:
    script = [CHANGE, answer("Done.")]
    async with served(script, sources=[source(tools("change", "old"), tools("change", "new"))]) as s:
        run = await play(s, include_trace=True)
    notices = [it.notice for it in run.seen.finished.trace.entries if it.HasField("notice")]
    assert [notice.reason for notice in notices] == [outcome_pb2.REASON_TOOL_SET_CHANGED]
    assert notices[0].message == "The tools of the run changed. new: m__new; gone: m__old."


@pytest.mark.requirement("REG-15")
def test_many_names_are_told_in_a_sentence_of_bounded_length() -> None:
    names = tuple(f"tool_{number}" for number in range(2000))
    words = ToolsChanged(ToolsChangeCause.SOURCES, added=names).notice().message
    assert words.endswith("tool_19 and 1980 more.")


# --- without an engine -----------------------------------------------------------------------------------------------


def started(names: Sequence[str]) -> RunStarted:
    """The first event of a run that is shown these tools."""
    return RunStarted("r", "a", 1, ModelSelection("p", "m"), EffectivePolicy(Policy(), ()), tuple(names))


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@pytest.mark.requirement("REG-12", "REG-15")
@given(listings=st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=6))
async def test_whatever_a_source_lists_the_list_only_grows_and_readers_fold_to_it(
    listings: list[tuple[list[str], bool]],
) -> None:
    toolset = FakeToolset("m", tools(*listings[0][0]))
    registry = Registry([Source(toolset)])

    async def look(view: ToolView) -> ToolView:
        return await registry.revised(view, ToolSelection(), Caller())

    run = RunTools(await registry.view(ToolSelection(), Caller()), look)
    seen, gone = list(run.names), set[str]()
    log: list[Event] = [started(run.names)]
    for names, other in listings[1:]:
        before = run.names
        schema = '{"type":"object","title":"Other"}' if other else '{"type":"object"}'
        toolset.listed = [described(name, schema) for name in names]
        changes = await run.revise() or ()
        log += changes
        for change in changes:
            gone = (gone - set(change.added)) | set(change.removed)
            seen += [name for name in change.added if name not in seen]
            assert not set(change.added) & set(change.removed)
        assert list(run.names) == seen
        assert run.names[: len(before)] == before
        assert set(seen) - gone == set(names)
        assert set(run.refs) == set(seen)
        assert await run.revise() is None
        again = RunTools(await registry.view(ToolSelection(), Caller()), look)
        again.restore(LoggedEvent(number, 0, 0, event) for number, event in enumerate(log, start=1))
        assert await again.revise() == (), "a restart alone changes nothing"
        assert list(again.names) == [name for name in seen if name not in gone]
        assert await again.revise() is None


@pytest.mark.requirement("REG-21")
async def test_only_what_changes_is_compiled_anew_and_equal_selections_share_a_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    real: Callable[[str], object] = compile_schema

    def counting(schema_json: str) -> object:
        compiled.append(schema_json)
        return real(schema_json)

    monkeypatch.setattr("turnwired.tools.catalog.compile_schema", counting)
    toolset = FakeToolset("m", [described(f"t{number}") for number in range(300)])
    registry = Registry([Source(toolset, namespace="m")])
    first = await registry.view(ToolSelection(include=("m__*",)), Caller())
    assert await registry.view(ToolSelection(include=("m__*",)), Caller(principal="other")) is first
    assert len(compiled) == 300
    toolset.listed = [*toolset.listed[1:], described("new")]
    assert len((await registry.view(ToolSelection(), Caller())).tools) == 300
    assert len(compiled) == 301
