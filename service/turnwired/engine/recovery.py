"""Ending a run that nobody executes any more, from its stored log alone: after a crash, or after a fault of ours.

The events and facts of its owner are gone; what the log holds is all that ever happened. Nothing is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import anyio

from turnwired.codec.approval import decode_waiting
from turnwired.codec.event import decode_events
from turnwired.codec.run import decode_run, encode_run
from turnwired.domain.errors import CodecError, Fenced, StoreError
from turnwired.domain.event import LoggedEvent, RunFinished, RunStarted
from turnwired.domain.failure import Failure
from turnwired.domain.run import Run, RunState
from turnwired.engine.caller_side import CallerSide
from turnwired.engine.log import RunLog, now_ns
from turnwired.engine.stored import stored_messages
from turnwired.engine.totals import spending_of
from turnwired.store.port import Settlement, Store, StoredRun
from turnwired.turn.facts import WaitExpired
from turnwired.turn.recovery import closing_step
from turnwired.turn.trace import TraceFold, bounded_beside

logger = logging.getLogger(__name__)

READ_BYTES = 4 << 20
MOST_ABOVE = 100
"""Runs above a run that are looked at; there are never as many."""
RETRY_SECONDS = 1.0
MOST_RETRY_SECONDS = 30.0


def _nothing_is_due(expired: WaitExpired) -> None:
    """A run that is being ended waits for nobody."""
    raise AssertionError(expired)


async def read_log(store: Store, run_id: str) -> list[LoggedEvent]:
    """All stored events of a run, in order."""
    events: list[LoggedEvent] = []
    sequence = 0
    while rows := await store.read_rows(run_id, sequence, READ_BYTES):
        for row in rows:
            events.extend(event for event in decode_events(row.body) if event.sequence > sequence)
            sequence = row.last_sequence
    return events


def run_of(stored: StoredRun) -> Run:
    """A stored run as callers read it."""
    if stored.summary:
        return replace(decode_run(stored.summary), epoch=stored.epoch, last_sequence=stored.last_sequence)
    return Run(
        run_id=stored.run_id,
        agent_id=stored.agent_id,
        state=stored.state,
        create_time_ns=stored.create_time_ns,
        session_id=stored.session_id,
        parent_run_id=stored.parent_run_id,
        epoch=stored.epoch,
        last_sequence=stored.last_sequence,
        labels=stored.labels,
        waiting=decode_waiting(stored.waiting) if stored.waiting else None,
    )


async def settle_orphan(store: Store, stored: StoredRun, failure: Failure, hooks: tuple[str, ...] = ()) -> Run:
    """End a run from its log, durably, and return it. Idempotent: a settled run is returned as it is.

    ``hooks`` are the names of those that are to be told.

    Raises StoreError when it cannot be stored; Fenced means that somebody else did it.
    """
    if stored.state is RunState.SETTLED:
        return run_of(stored)
    events = await read_log(store, stored.run_id)
    run = run_of(stored)
    for logged in events:
        if isinstance(logged.event, RunStarted):
            run = replace(
                run,
                model=logged.event.model,
                trace_context=logged.event.trace_context,
                start_time_ns=logged.time_ns,
                agent_revision=logged.event.agent_revision,
            )
    last = events[-1].sequence if events else 0
    log = RunLog(stored.run_id, store, epoch=stored.epoch, row_no=stored.last_row_no, last_sequence=last)
    fold = TraceFold()
    side = CallerSide(run, stored.tenant, None, _nothing_is_due)
    side.restore(events, ())
    for logged in events:
        fold.add(logged)
    closing = closing_step(stored.run_id, stored.agent_id, stored.session_id, events, failure, stored.parent_run_id)
    finished: RunFinished | None = None
    now = now_ns()
    for emitted in closing.events:
        event = emitted.event
        if isinstance(event, RunFinished):
            message = event.message if event.message is None else replace(event.message, create_time_ns=now)
            event = finished = replace(event, message=message, trace=bounded_beside(fold.trace(), message))
        log.append(emitted.iteration, event, now)
        changes = side.record(event, log.last, now)
        if changes is not None:
            log.change(changes)
        fold.add(LoggedEvent(log.last, now, emitted.iteration, event))
    assert finished is not None, "the closing events of a run end with RunFinished"
    run = replace(
        run,
        state=RunState.SETTLED,
        waiting=None,
        outcome=finished.outcome,
        message=finished.message,
        usage=finished.usage,
        cost=finished.cost,
        settle_time_ns=now,
        last_sequence=log.last,
        epoch=stored.epoch,
    )
    messages = stored_messages(stored.session_id, closing.messages, now)
    sessions = await _sessions_of(store, stored)
    spent = spending_of(stored.tenant, sessions, stored.create_time_ns, run.usage, run.cost)
    log.settle(Settlement(now, encode_run(run), messages, hooks, spent, finished.outcome.kind))
    await log.write()
    if log.failure is not None:
        raise log.failure
    return run


async def _sessions_of(store: Store, stored: StoredRun) -> list[str]:
    """The session of a run and those of the runs above it, as far as they are still there."""
    sessions: list[str] = []
    run: StoredRun | None = stored
    for _ in range(MOST_ABOVE):
        if run is None:
            break
        if run.session_id is not None:
            sessions.append(run.session_id)
        run = await store.get_run(run.tenant, run.parent_run_id) if run.parent_run_id is not None else None
    return sessions


async def settle_broken(store: Store, run_id: str, failure: Failure, hooks: tuple[str, ...] = ()) -> None:
    """End a run that its execution in this process left unsettled, as soon as the store takes it.

    In a new epoch: readers may have seen deltas that were never stored, and are then told to go back behind them. Goes
    on until it is cancelled; what it has not ended by then, the next start does.
    """
    delay = RETRY_SECONDS
    while True:
        try:
            stored = await store.take_over(run_id)
            if stored is not None:
                await settle_orphan(store, stored, failure, hooks)
            return
        except Fenced:
            return  # whoever owns the run now ends it
        except StoreError as error:
            logger.warning("run %s cannot be settled yet: %s", run_id, error)
        except CodecError as error:
            logger.error("run %s stays unfinished: its log cannot be read (%s)", run_id, error)  # noqa: TRY400 - the error says it all
            return
        await anyio.sleep(delay)
        delay = min(2 * delay, MOST_RETRY_SECONDS)


async def settle_unfinished(
    store: Store, failure: Failure, hooks: tuple[str, ...] = ()
) -> tuple[Sequence[Run], Sequence[StoredRun]]:
    """At boot: take over every run that the process before left unfinished, and end those that were doing something.

    Gives those that it ended, and those that wait for their callers, which may go on waiting; a run that was made on
    behalf of another waits only with that one. A log that cannot be read, such as one of a newer release, stays as it
    is and keeps no other run from its end.
    """
    settled: list[Run] = []
    waiting: dict[str, StoredRun] = {}
    for stored in await store.take_over_unfinished():  # oldest first: a run comes before those that it made
        if stored.state is RunState.WAITING and (stored.parent_run_id is None or stored.parent_run_id in waiting):
            waiting[stored.run_id] = stored
            continue
        try:
            settled.append(await settle_orphan(store, stored, failure, hooks))
        except CodecError as error:
            logger.error("run %s stays unfinished: its log cannot be read (%s)", stored.run_id, error)  # noqa: TRY400 - the error says it all
    return settled, list(waiting.values())
