"""One run being executed: the machine's effects as anyio tasks, their results as facts, its events into the log.

Facts are fed one at a time, from whichever task has them; the machine is synchronous, so no lock is needed. An effect
starts only when everything emitted before it is durable. Every task belongs to this run's task group and ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import anyio.abc

from turnwired.codec.messages import encode_message
from turnwired.codec.runs import encode_run
from turnwired.context.prompt import Prompt
from turnwired.domain.errors import InvalidRequest, ProviderError, StoreError
from turnwired.domain.event import IterationStarted, LoggedEvent, RunFinished, TextDelta, ToolCallExecuting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import ResponseIdentified
from turnwired.domain.message import Message
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import Run, RunState, TurnSpec
from turnwired.domain.trace import RunTrace
from turnwired.engine.log import Level, RunLog, level_of, now_ns
from turnwired.engine.ports import Wiring
from turnwired.policy.bounds import Bounds
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest
from turnwired.store.port import Settlement, StoredMessage
from turnwired.telemetry.port import RunTelemetry
from turnwired.tools.port import CheckedCall, ToolInvocation, ToolView
from turnwired.turn.effects import Abandon, CallModel, Effect, Emitted, ResolveTool, RunTool, Settle, Wait
from turnwired.turn.facts import (
    Begin,
    CancelRequested,
    DeadlineReached,
    DriverFailed,
    Fact,
    ModelEnded,
    ModelFailed,
    ModelProduced,
    PreparationFailed,
    RetryDue,
    ToolFinished,
    ToolProgress,
    ToolResolved,
)
from turnwired.turn.machine import TurnMachine
from turnwired.turn.trace import TraceFold

logger = logging.getLogger(__name__)

E = TypeVar("E", CallModel, RunTool, Wait)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run needs beside its machine. ``provider`` is None when preparation failed with ``failure``."""

    spec: TurnSpec
    run: Run
    bounds: Bounds
    view: ToolView | None
    provider: ModelProvider | None
    prompt: Prompt | None
    telemetry: RunTelemetry
    failure: Failure | None = None


class Execution:
    """Executes one run from its first event to its settlement."""

    def __init__(self, wiring: Wiring, prepared: Prepared, machine: TurnMachine, log: RunLog) -> None:
        self._wiring = wiring
        self._prepared = prepared
        self._machine = machine
        self._log = log
        self._run = prepared.run
        self._facts: deque[Fact] = deque()
        self._feeding = False
        self._checked: dict[str, CheckedCall] = {}
        self._model_scope: anyio.CancelScope | None = None
        self._tool_scopes: dict[str, anyio.CancelScope] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._trace = TraceFold()

    # --- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run to the durable end. Raises nothing but cancellation: a failing store is told by the log's ``failure``."""
        timeout = self._prepared.bounds.run_timeout
        if timeout is not None:
            self._deadline = asyncio.get_running_loop().call_later(timeout, self._deadline_reached, timeout)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._write_log)
                failure = self._prepared.failure
                self.feed(Begin() if failure is None else PreparationFailed(failure))
        finally:
            if self._deadline is not None:
                self._deadline.cancel()
            self._tasks = None

    async def _write_log(self) -> None:
        await self._log.write()
        # The run is settled and stored, or cannot be: either way nothing of it may go on.
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()

    def trace(self) -> RunTrace:
        """What the run did so far."""
        return self._trace.trace()

    def cancel(self, failure: Failure) -> None:
        """Ask the run to stop. Idempotent; a settled run stays as it is."""
        self.feed(CancelRequested(failure))

    def _deadline_reached(self, limit: float) -> None:
        self.feed(DeadlineReached("timeout.run", limit))

    @property
    def run_state(self) -> Run:
        """The run as it stands now."""
        return replace(self._run, last_sequence=self._log.visible, epoch=self._log.epoch)

    # --- facts in, events and effects out -------------------------------------------------------------------------

    def feed(self, fact: Fact) -> None:
        """Tell the machine a fact and do what it answers."""
        self._facts.append(fact)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._facts:
                step = self._machine.feed(self._facts.popleft())
                for emitted in step.events:
                    self._emit(emitted)
                for effect in step.effects:
                    self._perform(effect)
        finally:
            self._feeding = False

    def _emit(self, emitted: Emitted) -> None:
        event = emitted.event
        time_ns = now_ns()
        if type(event) is TextDelta:  # the hot path: nothing below matters to it
            self._log.append(emitted.iteration, event, time_ns)
            return
        telemetry = self._prepared.telemetry
        match event:
            case IterationStarted():
                span_id = telemetry.iteration_started(emitted.iteration, event.max_output_tokens)
                event = replace(event, span_id=span_id) if span_id else event
            case ToolCallExecuting():
                call = self._checked.get(event.call_id)
                name = call.tool.routed_name if call is not None and call.tool is not None else ""
                span_id = telemetry.tool_started(event.call_id, name)
                event = replace(event, span_id=span_id) if span_id else event
            case RunFinished():
                if self._prepared.spec.include_trace or event.outcome.kind is not OutcomeKind.ANSWERED:
                    event = replace(event, trace=self._trace.trace())
                self._run = replace(
                    self._run,
                    state=RunState.SETTLED,
                    outcome=event.outcome,
                    message=event.message,
                    structured_output_json=event.structured_output_json,
                    usage=event.usage,
                    cost=event.cost,
                    settle_time_ns=time_ns,
                )
            case _:
                pass
        self._log.append(emitted.iteration, event, time_ns)
        if level_of(event) is not Level.DELTA:
            self._trace.add(LoggedEvent(self._log.last, time_ns, emitted.iteration, event))
            telemetry.event(emitted.iteration, time_ns, event)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case ResolveTool():
                self._facts.append(self._resolve(effect))
            case CallModel():
                self._spawn(self._call_model, effect)
            case RunTool():
                self._spawn(self._run_tool, effect)
            case Wait():
                self._spawn(self._wait, effect)
            case Abandon():
                self._abandon(effect)
            case Settle():
                self._settle(effect)

    def _spawn(self, work: Callable[[E, int], Awaitable[None]], effect: E) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._guarded, work, effect, self._log.last)

    async def _guarded(self, work: Callable[[E, int], Awaitable[None]], effect: E, barrier: int) -> None:
        try:
            await work(effect, barrier)
        except StoreError:
            # The log has failed and says so itself; its writer ends this run's tasks.
            return
        except Exception as error:  # task boundary: a fault of ours must settle the run, not vanish
            logger.exception("run %s: %s failed", self._run.run_id, type(effect).__name__)
            self.feed(
                DriverFailed(
                    Failure(
                        FailurePhase.SETTLEMENT,
                        Reason.INTERNAL,
                        f"The service failed while it handled {type(effect).__name__} ({type(error).__name__}). "
                        "This is a fault of the service; its log has the details.",
                    )
                )
            )

    # --- effects --------------------------------------------------------------------------------------------------

    def _resolve(self, effect: ResolveTool) -> ToolResolved:
        view = self._prepared.view
        assert view is not None, "a run without tools offers none, and the machine resolves only what was offered"
        checked = view.check(
            effect.requested_name, effect.arguments_json, self._prepared.bounds.argument_validation
        )
        self._checked[effect.call_id] = checked
        return ToolResolved(effect.call_id, checked.tool, checked.failure)

    async def _call_model(self, effect: CallModel, barrier: int) -> None:
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope:
            self._model_scope = scope
            await self._log.flushed(barrier)
            started = loop.time()
            first: float | None = None
            iteration, attempt = effect.iteration, effect.attempt
            try:
                provider, request = self._request(effect)
                async with aclosing(provider.generate(request)) as batches:
                    async for items in batches:
                        if first is None and items:
                            first = loop.time()
                        for item in items:
                            if type(item) is ResponseIdentified:
                                self._prepared.telemetry.response_identified(iteration, item.response_id, item.model)
                        self.feed(ModelProduced(iteration, attempt, tuple(items)))
                        if self._log.backlogged:
                            await self._log.drained()
            except ProviderError as error:
                self.feed(
                    ModelFailed(
                        iteration,
                        attempt,
                        replace(error.failure, iteration=iteration),
                        self._wiring.random(),
                        _ns(loop.time() - started),
                        None if first is None else _ns(first - started),
                    )
                )
            except InvalidRequest as error:
                failure = Failure(FailurePhase.MODEL, Reason.PROVIDER_REJECTED, error.message, iteration=iteration)
                self.feed(ModelFailed(iteration, attempt, failure))
            else:
                self.feed(
                    ModelEnded(
                        iteration,
                        attempt,
                        _ns(loop.time() - started),
                        None if first is None else _ns(first - started),
                    )
                )

    def _request(self, effect: CallModel) -> tuple[ModelProvider, ModelRequest]:
        prepared = self._prepared
        assert prepared.provider is not None and prepared.prompt is not None, "a prepared run has both"
        prompt, bounds = prepared.prompt, prepared.bounds
        prompt.extend(effect.append)
        offer = effect.offer_tools and bool(prompt.offered)
        return prepared.provider, ModelRequest(
            model=self._run.model.model if self._run.model is not None else "",
            messages=prompt.messages(),
            tools=prompt.tools if offer else b"",
            tool_choice=prepared.spec.tools.choice,
            offered=prompt.offered if offer else (),
            parallel_tool_calls=False if bounds.max_parallel_calls == 1 else None,
            max_output_tokens=effect.max_output_tokens,
            reasoning_effort=bounds.reasoning_effort,
            headers=prepared.telemetry.headers_for_model(effect.iteration),
            limits=CallLimits(
                total=bounds.iteration_timeout,
                first_event=bounds.first_event_timeout,
                idle=bounds.stream_idle_timeout,
                thinking_idle=bounds.thinking_idle_timeout,
            ),
        )

    async def _run_tool(self, effect: RunTool, barrier: int) -> None:
        loop = asyncio.get_running_loop()
        call_id = effect.call_id
        with anyio.CancelScope() as scope:
            self._tool_scopes[call_id] = scope
            try:
                await self._log.flushed(barrier)
                checked = self._checked[call_id]
                view = self._prepared.view
                assert view is not None and checked.tool is not None and checked.arguments is not None
                invocation = ToolInvocation(
                    run_id=self._run.run_id,
                    call_id=call_id,
                    native_name=checked.tool.native_name,
                    arguments=checked.arguments,
                    caller=self._prepared.spec.caller,
                    session_id=self._run.session_id,
                    attempt=effect.attempt,
                    timeout=self._prepared.bounds.tool_call_timeout,
                    headers=self._prepared.telemetry.headers_for_tool(call_id),
                    on_progress=lambda done, total, text: self.feed(ToolProgress(call_id, done, total, text)),
                )
                started = loop.time()
                with self._prepared.telemetry.in_tool(call_id):
                    result = await view.execute(
                        effect.routed_name, invocation, self._prepared.bounds.max_result_bytes
                    )
                self.feed(ToolFinished(call_id, result, _ns(loop.time() - started)))
            finally:
                self._tool_scopes.pop(call_id, None)

    async def _wait(self, effect: Wait, barrier: int) -> None:
        with anyio.CancelScope() as scope:
            self._model_scope = scope
            await self._log.flushed(barrier)
            await anyio.sleep(effect.delay_ns / 1e9)
            self.feed(RetryDue(effect.iteration, effect.attempt))

    def _abandon(self, effect: Abandon) -> None:
        if effect.model and self._model_scope is not None:
            self._model_scope.cancel()
        for call_id in effect.call_ids:
            scope = self._tool_scopes.get(call_id)
            if scope is not None:
                scope.cancel()

    def _settle(self, effect: Settle) -> None:
        settled_ns = self._run.settle_time_ns
        run = replace(self._run, last_sequence=self._log.last, epoch=self._log.epoch)
        self._log.settle(
            Settlement(
                settled_ns,
                encode_run(run),
                tuple(stored_message(message, settled_ns) for message in effect.messages),
            )
        )


def stored_message(message: Message, create_time_ns: int) -> StoredMessage:
    """A message as the store keeps it, stamped."""
    stamped = replace(message, create_time_ns=message.create_time_ns or create_time_ns)
    return StoredMessage(
        stamped.message_id, stamped.role.value, encode_message(stamped), stamped.run_id, stamped.create_time_ns
    )


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
