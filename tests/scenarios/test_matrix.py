"""The conformance matrix: one row, one test, over the API and where it matters over each wire and each way to read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from execution.served import SECONDS, served, turn, words
from scenarios.kit import ANSWERED, ERROR, MAX_STEPS, OK, OUTPUT_LIMIT, PARALLEL, SERIAL, kept, play, told
from scenarios.wires import CHAT, WIRES, over
from tools.kit import FakeToolset

from turnwire.v1 import event_pb2, outcome_pb2, turn_service_pb2
from turnwired.codec.event import event_from_pb
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import TextChunk
from turnwired.domain.policy import CompletionMode, CompletionPolicy, LimitMode, LoopPolicy, OutputPolicy, Policy
from turnwired.testing import FakeMcpServer, FakeTool, lines_of
from turnwired.testing.provider import Step, answer, calls, usage
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

policies = pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
REQUIRED = CompletionPolicy(mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS)


async def look() -> str:
    """Look."""
    return "seen"


async def get(arguments: dict[str, Any]) -> str:
    """A tool of a server."""
    return f"got {arguments.get('id', '')}".strip()


async def never() -> None:
    """A model that says no more."""
    await asyncio.Event().wait()


@pytest.mark.requirement("MATRIX-1")
@policies
@pytest.mark.parametrize("name", WIRES)
async def test_the_real_order_is_call_end_result_next_iteration_text(name: str, policy: Policy) -> None:
    gate = asyncio.Event()

    async def slow() -> str:
        """Run on after the provider has finished."""
        await gate.wait()
        return "slow"

    wire = WIRES[name]
    bodies = [wire.answer(("slow", "{}")), wire.answer("Done.")]
    async with over(wire, bodies, slow, policy=replace(policy, completion=REQUIRED)) as line:
        seen, task = line.service.follow(turn())
        await seen.until("iteration_finished")
        await seen.until("tool_call_executing")
        assert "run_finished" not in seen.kinds()
        gate.set()
        await task
        run = await told(line.service, seen)
    order = [kind for kind in seen.kinds() if kind not in {"tool_call_arguments_delta", "part_finished", "text_delta"}]
    assert order == [
        "run_started",
        "iteration_started",
        "tool_call_started",
        "tool_call_arguments_finished",
        "iteration_finished",
        "tool_call_executing",
        "tool_call_finished",
        "iteration_started",
        "iteration_finished",
        "run_finished",
    ]
    assert run.text == "Done."
    assert len(line.requests) == 2, "nothing completed it early"


@pytest.mark.requirement("MATRIX-2")
@pytest.mark.parametrize("started", [False, True], ids=["streamed", "started"])
async def test_a_run_that_goes_well_settles_once_with_its_ids_kept(started: bool) -> None:
    async with served([calls(("look", "{}")), answer("Done.")], look) as s:
        run = await play(s, started=started, session_id="s", include_trace=True)
        stored = await kept(s, "s")
    assert run.seen.kinds().count("run_finished") == 1
    (call_id,) = {e.tool_call_started.call_id for e in run.seen.events if e.HasField("tool_call_started")}
    parts = [part for message in stored for part in message.parts]
    assert [part.tool_call.call_id for part in parts if part.HasField("tool_call")] == [call_id]
    assert [part.tool_result.call_id for part in parts if part.HasField("tool_result")] == [call_id]
    entries = run.seen.finished.trace.entries
    assert [entry.tool_call.call.call_id for entry in entries if entry.HasField("tool_call")] == [call_id]
    assert stored[-1].message_id == run.seen.finished.message.message_id == run.run.message.message_id
    assert [part.part_id for part in stored[-1].parts] == [part.part_id for part in run.seen.finished.message.parts]


@pytest.mark.requirement("MATRIX-4")
@policies
async def test_calls_of_one_iteration_end_in_any_order_well_or_not(policy: Policy) -> None:
    done = [asyncio.Event() for _ in range(3)]
    parallel = policy is PARALLEL

    async def work(n: int) -> str:
        """Work until the next one has ended, if they run side by side."""
        if parallel and n < 2:
            await done[n + 1].wait()
        done[n].set()
        if n == 1:
            raise ValueError("one failed")
        return f"result {n}"

    script = [calls(*(("work", f'{{"n":{n}}}') for n in range(3))), answer("Done.")]
    async with served(script, work, policy=policy) as s:
        run = await play(s)
    first, second, third = run.results
    assert (first.status, second.status, third.status) == (OK, ERROR, OK)
    ended = [result.call_id for result in run.seen.results]
    in_order = [first.call_id, second.call_id, third.call_id]
    assert ended == (in_order[::-1] if parallel else in_order)
    given = s.provider.messages(1)[-1]["parts"]
    assert isinstance(given, list)
    assert [part["result"] for part in given] == in_order, "the model reads them in the order of its calls"
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("MATRIX-5")
@policies
@pytest.mark.parametrize("name", WIRES)
async def test_a_missing_tool_wrong_arguments_and_an_exception_are_results(name: str, policy: Policy) -> None:
    async def add(a: int) -> str:
        """Add."""
        raise ArithmeticError("too large")

    wire = WIRES[name]
    wanted = [("nobody", "{}"), ("add", '{"a":"x"}'), ("add", '{"a":1}'), ("look", "{}")]
    async with over(wire, [wire.answer(*wanted), wire.answer("Done.")], add, look, policy=policy) as line:
        run = await play(line.service)
    reasons = [result.failure.reason for result in run.results[:3]]
    assert reasons == [
        outcome_pb2.REASON_TOOL_NOT_FOUND,
        outcome_pb2.REASON_TOOL_ARGUMENTS_INVALID,
        outcome_pb2.REASON_TOOL_FAILED,
    ]
    assert words(run.results[3]) == "seen"
    assert len(line.pairs(1)) == 4
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("MATRIX-6")
@pytest.mark.parametrize("required", [False, True])
async def test_a_failed_discovery_ends_only_a_run_that_cannot_do_without(required: bool) -> None:
    failure = Failure(FailurePhase.TOOL, Reason.MCP_DISCOVERY_FAILED, "The server lists nothing.", origin="crm")
    broken = Source(FakeToolset("crm", failure=failure), namespace="crm", required=required)
    async with served([answer("Hi.")], look, sources=[broken]) as s:
        run = await play(s)
    assert (run.outcome.kind == ANSWERED) is not required
    assert len(s.provider.requests) == (0 if required else 1)
    if not required:
        assert outcome_pb2.REASON_MCP_DISCOVERY_FAILED in run.reasons


@pytest.mark.requirement("MATRIX-7")
@policies
async def test_tools_of_the_app_and_of_several_servers_work_while_one_is_out_of_order(policy: Policy) -> None:
    one, two = FakeMcpServer("one", {"get": get}), FakeMcpServer("two", {"get": get})
    broken = FakeToolset("three", error=RuntimeError("no"))
    sources = [Source(server.toolset(), namespace=server.server_id) for server in (one, two)]
    script = [
        calls(("look", "{}"), ("one__get", '{"id":1}'), ("two__get", '{"id":2}'), ("three__get", "{}")),
        answer("Done."),
    ]
    async with served(script, look, sources=[*sources, Source(broken, namespace="three")], policy=policy) as s:
        assert one.connections + two.connections <= 2
        run = await play(s)
    assert run.said[:3] == ["seen", "got 1", "got 2"]
    assert run.results[3].failure.reason == outcome_pb2.REASON_TOOL_NOT_FOUND
    assert run.reasons, "what the run goes without is told"
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("MATRIX-8")
@pytest.mark.parametrize("name", WIRES)
async def test_a_routed_name_calls_the_native_tool_once(name: str) -> None:
    native = "orders.get/v2"
    shop, other = FakeMcpServer("shop", {native: FakeTool(get)}), FakeMcpServer("other", {native: FakeTool(get)})
    sources = [Source(server.toolset(), namespace=server.server_id) for server in (shop, other)]
    wire = WIRES[name]
    async with served([answer("Hi.")], sources=sources) as s:
        routed = (await play(s)).seen.events[0].run_started.tool_names[0]
    again = [FakeMcpServer(server.server_id, server.tools) for server in (shop, other)]
    sources = [Source(server.toolset(), namespace=server.server_id) for server in again]
    async with over(wire, [wire.answer((routed, '{"id":7}')), wire.answer("Done.")], sources=sources) as line:
        run = await play(line.service)
    assert routed != native
    assert again[0].calls(native) == [{"id": 7}]
    assert again[1].calls(native) == []
    (started,) = [e.tool_call_started for e in run.seen.events if e.HasField("tool_call_started")]
    assert (started.tool.routed_name, started.tool.native_name, started.tool.server_id) == (routed, native, "shop")
    assert run.said == ["got 7"]


@pytest.mark.requirement("MATRIX-9")
@pytest.mark.parametrize("name", WIRES)
async def test_the_step_bound_and_the_output_cap_are_ends_of_their_own(name: str) -> None:
    wire = WIRES[name]
    policy = Policy(loop=LoopPolicy(max_steps=1), output=OutputPolicy(max_output_tokens=64))
    half = wire.open("Half an ans") + wire.end(wire.limit)
    async with over(wire, [wire.answer(("look", "{}")), half], look, policy=policy) as line:
        bound = await play(line.service)
        capped = await play(line.service)
    assert bound.outcome.kind == MAX_STEPS
    assert bound.outcome.limit_trip.policy_path == "loop.max_steps"
    assert bound.said == ["seen"], "the result is kept"
    assert capped.outcome.kind == OUTPUT_LIMIT
    assert capped.outcome.limit_trip.policy_path == "output.max_output_tokens"
    assert capped.text == "Half an ans"


@pytest.mark.requirement("MATRIX-10")
async def test_output_that_is_left_to_the_provider_does_not_unbind_the_loop() -> None:
    native = OutputPolicy(max_output_tokens=LimitMode.PROVIDER_NATIVE)
    policy = Policy(loop=LoopPolicy(max_steps=2), output=native)
    bodies = [CHAT.answer(("work", f'{{"n":{n}}}')) for n in range(2)]

    async def work(n: int) -> str:
        """Work."""
        return f"{n}"

    async with over(CHAT, bodies, work, policy=policy) as line:
        run = await play(line.service)
    assert run.outcome.kind == MAX_STEPS
    assert all("max_tokens" not in body and "max_completion_tokens" not in body for body in line.requests)
    assert len(line.requests) == 2


@pytest.mark.requirement("MATRIX-14")
@policies
async def test_a_reload_in_flight_and_one_after_the_end_give_the_same_trace(policy: Policy) -> None:
    gate = asyncio.Event()

    async def slow() -> str:
        """Wait."""
        await gate.wait()
        return "slow"

    script: list[Sequence[Step]] = [calls(("slow", "{}"), ("look", "{}")), [[TextChunk(0, "Half an ans"), usage()]]]
    async with served(script, slow, look, policy=policy) as s:
        seen, task = s.follow(turn())
        await seen.until("tool_call_executing")
        late = asyncio.create_task(s.watch(seen.run_id))
        gate.set()
        await task
        in_flight = await late
        run = await told(s, seen)
        asked = turn_service_pb2.GetRunRequest(run_id=seen.run_id, include_trace=True)
        read = await s.turns.GetRun(asked, timeout=SECONDS)
        middle = turn_service_pb2.WatchRunRequest(run_id=seen.run_id)
        middle.after.epoch, middle.after.sequence = 1, 3
        rest = [event async for frame in s.turns.WatchRun(middle, timeout=SECONDS) for event in frame.events]
    assert text(in_flight.events) == text(seen.events)
    assert text(rest) == text(seen.events[3:])
    assert in_flight.finished.trace == seen.finished.trace
    assert read.trace.entries == seen.finished.trace.entries
    assert read.run.outcome == run.outcome
    calls_ = [entry for entry in read.trace.entries if entry.HasField("tool_call")]
    assert [entry.tool_call.status for entry in calls_] == [OK, OK]


def text(events: Sequence[event_pb2.RunEvent]) -> list[str]:
    """The events as lines."""
    return lines_of([event_from_pb(event) for event in events])
