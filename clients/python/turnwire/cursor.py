"""Where a reader of a run stands, and what a stream that ended means for it.

All rules of resuming, without a network, a clock or a task, so that the blocking and the asynchronous ``follow`` share
them. It knows the messages of the contract and status codes, and nothing of calls.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from turnwire.v1.event_pb2 import Cursor, RunEvent
from turnwire.v1.turn_service_pb2 import (
    ON_WAIT_CLOSE,
    RunTurnRequest,
    RunTurnResponse,
    WatchRunRequest,
    WatchRunResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

DETAILS_KEY = "grpc-status-details-bin"
"""Trailing metadata that every error of a Turnwire server has, and an error made on the way to it has not."""

CUT_ON_THE_WAY = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
"""What proxies and transports say of a connection that broke. From the server itself these are answers."""


@dataclass(frozen=True, slots=True)
class Resume:
    """How often and how fast a cut stream is taken up again.

    ``attempts`` counts calls in a row that bring nothing new; 0 never resumes. The delay before the n-th such attempt
    is ``initial_delay * 2**(n-1)`` seconds, at most ``max_delay``, and shortened by a random part of up to half.
    """

    attempts: int = 8
    initial_delay: float = 0.1
    max_delay: float = 5.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many calls in a row that brought nothing, from 1."""
        longest = min(self.initial_delay * 2.0 ** min(failures - 1, 30), self.max_delay)
        return longest * (1 - random.random() / 2)  # noqa: S311 - spreads load, hides nothing


@dataclass(frozen=True, slots=True)
class Update:
    """What one frame brought.

    ``rewind_to``: when not None, first discard every event after this sequence number: the run was taken over by
    another server, and those events never became part of it. ``events`` may be empty. ``cursor`` is the place after
    them.
    """

    events: Sequence[RunEvent]
    rewind_to: int | None
    cursor: Cursor


class StreamLost(Exception):
    """The stream was cut and could not be taken up again in the attempts allowed. The run may still go on.

    ``run_id`` is None when the server never told it. With ``cursor`` a later WatchRun goes on where this one stopped.
    """

    def __init__(self, run_id: str | None, cursor: Cursor, why: str = "") -> None:
        told = f" ({why})" if why else ""
        if run_id is None:
            super().__init__(f"no stream was begun: the server could not be reached{told}")
        else:
            super().__init__(f"run {run_id}: cut after event {cursor.sequence} and not resumed{told}")
        self.run_id = run_id
        self.cursor = cursor


class Reader:
    """Reads one run through any number of calls.

    ``request()`` says what to call; ``apply(frame)`` takes what it brings; ``cut()`` and ``failed(error)`` say what its
    end means.
    """

    def __init__(self, request: RunTurnRequest | WatchRunRequest, resume: Resume) -> None:
        self._resume = resume
        self._turn: RunTurnRequest | None = None
        self._run_id: str | None = None
        if isinstance(request, RunTurnRequest):
            self._turn = RunTurnRequest()
            self._turn.CopyFrom(request)
            # Without a key, trying again before the first answer could start a second run.
            self._turn.turn.request_id = request.turn.request_id or str(uuid.uuid4())
        else:
            self._run_id = request.run_id
        self._detail, self._on_wait = request.stream_detail, request.on_wait
        self._epoch, self._sequence = request.after.epoch, request.after.sequence
        self._failures = 0
        self._waiting = False
        self._at_end = self._sequence > 0  # perhaps: until a frame comes
        self.finished = False

    @property
    def run_id(self) -> str | None:
        """The run, once it is known."""
        return self._run_id

    @property
    def cursor(self) -> Cursor:
        """Where the reader stands."""
        return Cursor(epoch=self._epoch, sequence=self._sequence)

    def request(self) -> RunTurnRequest | WatchRunRequest:
        """The next call: RunTurn until the run is known, then WatchRun. Both go on after the cursor."""
        if self._turn is not None and self._run_id is None:
            if self._sequence:
                self._turn.after.CopyFrom(self.cursor)
            return self._turn
        return WatchRunRequest(
            run_id=self._run_id or "", after=self.cursor, stream_detail=self._detail, on_wait=self._on_wait
        )

    def apply(self, frame: RunTurnResponse | WatchRunResponse) -> Update | None:
        """What the frame brings; None for a heartbeat that brings nothing."""
        self._at_end = False
        rewind_to = frame.rewind_to_sequence if frame.HasField("rewind_to_sequence") else None
        if rewind_to is not None:
            self._sequence = min(self._sequence, rewind_to)
        before = (self._epoch, self._sequence)
        events = [event for event in frame.events if event.sequence > self._sequence]
        for event in events:
            self._sequence = event.sequence
            self._see(event)
        self._epoch = frame.epoch or self._epoch
        self._sequence = max(self._sequence, frame.through_sequence)
        if (self._epoch, self._sequence) != before:
            self._failures = 0
        if not events and rewind_to is None:
            return None
        return Update(events, rewind_to, self.cursor)

    def cut(self) -> float | None:
        """The call ended with OK. None when that was its proper end, else the seconds until the next one.

        Raises StreamLost when there is to be none. A reader that begins after the last event is sent no frame: OK is
        then all that is left to say.
        """
        if self.finished or self._at_end or (self._waiting and self._on_wait == ON_WAIT_CLOSE):
            return None
        return self._next_delay()

    def failed(self, error: grpc.RpcError) -> float:
        """The call ended with an error: the seconds until the next one. Raises StreamLost from it, or the error itself
        when calling again would only bring it again.
        """
        if not _is_cut(error):
            raise error
        try:
            return self._next_delay(_words(error))
        except StreamLost as lost:
            raise lost from error

    def _next_delay(self, why: str = "") -> float:
        self._failures += 1
        if self._failures > self._resume.attempts:
            raise StreamLost(self._run_id, self.cursor, why)
        return self._resume.delay(self._failures)

    def _see(self, event: RunEvent) -> None:
        case = event.WhichOneof("event")
        if case == "run_waiting":
            self._waiting = True  # until it goes on: more may be told meanwhile
        elif case == "run_resumed":
            self._waiting = False
        elif case == "run_started":
            self._run_id = event.run_started.run_id
        elif case == "run_finished":
            self.finished = True


def _is_cut(error: grpc.RpcError) -> bool:
    """Whether an error says that the connection broke, rather than what the server thinks of the call."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return False
    code = error.code()
    if code is grpc.StatusCode.UNAVAILABLE:
        return True
    details = any(key == DETAILS_KEY for key, _ in error.trailing_metadata() or ())
    return code in CUT_ON_THE_WAY and not details


def _words(error: grpc.RpcError) -> str:
    """Code and details of an error of a call, which every error of a call has."""
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    details = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    return f"{code.name}: {details}" if code is not None else str(error)
