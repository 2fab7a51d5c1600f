"""Following a run over connections that break: ``afollow`` and ``follow`` against a scripted server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import grpc
import pytest
from client.scripted import Script, ScriptedTurnService, finished, frame, started, text, waiting

from turnwire import Resume, StreamLost, Update, afollow, follow
from turnwire.v1 import turn_service_pb2_grpc
from turnwire.v1.event_pb2 import Cursor
from turnwire.v1.turn_service_pb2 import (
    ON_WAIT_CLOSE,
    STREAM_DETAIL_MILESTONES,
    RunTurnRequest,
    TurnSpec,
    WatchRunRequest,
)

if TYPE_CHECKING:
    from turnwire.v1.turn_service_pb2_grpc import TurnServiceAsyncStub

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
TURN = RunTurnRequest(turn=TurnSpec(agent_id="assistant"), stream_detail=STREAM_DETAIL_MILESTONES)
Follow = Callable[..., AsyncIterator[Update]]


class Sleeps:
    """Takes the place of sleep and keeps what was asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)

    def blocking(self, seconds: float) -> None:
        self.asked.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture(params=["async", "blocking"])
def followed(
    request: pytest.FixtureRequest, service: ScriptedTurnService, stub: TurnServiceAsyncStub, sleeps: Sleeps
) -> Follow:
    """Either client, seen as the asynchronous one."""

    async def blocking(turn: RunTurnRequest | WatchRunRequest, **options: Resume | float) -> AsyncIterator[Update]:
        def collect() -> tuple[list[Update], Exception | None]:
            updates: list[Update] = []
            with grpc.insecure_channel(service.address) as channel:
                own = turn_service_pb2_grpc.TurnServiceStub(channel)
                try:
                    updates.extend(follow(own, turn, sleep=sleeps.blocking, **options))  # type: ignore[arg-type]
                except (grpc.RpcError, StreamLost) as error:
                    return updates, error
            return updates, None

        updates, error = await asyncio.wait_for(asyncio.to_thread(collect), 10)
        for update in updates:
            yield update
        if error is not None:
            raise error

    def asynchronous(turn: RunTurnRequest | WatchRunRequest, **options: Resume | float) -> AsyncIterator[Update]:
        return afollow(stub, turn, sleep=sleeps, **options)  # type: ignore[arg-type]

    return blocking if request.param == "blocking" else asynchronous


async def sequences(updates: AsyncIterator[Update]) -> list[int]:
    async with asyncio.timeout(10):
        return [event.sequence async for update in updates for event in update.events]


@pytest.mark.requirement("CLIENT-1", "CLIENT-9")
async def test_a_whole_turn_is_one_call(service: ScriptedTurnService, followed: Follow, sleeps: Sleeps) -> None:
    service.scripts = [Script([frame(started(), text(2, "Hel")), frame(), frame(text(3, "lo"), finished(4))])]
    assert await sequences(followed(TURN)) == [1, 2, 3, 4]
    assert len(service.requests) == 1
    assert sleeps.asked == []


@pytest.mark.requirement("CLIENT-1", "CLIENT-9")
async def test_nothing_is_waited_for_after_the_run_has_finished(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [Script([frame(started(), finished(2))], hang=True)]
    assert await sequences(followed(TURN)) == [1, 2]


@pytest.mark.requirement("CLIENT-2", "CLIENT-9")
@pytest.mark.parametrize(
    "end",
    [
        Script(status=UNAVAILABLE),
        Script(status=UNAVAILABLE, details=True),
        Script(status=grpc.StatusCode.INTERNAL),
        Script(status=grpc.StatusCode.CANCELLED),
        Script(),
    ],
    ids=["unavailable", "shutting down", "reset by a proxy", "cancelled by a proxy", "ended without an end"],
)
async def test_a_cut_stream_is_watched_on_from_its_cursor(
    service: ScriptedTurnService, followed: Follow, end: Script
) -> None:
    service.scripts = [
        Script([frame(started(), text(2, "Hel"))], status=end.status, details=end.details),
        Script([frame(text(3, "lo"), finished(4))]),
    ]
    assert await sequences(followed(TURN)) == [1, 2, 3, 4]
    watch = WatchRunRequest(run_id="run-1", after=Cursor(epoch=1, sequence=2), stream_detail=STREAM_DETAIL_MILESTONES)
    assert service.requests[1] == watch


@pytest.mark.requirement("CLIENT-2", "CLIENT-9")
async def test_the_cursor_moves_through_what_the_stream_leaves_out(
    service: ScriptedTurnService, followed: Follow
) -> None:
    service.scripts = [
        Script([frame(started()), frame(epoch=1, through=40)], status=UNAVAILABLE),
        Script([frame(finished(41))]),
    ]
    assert await sequences(followed(TURN)) == [1, 41]
    assert service.requests[1].after == Cursor(epoch=1, sequence=40)


@pytest.mark.requirement("CLIENT-2", "CLIENT-9")
async def test_an_event_that_comes_again_is_not_seen_twice(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [
        Script([frame(started(), text(2, "Hel"))], status=UNAVAILABLE),
        Script([frame(text(2, "Hel"), text(3, "lo"), finished(4))]),
    ]
    assert await sequences(followed(TURN)) == [1, 2, 3, 4]


@pytest.mark.requirement("CLIENT-2", "CLIENT-9")
async def test_watching_goes_on_from_the_cursor_that_was_given(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [
        Script([frame(text(8, "x"), epoch=3)], status=UNAVAILABLE),
        Script([frame(finished(9), epoch=3)]),
    ]
    watch = WatchRunRequest(run_id="run-1", after=Cursor(epoch=3, sequence=7))
    assert await sequences(followed(watch)) == [8, 9]
    assert [request.after.sequence for request in service.requests] == [7, 8]


@pytest.mark.requirement("CLIENT-7", "CLIENT-9")
async def test_a_turn_that_never_began_to_answer_is_sent_again_with_the_same_request_id(
    service: ScriptedTurnService, followed: Follow
) -> None:
    service.scripts = [Script(status=UNAVAILABLE), Script([frame(started(), finished(2))])]
    assert await sequences(followed(TURN)) == [1, 2]
    first, second = service.requests
    assert isinstance(first, RunTurnRequest)
    assert first == second
    assert first.turn.request_id
    assert not TURN.turn.request_id, "the caller's request is not changed"


@pytest.mark.requirement("CLIENT-7")
async def test_a_request_id_of_the_caller_is_kept(service: ScriptedTurnService, stub: TurnServiceAsyncStub) -> None:
    service.scripts = [Script([frame(started(), finished(2))])]
    await sequences(afollow(stub, RunTurnRequest(turn=TurnSpec(request_id="mine"))))
    (request,) = service.requests
    assert isinstance(request, RunTurnRequest)
    assert request.turn.request_id == "mine"


@pytest.mark.requirement("CLIENT-3", "CLIENT-9")
async def test_a_run_that_cannot_be_reached_again_is_lost_with_its_cursor(
    service: ScriptedTurnService, followed: Follow, sleeps: Sleeps
) -> None:
    service.scripts = [Script([frame(started(), text(2, "x"))], status=UNAVAILABLE)] + [Script(status=UNAVAILABLE)] * 3
    with pytest.raises(StreamLost) as caught:
        await sequences(followed(TURN, resume=Resume(attempts=3, initial_delay=1.0, max_delay=2.0)))
    assert (caught.value.run_id, caught.value.cursor) == ("run-1", Cursor(epoch=1, sequence=2))
    assert isinstance(caught.value.__cause__, grpc.RpcError)
    assert len(service.requests) == 4
    assert [0.5 <= seconds <= 2.0 for seconds in sleeps.asked] == [True] * 3


@pytest.mark.requirement("CLIENT-3", "CLIENT-9")
async def test_progress_gives_new_attempts(service: ScriptedTurnService, followed: Follow) -> None:
    cuts = [Script([frame(text(sequence, "x"))], status=UNAVAILABLE) for sequence in range(2, 12)]
    service.scripts = [Script([frame(started())], status=UNAVAILABLE), *cuts, Script([frame(finished(12))])]
    assert await sequences(followed(TURN, resume=Resume(attempts=1))) == list(range(1, 13))


@pytest.mark.requirement("CLIENT-3", "CLIENT-9")
async def test_with_no_attempts_a_cut_is_final(service: ScriptedTurnService, followed: Follow, sleeps: Sleeps) -> None:
    service.scripts = [Script([frame(started())], status=UNAVAILABLE)]
    with pytest.raises(StreamLost):
        await sequences(followed(TURN, resume=Resume(attempts=0)))
    assert sleeps.asked == []


@pytest.mark.requirement("CLIENT-3")
def test_delays_double_up_to_the_longest_and_are_spread() -> None:
    resume = Resume(initial_delay=0.1, max_delay=1.0)
    for failures, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (5_000, 1.0)):
        delays = [resume.delay(failures) for _ in range(50)]
        assert all(longest / 2 <= delay <= longest for delay in delays)
        assert len(set(delays)) > 1


@pytest.mark.requirement("CLIENT-4", "CLIENT-9")
@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.NOT_FOUND, True),
        (grpc.StatusCode.INVALID_ARGUMENT, True),
        (grpc.StatusCode.INTERNAL, True),
        (grpc.StatusCode.OUT_OF_RANGE, True),
        (grpc.StatusCode.PERMISSION_DENIED, False),
    ],
)
async def test_an_answer_of_the_server_is_raised_and_not_asked_for_again(
    service: ScriptedTurnService, followed: Follow, sleeps: Sleeps, code: grpc.StatusCode, details: bool
) -> None:
    service.scripts = [Script([frame(started())], status=code, details=details)]
    with pytest.raises(grpc.RpcError) as caught:
        await sequences(followed(TURN))
    assert caught.value.code() is code
    assert sleeps.asked == []


@pytest.mark.requirement("CLIENT-4", "CLIENT-9")
async def test_the_timeout_is_for_all_calls_together(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [Script([frame(started())], hang=True)]
    with pytest.raises(grpc.RpcError) as caught:
        await sequences(followed(TURN, timeout=0.2))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.requirement("CLIENT-5", "CLIENT-9")
async def test_a_rewind_is_told_and_the_new_events_follow(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [
        Script([frame(started(), text(2, "lost"), text(3, "too"))], status=UNAVAILABLE),
        Script([frame(text(2, "kept"), epoch=2, rewind=1)], status=UNAVAILABLE),
        Script([frame(finished(3), epoch=2)]),
    ]
    async with asyncio.timeout(10):
        updates = [update async for update in followed(TURN)]
    assert [(update.rewind_to, [event.sequence for event in update.events]) for update in updates] == [
        (None, [1, 2, 3]),
        (1, [2]),
        (None, [3]),
    ]
    assert [request.after for request in service.requests[1:]] == [
        Cursor(epoch=1, sequence=3),
        Cursor(epoch=2, sequence=2),
    ]


@pytest.mark.requirement("CLIENT-5", "CLIENT-9")
async def test_a_rewind_without_events_is_told_too(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [
        Script([frame(started(), text(2, "x")), frame(epoch=2, through=1, rewind=1), frame(finished(2))])
    ]
    async with asyncio.timeout(10):
        updates = [update async for update in followed(TURN)]
    assert [update.rewind_to for update in updates] == [None, 1, None]
    assert updates[1].cursor == Cursor(epoch=2, sequence=1)


@pytest.mark.requirement("CLIENT-1", "CLIENT-9")
async def test_a_stream_that_closes_to_wait_is_not_cut(service: ScriptedTurnService, followed: Follow) -> None:
    service.scripts = [Script([frame(started(), waiting(2))])]
    request = RunTurnRequest(turn=TurnSpec(agent_id="assistant"), on_wait=ON_WAIT_CLOSE)
    assert await sequences(followed(request)) == [1, 2]


@pytest.mark.requirement("APPROVE-25")
async def test_what_is_told_while_the_run_waits_does_not_make_the_end_of_its_stream_a_cut(
    service: ScriptedTurnService, followed: Follow
) -> None:
    service.scripts = [Script([frame(started(), waiting(2), text(3, "late"))])]
    request = RunTurnRequest(turn=TurnSpec(agent_id="assistant"), on_wait=ON_WAIT_CLOSE)
    assert await sequences(followed(request)) == [1, 2, 3]


@pytest.mark.requirement("CLIENT-2", "CLIENT-9")
async def test_a_stream_that_was_to_stay_open_while_waiting_is_cut(
    service: ScriptedTurnService, followed: Follow
) -> None:
    service.scripts = [Script([frame(started(), waiting(2))]), Script([frame(finished(3))])]
    assert await sequences(followed(TURN)) == [1, 2, 3]


@pytest.mark.requirement("CLIENT-6")
async def test_leaving_early_cancels_the_call(service: ScriptedTurnService, stub: TurnServiceAsyncStub) -> None:
    service.scripts = [Script([frame(started())], hang=True)]
    async with contextlib.aclosing(afollow(stub, TURN)) as updates:
        async for _ in updates:
            break
    await asyncio.wait_for(service.cancelled.wait(), 10)


@pytest.mark.requirement("CLIENT-6")
async def test_cancelling_the_task_cancels_the_call(service: ScriptedTurnService, stub: TurnServiceAsyncStub) -> None:
    service.scripts = [Script([frame(started())], hang=True)]
    seen = asyncio.Event()

    async def consume() -> None:
        async for _ in afollow(stub, TURN):
            seen.set()

    task = asyncio.create_task(consume())
    await asyncio.wait_for(seen.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(service.cancelled.wait(), 10)
    assert len(service.requests) == 1
