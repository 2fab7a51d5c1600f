"""Going on, after a restart, with a run that waits for its caller: the same turn and policy, from its stored log.

It reads and prepares; executing is the execution's, and whether a log can be gone on with is the turn machine's to say.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from turnwired.codec.run import decode_turn
from turnwired.domain.errors import CodecError, RequestError, StoreError
from turnwired.domain.event import IterationFinished, IterationRetryScheduled, RunStarted
from turnwired.domain.model import TraceContext
from turnwired.domain.run import Run, RunState
from turnwired.engine.execution import Execution
from turnwired.engine.live import Live
from turnwired.engine.log import RunLog
from turnwired.engine.ports import Wiring
from turnwired.engine.prepare import Preparer
from turnwired.engine.recovery import read_log, run_of
from turnwired.store.port import RunFilter, Store, StoredRun
from turnwired.turn.resume import resumed

logger = logging.getLogger(__name__)

_PAGE = 500


def left_waiting(store: Store, stored: StoredRun, depth: int) -> Live | None:
    """A run that waits, as this process knows it until it is taken up; None when what is stored cannot be read."""
    log = RunLog(
        stored.run_id,
        store,
        epoch=stored.epoch,
        row_no=stored.last_row_no,
        last_sequence=stored.last_sequence,
    )
    try:
        return Live(run_of(stored), log, stored.caller, asyncio.Event(), depth, taken_up=True)
    except CodecError as error:
        logger.error("run %s stays unfinished: it cannot be read (%s)", stored.run_id, error)  # noqa: TRY400 - the error says it all
        return None


async def waiting_again(
    wiring: Wiring,
    preparer: Preparer,
    run: Run,
    stored: StoredRun,
    log: RunLog,
    depth: int,
    above: Execution | None = None,
) -> Execution | None:
    """The execution of a run that stands where its log ends. None when it cannot go on, which the log tells why.

    ``above``: the run that it is a child of, which binds it as it did before.
    """
    try:
        events = await read_log(wiring.store, stored.run_id)
        started = next((item for item in events if isinstance(item.event, RunStarted)), None)
        if started is None or not isinstance(started.event, RunStarted):
            return None
        spec = decode_turn(stored.spec, stored.caller)
        agent = await preparer.agents.revision(stored.agent_id, started.event.agent_revision, stored.tenant)
        resolved = preparer.resolve_again(spec, agent, started.event)
    except (CodecError, RequestError, StoreError) as error:
        logger.warning("run %s cannot go on waiting: %s", stored.run_id, error)
        return None
    run = replace(
        run,
        state=RunState.RUNNING,  # what it is while it does not wait: the execution adds that it does
        waiting=None,
        model=started.event.model,
        start_time_ns=started.time_ns,
        agent_revision=started.event.agent_revision,
    )
    headers = _parent_headers(started.event.trace_context)
    own = () if spec.session_id is None else (spec.session_id,)
    prepared, setup = await preparer.prepare(
        resolved,
        run,
        spec.input,
        headers,
        depth,
        () if above is None else above.budget_lines,
        own if above is None else own + above.sessions,
        parents=() if above is None else (above.permissions,),
        past=events,
    )
    if prepared.failure is not None:
        logger.warning("run %s cannot go on waiting: %s", stored.run_id, prepared.failure.message)
        return None
    machine, purse = resumed(setup, events, stored.epoch), prepared.purse
    if purse is not None:
        for event in (item.event for item in events):
            if isinstance(event, IterationFinished | IterationRetryScheduled):
                purse.charge(event.usage, event.cost)  # what the run has spent, it has spent
        try:
            for ended in await _ended_below(wiring.store, stored):
                purse.spent_below(ended.usage, ended.cost)
        except (CodecError, StoreError) as error:
            logger.warning("run %s cannot go on waiting: %s", stored.run_id, error)
            machine = None
        if machine is None:
            purse.close()
    return None if machine is None else Execution(wiring, prepared, machine, log, events)


async def _ended_below(store: Store, stored: StoredRun) -> list[Run]:
    """The runs that were made on behalf of this one, and on theirs, and have ended."""
    ended: list[Run] = []
    left = [stored.run_id]
    while left:
        query, token = RunFilter(stored.tenant, parent_run_id=left.pop()), ""
        while True:
            page, token = await store.list_runs(query, _PAGE, token)
            left += [run.run_id for run in page]
            ended += [run_of(run) for run in page if run.state is RunState.SETTLED]
            if not token:
                break
    return ended


def _parent_headers(trace: TraceContext) -> dict[str, str]:
    """The span that goes on belongs to the trace of the one that the earlier process ended."""
    return {"traceparent": f"00-{trace.trace_id}-{trace.span_id}-01"} if trace.trace_id and trace.span_id else {}
