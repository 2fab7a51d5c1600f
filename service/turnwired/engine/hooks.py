"""The port of hooks: what a hook is, and what it is told of the runs of a deployment.

Python objects are made hooks by ``hook_loading``, apps behind a connection by ``rpc.hook_client``; ``hook_delivery``
tells them. None of them is known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from turnwired.domain.errors import TurnwireError
from turnwired.domain.event import LoggedEvent
from turnwired.domain.run import DEFAULT_TENANT, Run


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of a run, deltas left out. ``event_id`` is the same each time the event is told.

    ``redelivered``: it may have been told before.
    """

    event_id: str
    run_id: str
    logged: LoggedEvent
    redelivered: bool = False


@dataclass(frozen=True, slots=True)
class HookBatch:
    """Events of one run in order, deltas left out: at least one, and about 1 MiB in the bytes of the log.

    ``run``: as it stood when its telling began. ``redelivered``: some of it may have been told before.
    """

    tenant: str
    run: Run
    events: tuple[LoggedEvent, ...]
    redelivered: bool = False


@dataclass(frozen=True, slots=True)
class SettledRun:
    """The end of a run: one record for each run. ``record_id`` is the same each time it is told.

    ``redelivered``: it may have been told before.
    """

    record_id: str
    run: Run
    tenant: str = DEFAULT_TENANT
    redelivered: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a hook is tried; all but ``tries`` in seconds.

    ``call``: longest that one call may take. ``tries`` are made in a row, ``delay`` apart at first, then twice as long
    each time up to ``most_delay``, less a random part. A run that was not taken is told again after ``again``, then
    after twice as long up to ten minutes; None: at the next start.
    """

    call: float = 30.0
    tries: int = 3
    delay: float = 0.2
    most_delay: float = 5.0
    again: float | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook under its name, which must stay the same over restarts: what it still has to be told is kept by it.

    ``on_events`` stands in for ``on_event`` where events are taken in batches. It gives the sequence of the newest
    event that is kept: what is behind it is told again, what is before it never.
    """

    name: str
    on_event: Callable[[HookEvent], object] | None = None
    on_settle: Callable[[SettledRun], object] | None = None
    on_events: Callable[[HookBatch], Awaitable[int]] | None = None
    patience: Patience = field(default_factory=Patience)


class HookAbsent(TurnwireError):
    """A hook's way to say that there is nobody to be told now: no fault of the run, which is told when somebody is."""
