"""Callers of the engine in a world that goes step by step: who follows a run, and what became of each turn.

A follower folds frames as a client must, and asserts what each frame promises. It may know the disk's ledgers, which
say what was durable when a frame was sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from engine.disk import Disk
from engine.harness import CALLER
from engine.ledgers import level_of
from turnwire.v1 import event_pb2, turn_service_pb2
from turnwired.codec.frame import Visibility
from turnwired.domain.errors import StoreError, Unavailable
from turnwired.domain.run import Cursor, TurnSpec
from turnwired.engine.live import Accepted
from turnwired.engine.service import Engine


@dataclass(eq=False)
class Follower:
    """Somebody who follows a run, is cut off, and comes back with the cursor. ``slow``: takes frames when told.

    ``cut``: the attachment ended before the run did, in a way that says: come again.
    """

    disk: Disk
    run_id: str
    level: Visibility
    begun: int = 0
    slow: bool = False
    cut: bool = False
    epoch: int = 0
    through: int = 0
    events: list[event_pb2.RunEvent] = field(default_factory=list[event_pb2.RunEvent])
    frames: int = 0
    task: asyncio.Task[None] | None = None
    judged: asyncio.Task[None] | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def attached(self) -> bool:
        """Whether frames may come."""
        return self.task is not None and not self.task.done()

    def attach(self, engine: Engine) -> None:
        """Follow from the cursor, or from where this one is to begin."""
        cursor = Cursor(self.epoch, self.through if self.frames else self.begun)
        self.task = self.disk.loop.create_task(self._follow(engine, cursor))

    async def _follow(self, engine: Engine, cursor: Cursor) -> None:
        self.cut = False
        try:
            await engine.follow(CALLER, self.run_id, cursor, self.level, self._send)
        except (Unavailable, StoreError):
            self.cut = True

    async def _send(self, data: bytes) -> None:
        if self.slow:
            self.gate.clear()
            await self.gate.wait()
        frame = turn_service_pb2.RunTurnResponse.FromString(data)
        ledger = self.disk.ledgers[self.run_id]
        assert frame.epoch >= self.epoch, "a reader is sent back to an earlier epoch"
        if frame.HasField("rewind_to_sequence"):
            assert self.frames, "a reader who has nothing is told to go back"
            assert frame.epoch > self.epoch, "a reader is told to go back within an epoch"
            assert frame.rewind_to_sequence <= self.through, "a reader is told to go back ahead of it"
            self.through = frame.rewind_to_sequence
            self.events = [item for item in self.events if item.sequence <= self.through]
        previous = self.events[-1].sequence if self.events else self.begun
        for event in frame.events:
            level = level_of(event)
            if self.level is Visibility.DELTA:
                assert event.sequence == previous + 1, "a stream has a gap or a repeat"
            assert event.sequence > max(previous, self.through), "a stream goes back without saying so"
            assert level <= self.level, "an event is sent that the stream does not carry"
            if level is not Visibility.DELTA:
                assert event.sequence <= ledger.last, "an event was sent before it was durable"
            previous = event.sequence
        self.events += frame.events
        assert frame.through_sequence >= max(self.through, previous)
        assert frame.last_sequence >= frame.through_sequence
        self.frames += 1
        self.epoch, self.through = frame.epoch, frame.through_sequence

    @property
    def has_all(self) -> bool:
        """Whether it was sent all that is durable and that its stream carries."""
        durable = reversed(self.disk.ledgers[self.run_id].raw)
        last = next((event.sequence for event in durable if level_of(event) <= self.level), 0)
        return max(self.through, self.begun) >= last

    def check(self) -> None:
        """Once an attachment has ended: it was cut, or this one has the durable log to its end."""
        if self.judged is self.task or self.task is None or not self.task.done():
            return
        self.judged = self.task
        if self.cut or self.task.cancelled():
            return
        self.task.result()
        ledger = self.disk.ledgers[self.run_id]
        assert ledger.settled, "a stream ended before the run"
        expected = [event for event in ledger.raw[self.begun :] if level_of(event) <= self.level]
        assert self.events == expected, "a reader and the log tell two stories"


@dataclass(eq=False)
class Turn:
    """What somebody asked for, and what became of it."""

    spec: TurnSpec
    life: int
    task: asyncio.Task[Accepted]
    left: bool = False
    judged: bool = False

    @property
    def accepted(self) -> Accepted | None:
        """The run, once it is accepted."""
        task = self.task
        return task.result() if task.done() and not task.cancelled() and task.exception() is None else None
