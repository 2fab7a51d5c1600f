"""Frames as a reader in this process takes them: the inverse of ``codec.frame.frame``, in the words of the domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwire.v1 import turn_service_pb2
from turnwired.codec.event import event_from_pb
from turnwired.codec.parse import parse
from turnwired.domain.run import Cursor

if TYPE_CHECKING:
    from turnwired.domain.event import LoggedEvent


@dataclass(frozen=True, slots=True)
class Frame:
    """What one frame says. ``rewind``: what was told after this event never happened, and is to be dropped first."""

    events: tuple[LoggedEvent, ...]
    cursor: Cursor
    rewind: int | None = None


def read_frame(data: bytes) -> Frame:
    """The frame that these bytes are. Raises CodecError."""
    message = parse(turn_service_pb2.RunTurnResponse, data)
    return Frame(
        tuple(event_from_pb(event) for event in message.events),
        Cursor(message.epoch, message.through_sequence),
        message.rewind_to_sequence if message.HasField("rewind_to_sequence") else None,
    )
