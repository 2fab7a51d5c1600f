"""Tells the hooks of a deployment: of each run in order, then of its end, until they have taken it.

A hook is one more reader of the log: it pulls at its own pace, from memory or from the store, and a slow or failing one
holds up nobody and grows nothing. That a run has ended is kept for each hook in the transaction that settles the run,
until the hook has taken it: told at least once, also after a crash, each time with the same id. Whether a hook is a
Python object or an app behind a connection is not known here.
"""

from __future__ import annotations

import inspect
import logging
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import anyio.abc
import anyio.to_thread

from turnwired.apart import Nursery
from turnwired.codec.following import read_frame
from turnwired.codec.frame import Visibility
from turnwired.domain.errors import CodecError, RequestError, StoreError, TurnwireError
from turnwired.domain.event import LoggedEvent
from turnwired.domain.faults import where_raised
from turnwired.domain.run import Caller, Cursor, Run, RunState
from turnwired.engine.follow import Send
from turnwired.engine.hooks import Hook, HookAbsent, HookBatch, HookEvent, SettledRun
from turnwired.store.port import Store
from turnwired.stray import require_stray

logger = logging.getLogger(__name__)

RUNS_AT_ONCE: Final = 16
"""Calls of one hook that are under way side by side."""
MOST_WAITING: Final = 1000
"""Runs in progress that one hook is told of, and as many that have ended; more stay in the store meanwhile."""
MOST_STRAY: Final = 100
"""Calls of one hook that do not end when they are cancelled. With so many it is called no more until some end."""
SWEEP_SECONDS: Final = 30.0
MOST_AGAIN_SECONDS: Final = 600.0
ROUNDS: Final = 2
"""So often the end of a run waits for events that are not taken. From then on it is told before them."""

Told = TypeVar("Told", HookEvent, HookBatch, SettledRun)


class _KeptNothing(TurnwireError):
    """A batch was answered, and none of it kept."""


class _NotTaken(TurnwireError):
    """A hook has not taken something in all its tries."""

    def __init__(self, *, absent: bool) -> None:
        super().__init__("not taken")
        self.absent = absent


class _NoRoom(TurnwireError):
    """As many calls are under way as may be. The frame is dropped, and read again when there is room."""


class Runs(Protocol):
    """What this module needs of the engine."""

    async def follow(self, caller: Caller, run_id: str, cursor: Cursor, level: Visibility, send: Send) -> None:
        """Send the frames of a run's log to its end."""
        ...

    async def get_run(self, caller: Caller, run_id: str) -> Run:
        """One run."""
        ...


@dataclass(slots=True)
class _Aside:
    """A run that a hook has not taken: so many times, and not to be told before ``until``, of the loop's clock."""

    times: int = 0
    until: float = 0.0
    kept: int = 0
    ended: bool = False


@dataclass(slots=True)
class _Teller:
    """What is going on with one hook."""

    hook: Hook
    room: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(RUNS_AT_ONCE))
    threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(RUNS_AT_ONCE))
    apart: Nursery = field(default_factory=Nursery)
    waiting: set[str] = field(default_factory=set[str])
    aside: dict[str, _Aside] = field(default_factory=dict[str, _Aside])
    absent: bool = False

    def put_aside(self, telling: _Telling, *, absent: bool) -> None:
        """Remember how far a run was told, and when it may be told again. Bounded: what has no room is told anew."""
        was = telling.aside
        if telling.run_id not in self.aside and len(self.aside) >= MOST_WAITING:
            return
        times, until, again = was.times, 0.0, self.hook.patience.again
        if not absent:
            times += 1
            wait = math.inf if again is None else min(again * 2.0 ** (times - 1), MOST_AGAIN_SECONDS)
            until = anyio.current_time() + wait
        self.aside[telling.run_id] = _Aside(times, until, telling.kept, telling.ended)


@dataclass(slots=True)
class _Telling:
    """One run that one hook is told of. ``kept``: newest event that the hook has; ``ended``: it has the end.

    ``has_room``: it may call without asking for room.
    """

    caller: Caller
    run_id: str
    again: bool
    aside: _Aside
    kept: int
    ended: bool
    run: Run | None = None
    cursor: Cursor = field(default_factory=Cursor)
    has_room: bool = False


class Hooks:
    """Tells the hooks. ``failed`` counts calls that were given up; what they were about is told again."""

    def __init__(self, hooks: Sequence[Hook], store: Store, runs: Runs) -> None:
        self.failed = 0
        self._tellers = [_Teller(hook) for hook in hooks]
        self._store = store
        self._runs = runs
        self._tasks: anyio.abc.TaskGroup | None = None
        self._look = anyio.Event()

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Go on with what was left over, and take new runs."""
        if self._tellers:
            self._tasks = tasks
            tasks.start_soon(self._sweep_for_ever)

    def began(self, caller: Caller, run_id: str) -> None:
        """A run of this process has begun."""
        for teller in self._tellers:
            self._spawn(teller, caller, run_id, again=False)

    async def drain(self, seconds: float) -> None:
        """Let what is under way end, within bounds. The rest is told at the next start."""
        with anyio.move_on_after(seconds):
            while any(teller.waiting and not teller.absent for teller in self._tellers):  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def aclose(self) -> None:
        """Tell calls that did not end when they were cancelled to do so once more, within bounds."""
        for teller in self._tellers:
            await teller.apart.aclose()

    def _spawn(self, teller: _Teller, caller: Caller, run_id: str, *, again: bool) -> None:
        aside = teller.aside.get(run_id) or _Aside()
        if self._tasks is None or run_id in teller.waiting or anyio.current_time() < aside.until:
            return
        # Runs that have ended have as many places of their own: those that go on may do so for hours.
        if len(teller.waiting) < (2 * MOST_WAITING if again else MOST_WAITING):
            teller.waiting.add(run_id)
            self._tasks.start_soon(
                self._tell_run, teller, _Telling(caller, run_id, again, aside, aside.kept, aside.ended)
            )

    async def _sweep_for_ever(self) -> None:
        while True:
            self._look = anyio.Event()
            for teller in self._tellers:
                try:
                    most = MOST_WAITING + len(teller.aside)
                    left = await self._store.pending_deliveries(teller.hook.name, most)
                except StoreError as error:
                    logger.warning("hook %s: what is left to tell cannot be read: %s", teller.hook.name, error)
                    continue
                for tenant, run_id in left:
                    self._spawn(teller, Caller(tenant), run_id, again=True)
            with anyio.move_on_after(SWEEP_SECONDS):
                await self._look.wait()

    async def _tell_run(self, teller: _Teller, telling: _Telling) -> None:
        hook, caller, run_id = teller.hook, telling.caller, telling.run_id
        try:
            missed = await self._tell_events(teller, telling)
            run = await self._runs.get_run(caller, run_id)
            if run.state is RunState.SETTLED and hook.on_settle is not None and not telling.ended:
                record = SettledRun(run_id, run, caller.tenant, telling.again)
                async with teller.room:
                    await self._call(teller, hook.on_settle, record, run_id)
                telling.ended = True
            if missed is not None:
                raise missed
            if run.state is not RunState.SETTLED:
                return
            await self._store.delivered(hook.name, run_id)
            teller.aside.pop(run_id, None)
        except _NotTaken as error:
            teller.put_aside(telling, absent=error.absent)
        except (RequestError, StoreError, CodecError) as error:
            # The run was deleted, or is being recovered: a later sweep finds it, if it is still there.
            teller.aside.pop(run_id, None)
            logger.info("hook %s: run %s cannot be told now: %s", hook.name, run_id, error)
        finally:
            teller.waiting.discard(run_id)

    # --- events ---------------------------------------------------------------------------------------------------

    async def _tell_events(self, teller: _Teller, telling: _Telling) -> _NotTaken | None:
        """Tell the events of a run to its end. A run that goes on for hours takes up no room while it is silent.

        Returns what was in the way when the end must not wait for the events any longer. Raises _NotTaken.
        """
        hook, caller, run_id = teller.hook, telling.caller, telling.run_id
        if hook.on_event is None and hook.on_events is None:
            if not telling.again:  # what is told again has ended
                await self._runs.follow(caller, run_id, Cursor(), Visibility.OUTCOME, _ignore)
            return None

        async def send(frame: bytes) -> None:
            await self._take_frame(teller, telling, frame)

        telling.run = await self._runs.get_run(caller, run_id)
        try:
            while True:
                try:
                    await self._runs.follow(caller, run_id, telling.cursor, Visibility.MILESTONE, send)
                except _NoRoom:
                    await teller.room.acquire()
                    telling.has_room = True
                except _NotTaken as error:
                    if error.absent or telling.aside.times < ROUNDS:
                        raise
                    return error
                else:
                    return None
        finally:
            if telling.has_room:
                teller.room.release()

    async def _take_frame(self, teller: _Teller, telling: _Telling, data: bytes) -> None:
        frame = read_frame(data)
        if any(event.sequence > telling.kept for event in frame.events):
            if not telling.has_room:
                try:
                    teller.room.acquire_nowait()
                except anyio.WouldBlock:
                    raise _NoRoom from None
            telling.has_room = True
            try:
                await self._take_events(teller, telling, frame.events)
            finally:
                telling.has_room = False
                teller.room.release()
        telling.cursor = frame.cursor

    async def _take_events(self, teller: _Teller, telling: _Telling, events: Sequence[LoggedEvent]) -> None:
        left = tuple(event for event in events if event.sequence > telling.kept)
        if teller.hook.on_events is None:
            await self._take_one_by_one(teller, telling, left)
            return
        assert telling.run is not None
        again = telling.again
        while left:
            batch = HookBatch(telling.caller.tenant, telling.run, left, again)
            kept = await self._call(teller, _offer(teller.hook.on_events), batch, telling.run_id)
            telling.kept = max(telling.kept, cast(int, kept))
            left = tuple(event for event in left if event.sequence > telling.kept)
            again = True

    async def _take_one_by_one(self, teller: _Teller, telling: _Telling, events: Sequence[LoggedEvent]) -> None:
        on_event, run_id = teller.hook.on_event, telling.run_id
        assert on_event is not None
        for logged in events:
            event = HookEvent(f"{run_id}/{logged.sequence}", run_id, logged, telling.again)
            try:
                await self._call(teller, on_event, event, run_id)
            except _NotTaken:
                continue  # it is passed over: what comes after it must not wait for a hook that cannot take it

    # --- one call -------------------------------------------------------------------------------------------------

    async def _call(self, teller: _Teller, function: Callable[[Any], object], value: Told, run_id: str) -> object:
        """What the hook gives, in one of a few tries. Raises _NotTaken."""
        patience, absent = teller.hook.patience, False
        for attempt in range(1, patience.tries + 1):
            if attempt > 1:
                wait = min(patience.delay * 2.0 ** (attempt - 2), patience.most_delay)
                await anyio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                value = replace(value, redelivered=True)
            try:
                with anyio.fail_after(patience.call):
                    given = await _called(teller, function, value)
            except HookAbsent as error:
                absent = True
                if not teller.absent:
                    logger.warning("hook %s: %s; it is told when it is there", teller.hook.name, error)
                teller.absent = True
            except BaseException as error:  # noqa: BLE001 - task boundary: a hook's fault is its own, whatever it raises
                require_stray(error)
                absent = False
                name = str(error) if isinstance(error, TurnwireError) else type(error).__name__
                logger.warning("hook %s failed for run %s (%s, try %d)", teller.hook.name, run_id, name, attempt)
                if logger.isEnabledFor(logging.DEBUG):
                    logger.debug("%s", where_raised(error))
            else:
                if teller.absent:
                    logger.info("hook %s is there again", teller.hook.name)
                    teller.absent = False
                    self._look.set()
                return given
        self.failed += not absent
        raise _NotTaken(absent=absent)


async def _called(teller: _Teller, function: Callable[[Any], object], value: object) -> object:
    if len(teller.apart.stray) >= MOST_STRAY:
        raise HookAbsent(f"{MOST_STRAY} of its calls go on though they were cancelled")
    return await teller.apart.run(_work(function, value, teller.threads), teller.hook.name)


async def _work(function: Callable[[Any], object], value: object, threads: anyio.CapacityLimiter) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(value)
    given = await anyio.to_thread.run_sync(function, value, limiter=threads, abandon_on_cancel=True)
    if inspect.isawaitable(given):
        return await cast("Awaitable[object]", given)
    return given


def _offer(on_events: Callable[[HookBatch], Awaitable[int]]) -> Callable[[HookBatch], Awaitable[int]]:
    """The hook's own function, which must keep something."""

    async def offer(batch: HookBatch) -> int:
        kept = await on_events(batch)
        if kept < batch.events[0].sequence:
            raise _KeptNothing("it keeps nothing of what it is told")
        return kept

    return offer


async def _ignore(frame: bytes) -> None:
    del frame
