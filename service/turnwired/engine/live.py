"""What the engine knows of the runs of this process, and the words with which it ends them. It starts and ends none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from turnwired.domain.event import RunWaiting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.run import Caller, OnDisconnect, Run, TurnSpec
from turnwired.engine.execution import Execution
from turnwired.engine.log import RunLog
from turnwired.turn.facts import CancelRequested, DeadlineReached

logger = logging.getLogger("turnwired.engine.service")


BEGIN_SECONDS = 10.0
"""How long an answer waits for the preparation of its run, which takes so long only while a tool source starts."""
HOOK_SECONDS = 5.0
"""How long the end of the process waits for hooks; what they have not taken they are told at the next start."""

STREAM_CUT = Failure(
    FailurePhase.MODEL,
    Reason.CALLER_DISCONNECTED,
    "The stream that started the run was cut, and the run was to end with it (on_disconnect). "
    "Use ON_DISCONNECT_CONTINUE or a session to let runs go on.",
    retryable=True,
)
PARENT_ENDED = Failure(
    FailurePhase.MODEL,
    Reason.PARENT_ENDED,
    "The run on whose behalf this one was made has ended or given it up.",
)
RESTARTED = Failure(
    FailurePhase.SETTLEMENT,
    Reason.SERVER_RESTARTED,
    "The server stopped while the run was active. What its tools have done stays done; send the turn again.",
    retryable=True,
)
BROKEN = Failure(
    FailurePhase.SETTLEMENT,
    Reason.INTERNAL,
    "The service failed while it executed the run ({}). Its log has the details.",
)
STORE_FAILED = Failure(
    FailurePhase.SETTLEMENT,
    Reason.STORE_UNAVAILABLE,
    "The run could not be stored while it was active. What its tools have done stays done; send the turn again.",
    retryable=True,
)


def log_end(run: Run) -> None:
    """One line for each run that ended: what an operator looks for first. No text of prompt or answer."""
    if run.outcome is None:
        if run.waiting is not None:
            logger.info("run %s of agent %s: left waiting", run.run_id, run.agent_id)
        return
    failure = run.outcome.failure
    why = f" ({failure.phase.value}/{failure.reason.value})" if failure is not None else ""
    seconds = (run.settle_time_ns - run.create_time_ns) / 1e9
    logger.info("run %s of agent %s: %s%s in %.1f s", run.run_id, run.agent_id, run.outcome.kind.value, why, seconds)


async def nobody(works: bool) -> None:
    """Tells nobody whether the store works."""
    del works


def ends_with_stream(spec: TurnSpec) -> bool:
    """Whether a run ends when the stream that started it is cut: asked for, or the default of a stateless run."""
    return spec.session_id is None if spec.on_disconnect is None else spec.on_disconnect is OnDisconnect.CANCEL


@dataclass(frozen=True, slots=True)
class Accepted:
    """A turn that became a run, or was one already (``existing``)."""

    run_id: str
    session_id: str | None
    message_ids: tuple[str, ...]
    existing: bool


Stop = CancelRequested | DeadlineReached
"""What callers can end a run with."""


@dataclass(slots=True)
class Live:
    """A run of this process from its acceptance to its end. ``execution`` is None while it is being prepared.

    ``depth``: how many runs stand above it, each made on behalf of the one above.
    """

    run: Run
    log: RunLog
    caller: Caller
    done: asyncio.Event
    depth: int = 0
    taken_up: bool = False  # it waited when an earlier process ended
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    execution: Execution | None = None
    stopped: Stop | None = None  # what ends it as soon as it has begun; the first to come counts


@contextmanager
def watched_for_waits(live: Live, tell: Callable[[RunWaiting], None]) -> Iterator[None]:
    """While inside, tell once of each time in which the run waits for its caller."""
    waits = False

    def look() -> None:
        nonlocal waits
        execution = live.execution
        waiting = None if execution is None else execution.caller_side.waiting
        begins = waiting is not None and not waits
        waits = waiting is not None
        if begins and waiting is not None:
            tell(waiting[1])

    live.log.subscribe(look)
    try:
        look()
        yield
    finally:
        live.log.unsubscribe(look)
