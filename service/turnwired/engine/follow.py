"""Following a run's log: from any cursor, live or stored, to one writer. Frames are bytes encoded once, joined.

A reader takes whatever is visible when its last write is done: no timer and no queue stands between the log and the
wire. A reader that falls behind the records kept in memory reads the store, and harms nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from turnwired.codec.frame import Visibility, frame, split_records
from turnwired.domain.errors import FieldViolation, InvalidRequest, Unavailable
from turnwired.domain.failure import Reason
from turnwired.domain.run import Cursor
from turnwired.engine.log import RunLog
from turnwired.store.port import LogRow, Store

FRAME_BYTES = 1 << 20
"""Most bytes of events in one frame; gRPC refuses messages over 4 MiB by default."""

Send = Callable[[bytes], Awaitable[None]]


@dataclass(slots=True)
class Place:
    """Where a reader is. ``rewind`` is told in the next frame, once."""

    epoch: int
    sequence: int
    rewind: int | None = None


async def place_of(store: Store, run_id: str, cursor: Cursor, epoch: int, last: int) -> Place:
    """Find the reader's place in the log as it is now.

    ``epoch`` and ``last`` are the run's newest. A cursor of an older epoch that is ahead of where the newer one began
    is taken back to there. Raises InvalidRequest for a cursor that no frame can have given.
    """
    if cursor.sequence == 0:
        return Place(epoch, 0)
    if cursor.epoch <= 0 or cursor.epoch > epoch or cursor.sequence < 0:
        raise InvalidRequest(
            [FieldViolation("after", f"no frame of this run has the cursor ({cursor.epoch}, {cursor.sequence})")]
        )
    if cursor.epoch == epoch:
        if cursor.sequence > last:
            raise InvalidRequest(
                [FieldViolation("after.sequence", f"is {cursor.sequence}, but the newest event of the run is {last}")]
            )
        return Place(epoch, cursor.sequence)
    begun = await store.first_sequence_after_epoch(run_id, cursor.epoch)
    keep = last if begun is None else begun - 1
    if cursor.sequence <= keep:
        return Place(epoch, cursor.sequence)
    return Place(epoch, keep, rewind=keep)


class Follower:
    """One reader of one live log. ``beat`` makes it send an empty frame when nothing else is to be sent.

    ``until_waiting``: it ends where the run waits for its caller, too.
    """

    def __init__(
        self,
        log: RunLog,
        store: Store,
        place: Place,
        level: Visibility,
        send: Send,
        *,
        until_waiting: bool = False,
    ) -> None:
        self._until_waiting = until_waiting
        self._log = log
        self._store = store
        self._place = place
        self._level = level
        self._send = send
        self._wake = asyncio.Event()
        self._beat = False

    def beat(self) -> None:
        """Send a heartbeat if the stream is idle."""
        self._beat = True
        self._wake.set()

    async def run(self) -> None:
        """Send until the run's last event has been sent, or what it waits for if that is as far as it is to go.

        Raises Unavailable when the log cannot go on here: the reader should attach again.
        """
        log, place, wake = self._log, self._place, self._wake
        log.subscribe(wake.set)
        try:
            if place.rewind is not None:
                await self._send(self._frame([]))
            while True:
                wake.clear()
                while place.sequence < log.visible:
                    if place.sequence + 1 < log.oldest():
                        await self._from_store(log.oldest() - 1)
                        continue
                    records, through = log.read(place.sequence, self._level, FRAME_BYTES)
                    place.sequence = through
                    if records:
                        self._beat = False
                        await self._send(self._frame(records))
                if log.finished and place.sequence >= log.last:
                    return
                if self._until_waiting and log.waiting is not None and place.sequence >= log.waiting:
                    return
                if log.failure is not None:
                    raise Unavailable(
                        Reason.STORE_UNAVAILABLE,
                        "The run cannot be recorded here any more. Attach again with WatchRun and your cursor.",
                        retry_after=1.0,
                    )
                if self._beat:
                    self._beat = False
                    await self._send(self._frame([]))
                await wake.wait()
        finally:
            log.unsubscribe(wake.set)

    async def _from_store(self, until: int) -> None:
        log = self._log
        await send_stored(self._store, log.run_id, self._place, self._level, self._send, until=until, last=log.visible)

    def _frame(self, records: Sequence[bytes]) -> bytes:
        place = self._place
        rewind, place.rewind = place.rewind, None
        return frame(records, place.epoch, place.sequence, max(self._log.visible, place.sequence), rewind)


async def send_stored(
    store: Store, run_id: str, place: Place, level: Visibility, send: Send, *, until: int | None, last: int
) -> None:
    """Send stored events after the place, up to ``until`` or to the end of what is stored, moving the place."""
    sequence = place.sequence
    while until is None or sequence < until:
        rows = await store.read_rows(run_id, sequence, FRAME_BYTES)
        if not rows:
            break
        for records, through in _framed(rows, sequence, level):
            sequence = place.sequence = through
            rewind, place.rewind = place.rewind, None
            if records or rewind is not None:
                await send(frame(records, place.epoch, sequence, max(last, sequence), rewind))


def _framed(rows: Sequence[LogRow], after: int, level: Visibility) -> Iterator[tuple[list[bytes], int]]:
    """The records after a sequence that a stream of ``level`` carries, a frame's worth at a time, each with the
    sequence through which it is all. Rows may be larger than a frame: a slow store makes them so.
    """
    records: list[bytes] = []
    size = 0
    through = after
    for row in rows:
        if level is Visibility.DELTA and row.first_sequence > after and len(row.body) <= FRAME_BYTES:
            if records and size + len(row.body) > FRAME_BYTES:
                yield records, through
                records, size = [], 0
            records.append(row.body)
            size += len(row.body)
            through = row.last_sequence
            continue
        for record in split_records(row.body):
            if record.sequence <= after:
                continue
            if record.visibility <= level:
                if records and size + len(record.data) > FRAME_BYTES:
                    yield records, through
                    records, size = [], 0
                records.append(record.data)
                size += len(record.data)
            through = record.sequence
        through = row.last_sequence
    yield records, through
