"""Calls that the caller executes: its own tools, and in the mode RETURN every tool."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from execution.served import SECONDS, Seen, Served, served, turn, words
from waiting.kit import ERROR, OK, ONCE, asking, client_tools, reason, result, statuses

from turnwire.v1 import (
    agent_service_pb2,
    message_pb2,
    outcome_pb2,
    policy_pb2,
    run_pb2,
    tool_pb2,
    turn_service_pb2,
)
from turnwired.store.memory import MemoryStore
from turnwired.store.port import Changes, LogRow, Settlement
from turnwired.testing.provider import answer, calls
from turnwired.tools.python import tool

pytestmark = pytest.mark.anyio


def look_up(word: str) -> str:
    """Look something up."""
    return f"{word} means something"


@tool(read_only=True)
def peek() -> str:
    """Look."""
    return "here"


ASK = calls(("ask_user", '{"q":"Why?"}'))


async def waiting(s: Served, *names: str, **fields: object) -> tuple[Seen, asyncio.Task[Seen]]:
    """A turn with these tools of the caller that runs until it waits."""
    seen, task = s.follow(turn("Hello", tools=client_tools(*names), **fields))
    await seen.until("run_waiting")
    return seen, task


def call_ids(seen: Seen) -> list[str]:
    """Ids of the calls that the run waits for."""
    return [call.call_id for call in seen.waits[-1].client_tool_calls]


@pytest.mark.requirement("APPROVE-30")
async def test_a_call_of_the_callers_own_tool_is_handed_out_and_its_result_goes_to_the_model() -> None:
    async with served([ASK, answer("Because.")], look_up) as s:
        seen, task = await waiting(s, "ask_user")
        run = await s.get(seen.run_id)
        response = await s.submit(seen.run_id, result(call_ids(seen)[0], "No reason."))
        await task
        offered = json.loads(s.provider.requests[0].tools)
        told = b"".join(s.provider.requests[-1].messages).decode()
    assert run.state == run_pb2.RUN_STATE_WAITING
    (call,) = run.waiting.client_tool_calls
    assert (call.tool.routed_name, call.tool.source) == ("ask_user", tool_pb2.TOOL_SOURCE_CLIENT)
    assert call.arguments_json == '{"q":"Why?"}'
    started = next(item.event_time for item in seen.events if item.HasField("tool_call_executing"))
    assert run.waiting.expire_time.ToNanoseconds() - started.ToNanoseconds() == 86_400 * 10**9
    assert statuses(response) == ["ACCEPTED"]
    assert list(response.pending_call_ids) == []
    assert [item.status for item in seen.results] == [OK]
    assert words(seen.results[0]) == "No reason."
    assert "No reason." in told
    assert "ask_user" in json.dumps(offered)
    assert seen.kinds().index("tool_call_executing") < seen.kinds().index("run_waiting")
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


class Held(MemoryStore):
    """A store that can be held."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.asked = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def append(self, row: LogRow, settlement: Settlement | None = None, changes: Changes | None = None) -> None:
        """Store it once that is allowed."""
        if not self.gate.is_set():
            self.asked.set()
        await self.gate.wait()
        await super().append(row, settlement, changes)


@pytest.mark.requirement("WAIT-23")
@pytest.mark.parametrize("answered", [1, 2])
async def test_a_run_is_said_to_wait_until_what_changes_that_is_stored(answered: int) -> None:
    """One answer: it goes on to wait for the other. Both: it goes on."""
    script = [calls(("ask_user", '{"q":"Why?"}'), ("ask_user", '{"q":"When?"}')), answer("Because.")]
    store = Held()
    async with served(script, store=store) as s:
        seen, task = await waiting(s, "ask_user")
        first, second = call_ids(seen)
        store.gate.clear()
        handed = [asyncio.create_task(s.submit(seen.run_id, result(each, "x"))) for each in (first, second)[:answered]]
        await asyncio.wait_for(store.asked.wait(), SECONDS)
        before = await s.get(seen.run_id)
        store.gate.set()
        await asyncio.gather(*handed)
        if answered == 1:
            await seen.until("run_waiting", 2)
            between = await s.get(seen.run_id)
            assert [call.call_id for call in between.waiting.client_tool_calls] == [second]
            await s.submit(seen.run_id, result(second, "y"))
        await task
        after = await s.get(seen.run_id)
    assert before.state == run_pb2.RUN_STATE_WAITING
    assert [call.call_id for call in before.waiting.client_tool_calls] == [first, second]
    assert (after.state, after.HasField("waiting")) == (run_pb2.RUN_STATE_SETTLED, False)


@pytest.mark.requirement("APPROVE-31")
async def test_results_come_in_any_order_and_number_and_each_counts_once() -> None:
    three = calls(*((name, "{}") for name in ("a", "b", "c")))
    async with served([three, answer("All.")]) as s:
        seen, task = await waiting(s, "a", "b", "c")
        first, second, third = call_ids(seen)
        one = await s.submit(seen.run_id, result(third, "3"))
        more = await s.submit(seen.run_id, result(third, "again"), result("call_no"), result(first, "1"))
        last = await s.submit(seen.run_id, result(second, "2"), result(second, "twice"))
        await task
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await s.submit(seen.run_id, result(second))
        pieces = [json.loads(piece) for piece in s.provider.requests[-1].messages]
    assert (statuses(one), list(one.pending_call_ids)) == (["ACCEPTED"], [first, second])
    assert (statuses(more), list(more.pending_call_ids)) == (["DUPLICATE", "UNKNOWN_CALL", "ACCEPTED"], [second])
    assert (statuses(last), list(last.pending_call_ids)) == (["ACCEPTED", "DUPLICATE"], [])
    assert [receipt.call_id for receipt in more.receipts] == [third, "call_no", first]
    assert reason(late.value) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_SETTLED")
    results = [part["result"] for piece in pieces for part in piece.get("parts", []) if "result" in part]
    assert results == [first, second, third], "not in call order"
    assert sorted(words(item) for item in seen.results) == ["1", "2", "3"]
    assert [len(item.client_tool_calls) for item in seen.waits] == [3, 2, 1]


@pytest.mark.requirement("APPROVE-32")
async def test_a_result_is_capped_cleaned_and_typed_like_that_of_any_tool() -> None:
    two = calls(("a", "{}"), ("b", "{}"))
    async with served([two, answer("Seen.")]) as s:
        policy = policy_pb2.Policy()
        policy.tool.max_result_bytes.value = 300
        seen, task = await waiting(s, "a", "b", policy=policy)
        first, second = call_ids(seen)
        failed = result(second, "", ERROR)
        del failed.content[:]
        failed.failure.CopyFrom(
            outcome_pb2.Failure(
                phase=outcome_pb2.FAILURE_PHASE_TOOL, reason=outcome_pb2.REASON_TOOL_FAILED, message="no network"
            )
        )
        await s.submit(seen.run_id, result(first, "x\0" * 1000), failed)
        await task
    long, error = seen.results
    assert long.original_size_bytes > 300
    assert "\0" not in words(long)
    assert "The result was cut" in words(long)
    assert error.status == ERROR
    assert "no network" in words(error)
    assert "no network" not in error.failure.message


BROKEN: list[tuple[str, message_pb2.ToolResult]] = [
    ("results[0].status", result("c", status=message_pb2.TOOL_RESULT_STATUS_DENIED)),
    ("results[0].status", result("c", status=message_pb2.TOOL_RESULT_STATUS_UNSPECIFIED)),
    ("results[0].call_id", result("")),
    ("results[0].structured_json", message_pb2.ToolResult(call_id="c", status=OK, structured_json="{")),
    ("results[0].structured_json", message_pb2.ToolResult(call_id="c", status=OK, structured_json="NaN")),
    *[
        (
            "results[0].content[0].data_json",
            message_pb2.ToolResult(call_id="c", status=OK, content=[message_pb2.Part(data_json=text)]),
        )
        for text in ("{", "[Infinity]")
    ],
    ("results[0].original_size_bytes", message_pb2.ToolResult(call_id="c", status=OK, original_size_bytes=1)),
    (
        "results[0].failure",
        message_pb2.ToolResult(call_id="c", status=OK, failure=outcome_pb2.Failure(message="no")),
    ),
    (
        "results[0].content[0]",
        message_pb2.ToolResult(call_id="c", status=OK, content=[message_pb2.Part(attachment_id="f")]),
    ),
]


@pytest.mark.requirement("APPROVE-32")
@pytest.mark.parametrize(("path", "broken"), BROKEN)
async def test_a_result_that_breaks_a_rule_is_refused_by_its_path(path: str, broken: message_pb2.ToolResult) -> None:
    async with served([]) as s:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await s.submit("run_x", broken)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert path in (refused.value.details() or "")


@pytest.mark.requirement("APPROVE-33")
async def test_a_call_whose_result_never_comes_is_an_error_that_the_model_reads() -> None:
    async with served([ASK, answer("Never mind.")], policy=asking("nothing", wait=0.05)) as s:
        seen = await s.run(tools=client_tools("ask_user"))
    assert [(item.status, item.failure.reason) for item in seen.results] == [(ERROR, outcome_pb2.REASON_WAIT_EXPIRED)]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("APPROVE-33")
async def test_a_policy_may_end_the_run_when_its_caller_does_not_come() -> None:
    policy = policy_pb2.Policy()
    policy.approval.wait_expiry = policy_pb2.WAIT_EXPIRY_MODE_ABORT
    async with served([ASK], policy=asking("nothing", wait=0.05)) as s:
        seen = await s.run(tools=client_tools("ask_user"), policy=policy)
    outcome = seen.finished.outcome
    assert outcome.kind == outcome_pb2.OUTCOME_KIND_ABORTED
    assert outcome.failure.reason == outcome_pb2.REASON_WAIT_EXPIRED
    assert outcome.limit_trip.policy_path == "timeout.wait"


@pytest.mark.requirement("APPROVE-34")
async def test_every_call_is_the_callers_in_the_mode_return_after_permission() -> None:
    policy = policy_pb2.Policy()
    policy.tool.execution_mode = policy_pb2.TOOL_EXECUTION_MODE_RETURN
    two = calls(("look_up", '{"word":"w"}'), ("peek", "{}"))
    async with served([two, answer("So.")], look_up, peek, policy=asking("look_up")) as s:
        seen, task = s.follow(turn("Hello", policy=policy))
        await seen.until("run_waiting")
        assert [call.tool.routed_name for call in seen.waits[-1].client_tool_calls] == ["peek"]
        await s.resolve(seen.asked[0], ONCE)
        await seen.until("run_waiting", 2)
        names = {call.call_id: call.tool.routed_name for call in seen.waits[-1].client_tool_calls}
        for call_id, name in names.items():
            await s.submit(seen.run_id, result(call_id, f"{name} of mine"))
        await task
    assert sorted(names.values()) == ["look_up", "peek"]
    assert sorted(words(item) for item in seen.results) == ["look_up of mine", "peek of mine"]
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("APPROVE-35")
async def test_tools_of_the_caller_that_cannot_be_used_are_refused_before_there_is_a_run() -> None:
    async with served([]) as s:
        bad = client_tools("a b", "x", "x")
        bad.client_tools[1].input_schema_json = "[]"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await s.run(tools=bad)
        agent = agent_service_pb2.PutAgentRequest(
            agent=agent_service_pb2.Agent(agent_id="mine", tools=client_tools("x"))
        )
        with pytest.raises(grpc.aio.AioRpcError) as kept:
            await s.agents.PutAgent(agent, timeout=SECONDS)
        runs = await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(), timeout=SECONDS)
    said = refused.value.details() or ""
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for path in ("[0].name", "[1].input_schema_json", "[2].name"):
        assert f"turn.tools.client_tools{path}" in said
    assert "agent.tools.client_tools: must be empty" in (kept.value.details() or "")
    assert list(runs.runs) == []


@pytest.mark.requirement("APPROVE-35")
async def test_a_tool_of_the_caller_with_the_name_of_another_ends_the_run_typed() -> None:
    async with served([], look_up) as s:
        seen = await s.run(tools=client_tools("look_up"))
        selection = client_tools("look_up")
        with pytest.raises(grpc.aio.AioRpcError) as listed:
            await s.turns.ListTools(turn_service_pb2.ListToolsRequest(selection=selection), timeout=SECONDS)
        fine = await s.turns.ListTools(
            turn_service_pb2.ListToolsRequest(selection=client_tools("mine")), timeout=SECONDS
        )
    failure = seen.finished.outcome.failure
    assert (failure.phase, failure.reason) == (
        outcome_pb2.FAILURE_PHASE_PREPARATION,
        outcome_pb2.REASON_TOOL_NAME_COLLISION,
    )
    assert reason(listed.value) == (grpc.StatusCode.FAILED_PRECONDITION, "TOOL_NAME_COLLISION")
    assert [item.ref.routed_name for item in fine.tools] == ["look_up", "mine"]


@pytest.mark.requirement("APPROVE-35")
async def test_arguments_of_the_callers_tool_are_held_against_its_schema() -> None:
    wrong = calls(("ask_user", '{"q":1}'))
    async with served([wrong, answer("Sorry.")]) as s:
        seen = await s.run(tools=client_tools("ask_user"))
    assert [item.failure.reason for item in seen.results] == [outcome_pb2.REASON_TOOL_ARGUMENTS_INVALID]
    assert seen.waits == []
