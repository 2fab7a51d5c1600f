"""Turns whose questions and tool calls are answered by functions of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from client.scripted import finished, frame, started

from turnwire import ONCE, AsyncClient, Client, Decision, Resume, RunView, TurnwireError, Update, error_of, reject
from turnwire.v1 import turn_service_pb2 as pb
from turnwire.v1 import turn_service_pb2_grpc
from turnwire.v1.approval_pb2 import Approval
from turnwire.v1.event_pb2 import RunEvent, RunWaiting
from turnwire.v1.message_pb2 import (
    TOOL_RESULT_STATUS_ERROR,
    TOOL_RESULT_STATUS_OK,
    ToolCall,
    ToolResult,
)
from turnwire.v1.tool_pb2 import ToolRef

SECONDS = 20.0
QUICK = Resume(attempts=2, initial_delay=0.001, max_delay=0.004)


@dataclass
class Waiting(turn_service_pb2_grpc.TurnServiceServicer):
    """A run that waits for a call of ``weather`` and for an approval, and ends when it has both."""

    address: str = ""
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    answers: list[pb.ResolveApprovalRequest] = field(default_factory=list[pb.ResolveApprovalRequest])
    cancelled: list[str] = field(default_factory=list[str])
    started: list[str] = field(default_factory=list[str])
    refusals: int = 0
    answered: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    on_wait: int = 0

    async def RunTurn(  # noqa: N802 - the contract's name
        self, request: pb.RunTurnRequest, context: Any
    ) -> AsyncIterator[pb.RunTurnResponse]:
        self.on_wait = request.on_wait
        call = ToolCall(call_id="call_1", tool=ToolRef(routed_name="weather"), arguments_json='{"city": "Oslo"}')
        waiting = RunWaiting(client_tool_calls=[call], approvals=[Approval(approval_id="appr_1", call_digest="d1")])
        yield frame(started(), RunEvent(sequence=2, run_waiting=waiting))

    async def WatchRun(  # noqa: N802 - the contract's name
        self, request: pb.WatchRunRequest, context: Any
    ) -> AsyncIterator[pb.WatchRunResponse]:
        for _ in range(2):
            await self.answered.acquire()
        yield pb.WatchRunResponse.FromString(frame(finished(request.after.sequence + 1, "Done.")).SerializeToString())

    async def SubmitToolResults(  # noqa: N802 - the contract's name
        self, request: pb.SubmitToolResultsRequest, context: Any
    ) -> pb.SubmitToolResultsResponse:
        self.results += request.results
        self.answered.release()
        return pb.SubmitToolResultsResponse()

    async def ResolveApproval(  # noqa: N802 - the contract's name
        self, request: pb.ResolveApprovalRequest, context: Any
    ) -> pb.ResolveApprovalResponse:
        self.answers.append(request)
        self.answered.release()
        return pb.ResolveApprovalResponse()

    async def CancelRun(  # noqa: N802 - the contract's name
        self, request: pb.CancelRunRequest, context: Any
    ) -> pb.CancelRunResponse:
        self.cancelled.append(request.run_id)
        return pb.CancelRunResponse()

    async def StartTurn(  # noqa: N802 - the contract's name
        self, request: pb.StartTurnRequest, context: Any
    ) -> pb.StartTurnResponse:
        self.started.append(request.turn.request_id)
        if len(self.started) <= self.refusals:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return pb.StartTurnResponse(run_id="run_1")


@asynccontextmanager
async def waiting_run(**more: Any) -> AsyncIterator[tuple[Waiting, AsyncClient]]:
    """A server with such a run, and a client of it."""
    served = Waiting(**more)  # type: ignore[abstract]  # the rest answers UNIMPLEMENTED
    server = grpc.aio.server()
    turn_service_pb2_grpc.add_TurnServiceServicer_to_server(served, server)
    served.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        async with AsyncClient(served.address, resume=QUICK) as client, asyncio.timeout(SECONDS):
            yield served, client
    finally:
        await server.stop(0.1)


def sunny(city: str) -> dict[str, str]:
    """Not async: it runs in a thread."""
    return {"city": city}


async def rainy(city: str) -> str:
    """Text is sent as text."""
    return f"rain in {city}"


@pytest.mark.requirement("CLIENT-9", "CLIENT-12")
@pytest.mark.parametrize(
    ("tool", "status", "content"),
    [
        (sunny, TOOL_RESULT_STATUS_OK, '{"city": "Oslo"}'),
        (rainy, TOOL_RESULT_STATUS_OK, "rain in Oslo"),
        (lambda place: place, TOOL_RESULT_STATUS_ERROR, "unexpected keyword argument"),
        (lambda city: city.no_such, TOOL_RESULT_STATUS_ERROR, "no_such"),
        (lambda city: {city}, TOOL_RESULT_STATUS_ERROR, "not JSON serializable"),
    ],
)
async def test_functions_answer_calls_and_approvals_and_the_run_goes_on(tool: Any, status: int, content: str) -> None:
    async with waiting_run() as (served, client):
        view = await client.run(pb.RunTurnRequest(), tools={"weather": tool}, approve=lambda _: reject("no"))
        assert view.text == "Done."
        assert served.on_wait == pb.ON_WAIT_CLOSE
        (result,) = served.results
        part = result.content[0]
        assert (result.call_id, result.status) == ("call_1", status)
        assert content in (part.text or part.data_json)
        assert [(answer.call_digest, answer.comment) for answer in served.answers] == [("d1", "no")]
        assert served.cancelled == []


@pytest.mark.requirement("CLIENT-12")
async def test_what_nothing_can_answer_is_returned_and_the_run_is_left_waiting() -> None:
    async with waiting_run() as (served, client):
        view = await client.run(pb.RunTurnRequest())
        assert view.waiting is not None
        assert (len(view.waiting.client_tool_calls), len(view.waiting.approvals)) == (1, 1)
        assert served.cancelled == []


@pytest.mark.requirement("CLIENT-13")
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("how", ["cancelled", "deadline"])
async def test_the_end_of_the_caller_ends_its_functions_and_the_run(keeps: bool, how: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hangs(city: str) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return city

    request = pb.RunTurnRequest(on_disconnect=pb.ON_DISCONNECT_CONTINUE if keeps else pb.ON_DISCONNECT_CANCEL)
    async with waiting_run() as (served, client):
        limit = 0.5 if how == "deadline" else None
        task = asyncio.create_task(client.run(request, tools={"weather": hangs}, timeout=limit))
        await begun.wait()
        if how == "cancelled":
            task.cancel()
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else grpc.aio.AioRpcError):
            await task
        assert ended.is_set()
        assert served.cancelled == ([] if keeps else [started().run_started.run_id])


@pytest.mark.requirement("CLIENT-14")
async def test_what_the_callback_raises_ends_the_call_with_it() -> None:
    def nobody(approval: Approval) -> Decision:
        raise LookupError("nobody to ask")

    async with waiting_run() as (served, client):
        with pytest.raises(LookupError, match="nobody"):
            await client.run(pb.RunTurnRequest(), tools={"weather": sunny}, approve=nobody)
        assert served.cancelled == [started().run_started.run_id]


@pytest.mark.requirement("CLIENT-14")
@pytest.mark.parametrize("error", [LookupError("no window"), TurnwireError(grpc.StatusCode.NOT_FOUND, "no", "WINDOW")])
async def test_what_is_raised_where_updates_are_shown_ends_the_call_and_a_run_that_waits(error: Exception) -> None:
    def shows(update: Update, view: RunView) -> None:
        if view.waiting is not None:
            raise error

    async with waiting_run() as (served, client):
        with pytest.raises(type(error)):
            await client.run(pb.RunTurnRequest(), tools={"weather": sunny}, on_update=shows)
        assert served.cancelled == [started().run_started.run_id]


@pytest.mark.requirement("CLIENT-9")
async def test_the_blocking_client_answers_too() -> None:
    async with waiting_run() as (served, _):
        blocking = Client(served.address, resume=QUICK)
        seen: list[int] = []
        view = await asyncio.to_thread(
            lambda: blocking.run(
                pb.RunTurnRequest(),
                tools={"weather": sunny},
                approve=lambda _: ONCE,
                on_update=lambda update, _: seen.append(len(update.events)),
            )
        )
        assert (view.text, seen) == ("Done.", [2, 1])
        assert (await asyncio.to_thread(blocking.start_turn, pb.StartTurnRequest())).run_id == "run_1"


@pytest.mark.requirement("CLIENT-15")
async def test_starting_a_turn_is_tried_again_under_one_request_id_while_nobody_answers() -> None:
    async with waiting_run(refusals=2) as (served, client):
        assert (await client.start_turn(pb.StartTurnRequest())).run_id == "run_1"
        assert len(served.started) == 3
        assert len(set(served.started)) == 1
        assert served.started[0]


@pytest.mark.requirement("CLIENT-4")
def test_an_error_that_no_server_made_is_none_of_its() -> None:
    assert error_of(grpc.RpcError()) is None
    told = TurnwireError(grpc.StatusCode.NOT_FOUND, "No agent.", "AGENT_NOT_FOUND")
    assert str(told) == "NOT_FOUND (AGENT_NOT_FOUND): No agent."
