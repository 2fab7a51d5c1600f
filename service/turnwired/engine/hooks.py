"""Hooks of a deployment: Python objects that are told of every event and every end of the runs.

A hook is one more reader of the log: it pulls at its own pace, from memory or from the store, and a slow or failing one
holds up nobody and grows nothing. That a run has ended is kept for each hook in the transaction that settles the run,
until the hook has taken it: told at least once, also after a crash, each time with the same id.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import anyio
import anyio.abc
import anyio.to_thread

from turnwired.codec.event import decode_events
from turnwired.codec.frame import Visibility
from turnwired.domain.errors import ConfigError, RequestError, StoreError
from turnwired.domain.event import LoggedEvent
from turnwired.domain.faults import where_raised
from turnwired.domain.run import Caller, Cursor, Run, RunState
from turnwired.engine.follow import Send
from turnwired.plugins import named, offered
from turnwired.store.port import Store

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP: Final = "turnwired.hooks"
CALL_SECONDS: Final = 30.0
"""Longest that a hook may take for one call."""
ATTEMPTS: Final = 3
RETRY_SECONDS: Final = 0.2
RUNS_AT_ONCE: Final = 16
"""Runs that one hook is told of side by side."""
MOST_WAITING: Final = 1000
"""Runs that wait for one hook in memory; more stay in the store until there is room."""
SWEEP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of a run, deltas left out. ``event_id`` is the same each time the event is told."""

    event_id: str
    run_id: str
    logged: LoggedEvent


@dataclass(frozen=True, slots=True)
class SettledRun:
    """The end of a run: one record for each run. ``record_id`` is the same each time it is told."""

    record_id: str
    run: Run


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook under its name, which must stay the same over restarts: what it still has to be told is kept by it."""

    name: str
    on_event: Callable[[HookEvent], object] | None = None
    on_settle: Callable[[SettledRun], object] | None = None


class Runs(Protocol):
    """What this module needs of the engine."""

    async def follow(self, caller: Caller, run_id: str, cursor: Cursor, level: Visibility, send: Send) -> None:
        """Send the frames of a run's log to its end."""
        ...

    async def get_run(self, caller: Caller, run_id: str) -> Run:
        """One run."""
        ...


@dataclass(slots=True)
class _Teller:
    """What is going on with one hook."""

    hook: Hook
    runs: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(RUNS_AT_ONCE))
    threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(RUNS_AT_ONCE))
    waiting: set[str] = field(default_factory=set[str])
    given_up: set[str] = field(default_factory=set[str])


class Hooks:
    """Tells the hooks. ``failed`` counts calls that were given up; their hooks are told again at the next start."""

    def __init__(self, hooks: Sequence[Hook], store: Store, runs: Runs) -> None:
        self.failed = 0
        self._tellers = [_Teller(hook) for hook in hooks]
        self._store = store
        self._runs = runs
        self._tasks: anyio.abc.TaskGroup | None = None

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Go on with what was left over, and take new runs."""
        if self._tellers:
            self._tasks = tasks
            tasks.start_soon(self._sweep_for_ever)

    def began(self, caller: Caller, run_id: str) -> None:
        """A run of this process has begun."""
        for teller in self._tellers:
            self._spawn(teller, caller, run_id)

    async def drain(self, seconds: float) -> None:
        """Let what is under way end, within bounds. The rest is told at the next start."""
        with anyio.move_on_after(seconds):
            while any(teller.waiting for teller in self._tellers):  # noqa: ASYNC110
                await anyio.sleep(0.01)

    def _spawn(self, teller: _Teller, caller: Caller, run_id: str) -> None:
        if self._tasks is None or run_id in teller.waiting or run_id in teller.given_up:
            return
        if len(teller.waiting) < MOST_WAITING:
            teller.waiting.add(run_id)
            self._tasks.start_soon(self._tell_run, teller, caller, run_id)

    async def _sweep_for_ever(self) -> None:
        while True:
            for teller in self._tellers:
                try:
                    left = await self._store.pending_deliveries(teller.hook.name, MOST_WAITING)
                except StoreError as error:
                    logger.warning("hook %s: what is left to tell cannot be read: %s", teller.hook.name, error)
                    continue
                for tenant, run_id in left:
                    self._spawn(teller, Caller(tenant), run_id)
            await anyio.sleep(SWEEP_SECONDS)

    async def _tell_run(self, teller: _Teller, caller: Caller, run_id: str) -> None:
        hook = teller.hook
        try:
            async with teller.runs:
                if hook.on_event is not None:
                    await self._runs.follow(
                        caller, run_id, Cursor(), Visibility.MILESTONE, self._sender(teller, run_id)
                    )
                else:
                    await self._runs.follow(caller, run_id, Cursor(), Visibility.OUTCOME, _ignore)
                run = await self._runs.get_run(caller, run_id)
                if run.state is not RunState.SETTLED:
                    return
                record = SettledRun(run_id, run)
                if hook.on_settle is None or await self._call(teller, hook.on_settle, record, run_id):
                    await self._store.delivered(hook.name, run_id)
                elif len(teller.given_up) < MOST_WAITING:
                    teller.given_up.add(run_id)
        except (RequestError, StoreError) as error:
            # The run was deleted, or is being recovered: a later sweep finds it, if it is still there.
            logger.info("hook %s: run %s cannot be told now: %s", hook.name, run_id, error)
        finally:
            teller.waiting.discard(run_id)

    def _sender(self, teller: _Teller, run_id: str) -> Send:
        on_event = teller.hook.on_event
        assert on_event is not None

        async def send(frame: bytes) -> None:
            for logged in decode_events(frame):
                await self._call(teller, on_event, HookEvent(f"{run_id}/{logged.sequence}", run_id, logged), run_id)

        return send

    async def _call(self, teller: _Teller, function: Callable[[Any], object], value: object, run_id: str) -> bool:
        """Whether the hook has taken it, in one of a few tries."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with anyio.fail_after(CALL_SECONDS):
                    if inspect.iscoroutinefunction(function):
                        await function(value)
                        return True
                    given = await anyio.to_thread.run_sync(
                        function, value, limiter=teller.threads, abandon_on_cancel=True
                    )
                    if inspect.isawaitable(given):
                        await cast("Awaitable[object]", given)
                return True
            except Exception as error:  # noqa: BLE001 - task boundary: a hook's fault is its own
                name = type(error).__name__
                logger.warning("hook %s failed for run %s (%s, try %d)", teller.hook.name, run_id, name, attempt)
                if logger.isEnabledFor(logging.DEBUG):
                    logger.debug("%s", where_raised(error))
            if attempt < ATTEMPTS:
                await anyio.sleep(RETRY_SECONDS * attempt)
        self.failed += 1
        return False


async def _ignore(frame: bytes) -> None:
    del frame


# --- finding them -----------------------------------------------------------------------------------------------------


def hook_of(name: str, found: object) -> Hook:
    """The hook that an object, a class without parameters or a module is. Raises ConfigError for one that hears
    nothing.
    """
    if inspect.isclass(found):
        found = found()
    on_event, on_settle = getattr(found, "on_event", None), getattr(found, "on_settle", None)
    if not (callable(on_event) or callable(on_settle)):
        raise ConfigError(f"hook {name!r} has neither on_event nor on_settle")
    return Hook(name, on_event if callable(on_event) else None, on_settle if callable(on_settle) else None)


def load_hooks(references: Iterable[str]) -> list[Hook]:
    """The hooks that ``module`` or ``module:attribute`` references name. Raises ConfigError."""
    hooks: list[Hook] = []
    for reference in references:
        try:
            hooks.append(hook_of(reference, named(reference)))
        except ConfigError:
            raise
        except Exception as error:  # boundary: importing runs whatever the module holds
            raise ConfigError(f"hook {reference!r} cannot be loaded: {type(error).__name__}") from error
    return hooks


def entry_point_hooks() -> list[Hook]:
    """The hooks of installed distributions, by name. A broken one is left out and logged."""
    hooks: list[Hook] = []
    for entry_point in offered(ENTRY_POINT_GROUP):
        try:
            hooks.append(hook_of(entry_point.name, entry_point.load()))
        except Exception as error:  # noqa: BLE001  boundary: a broken distribution fails alone
            logger.warning("hook entry point %r is left out: %s", entry_point.name, type(error).__name__)
    return hooks
