"""The engine: accepts turns, executes each in a task of its own, and lets any number of readers follow them.

It owns every run's task, the registry of live runs and the heartbeat. A run's life does not depend on any caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import anyio
import anyio.abc

from turnwired.codec.frame import Visibility
from turnwired.codec.run import decode_turn
from turnwired.context.pairing import in_call_order
from turnwired.domain.errors import (
    Conflict,
    Fenced,
    FieldViolation,
    InvalidRequest,
    NotFound,
    StoreError,
    StoreUnavailable,
    ToolError,
    Unavailable,
)
from turnwired.domain.event import RunWaiting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.message import Message
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import EffectivePolicy, Policy
from turnwired.domain.run import Agent, Caller, Cursor, Run, RunState, TurnSpec
from turnwired.domain.tool import ToolSelection
from turnwired.domain.trace import RunTrace
from turnwired.engine.execution import UNWIND_SECONDS, Execution
from turnwired.engine.follow import Follower, Send, place_of, send_stored
from turnwired.engine.hook_delivery import Hooks
from turnwired.engine.ids import new_message_ids, new_run_id
from turnwired.engine.live import (
    BEGIN_SECONDS,
    BROKEN,
    HOOK_SECONDS,
    PARENT_ENDED,
    RESTARTED,
    STORE_FAILED,
    STREAM_CUT,
    Accepted,
    Live,
    Stop,
    ends_with_stream,
    log_end,
    nobody,
    watched_for_waits,
)
from turnwired.engine.log import RunLog, now_ns
from turnwired.engine.outside import Outside
from turnwired.engine.ports import Wiring
from turnwired.engine.prepare import Preparer, Resolved, selection
from turnwired.engine.recovery import read_log, run_of, settle_broken, settle_unfinished
from turnwired.engine.resuming import left_waiting, waiting_again
from turnwired.engine.sessions import Sessions
from turnwired.engine.steering import Steering
from turnwired.engine.stored import new_run
from turnwired.policy.merge import Layer
from turnwired.policy.permissions import Permissions
from turnwired.providers.port import ModelLimits, ProviderInfo, TokenCount
from turnwired.store.port import RunFilter, StoredRun
from turnwired.stray import ANY_FAULT, require_stray
from turnwired.tools.port import ToolView
from turnwired.turn.facts import CancelRequested, DeadlineReached
from turnwired.turn.machine import TurnMachine
from turnwired.turn.trace import bounded, trace_of

logger = logging.getLogger(__name__)


class Engine:
    """Runs turns. Use as an async context manager: inside it is ready, and leaving it ends every run it owns."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._store = wiring.store
        self._preparer = Preparer(wiring, self)
        self.agents = self._preparer.agents
        self.budgets = self._preparer.budgets
        self.sessions = Sessions(wiring.store, self)
        self.steering = Steering(wiring.store, self)
        self.outside = Outside(wiring)
        self.hooks = Hooks(wiring.hooks, wiring.store, self)
        self._hook_names = tuple(hook.name for hook in wiring.hooks)
        self._live: dict[str, Live] = {}
        self._children: dict[str, set[str]] = {}
        self._followers: set[Follower] = set()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._stopping = False
        self.store_works = True
        self.on_store_change: Callable[[bool], Awaitable[None]] = nobody

    async def __aenter__(self) -> Self:
        settled, waiting = await settle_unfinished(self._store, RESTARTED, self._hook_names)
        for run in settled:
            logger.warning("run %s was unfinished at start and is settled as ERRORED (SERVER_RESTARTED)", run.run_id)
        await self.agents.load()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._heartbeat)
        self.hooks.start(self._tasks)
        for stored in waiting:
            self._take_up(stored)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._tasks is not None
        await self.stop(0.0)
        await self.hooks.drain(HOOK_SECONDS)
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self.hooks.aclose()

    # --- starting and stopping ------------------------------------------------------------------------------------

    async def start_turn(
        self, spec: TurnSpec, parent_headers: Mapping[str, str] | None = None, run_id: str | None = None
    ) -> Accepted:
        """Accept a turn durably and start its run. Raises RequestError or StoreError; then nothing was started.

        ``run_id``: of a run that an agent makes of a tool call; others get a new one.
        """
        tasks = self._require_room()
        if (ordered := in_call_order(spec.input)) is not spec.input:
            spec = replace(spec, input=tuple(ordered))
        depth = await self._depth_of(spec)
        resolved = self._preparer.resolve(spec)
        parent = self._parent(spec)
        inherited = () if parent is None else parent.budget_lines
        if inherited or self._preparer.is_bounded(resolved):
            await self._preparer.require_measurable(resolved, inherited)
            tasks = self._require_room()  # others may have come meanwhile
        run_id = run_id or new_run_id()
        now = now_ns()
        input_ = tuple(
            # Not ``replace``, which costs four times as much: there may be thousands.
            Message(message.role, message.parts, message_id, run_id, now)
            for message, message_id in zip(resolved.spec.input, new_message_ids(len(spec.input)), strict=True)
        )
        run = Run(
            run_id=run_id,
            agent_id=resolved.agent.agent_id,
            state=RunState.RUNNING,
            create_time_ns=now,
            session_id=spec.session_id,
            parent_run_id=spec.parent_run_id,
            labels=spec.labels,
            model=resolved.model,
            start_time_ns=now,  # nothing queues yet
            agent_revision=resolved.agent.revision,
        )
        live = Live(run, RunLog(run_id, self._store, epoch=1), spec.caller, asyncio.Event(), depth)
        self._live[run_id] = live  # before the wait: counts against the bound, and a repeat finds it
        if spec.parent_run_id is not None:
            self._children.setdefault(spec.parent_run_id, set()).add(run_id)
        accepted: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        tasks.start_soon(self._own, live, resolved, input_, dict(parent_headers or {}), accepted)
        return await accepted

    def _require_room(self) -> anyio.abc.TaskGroup:
        if self._stopping or self._tasks is None:
            raise Unavailable(
                Reason.SHUTTING_DOWN, "The server is stopping; send the turn to another one or later.", 1.0
            )
        if len(self._live) >= self._wiring.config.max_active_runs:
            raise Unavailable(
                Reason.OVERLOADED,
                f"{len(self._live)} runs are active, which is the most this server takes; try again.",
                1.0,
            )
        return self._tasks

    def _sessions_of(self, spec: TurnSpec) -> tuple[str, ...]:
        """The run's session and those of the runs above it: what it spends counts in the totals of all of them."""
        parent = self._parent(spec)
        own = () if spec.session_id is None else (spec.session_id,)
        return own if parent is None else own + parent.sessions

    def _parent(self, spec: TurnSpec) -> Execution | None:
        parent = self._live.get(spec.parent_run_id) if spec.parent_run_id is not None else None
        return parent.execution if parent is not None and parent.caller.tenant == spec.caller.tenant else None

    async def _own(
        self,
        live: Live,
        resolved: Resolved,
        input_: Sequence[Message],
        parent_headers: Mapping[str, str],
        accepted: asyncio.Future[Accepted],
    ) -> None:
        """A run's whole life, in a task that no caller can cancel: a run that is stored always has an owner."""
        run_id = live.run.run_id
        try:
            created = await self._store.create_run(new_run(resolved.spec, live.run, input_))
            stored = created.run
            ids = tuple(message.message_id for message in input_)
            if created.existing:
                ids = self._input_ids(stored)
        except ANY_FAULT as error:  # task boundary: one broken turn ends no other
            require_stray(error)
            self._forget(live)
            if not accepted.done():
                accepted.set_exception(error)
            if isinstance(error, StoreUnavailable) and error.uncertain:  # it may be stored all the same
                await settle_broken(self._store, run_id, STORE_FAILED, self._hook_names)
            return
        if created.existing:
            self._forget(live)
        if not accepted.done():
            accepted.set_result(Accepted(stored.run_id, stored.session_id, ids, created.existing))
        elif not created.existing and ends_with_stream(resolved.spec):
            self._end(live, CancelRequested(STREAM_CUT))  # the caller left before it knew the run
        if not created.existing:
            self.hooks.began(live.caller, run_id)
            await self._execute(run_id, live, resolved, input_, parent_headers)

    def _forget(self, live: Live) -> None:
        run_id, parent = live.run.run_id, live.run.parent_run_id
        live.done.set()
        live.begun.set()
        self._live.pop(run_id, None)
        if parent is not None and (siblings := self._children.get(parent)) is not None:
            siblings.discard(run_id)
            if not siblings:
                del self._children[parent]
        for child in self._children.pop(run_id, ()):
            self.cancel_if_live(child, PARENT_ENDED)

    async def _depth_of(self, spec: TurnSpec) -> int:
        """How many runs stand above the run. Raises NotFound, Conflict for a parent that ended, InvalidRequest."""
        parent_run_id = spec.parent_run_id
        if parent_run_id is None:
            return 0
        parent = self._live.get(parent_run_id)
        if parent is None or parent.caller.tenant != spec.caller.tenant:
            await self._stored(spec.caller, parent_run_id)
            words = "The run on whose behalf this one is asked for has ended."
            raise Conflict(Reason.RUN_SETTLED, words, {"run_id": parent_run_id})
        most = self._wiring.config.max_run_depth
        if parent.depth >= most:
            problem = f"has {parent.depth} runs above it already, the most that server.max_run_depth allows"
            raise InvalidRequest([FieldViolation("turn.parent_run_id", problem)])
        return parent.depth + 1

    async def run_child(
        self, spec: TurnSpec, run_id: str, headers: Mapping[str, str], on_waiting: Callable[[RunWaiting], None]
    ) -> Run:
        """Run a turn on behalf of another run, under this id, to its end. Cancelled, the run is stopped first.

        ``on_waiting`` is told whenever it begins to wait for its caller. Raises RequestError or StoreError when it
        cannot be started.
        """
        await self.start_turn(spec, headers, run_id)
        live = self._live.get(run_id)
        try:
            if live is not None:
                with watched_for_waits(live, on_waiting):
                    await live.done.wait()
        except asyncio.CancelledError:
            self.cancel_if_live(run_id, PARENT_ENDED)
            with anyio.move_on_after(UNWIND_SECONDS, shield=True):
                await self.until_ended(run_id)
            raise
        return await self.get_run(spec.caller, run_id)

    async def _execute(
        self,
        run_id: str,
        live: Live,
        resolved: Resolved,
        input_: Sequence[Message],
        parent_headers: Mapping[str, str],
    ) -> None:
        async def execution() -> Execution:
            parent = self._parent(resolved.spec)
            prepared, setup = await self._preparer.prepare(
                resolved,
                live.run,
                input_,
                parent_headers,
                live.depth,
                () if parent is None else parent.budget_lines,
                self._sessions_of(resolved.spec),
                parents=() if parent is None else (parent.permissions,),
            )
            return Execution(self._wiring, prepared, TurnMachine(setup), live.log)

        await self._run_to_end(run_id, live, execution)

    def _take_up(self, stored: StoredRun) -> None:
        """Go on with a run that waits for its caller where an earlier process left it."""
        assert self._tasks is not None, "the engine is up"
        parent = None if stored.parent_run_id is None else self._live.get(stored.parent_run_id)
        live = left_waiting(self._store, stored, 0 if parent is None else parent.depth + 1)
        if live is None:
            return
        self._live[stored.run_id] = live
        if stored.parent_run_id is not None:
            self._children.setdefault(stored.parent_run_id, set()).add(stored.run_id)
        self._tasks.start_soon(self._own_again, live, stored)

    async def _own_again(self, live: Live, stored: StoredRun) -> None:
        async def execution() -> Execution | None:
            above: Execution | None = None
            if stored.parent_run_id is not None:
                parent = self._live.get(stored.parent_run_id)
                if parent is not None:
                    await parent.begun.wait()
                    above = parent.execution
                if above is None:
                    return None  # the run above could not go on, so this one cannot
            return await waiting_again(self._wiring, self._preparer, live.run, stored, live.log, live.depth, above)

        self.hooks.began(live.caller, stored.run_id)
        await self._run_to_end(stored.run_id, live, execution)

    async def _run_to_end(self, run_id: str, live: Live, make: Callable[[], Awaitable[Execution | None]]) -> None:
        """Execute a run until it has settled, or is left waiting. One that cannot be executed is ended from its log."""
        fault: Failure | None = None
        try:
            execution = await make()
            if execution is None:
                live.log.failure = Fenced("the run is ended from its stored log")
                live.log.wake()
                fault = RESTARTED
            else:
                live.execution = execution
                live.begun.set()
                if live.stopped is not None:
                    execution.feed(live.stopped)
                await execution.run()
                log_end(execution.run_state)
            if live.log.failure is not None and not isinstance(live.log.failure, Fenced):
                fault = STORE_FAILED
        except ANY_FAULT as error:  # task boundary: whatever is broken, the run must settle
            require_stray(error)
            logger.error("run %s: the execution failed: %s", run_id, where_raised(error))  # noqa: TRY400 - never its text
            fault = replace(BROKEN, message=BROKEN.message.format(type(error).__name__))
            live.log.failure = live.log.failure or Fenced("the run is ended from its stored log")
            live.log.wake()
        finally:
            self._forget(live)
        if fault is not None:
            await settle_broken(self._store, run_id, fault, self._hook_names)

    async def stop(self, grace: float) -> None:
        """Refuse new runs, let those in flight finish for ``grace`` seconds, then cancel and await the rest.

        Runs that wait for their callers, or begin to, are left as they are: the next process goes on with them. Not so
        those that are made on behalf of a run that is in flight itself.
        """
        self._stopping = self.outside.stopping = True
        if not self._live:
            return
        staying = [live for live in self._live.values() if self._may_stay(live)]
        for live in staying:
            live.log.leave()
        with anyio.move_on_after(grace):
            for live in list(self._live.values()):
                await live.done.wait()
        failure = Failure(
            FailurePhase.SETTLEMENT,
            Reason.SHUTTING_DOWN,
            "The server was stopped while the run was active. Send the turn again.",
            retryable=True,
        )
        for live in list(self._live.values()):
            if live in staying and (live.log.can_be_left or (live.taken_up and live.execution is None)):
                continue
            self._end(live, CancelRequested(failure))
        with anyio.move_on_after(10.0):  # a run that cannot be stored in this time is settled at the next start
            for live in list(self._live.values()):
                await live.done.wait()

    def _may_stay(self, live: Live) -> bool:
        return self._wiring.config.leave_waiting and live.run.parent_run_id is None

    @property
    def stopping(self) -> bool:
        """Whether new runs are refused."""
        return self._stopping

    # --- reading ----------------------------------------------------------------------------------------------------

    async def follow(
        self,
        caller: Caller,
        run_id: str,
        cursor: Cursor,
        level: Visibility,
        send: Send,
        *,
        until_waiting: bool = False,
    ) -> None:
        """Send frames of a run's log from the cursor to the run's end. Raises RequestError or StoreError.

        ``until_waiting``: only up to where it waits for its caller, if it does.
        """
        live = self._live.get(run_id)
        if live is not None and live.caller.tenant == caller.tenant:
            place = await place_of(self._store, run_id, cursor, live.log.epoch, live.log.last)
            follower = Follower(live.log, self._store, place, level, send, until_waiting=until_waiting)
            self._followers.add(follower)
            try:
                await follower.run()
            finally:
                self._followers.discard(follower)
            return
        stored = await self._stored(caller, run_id)
        recovering = Unavailable(Reason.STORE_UNAVAILABLE, "The run is being recovered; attach again.", 1.0)
        ahead = cursor.epoch == stored.epoch and cursor.sequence > stored.last_sequence
        if stored.state is not RunState.SETTLED and ahead:
            raise recovering  # its deltas were lost, and where to go back to is known when the next epoch begins
        place = await place_of(self._store, run_id, cursor, stored.epoch, stored.last_sequence)
        await send_stored(self._store, run_id, place, level, send, until=None, last=stored.last_sequence)
        if stored.state is not RunState.SETTLED:
            raise recovering

    async def get_run(self, caller: Caller, run_id: str) -> Run:
        """One run as it stands. Raises NotFound."""
        live = self._live.get(run_id)
        if live is not None and live.caller.tenant == caller.tenant and not live.log.finished:
            if live.execution is not None:
                return live.execution.run_state
            await self._stored(caller, run_id)
            return live.run
        return run_of(await self._stored(caller, run_id))

    async def get_trace(self, caller: Caller, run_id: str) -> RunTrace:
        """What a run did so far. Raises NotFound."""
        live = self._live.get(run_id)
        if live is not None and live.caller.tenant == caller.tenant and live.execution is not None:
            return live.execution.trace()
        await self._stored(caller, run_id)
        return bounded(trace_of(await read_log(self._store, run_id)))

    async def list_runs(self, query: RunFilter, page_size: int, page_token: str) -> tuple[Sequence[Run], str]:
        """Runs, newest first."""
        stored, token = await self._store.list_runs(query, page_size, page_token)
        return [self.as_it_stands(item) for item in stored], token

    def as_it_stands(self, stored: StoredRun) -> Run:
        """A run, from this process where it executes it, else from the store."""
        live = self._live.get(stored.run_id)
        execution = live.execution if live is not None else None
        return execution.run_state if execution is not None else run_of(stored)

    async def until_ended(self, run_id: str) -> None:
        """Return when this process does not execute the run any more."""
        live = self._live.get(run_id)
        if live is not None:
            await live.done.wait()

    async def execution(self, caller: Caller, run_id: str) -> Execution | None:
        """The run's execution in this process; None when the run has settled. Raises NotFound, Unavailable."""
        live = self._live.get(run_id)
        if live is not None and live.caller.tenant == caller.tenant:
            with anyio.move_on_after(BEGIN_SECONDS):
                await live.begun.wait()
            if live.execution is not None:
                return live.execution
        stored = await self._stored(caller, run_id)
        if stored.state is not RunState.SETTLED:
            raise Unavailable(Reason.STORE_UNAVAILABLE, "The run is being prepared or recovered; try again.", 1.0)
        return None

    def stream_closed(self, run_id: str) -> None:
        """The stream that started the run has ended as it was asked to, where the run waits: its deadline is over."""
        live = self._live.get(run_id)
        if live is not None and live.execution is not None:
            live.execution.patience = None

    async def cancel_run(self, caller: Caller, run_id: str, failure: Failure) -> Run:
        """Ask a run to stop. Idempotent. Raises NotFound."""
        live = self._live.get(run_id)
        if live is not None and live.caller.tenant == caller.tenant:
            self._end(live, CancelRequested(failure))
        return await self.get_run(caller, run_id)

    def cancel_if_live(self, run_id: str, failure: Failure) -> None:
        """Ask a run to stop, if this process executes it."""
        live = self._live.get(run_id)
        if live is not None:
            self._end(live, CancelRequested(failure))

    def deadline_reached(self, run_id: str, limit: float) -> None:
        """The deadline of the call that started the run, in seconds, is over, and the run was to end with it."""
        live = self._live.get(run_id)
        if live is not None:
            elapsed = (now_ns() - live.run.create_time_ns) / 1e9
            self._end(live, DeadlineReached("deadline", limit, elapsed))

    def _end(self, live: Live, stop: Stop) -> None:
        if live.execution is not None:
            live.execution.feed(stop)
        else:
            live.stopped = live.stopped or stop

    # --- asking -----------------------------------------------------------------------------------------------------

    async def require_session(self, caller: Caller, session_id: str) -> None:
        """Raises NotFound unless the session is stored."""
        if not await self._store.session_exists(caller.tenant, session_id):
            raise NotFound(
                Reason.SESSION_NOT_FOUND, f"No session has the id {session_id!r}.", {"session_id": session_id}
            )

    async def list_tools(self, caller: Caller, agent_id: str, asked: ToolSelection) -> ToolView:
        """The tools that a run of this agent would see.

        Raises NotFound, InvalidRequest, and Conflict where no run could begin with them.
        """
        agent = self._preparer.agent(agent_id, caller)
        self._preparer.check_client_tools(asked, "selection")
        try:
            return await self._preparer.view(agent, selection(agent, asked), self._preparer.seen_as(agent, caller))
        except ToolError as error:
            raise Conflict(error.failure.reason, error.failure.message) from error

    def check_agent(self, caller: Caller, agent: Agent) -> None:
        """Raises InvalidRequest for an agent whose runs would be refused: see ``Preparer.check``."""
        self._preparer.check(agent, caller)

    async def session_layer(self, caller: Caller, session_id: str) -> Layer | None:
        """What a session adds to the policy of its runs: its standing answers. Raises NotFound or StoreError."""
        await self.require_session(caller, session_id)
        return await self._preparer.session_layer(caller, session_id)

    def permissions(self, caller: Caller, agent_id: str, session: Layer | None) -> Permissions:
        """What the rules say for runs of an agent in a session. Raises NotFound or InvalidRequest."""
        return self._preparer.permissions(self._preparer.agent(agent_id, caller), session)

    def resolve_policy(
        self, caller: Caller, agent_id: str, model: ModelSelection | None, policy: Policy, of: Layer | None = None
    ) -> EffectivePolicy:
        """The policy that a run would get; ``of``: the session's layer. Raises NotFound or InvalidRequest."""
        agent = self._preparer.agent(agent_id, caller)
        selected, provider = self._preparer.model(agent, model, "model")
        return self._preparer.policy(agent, provider.limits(selected.model), policy, of)

    async def count_tokens(self, spec: TurnSpec) -> tuple[TokenCount, ModelLimits, ModelSelection]:
        """Input tokens of the first model call of a turn, what the model takes, and the model. Raises RequestError."""
        resolved = self._preparer.resolve(spec)
        request = await self._preparer.first_request(resolved)
        model = resolved.model
        return await resolved.provider.count_tokens(request), resolved.provider.limits(model.model), model

    def limits(self, provider: str, model: str) -> ModelLimits:
        """What is known of a model."""
        found = self._wiring.providers.get(provider)
        return ModelLimits() if found is None else found.limits(model)

    def providers(self) -> Sequence[ProviderInfo]:
        """What may be shown of the configured providers."""
        return [provider.info for _, provider in sorted(self._wiring.providers.items())]

    async def _stored(self, caller: Caller, run_id: str) -> StoredRun:
        stored = await self._store.get_run(caller.tenant, run_id)
        if stored is None:
            raise NotFound(Reason.RUN_NOT_FOUND, f"No run has the id {run_id!r}.", {"run_id": run_id})
        return stored

    def _input_ids(self, stored: StoredRun) -> tuple[str, ...]:
        spec = decode_turn(stored.spec, stored.caller)
        return tuple(message.message_id for message in spec.input)

    async def _heartbeat(self) -> None:
        while True:
            await anyio.sleep(self._wiring.config.heartbeat_seconds)
            for follower in tuple(self._followers):
                follower.beat()
            await self._look_after_store()

    async def _look_after_store(self) -> None:
        """A database that was deleted or replaced takes writes that nobody will ever read: say so."""
        try:
            await self._store.ping()
        except StoreError as error:
            works = False
            if self.store_works:
                logger.error("the store cannot be used: %s", error)  # noqa: TRY400 - its text is ours
        else:
            works = True
            if not self.store_works:
                logger.warning("the store works again")
        if works is not self.store_works:
            self.store_works = works
            await self.on_store_change(works)
