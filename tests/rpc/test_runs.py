"""Runs over the wire: streams, watchers, repeats, cancels and cuts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from engine.harness import LIMIT
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from rpc.server import SECONDS, Connected, connected, details, prompt

from turnwire.v1 import event_pb2, outcome_pb2, run_pb2, turn_service_pb2
from turnwired.domain.failure import Reason
from turnwired.rpc.auth import Gate
from turnwired.rpc.turn_service import TurnService
from turnwired.testing.provider import Step, answer, calls, fails
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

Frame = turn_service_pb2.RunTurnResponse | turn_service_pb2.WatchRunResponse


def events_of(frames: Sequence[Frame]) -> list[event_pb2.RunEvent]:
    """All events of the frames."""
    return [event for frame in frames for event in frame.events]


def outcome_of(frames: Sequence[Frame]) -> outcome_pb2.Outcome:
    """How the run ended."""
    return events_of(frames)[-1].run_finished.outcome


async def settled(c: Connected, run_id: str) -> turn_service_pb2.GetRunResponse:
    """The run once it has settled."""
    async with asyncio.timeout(LIMIT):
        watch = turn_service_pb2.WatchRunRequest(run_id=run_id, stream_detail=turn_service_pb2.STREAM_DETAIL_OUTCOME)
        async for _ in c.turns.WatchRun(watch):
            pass
        return await c.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id, include_trace=True))


async def endless(invocation: ToolInvocation) -> str:
    """A tool that only ends when it is cancelled."""
    await asyncio.Event().wait()
    return ""


@pytest.mark.requirement("RPC-10")
async def test_run_turn_streams_dense_events_and_ends_with_ok_after_run_finished() -> None:
    async with connected([answer("Hel", "lo")]) as c:
        frames = await c.run(prompt())
    assert [event.sequence for event in events_of(frames)] == list(range(1, len(events_of(frames)) + 1))
    assert outcome_of(frames).kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert frames[-1].through_sequence == frames[-1].last_sequence == events_of(frames)[-1].sequence
    assert {frame.epoch for frame in frames} == {1}


@pytest.mark.requirement("RPC-11")
async def test_start_turn_returns_ids_at_once_and_the_run_goes_on_without_a_stream() -> None:
    gate = asyncio.Event()
    async with connected([[gate.wait, *answer("Later.")]]) as c:
        request = turn_service_pb2.StartTurnRequest(turn=prompt(session_id="s1").turn)
        started = await c.turns.StartTurn(request, timeout=SECONDS)
        assert started.session_id == "s1"
        assert len(started.message_ids) == 1
        run = await c.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=started.run_id), timeout=SECONDS)
        assert run.run.state == run_pb2.RUN_STATE_RUNNING
        gate.set()
        done = await settled(c, started.run_id)
    assert done.run.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert done.message.parts[0].text == "Later."
    assert done.trace.entries[0].iteration.parts[0].text == "Later."


@pytest.mark.requirement("RPC-22")
async def test_a_run_is_read_whole_while_it_goes_on_and_after_it() -> None:
    gate = asyncio.Event()

    async def wait(invocation: ToolInvocation) -> str:
        await gate.wait()
        return "ok"

    async with connected([calls(("wait", "{}")), answer("done")], {"wait": wait}) as c:
        request = prompt(session_id="s")
        request.turn.labels["team"] = "a"
        stream = aiter(c.turns.RunTurn(request, timeout=SECONDS))
        frames: list[Frame] = [await anext(stream)]
        while not any(event.HasField("tool_call_executing") for event in frames[-1].events):
            frames.append(await anext(stream))
        ask = turn_service_pb2.GetRunRequest(run_id=events_of(frames)[0].run_started.run_id)
        during = (await c.turns.GetRun(ask, timeout=SECONDS)).run
        gate.set()
        frames += [frame async for frame in stream]
        answered = await c.turns.GetRun(ask, timeout=SECONDS)
        after, message = answered.run, answered.message
    first = next(event.iteration_finished for event in events_of(frames) if event.HasField("iteration_finished"))
    assert during.state == run_pb2.RUN_STATE_RUNNING
    assert during.usage == first.usage
    assert during.usage.output_tokens > 0
    assert after.usage == events_of(frames)[-1].run_finished.usage
    for run in (during, after):
        assert run.agent_revision == 1
        assert run.create_time.ToNanoseconds() <= run.start_time.ToNanoseconds() > 0
        assert (run.session_id, run.agent_id, dict(run.labels)) == ("s", "default", {"team": "a"})
        assert (run.model.provider, run.model.model) == ("scripted", "scripted-model")
    assert message.create_time == after.settle_time
    assert message == events_of(frames)[-1].run_finished.message
    assert after.settle_time.ToNanoseconds() >= after.start_time.ToNanoseconds()


@pytest.mark.requirement("RPC-12")
async def test_a_repeated_request_id_attaches_to_the_run_and_a_reused_one_is_refused() -> None:
    async with connected([answer("once")]) as c:
        first = events_of(await c.run(prompt(request_id="r-1")))
        again = events_of(await c.run(prompt(request_id="r-1")))
        assert again == first
        assert len(c.world.provider.requests) == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(prompt("something else", request_id="r-1"))
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        info, _ = details(caught.value)
        assert info.reason == "REQUEST_ID_REUSED"
        assert info.metadata["run_id"] == first[0].run_started.run_id


@pytest.mark.requirement("RPC-13", "SCN-115")
async def test_a_second_turn_of_a_busy_session_is_refused_with_the_active_run_and_leaves_no_trace() -> None:
    gate = asyncio.Event()
    async with connected([[gate.wait, *answer("A1")], answer("B1")]) as c:
        request = turn_service_pb2.StartTurnRequest(turn=prompt("A", session_id="s").turn)
        started = await c.turns.StartTurn(request, timeout=SECONDS)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(prompt("B", session_id="s"))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        info, _ = details(caught.value)
        assert (info.reason, info.metadata["active_run_id"]) == ("SESSION_BUSY", started.run_id)
        gate.set()
        await settled(c, started.run_id)
        await c.run(prompt("B", session_id="s"))
        said = [message["parts"] for message in c.world.provider.messages(1)[1:]]
    assert said == [["A"], ["A1"], ["B"]]


@pytest.mark.requirement("RPC-14")
async def test_two_watchers_at_different_points_see_the_same_log() -> None:
    gate = asyncio.Event()
    async with connected([[*answer("one ", "two ")[:2], gate.wait, *answer("three")]]) as c:
        stream = aiter(c.turns.RunTurn(prompt(), timeout=SECONDS))
        first = await anext(stream)
        run_id = first.events[0].run_started.run_id
        frames = [first]

        async def watch(after: event_pb2.Cursor | None) -> list[event_pb2.RunEvent]:
            request = turn_service_pb2.WatchRunRequest(run_id=run_id, after=after)
            return events_of([frame async for frame in c.turns.WatchRun(request, timeout=SECONDS)])

        early = asyncio.create_task(watch(None))
        while not any(event.HasField("text_delta") for event in events_of(frames)):
            frames.append(await anext(stream))
        middle = event_pb2.Cursor(epoch=1, sequence=frames[-1].through_sequence)
        late = asyncio.create_task(watch(middle))
        gate.set()
        frames += [frame async for frame in stream]
        log = events_of(frames)
        assert await early == log
        assert await late == [event for event in log if event.sequence > middle.sequence]
        assert await watch(None) == log


@pytest.mark.requirement("RPC-15")
async def test_filtered_streams_keep_their_cursor_and_leave_out_only_deltas() -> None:
    async with connected([calls(("noop", "{}")), answer("done")], {"noop": _ok}) as c:
        request = prompt()
        everything = events_of(await c.run(request))
        run_id = everything[0].run_started.run_id
        watch = turn_service_pb2.WatchRunRequest(run_id=run_id)
        watch.stream_detail = turn_service_pb2.STREAM_DETAIL_MILESTONES
        milestones = [frame async for frame in c.turns.WatchRun(watch, timeout=SECONDS)]
        watch.stream_detail = turn_service_pb2.STREAM_DETAIL_OUTCOME
        ends = [frame async for frame in c.turns.WatchRun(watch, timeout=SECONDS)]
    deltas = {"text_delta", "tool_call_arguments_delta"}
    kept = [event for frame in milestones for event in frame.events]
    assert kept == [event for event in everything if event.WhichOneof("event") not in deltas]
    assert milestones[-1].through_sequence == everything[-1].sequence
    assert [event.WhichOneof("event") for frame in ends for event in frame.events] == ["run_started", "run_finished"]


async def _ok(invocation: ToolInvocation) -> str:
    return "ok"


@pytest.mark.requirement("RPC-16", "SCN-098")
async def test_cancel_during_a_retry_wait_ends_the_run_without_another_request() -> None:
    script: list[Sequence[Step]] = [
        [fails(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=SECONDS / 2)],
        answer("never"),
    ]
    async with connected(script) as c:
        stream = aiter(c.turns.RunTurn(prompt(), timeout=SECONDS))
        frames: list[Frame] = []
        while not any(event.HasField("iteration_retry_scheduled") for event in events_of(frames)):
            frames.append(await anext(stream))
        run_id = events_of(frames)[0].run_started.run_id
        for _ in range(2):  # idempotent
            await c.turns.CancelRun(turn_service_pb2.CancelRunRequest(run_id=run_id, comment="enough"), timeout=SECONDS)
        frames += [frame async for frame in stream]
        assert len(c.world.provider.requests) == 1
    assert outcome_of(frames).kind == outcome_pb2.OUTCOME_KIND_ABORTED
    assert outcome_of(frames).failure.reason == outcome_pb2.REASON_CANCELLED
    assert "enough" in outcome_of(frames).failure.message


@pytest.mark.requirement("CRED-3")
async def test_a_retry_that_the_callers_deadline_leaves_no_time_for_fails_at_once_unless_the_run_goes_on() -> None:
    async with connected([[fails(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=SECONDS * 2)]] * 2) as c:
        frames = [frame async for frame in c.turns.RunTurn(prompt(), timeout=SECONDS)]
        assert outcome_of(frames).failure.reason == outcome_pb2.REASON_PROVIDER_RATE_LIMITED
        assert "would outlast" in outcome_of(frames).failure.message
        request = prompt()
        request.on_disconnect = turn_service_pb2.ON_DISCONNECT_CONTINUE
        stream = c.turns.RunTurn(request, timeout=SECONDS)
        async for frame in stream:
            if any(event.HasField("iteration_retry_scheduled") for event in frame.events):
                break
        else:
            raise AssertionError("the run that goes on without its caller did not wait")
        stream.cancel()


@pytest.mark.requirement("RPC-17", "SCN-096")
@pytest.mark.parametrize("policy", ["default", "continue", "session"])
async def test_a_cut_stream_cancels_a_stateless_run_unless_it_may_go_on(policy: str) -> None:
    gate = asyncio.Event()
    async with connected([[*answer("begun ")[:1], gate.wait, *answer("done")]]) as c:
        request = prompt()
        if policy == "continue":
            request.on_disconnect = turn_service_pb2.ON_DISCONNECT_CONTINUE
        if policy == "session":
            request.turn.session_id = "s"
        call = c.turns.RunTurn(request, timeout=SECONDS)
        stream = aiter(call)
        frame = await anext(stream)
        run_id = frame.events[0].run_started.run_id
        while not any(event.HasField("text_delta") for event in frame.events):
            frame = await anext(stream)
        call.cancel()
        if policy != "default":
            gate.set()
        done = await settled(c, run_id)
        closed = c.world.provider.closed
    if policy == "default":
        assert done.run.outcome.kind == outcome_pb2.OUTCOME_KIND_ABORTED
        assert done.run.outcome.failure.reason == outcome_pb2.REASON_CALLER_DISCONNECTED
        assert closed == 1
    else:
        assert done.run.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


class Gone:
    """The context of a call that has ended: a write is where that is noticed first."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def write(self, frame: bytes) -> None:
        self.written.append(frame)
        raise grpc.aio.InternalError("the call has ended")

    def time_remaining(self) -> float | None:
        return None


@pytest.mark.requirement("RPC-17")
async def test_a_write_that_finds_the_caller_gone_is_a_cut_stream_and_no_fault_of_ours() -> None:
    async with connected([calls(("endless", "{}"))], {"endless": endless}) as c:
        gone: Any = Gone()
        Gate().admit(gone)
        with pytest.raises(asyncio.CancelledError):
            await TurnService(c.world.engine).run_turn(prompt(), gone)
        first = turn_service_pb2.RunTurnResponse.FromString(gone.written[0]).events[0]
        done = await settled(c, first.run_started.run_id)
    assert done.run.outcome.failure.reason == outcome_pb2.REASON_CALLER_DISCONNECTED


@pytest.mark.requirement("RPC-18")
async def test_the_deadline_of_the_call_is_a_limit_of_the_run_and_not_an_error() -> None:
    async with connected([calls(("endless", "{}"))], {"endless": endless}) as c:
        stream = aiter(c.turns.RunTurn(prompt(), timeout=0.5))
        first = await anext(stream)
        run_id = first.events[0].run_started.run_id
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in stream:
                pass
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        done = await settled(c, run_id)
    assert done.run.outcome.kind == outcome_pb2.OUTCOME_KIND_BUDGET_EXCEEDED
    assert done.run.outcome.limit_trip.policy_path == "deadline"


@pytest.mark.requirement("RPC-19")
async def test_runs_are_listed_newest_first_in_pages_and_by_label() -> None:
    async with connected([answer(str(index)) for index in range(5)]) as c:
        for index in range(5):
            request = prompt()
            request.turn.labels["parity"] = "even" if index % 2 == 0 else "odd"
            await c.run(request)
        seen = []
        token = ""
        while True:
            page = await c.turns.ListRuns(
                turn_service_pb2.ListRunsRequest(page_size=2, page_token=token), timeout=SECONDS
            )
            assert len(page.runs) <= 2
            seen += [run.run_id for run in page.runs]
            token = page.next_page_token
            if not token:
                break
        odd = await c.turns.ListRuns(turn_service_pb2.ListRunsRequest(labels={"parity": "odd"}), timeout=SECONDS)
    assert len(seen) == len(set(seen)) == 5
    assert [run.labels["parity"] for run in odd.runs] == ["odd", "odd"]
    assert all(run.state == run_pb2.RUN_STATE_SETTLED for run in odd.runs)


@pytest.mark.requirement("RPC-20")
async def test_health_and_reflection_are_on() -> None:
    async with connected([]) as c:
        health: Any = health_pb2_grpc.HealthStub(c.channel)
        for name in ("", "turnwire.v1.TurnService"):
            answer_ = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
            assert answer_.status == health_pb2.HealthCheckResponse.SERVING
        stub: Any = reflection_pb2_grpc.ServerReflectionStub
        reflection = stub(c.channel)
        call: Any = reflection.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=SECONDS
        )
        services = [service.name async for reply in call for service in reply.list_services_response.service]
    assert {"turnwire.v1.TurnService", "turnwire.v1.SessionService", "grpc.health.v1.Health"} <= set(services)


@pytest.mark.requirement("RPC-21")
@pytest.mark.parametrize("size", [1, 3])
async def test_a_stopping_server_refuses_new_runs_and_settles_those_in_flight(size: int) -> None:
    async with connected([calls(("endless", "{}"))] * size, {"endless": endless}) as c:
        streams = [aiter(c.turns.RunTurn(prompt(), timeout=SECONDS)) for _ in range(size)]
        for stream in streams:
            await anext(stream)
        stopping = asyncio.create_task(c.world.engine.stop(0.05))
        while not c.world.engine.stopping:  # noqa: ASYNC110 - one turn of the loop is all it takes
            await asyncio.sleep(0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(prompt())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert details(caught.value)[0].reason == "SHUTTING_DOWN"
        for stream in streams:
            frames = [frame async for frame in stream]
            assert outcome_of(frames).failure.reason == outcome_pb2.REASON_SHUTTING_DOWN
        await stopping
