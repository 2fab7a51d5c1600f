"""Records and frames: the bytes of the log, joined and split without looking at what the events say.

A record is one event as one element of the field ``events`` of a frame: tag, length, RunEvent. Records joined are the
body of a stored row, and, with the frame's own numbers after them, a RunTurnResponse or WatchRunResponse.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from turnwire.v1 import event_pb2, turn_service_pb2
from turnwired.codec.parse import parse
from turnwired.domain.errors import CodecError

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD_TAG: Final = 0x0A  # field 1, length-delimited
_EPOCH: Final = b"\x10"
_THROUGH: Final = b"\x18"
_REWIND: Final = b"\x20"
_LAST: Final = b"\x28"

_SHORT: Final = tuple(bytes((value,)) for value in range(128))
SHORT_HEADERS: Final = tuple(bytes((RECORD_TAG, length)) for length in range(128))
"""Tag and length of records under 128 bytes, which nearly every delta is."""


class Visibility(IntEnum):
    """Which streams an event is for: one sees an event when its own level is at least the event's.

    The levels are those of the contract's StreamDetail, coarsest first.
    """

    OUTCOME = 1
    MILESTONE = 2
    DELTA = 3


_VISIBILITY: Final = {
    "run_started": Visibility.OUTCOME,
    "run_waiting": Visibility.OUTCOME,
    "run_finished": Visibility.OUTCOME,
    "text_delta": Visibility.DELTA,
    "reasoning_delta": Visibility.DELTA,
    "tool_call_arguments_delta": Visibility.DELTA,
    "tool_call_progressed": Visibility.DELTA,
}


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a row and what a stream must know to send it or leave it out."""

    sequence: int
    visibility: Visibility
    data: bytes


def varint(value: int) -> bytes:
    """A protobuf varint. Raises ValueError below 0: nothing in a frame is."""
    if value < 0:
        raise ValueError(f"{value} is negative")
    if value < 128:
        return _SHORT[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def record_header(length: int) -> bytes:
    """Tag and length in front of a RunEvent of ``length`` bytes."""
    return SHORT_HEADERS[length] if length < 128 else b"\x0a" + varint(length)


def frame(records: Sequence[bytes], epoch: int, through: int, last: int, rewind: int | None = None) -> bytes:
    """A RunTurnResponse or WatchRunResponse. Without records it is a heartbeat.

    ``through``: the stream has all of the log that its detail lets through, up to this sequence. ``last``: newest
    event of the run. ``rewind``: the reader must drop what it has after this sequence.
    """
    parts = list(records)
    through_bytes = varint(through)
    if epoch:
        parts += (_EPOCH, varint(epoch))
    if through:
        parts += (_THROUGH, through_bytes)
    if rewind is not None:
        parts += (_REWIND, varint(rewind))
    if last:
        # A reader that keeps up, as nearly all do, has all there is.
        parts += (_LAST, through_bytes if last == through else varint(last))
    return b"".join(parts)


def events_of(body: bytes) -> Sequence[event_pb2.RunEvent]:
    """The messages in a row's body. Raises CodecError."""
    return parse(turn_service_pb2.RunTurnResponse, body).events


def split_records(body: bytes) -> list[Record]:
    """The records of a row's body, cut without encoding anything again. Raises CodecError.

    An event of a kind that this version does not know is a milestone: better sent than lost.
    """
    records: list[Record] = []
    position = 0
    for event in events_of(body):
        end = _end_of_record(body, position)
        visibility = _VISIBILITY.get(event.WhichOneof("event") or "", Visibility.MILESTONE)
        records.append(Record(event.sequence, visibility, body[position:end]))
        position = end
    if position != len(body):
        raise CodecError(f"a row's body has {len(body) - position} bytes that are no record")
    return records


def _end_of_record(body: bytes, start: int) -> int:
    """Position after the record at ``start``. The body has been parsed, so the varint is whole."""
    if body[start] != RECORD_TAG:
        raise CodecError(f"byte {start} of a row's body does not begin a record")
    length, shift, position = 0, 0, start + 1
    while True:
        byte = body[position]
        position += 1
        length |= (byte & 127) << shift
        if byte < 128:
            return position + length
        shift += 7
