"""Calls as providers really write them: no arguments, no position, late names, broken JSON, cut by a limit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from execution.served import words
from scenarios.kit import ANSWERED, ERROR, NOT_EXECUTED, OK, PARALLEL, SERIAL, play
from scenarios.wires import CHAT, WIRES, over
from testkit.wires import chat
from tools.kit import FakeToolset, described

from turnwire.v1 import outcome_pb2
from turnwired.domain.policy import Policy
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

Fragment = Mapping[str, Any]


async def list_tables() -> str:
    """List the tables."""
    return "orders"


async def act(action: str) -> str:
    """Act."""
    return f"did {action}"


async def read_file(path: str) -> str:
    """Read a file."""
    return f"read {path}"


async def get_time(zone: str) -> str:
    """The time."""
    return f"noon in {zone}"


def called(*chunks: Sequence[Fragment]) -> bytes:
    """A chat answer of these chunks of calls."""
    return CHAT.begin + b"".join(chat({"tool_calls": list(chunk)}) for chunk in chunks) + CHAT.end("tool_calls")


def function(arguments: str, name: str | None = None, **fields: Any) -> Fragment:
    """One fragment of a call."""
    named = {} if name is None else {"name": name}
    return {**fields, "function": {**named, "arguments": arguments}}


@pytest.mark.requirement("SCN-033")
@pytest.mark.parametrize("arguments", ["", " ", "{}"], ids=["empty", "blank", "object"])
@pytest.mark.parametrize("name", WIRES)
async def test_no_arguments_on_any_wire_are_the_empty_object(name: str, arguments: str) -> None:
    wire = WIRES[name]
    async with over(wire, [wire.answer(("list_tables", arguments)), wire.answer("Done.")], list_tables) as line:
        told = await play(line.service)
    assert told.said == ["orders"]
    assert told.outcome.kind == ANSWERED
    assert len(line.pairs(1)) == 1, "the arguments go back as an object"


@pytest.mark.requirement("SCN-033")
@pytest.mark.parametrize("fields", [{}, {"arguments": None}], ids=["absent", "null"])
async def test_absent_arguments_are_the_empty_object(fields: dict[str, None]) -> None:
    body = called([{"index": 0, "id": "c0", "function": {"name": "list_tables", **fields}}])
    async with over(CHAT, [body, CHAT.answer("Done.")], list_tables) as line:
        told = await play(line.service)
    assert told.said == ["orders"]
    assert line.requests[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"] == "{}"


ROME, CET = '{"path":"Rome"}', '{"zone":"CET"}'
WITHOUT_INDEX: dict[str, list[list[Fragment]]] = {
    "in one chunk": [[function(ROME, "read_file", id="w"), function(CET, "get_time", id="t")]],
    "in a chunk each": [[function(ROME, "read_file", id="w")], [function(CET, "get_time", id="t")]],
    "in fragments": [
        [function(ROME[:7], "read_file", id="w")],
        [function(ROME[7:])],
        [function(CET[:7], "get_time", id="t")],
        [function(CET[7:])],
    ],
    "all at 0": [[function(ROME, "read_file", id="w", index=0)], [function(CET, "get_time", id="t", index=0)]],
}


@pytest.mark.requirement("SCN-035")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("chunks", WITHOUT_INDEX.values(), ids=WITHOUT_INDEX.keys())
async def test_calls_without_a_position_stay_apart(chunks: list[list[Fragment]], policy: Policy) -> None:
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], read_file, get_time, policy=policy) as line:
        told = await play(line.service)
    assert told.said == ["read Rome", "noon in CET"]
    assert told.outcome.kind == ANSWERED
    assert len(line.requests) == 2


TORN = [function('{"path":"re', "read_file", index=0, id="a")]
WHOLE = [function(CET, "get_time", index=1, id="b")]
STRAY: dict[str, list[list[Fragment]]] = {
    "one": [TORN, [function('port.txt"}', index=1)]],
    "several": [TORN, [function("port", index=1)], [function('.txt"}', index=1)]],
    "at several places": [TORN, [function("port", index=1)], [function('.txt"}', index=2)]],
    "with more of the call behind it": [TORN, [function("po", index=1)], [function('rt.txt"}', index=0)]],
    "beside a whole call": [TORN, WHOLE, [function('port.txt"}', index=2)]],
    "before a whole call": [TORN, [function('port.txt"}', index=2)], WHOLE],
    "between all of it": [TORN, WHOLE, [function("po", index=2)], [function('rt.txt"}', index=0)]],
    "with the call's id": [TORN, WHOLE, [function('port.txt"}', index=2, id="a")]],
}


@pytest.mark.requirement("SCN-037")
@pytest.mark.parametrize("chunks", STRAY.values(), ids=STRAY.keys())
async def test_a_fragment_at_a_place_that_was_never_opened_belongs_to_the_only_open_call(
    chunks: list[list[Fragment]],
) -> None:
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], read_file, get_time) as line:
        told = await play(line.service)
    assert told.said == ["read report.txt", *(["noon in CET"] if WHOLE in chunks else [])]
    assert told.outcome.kind == ANSWERED
    named = any(fragment.get("id") == "a" for chunk in chunks[1:] for fragment in chunk)
    assert told.irregularities == ([] if named else ["stray_index"]), "an id says whose it is"


@pytest.mark.requirement("SCN-037")
@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([WHOLE, [function("port", index=7)]], ["noon in CET"]),
        ([[function("port", index=7)], WHOLE], ["noon in CET"]),
        ([TORN, [function("port", index=1)]], None),
    ],
    ids=["behind whole calls", "before any call", "and it is still broken"],
)
async def test_a_fragment_that_is_nobodys_is_left_out_and_told(
    chunks: list[list[Fragment]], said: list[str] | None
) -> None:
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], read_file, get_time) as line:
        told = await play(line.service)
    assert told.irregularities == ["stray_index"]
    if said is None:
        assert [result.status for result in told.results] == [ERROR]
    else:
        assert told.said == said


@pytest.mark.requirement("SCN-037", "SCN-046")
async def test_arguments_that_come_before_the_name_of_their_call_are_no_strays() -> None:
    chunks = [
        TORN,
        [function('{"zone":', index=1)],
        [function('port.txt"}', index=0)],
        [function('"CET"}', "get_time", index=1)],
    ]
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], read_file, get_time) as line:
        told = await play(line.service)
    assert told.said == ["read report.txt", "noon in CET"]
    assert told.irregularities == []


@pytest.mark.requirement("SCN-037")
async def test_no_irregularity_is_told_of_calls_that_are_as_they_should_be() -> None:
    chunks = [[function(CET, "get_time", index=0, id="a"), function("", index=1)]]
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], get_time) as line:
        told = await play(line.service)
    assert told.said == ["noon in CET"]
    assert told.irregularities == []


@pytest.mark.requirement("SCN-037")
@pytest.mark.parametrize(
    "behind", [[], [[function('"}', index=1)]], [[function('"}', index=0), function('"}', index=1)]]]
)
async def test_a_fragment_that_may_belong_to_several_calls_is_no_guess(behind: list[list[Fragment]]) -> None:
    chunks = [
        [function('{"path":"a', "read_file", index=0, id="a"), function('{"path":"b', "read_file", index=1, id="b")],
        [function('c"}' if not behind else "c", index=7)],
        *behind,
    ]
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], read_file) as line:
        told = await play(line.service)
    assert [result.status for result in told.results] == [ERROR, ERROR]
    assert told.irregularities == ["stray_index"]
    assert "tool_call_executing" not in told.seen.kinds()
    assert told.outcome.kind == ANSWERED
    assert len(line.pairs(1)) == 2


@pytest.mark.requirement("SCN-037")
@pytest.mark.parametrize("name", ["responses", "messages"])
async def test_where_the_wire_says_what_belongs_where_a_stray_fragment_is_no_guess(name: str) -> None:
    wire = WIRES[name]
    call = wire.call(0, "read_file", '{"path":"report.txt"}')
    events = call.split(b"\n\n")
    fragment = next(number for number, event in enumerate(events) if b"delta" in event)
    stray = events[fragment].replace(b'index": 0', b'index": 1').replace(b'"fc_0"', b'"fc_1"')
    torn = [*events[:fragment], stray, *(event for event in events[fragment + 1 :] if b"done" not in event)]
    bodies = [wire.begin + b"\n\n".join(torn) + wire.end(wire.calls), wire.answer("Done.")]
    async with over(wire, bodies, read_file) as line:
        told = await play(line.service)
    assert "tool_call_executing" not in told.seen.kinds()
    assert [result.status == OK for result in told.results] == [False]
    broken = outcome_pb2.REASON_PROVIDER_PROTOCOL_ERROR
    assert broken in (told.reasons if name == "responses" else [told.outcome.failure.reason]), "and it is told"


@pytest.mark.requirement("SCN-039")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("name", WIRES)
async def test_broken_json_is_one_calls_error_and_goes_back_to_no_wire_as_it_is(name: str, policy: Policy) -> None:
    wire = WIRES[name]
    bodies = [
        wire.answer(("act", '{"action": listt"}'), ("act", '{"action":"list"}')),
        wire.answer(("act", '{"action":"again"}')),
        wire.answer("Done."),
    ]
    async with over(wire, bodies, act, policy=policy) as line:
        told = await play(line.service)
    broken, whole, again = told.results
    assert (broken.status, whole.status, again.status) == (ERROR, OK, OK)
    assert broken.failure.reason == outcome_pb2.REASON_TOOL_ARGUMENTS_INVALID
    assert words(again) == "did again"
    assert told.outcome.kind == ANSWERED
    assert len(line.pairs(1)) == 2, "and every argument is an object"
    raw = [e.tool_call_arguments_finished.arguments_json for e in told.seen.events]
    assert '{"action": listt"}' in raw, "the log keeps what the model said"


@pytest.mark.requirement("SCN-040")
@pytest.mark.parametrize("name", WIRES)
async def test_no_call_of_an_answer_that_the_limit_cut_runs_on_any_wire(name: str) -> None:
    wire = WIRES[name]
    cut = wire.open(("act", '{"action":"one"}')) + wire.call(1, "act", '{"action":"tw') + wire.end(wire.limit)
    async with over(wire, [cut, wire.answer("In parts, then.")], act) as line:
        told = await play(line.service)
    assert [result.status for result in told.results] == [NOT_EXECUTED, NOT_EXECUTED]
    assert all("smaller payload" in said for said in told.said)
    assert told.text == "In parts, then."
    assert len(line.pairs(1)) == 2, "only whole JSON goes back"
    assert len(line.requests) == 2


@pytest.mark.requirement("SCN-045")
@pytest.mark.parametrize("name", WIRES)
async def test_one_tool_with_a_schema_of_no_use_is_left_out_alone_and_told(name: str) -> None:
    wire = WIRES[name]

    def found(_: ToolInvocation) -> ToolOutput:
        return ToolOutput(())

    either = '{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object"}]}'
    docs = FakeToolset(
        "docs",
        [described("lookup", '{"type":"string"}'), described("find"), described("pick", either)],
        output=found,
    )
    bodies = [wire.answer(("docs__find", '{"q":"x"}')), wire.answer("Done.")]
    async with over(wire, bodies, list_tables, sources=[Source(docs, namespace="docs")]) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.results[0].status == OK
    assert outcome_pb2.REASON_TOOL_QUARANTINED in told.reasons
    assert any("lookup" in notice.message for notice in told.seen.notices)
    assert list(told.seen.events[0].run_started.tool_names) == ["list_tables", "docs__find", "docs__pick"]
    for tool in line.requests[0]["tools"]:
        described_as = tool.get("function", tool)
        schema = described_as.get("parameters") or described_as.get("input_schema")
        assert schema["type"] == "object", "an object is what every provider takes"


LATE = [
    [function("", None, index=0, id="a")],
    [function('{"path":', "read_file", index=0, id="a")],
    [function('"x"}', "read_file", index=0, id="a")],
]
NULL = [[{"index": 0, "id": "a", "function": {"name": None, "arguments": ""}}], *LATE[1:]]


@pytest.mark.requirement("SCN-046")
@pytest.mark.parametrize("chunks", [LATE, NULL], ids=["absent", "null"])
async def test_a_name_that_comes_late_or_again_is_told_once_and_whole(chunks: list[list[Fragment]]) -> None:
    async with over(CHAT, [called(*chunks), CHAT.answer("Done.")], read_file) as line:
        told = await play(line.service)
    assert told.said == ["read x"]
    (started,) = [e.tool_call_started for e in told.seen.events if e.HasField("tool_call_started")]
    assert started.tool.routed_name == "read_file"
    assert json.loads(line.calls[1].body)["messages"][-2]["tool_calls"][0]["function"]["name"] == "read_file"
