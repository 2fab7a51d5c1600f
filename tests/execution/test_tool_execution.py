"""Tools in whole turns over the API: bad calls, late results, aborting, order, caps, clean text, types of results."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from execution.served import SECONDS, served, turn, words
from tools.kit import RecordingTelemetry, misbehaving

from turnwire.v1 import message_pb2, outcome_pb2
from turnwired.codec.message import decode_message
from turnwired.domain.generation import FinishReason, TextChunk, ToolArgumentsChunk, ToolCallClosed, ToolCallOpened
from turnwired.domain.message import Blob, Data, Message, OpaqueBlock, ResourceLink, Text, ToolCall, ToolResult
from turnwired.domain.policy import Policy, TimeoutPolicy, ToolErrorMode, ToolPolicy
from turnwired.store.memory import MemoryStore
from turnwired.testing.provider import Step, answer, calls, stopped, usage
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.python import tool
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

OK = message_pb2.TOOL_RESULT_STATUS_OK
ERROR = message_pb2.TOOL_RESULT_STATUS_ERROR
INTERRUPTED = message_pb2.TOOL_RESULT_STATUS_INTERRUPTED
NOT_EXECUTED = message_pb2.TOOL_RESULT_STATUS_NOT_EXECUTED
ABORT = Policy(tool=ToolPolicy(error_mode=ToolErrorMode.ABORT))


def act(action: str) -> str:
    """Act."""
    return f"did {action}"


def list_tables() -> str:
    """List the tables."""
    return "orders, customers"


async def history(store: MemoryStore, session_id: str) -> list[Message]:
    """What the session keeps."""
    return [decode_message(stored.body) for stored in await store.load_messages("default", session_id)]


# --- calls that cannot run as they are --------------------------------------------------------------------------------


@pytest.mark.requirement("TOOLX-7", "SCN-033")
@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_scenario_033_no_arguments_mean_the_empty_object(arguments: str) -> None:
    async with served([calls(("list_tables", arguments)), answer("Done.")], list_tables) as s:
        seen = await s.run()
    assert [result.status for result in seen.results] == [OK]
    (call,) = [part for part in s.provider.messages(1)[-2]["parts"] if "call" in part]  # type: ignore[attr-defined]
    assert json.loads(call["arguments"]) == {}
    assert len(s.provider.requests) == 2


@pytest.mark.requirement("TOOLX-7", "SCN-039")
async def test_scenario_039_one_call_of_broken_json_is_that_calls_error_alone() -> None:
    script = [calls(("act", '{"action": listt"}'), ("act", '{"action":"list"}')), answer("Done.")]
    async with served(script, act) as s:
        seen = await s.run()
    by_id = {result.call_id: result for result in seen.results}
    first, second = sorted(by_id)
    assert by_id[first].failure.reason == outcome_pb2.REASON_TOOL_ARGUMENTS_INVALID
    assert "not valid JSON" in words(by_id[first])
    assert words(by_id[second]) == "did list"
    (broken, _) = [part for part in s.provider.messages(1)[-2]["parts"] if "call" in part]  # type: ignore[attr-defined]
    assert json.loads(broken["arguments"]) == {}, "no provider takes broken JSON back"
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("TOOLX-7", "SCN-040")
async def test_scenario_040_no_call_of_an_answer_cut_by_the_limit_is_executed() -> None:
    cut: list[Step] = [
        [
            ToolCallOpened(0, "a", "act"),
            ToolArgumentsChunk(0, '{"action":"one"}'),
            ToolCallClosed(0),
            ToolCallOpened(1, "b", "act"),
            ToolArgumentsChunk(1, '{"action":"tw'),
        ],
        [stopped(FinishReason.OUTPUT_LIMIT, "length"), usage()],
    ]
    async with served([cut, answer("In parts, then.")], act) as s:
        seen = await s.run()
    assert [result.status for result in seen.results] == [NOT_EXECUTED, NOT_EXECUTED]
    assert all("smaller payload" in words(result) for result in seen.results)
    assert "tool_call_executing" not in seen.kinds()
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("TOOLX-7")
async def test_an_unknown_tool_and_a_broken_schema_are_told_and_never_replayed() -> None:
    script = [calls(("actt", "{}"), ("act", '{"action": 7}'), ("act", "[1]")), answer("Done.")]
    async with served(script, act) as s:
        seen = await s.run()
    unknown, schema, form = (words(result) for result in sorted(seen.results, key=lambda result: result.call_id))
    assert "There is no tool 'actt'. The tools are: act." in unknown
    assert "/action" in schema and "7" not in schema
    assert "Send exactly one JSON object" in form
    assert "tool_call_executing" not in seen.kinds()
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert len(s.provider.requests) == 2


# --- late results -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOLX-4", "SCN-051")
async def test_scenario_051_a_result_after_its_timeout_is_dropped_and_told_once() -> None:
    gate, later = threading.Event(), asyncio.Event()

    def slow_commit() -> str:
        """Commit, although nobody waits."""
        gate.wait(SECONDS)
        return "a late value"

    policy = Policy(timeout=TimeoutPolicy(tool_call=0.05))
    script = [calls(("slow_commit", "{}")), [[TextChunk(0, "It may ")], later.wait, *answer("have been saved.")]]
    async with served(script, slow_commit, policy=policy) as s:
        seen, task = s.follow(turn())
        await seen.until("text_delta")
        gate.set()
        await seen.until("notice")
        later.set()
        await task
    (result,) = seen.results
    assert result.status == ERROR
    assert result.failure.reason == outcome_pb2.REASON_TOOL_TIMEOUT
    assert "may have taken effect" in words(result)
    (notice,) = seen.notices
    assert notice.reason == outcome_pb2.REASON_TOOL_RESULT_LATE
    assert notice.metadata["call_id"] == result.call_id
    assert "a late value" not in str(seen.events)
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("TOOLX-4", "SCN-051")
async def test_an_async_tool_that_ends_after_it_was_cancelled_is_told_as_late_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnwired.apart.UNWIND_SECONDS", 0.01)
    gate, later = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        """Do not heed a cancellation."""
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "a late value"

    policy = Policy(timeout=TimeoutPolicy(tool_call=0.05))
    script = [calls(("stubborn", "{}")), [[TextChunk(0, "Hm.")], later.wait, *answer("Done.")]]
    async with served(script, stubborn, policy=policy) as s:
        seen, task = s.follow(turn())
        await seen.until("text_delta")
        gate.set()
        await seen.until("notice")
        later.set()
        await task
    assert [notice.reason for notice in seen.notices] == [outcome_pb2.REASON_TOOL_RESULT_LATE]


# --- aborting ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOLX-5", "TOOLX-6", "SCN-048")
async def test_scenario_048_an_aborting_tool_stops_its_siblings_before_the_run_is_said_to_end(tmp_path: Path) -> None:
    marker, unwound, running = tmp_path / "marker", asyncio.Event(), asyncio.Event()

    async def bad_tool() -> str:
        """Fail once the other runs."""
        await running.wait()
        raise ValueError("no such row")

    async def slow_write() -> str:
        """Write much later; clean up when cancelled."""
        running.set()
        try:
            await asyncio.Event().wait()
            marker.write_text("written")
        finally:
            await asyncio.sleep(0)
            unwound.set()
        return "written"

    store = MemoryStore()
    first: list[Step] = [[TextChunk(0, "Working.")], *calls(("bad_tool", "{}"), ("slow_write", "{}"))]
    script = [first, answer("Next turn.")]
    async with served(script, bad_tool, slow_write, policy=ABORT, store=store) as s:
        seen, task = s.follow(turn(session_id="s"))
        await seen.until("run_finished")
        assert unwound.is_set(), "the run was said to have ended while a tool of it still acted"
        await task
        assert not marker.exists()
        kept = await history(store, "s")
        again = await s.run("And now?", session_id="s")
    bad, slow = sorted(seen.results, key=lambda result: result.call_id)
    assert (bad.status, slow.status) == (ERROR, INTERRUPTED)
    outcome = seen.finished.outcome
    assert outcome.kind == outcome_pb2.OUTCOME_KIND_ERRORED
    assert outcome.failure.phase == outcome_pb2.FAILURE_PHASE_TOOL
    assert seen.finished.trace.entries
    assert len(s.provider.requests) == 2, "one before the abort, one of the next turn"
    parts = [part.content for message in kept[1:] for part in message.parts]
    assert [part.call_id for part in parts if isinstance(part, ToolCall)] == [slow.call_id]
    assert [part.call_id for part in parts if isinstance(part, ToolResult)] == [slow.call_id]
    assert [part.text for part in parts if isinstance(part, Text)] == ["Working."]
    assert again.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert "no such row" not in json.dumps(s.provider.messages(1))


@pytest.mark.requirement("TOOLX-6", "SCN-029")
async def test_scenario_029_what_a_tool_did_stays_in_the_session_when_another_one_ends_the_run() -> None:
    sent: list[str] = []
    done = asyncio.Event()

    async def send_mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        done.set()
        return f"sent to {to}"

    async def check() -> str:
        """Refuse."""
        await done.wait()
        raise ValueError("rejected")

    store = MemoryStore()
    script = [calls(("send_mail", '{"to":"ops"}'), ("check", "{}")), answer("Mail was sent earlier.")]
    async with served(script, send_mail, check, policy=ABORT, store=store) as s:
        first = await s.run(session_id="s")
        second = await s.run("What did you do?", session_id="s")
    assert first.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ERRORED
    assert second.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    told = json.dumps(s.provider.messages(1))
    assert "sent to ops" in told and "rejected" not in told
    assert sent == ["ops"]


@pytest.mark.requirement("TOOLX-6")
async def test_a_turn_of_nothing_but_unread_errors_leaves_no_trace_in_the_session() -> None:
    async def bad() -> str:
        """Fail."""
        raise ValueError("no")

    store = MemoryStore()
    async with served([calls(("bad", "{}"))], bad, policy=ABORT, store=store) as s:
        seen = await s.run(session_id="s")
    assert [message.role.value for message in await history_of(store)] == ["USER"]
    assert [result.status for result in seen.results] == [ERROR], "the log keeps it"


async def history_of(store: MemoryStore) -> list[Message]:
    """The session of a store that was closed."""
    await store.start()
    return await history(store, "s")


# --- order, caps, text, types -----------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOLX-8")
@pytest.mark.parametrize(("bound", "most"), [(1, 1), (2, 2), (8, 4)])
async def test_calls_run_side_by_side_within_the_bound_and_give_results_in_call_order(bound: int, most: int) -> None:
    running = 0
    peak: list[int] = []
    full = asyncio.Event()

    async def work(n: int) -> str:
        """Work; the first one ends last."""
        nonlocal running
        running += 1
        peak.append(running)
        if running == most:
            full.set()
        async with asyncio.timeout(SECONDS):
            await full.wait()
        for _ in range(10 * (5 - n)):
            await asyncio.sleep(0)
        running -= 1
        return f"result {n}"

    script = [calls(*(("work", f'{{"n":{n}}}') for n in range(1, 5))), answer("Done.")]
    async with served(script, work, policy=Policy(tool=ToolPolicy(max_parallel_calls=bound))) as s:
        seen = await s.run()
    assert max(peak) == most
    assert len(seen.results) == 4
    given = [part["content"] for part in s.provider.messages(1)[-1]["parts"]]  # type: ignore[attr-defined]
    assert given == [[f"result {n}"] for n in range(1, 5)]


@pytest.mark.requirement("TOOLX-9", "SCN-052")
async def test_scenario_052_one_cap_holds_for_every_source_and_cuts_no_character() -> None:
    def dump() -> str:
        """Very much."""
        return "\U0001f600" * 500_000

    server = McpToolset("big", misbehaving("modern"), RecordingTelemetry())
    script = [calls(("dump", "{}"), ("big__big", '{"bytes": 1000000}')), answer("Done.")]
    policy = Policy(tool=ToolPolicy(max_result_bytes=65_537))  # not a multiple of the four bytes of a character
    async with served(script, dump, sources=[Source(server, namespace="big")], policy=policy) as s:
        seen = await s.run()
    local, remote = sorted(seen.results, key=lambda result: result.call_id)
    assert (local.status, remote.status) == (OK, OK)
    assert (local.original_size_bytes, remote.original_size_bytes) == (2_000_000, 1_000_000)
    for result in (local, remote):
        assert len(result.content[0].text.encode()) <= 65_537
        assert str(result.original_size_bytes) in result.content[-1].text
    assert set(local.content[0].text) == {"\U0001f600"}


@pytest.mark.requirement("TOOLX-10", "SCN-124")
async def test_scenario_124_nul_and_lone_surrogates_are_the_same_clean_text_everywhere() -> None:
    def cat(path: str) -> str:
        """Give bad text."""
        return "W\0s\0 \ud800 end \U0001f600"

    store = MemoryStore()
    script = [calls(("cat", '{"path":"x"}')), answer("It says: \U0001f600.")]
    async with served(script, cat, store=store) as s:
        seen = await s.run(session_id="s")
        run = await s.settled(seen.run_id)
        kept = await history(store, "s")
    assert words(seen.results[0]) == "W\ufffds\ufffd \ufffd end \U0001f600"
    shown = "".join(event.text_delta.text for event in seen.events)
    assert shown == run.message.parts[0].text
    stored = [part.content.text for part in kept[-1].parts if isinstance(part.content, Text)]
    assert stored == [shown] == ["It says: \U0001f600."]
    assert "W\\ufffds" in json.dumps(s.provider.messages(1))


@pytest.mark.requirement("TOOLX-11")
async def test_results_stay_what_they_are_and_interfaces_word_for_word() -> None:
    ui = {
        "type": "resource",
        "resource": {"uri": "ui://shop/cart", "mimeType": "text/html", "text": "<b>cart</b>", "_meta": {"h": 1}},
    }
    blocks = [
        {"type": "text", "text": "words"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
        ui,
    ]

    @tool(read_only=True)
    def value() -> dict[str, int]:
        """Give JSON."""
        return {"n": 1}

    server = McpToolset("m", misbehaving("modern"), RecordingTelemetry())
    given = json.dumps({"result": {"content": blocks}})
    store = MemoryStore()
    script = [calls(("m__result", given), ("value", "{}")), answer("Done.")]
    async with served(script, value, sources=[Source(server, namespace="m")], store=store) as s:
        seen = await s.run(session_id="s")
        kept = await history(store, "s")
    (results,) = [message for message in kept if any(isinstance(p.content, ToolResult) for p in message.parts)]
    remote, local = (part.content for part in results.parts)
    assert isinstance(remote, ToolResult) and isinstance(local, ToolResult)
    contents = [part.content for part in remote.content]
    assert [type(item) for item in contents] == [Text, Blob, Blob, ResourceLink, OpaqueBlock]
    assert isinstance(contents[1], Blob) and contents[1].data == b"hi"
    assert isinstance(contents[4], OpaqueBlock)
    assert contents[4].kind == "mcp/ui"
    assert json.loads(contents[4].value_json) == ui
    assert isinstance(local.content[0].content, Data)
    live = next(result for result in seen.results if result.call_id == remote.call_id)
    assert json.loads(live.content[4].opaque.value_json) == ui


# --- tools that vanish ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOLX-12", "SCN-136")
async def test_scenario_136_a_tool_that_vanished_is_told_to_be_gone_and_the_next_turn_sees_the_new_list() -> None:
    old = [{"name": "old", "inputSchema": {"type": "object"}}]
    new = [{"name": "echo", "inputSchema": {"type": "object"}}]
    server = McpToolset("m", misbehaving("modern", f"lists={json.dumps([old, new])}"), RecordingTelemetry())
    script = [
        calls(("m__old", "{}")),
        answer("It is gone."),
        calls(("m__echo", '{"text":"hi"}')),
        answer("Done."),
    ]
    async with served(script, sources=[Source(server, namespace="m")]) as s:
        first = await s.run()
        second = await s.run()
    (gone,) = first.results
    assert gone.status == ERROR
    assert gone.failure.reason == outcome_pb2.REASON_TOOL_NOT_FOUND
    assert "no longer has the tool old" in words(gone)
    assert "its tools are: echo" in words(gone)
    assert first.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert [words(result) for result in second.results] == ["hi"]
    assert len(s.provider.requests) == 4, "nothing was retried, the server was not taken for down"
