"""A TurnService that plays one script per call, and the frames to write scripts with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from turnwire.v1 import outcome_pb2, turn_service_pb2_grpc
from turnwire.v1.event_pb2 import RunEvent, RunWaiting
from turnwire.v1.message_pb2 import ROLE_ASSISTANT
from turnwire.v1.turn_service_pb2 import RunTurnRequest, RunTurnResponse, WatchRunRequest, WatchRunResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import grpc

DETAILS = ("grpc-status-details-bin", b"what the server thinks of it")


@dataclass
class Script:
    """The frames of one call and how it ends: with OK, with a status, or not at all."""

    frames: Sequence[RunTurnResponse] = ()
    status: grpc.StatusCode | None = None
    details: bool = False
    hang: bool = False


@dataclass
class ScriptedTurnService(turn_service_pb2_grpc.TurnServiceServicer):
    """Plays ``scripts`` in order, one per call, and keeps the requests."""

    scripts: list[Script] = field(default_factory=list[Script])
    requests: list[RunTurnRequest | WatchRunRequest] = field(default_factory=list[RunTurnRequest | WatchRunRequest])
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""

    async def RunTurn(  # noqa: N802 - the contract's name
        self, request: RunTurnRequest, context: Any
    ) -> AsyncIterator[RunTurnResponse]:
        async for frame in self._play(request, context):
            yield frame

    async def WatchRun(  # noqa: N802 - the contract's name
        self, request: WatchRunRequest, context: Any
    ) -> AsyncIterator[WatchRunResponse]:
        async for frame in self._play(request, context):
            yield WatchRunResponse.FromString(frame.SerializeToString())

    async def _play(self, request: RunTurnRequest | WatchRunRequest, context: Any) -> AsyncIterator[RunTurnResponse]:
        script = self.scripts[len(self.requests)]
        self.requests.append(request)
        for frame in script.frames:
            yield frame
        if script.hang:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        if script.status is not None:
            if script.details:
                context.set_trailing_metadata((DETAILS,))
            await context.abort(script.status, "as the script says")


def started(sequence: int = 1) -> RunEvent:
    event = RunEvent(sequence=sequence)
    event.run_started.run_id = "run-1"
    return event


def text(sequence: int, words: str, iteration: int = 1) -> RunEvent:
    event = RunEvent(sequence=sequence, iteration=iteration)
    event.text_delta.part_id = f"part-{iteration}"
    event.text_delta.text = words
    return event


def waiting(sequence: int) -> RunEvent:
    return RunEvent(sequence=sequence, run_waiting=RunWaiting())


def finished(sequence: int, words: str = "") -> RunEvent:
    event = RunEvent(sequence=sequence)
    event.run_finished.outcome.kind = outcome_pb2.OUTCOME_KIND_ANSWERED
    if words:
        event.run_finished.message.role = ROLE_ASSISTANT
        event.run_finished.message.parts.add(text=words)
    return event


def frame(*events: RunEvent, epoch: int = 1, through: int | None = None, rewind: int | None = None) -> RunTurnResponse:
    """A frame that is complete through its last event unless told otherwise."""
    through = through if through is not None else events[-1].sequence if events else 0
    out = RunTurnResponse(events=events, epoch=epoch, through_sequence=through, last_sequence=through)
    if rewind is not None:
        out.rewind_to_sequence = rewind
    return out
