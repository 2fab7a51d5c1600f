"""One run being executed: the machine's effects as anyio tasks, their results as facts, its events into the log.

Facts are fed one at a time, from whichever task has them; the machine is synchronous, so no lock is needed. An effect
starts only when everything emitted before it is durable. Every task belongs to this run's task group and ends with it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import anyio.abc

from turnwired.codec.frame import Visibility
from turnwired.codec.run import encode_run
from turnwired.domain.completion import CompletionRequest
from turnwired.domain.errors import InvalidRequest, ProviderError, StoreError
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    InputAppended,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    RunFinished,
    RunResumed,
    RunWaiting,
    TextDelta,
    ToolCallExecuting,
    ToolCallFinished,
)
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.generation import ModelItem, ResponseIdentified
from turnwired.domain.outcome import LimitTrip, OutcomeKind
from turnwired.domain.run import Run, RunState
from turnwired.domain.tool import ToolChoice, ToolSource
from turnwired.domain.trace import IterationTrace, RunTrace
from turnwired.domain.usage import Usage, estimated_tokens, sum_cost, sum_usage
from turnwired.engine import call_guard, measure
from turnwired.engine.agent_tools import child_run_id
from turnwired.engine.budgets import Line
from turnwired.engine.caller_side import FACING_CALLER, CallerSide
from turnwired.engine.completion import ask_hook
from turnwired.engine.fitting import fit
from turnwired.engine.log import RunLog, now_ns, visibility_of
from turnwired.engine.measure import characters, request_size, too_long
from turnwired.engine.ports import Wiring
from turnwired.engine.prepared import Prepared
from turnwired.engine.progress import progress_reporter
from turnwired.engine.request import without_tools
from turnwired.engine.run_clock import RunClock
from turnwired.engine.spending import BudgetedCall, admit
from turnwired.engine.stored import stored_messages
from turnwired.engine.tool_questions import ToolQuestions
from turnwired.engine.totals import spending_of
from turnwired.policy.permissions import Permissions
from turnwired.providers.port import ModelProvider, ModelRequest
from turnwired.store.port import Settlement
from turnwired.stray import ANY_FAULT, require_stray
from turnwired.tools.port import CheckedCall, ToolInvocation, ToolOutput
from turnwired.turn.effects import (
    Abandon,
    AnswerTool,
    AskHook,
    AwaitAttachments,
    AwaitCaller,
    CallModel,
    Effect,
    Emitted,
    ResolveTool,
    RunTool,
    Settle,
    Step,
    Wait,
)
from turnwired.turn.facts import (
    AttachmentsOverdue,
    Begin,
    BudgetReached,
    DeadlineReached,
    DriverFailed,
    Fact,
    HistoryCut,
    ModelCalled,
    ModelEnded,
    ModelFailed,
    ModelProduced,
    PreparationFailed,
    RetryDue,
    ToolFinished,
    ToolResolved,
    ToolResultLate,
)
from turnwired.turn.machine import TurnMachine
from turnwired.turn.trace import bounded, bounded_beside, trace_of

logger = logging.getLogger(__name__)

Answer = AsyncGenerator[Sequence[ModelItem], None]
E = TypeVar("E", CallModel, AskHook, RunTool, AnswerTool, Wait, AwaitAttachments)

MODEL = "model"
"""Key of the model call's, retry wait's or hook's task; tool calls have their call ids."""
ATTACHMENTS = "attachments"
"""Key of the wait for attachments. It may outlast what it waits for, and ends with the run."""
_CHARGED = (IterationStarted, IterationRetryScheduled, IterationFinished)
_RUNNING = {anyio.TaskHandle.Status.PENDING, anyio.TaskHandle.Status.CANCELLING}
UNWIND_SECONDS = 2.0
"""How long the end of a run waits for cancelled work to unwind. What has not by then runs on unheard."""


class Execution:
    """Executes one run from its first event to its settlement."""

    def __init__(
        self,
        wiring: Wiring,
        prepared: Prepared,
        machine: TurnMachine,
        log: RunLog,
        past: Sequence[LoggedEvent] = (),
    ) -> None:
        """``past``: the log of a run that goes on after a restart; its machine stands as that says."""
        self._wiring = wiring
        self.prepared = prepared
        self.machine = machine
        self.log = log
        self._past = past
        self._run = prepared.run
        self._settled: Run | None = None
        self._facts: deque[Fact] = deque()
        self._feeding = False
        self._checked: dict[str, CheckedCall] = {}
        self._work: dict[str, anyio.TaskHandle[None]] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._clock = RunClock(prepared.bounds.run_timeout, prepared.run.create_time_ns, self._deadline_reached)
        self.patience = prepared.spec.caller_timeout  # until the stream that began the run ends as it was asked to
        self._due: set[asyncio.Task[None]] = set()
        self.questions = ToolQuestions(self.feed)
        self.caller_side = CallerSide(
            prepared.run, prepared.spec.caller.tenant, prepared.bounds.wait_timeout, self._feed_later
        )
        self._milestones: list[LoggedEvent] = []

    # --- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run to the durable end. Raises nothing but cancellation: a failing store is told by the log's ``failure``."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                if self._past:
                    self._restore(self._past)
                else:
                    self._clock.start()
                    failure = self.prepared.failure
                    self.feed(Begin() if failure is None else PreparationFailed(failure))
                await self.log.write()
                if self.log.left:
                    self.prepared.telemetry.left()
                # The run is settled and stored, or cannot be: either way nothing of it may go on.
                if self.log.failure is not None or any(_running(work) for work in self._work.values()):
                    tasks.cancel_scope.cancel()
        finally:
            self._clock.close()
            self.caller_side.close()
            self._tasks = None
            if self.prepared.purse is not None:
                self.prepared.purse.close()

    def _restore(self, past: Sequence[LoggedEvent]) -> None:
        """Go on waiting where an earlier process waited."""
        self._milestones += [item for item in past if visibility_of(item.event) is not Visibility.DELTA]
        (side := self.caller_side).restore(past, (machine := self.machine).pending_calls)
        self.log.waiting = None if side.waiting is None else side.waiting[0]
        self._clock.restore(past)
        tools, validation = self.prepared.tools, self.prepared.bounds.argument_validation
        for call in (approval.call for approval in machine.pending_approvals.values()):
            if tools is not None:
                self._checked[call.call_id] = tools.check_again(call.tool, call.arguments_json, validation)
        for key in (*machine.pending_approvals, *machine.pending_calls):
            side.await_caller(key)

    def trace(self) -> RunTrace:
        """What the run did so far, as far as readers may know of it."""
        return bounded(trace_of(item for item in self._milestones if item.sequence <= self.log.visible))

    def _deadline_reached(self) -> None:
        limit = self.prepared.bounds.run_timeout
        assert limit is not None, "the clock runs only against a limit"
        self._feed_later(DeadlineReached("timeout.run", limit, self._clock.elapsed))

    def _feed_later(self, fact: Fact) -> None:
        # A timer fires outside of any task, and what the fact leads to may need to start one.
        task = asyncio.get_running_loop().create_task(self._feed(fact))
        self._due.add(task)
        task.add_done_callback(self._due.discard)

    async def _feed(self, fact: Fact) -> None:
        self.feed(fact)

    def _remaining_ns(self) -> int | None:
        """Until the run is over by its own limit or by the deadline of a caller whom it ends with."""
        ends: list[float] = []
        if (remaining := self._clock.remaining_ns) is not None:
            ends.append(remaining)
        if self.patience is not None:
            ends.append(self._run.create_time_ns + self.patience * 1e9 - now_ns())
        return int(min(ends)) if ends else None

    @property
    def budget_lines(self) -> tuple[Line, ...]:
        """The budgets that bind this run, and so each of its children."""
        return () if self.prepared.purse is None else self.prepared.purse.lines

    @property
    def permissions(self) -> Permissions:
        """What the run may do now, which its children cannot exceed."""
        return self.machine.setup.permissions.with_rules(self.caller_side.added_rules)

    @property
    def sessions(self) -> tuple[str, ...]:
        """The session of this run and of those above it."""
        return self.prepared.sessions

    @property
    def run_state(self) -> Run:
        """The run as it stands now. It is settled when that is durable: until then its outcome may still be lost."""
        if self._settled is not None and self.log.finished:
            return replace(self._settled, last_sequence=self.log.visible, epoch=self.log.epoch)
        run = replace(self._run, last_sequence=self.log.visible, epoch=self.log.epoch)
        waiting = self.caller_side.waiting_as_of(self.log.visible)
        if waiting is not None:
            run = replace(run, state=RunState.WAITING, waiting=waiting)
        visible = self.log.visible  # only what usage is made of: a run may be read after each of a thousand answers
        told = (item for item in self._milestones if isinstance(item.event, _CHARGED) and item.sequence <= visible)
        calls = [entry for item in trace_of(told).entries if isinstance(entry := item.entry, IterationTrace)]
        return replace(
            run,
            usage=sum_usage(call.usage for call in calls),
            cost=sum_cost(call.cost for call in calls if call.usage != Usage()),
        )

    # --- facts in, events and effects out -------------------------------------------------------------------------

    def feed(self, fact: Fact) -> None:
        """Tell the machine a fact and do what it answers."""
        self._facts.append(fact)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._facts:
                self._take(self.machine.feed(self._facts.popleft()))
        finally:
            self._feeding = False

    def _take(self, step: Step) -> None:
        for effect in step.effects:
            if type(effect) is Abandon:
                work = self._abandon(effect)
                if work and self._tasks is not None:
                    # The run has ended for the machine, but it is not told so while a tool of it may still act.
                    self._tasks.start_soon(self._take_when_unwound, step, work)
                    return
        self._log_and_perform(step)

    async def _take_when_unwound(self, step: Step, work: Sequence[anyio.TaskHandle[None]]) -> None:
        with anyio.move_on_after(UNWIND_SECONDS):
            for item in work:
                await item.wait()
        self._log_and_perform(step)

    def _log_and_perform(self, step: Step) -> None:
        for emitted in step.events:
            self._emit(emitted)
        for effect in step.effects:
            self._perform(effect)

    def _emit(self, emitted: Emitted) -> None:
        event = emitted.event
        time_ns = now_ns()
        if type(event) is TextDelta:  # the hot path: nothing below matters to it
            self.log.append(emitted.iteration, event, time_ns)
            return
        telemetry = self.prepared.telemetry
        match event:
            case IterationStarted():
                span_id = telemetry.iteration_started(emitted.iteration, event.max_output_tokens)
                event = replace(event, span_id=span_id) if span_id else event
            case ToolCallExecuting():
                self.caller_side.executing(event.call_id, time_ns)
                call = self._checked.get(event.call_id)
                tool = call.tool if call is not None else None
                if tool is not None and tool.source is ToolSource.AGENT:
                    event = replace(event, child_run_id=child_run_id(self._run.run_id, event.call_id))
                span_id = telemetry.tool_started(event.call_id, tool.routed_name if tool is not None else "")
                event = replace(event, span_id=span_id) if span_id else event
            case IterationFinished() | IterationRetryScheduled():
                if self.prepared.purse is not None:
                    self.prepared.purse.charge(event.usage, event.cost)
            case RunFinished():
                if event.message is not None:
                    event = replace(event, message=replace(event.message, create_time_ns=time_ns))
                if self.prepared.spec.include_trace or event.outcome.kind is not OutcomeKind.ANSWERED:
                    trace = bounded_beside(trace_of(self._milestones), event.message, event.structured_output_json)
                    event = replace(event, trace=trace)
                self._settled = replace(
                    self._run,
                    state=RunState.SETTLED,
                    outcome=event.outcome,
                    message=event.message,
                    structured_output_json=event.structured_output_json,
                    usage=event.usage,
                    cost=event.cost,
                    settle_time_ns=time_ns,
                )
            case (
                ApprovalRequested()
                | ApprovalResolved()
                | RunWaiting()
                | RunResumed()
                | InputAppended()
                | ToolCallFinished()
            ):
                self._face_caller(emitted.iteration, event, time_ns)
                return
            case _:
                pass
        self._append(emitted.iteration, event, time_ns)

    def _face_caller(self, iteration: int, event: Event, time_ns: int) -> None:
        self._append(iteration, self.caller_side.stamped(event, time_ns), time_ns)
        if isinstance(event, RunWaiting):
            self._clock.stop(time_ns)
        elif isinstance(event, RunResumed):
            self._clock.go_on(time_ns)

    def _append(self, iteration: int, event: Event, time_ns: int) -> None:
        self.log.append(iteration, event, time_ns)
        if isinstance(event, FACING_CALLER):
            self.caller_side.waiting_as_of(self.log.visible)  # lets go of what nobody can see any more
            changes = self.caller_side.record(event, self.log.last, time_ns)
            if isinstance(event, RunWaiting):
                self.log.outlives = not self.caller_side.is_asked_by_tool
            if changes is not None:
                self.log.change(changes)
        if visibility_of(event) is not Visibility.DELTA:
            # Kept as they are: most runs end well and nobody asks for their trace.
            self._milestones.append(LoggedEvent(self.log.last, time_ns, iteration, event))
            self.prepared.telemetry.event(iteration, time_ns, event)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case ResolveTool():
                self._facts.append(self._resolve(effect))
            case CallModel():
                self._spawn(MODEL, self._call_model, effect)
            case AskHook():
                self._spawn(MODEL, self._ask_hook, effect)
            case RunTool():
                self._spawn(effect.call_id, self._run_tool, effect)
            case AwaitCaller():
                self.caller_side.await_caller(effect.key)
            case AnswerTool():
                self._spawn(effect.approval_id, self._answer_tool, effect)
            case Wait():
                self._spawn(MODEL, self._wait, effect)
            case AwaitAttachments():
                self._spawn(ATTACHMENTS, self._await_attachments, effect)
            case Abandon():
                pass  # done before the events of its step
            case Settle():
                self._settle(effect)

    async def _answer_tool(self, effect: AnswerTool) -> None:
        self.questions.answered(effect)

    def _spawn(self, key: str, perform: Callable[[E], Awaitable[None]], effect: E) -> None:
        if self._tasks is not None:
            self._work[key] = self._tasks.create_task(self._guarded(perform, effect, self.log.last))

    async def _guarded(self, perform: Callable[[E], Awaitable[None]], effect: E, barrier: int) -> None:
        try:
            await self.log.flushed(barrier)
            await perform(effect)
        except StoreError:
            # The log has failed and says so itself; its writer ends this run's tasks.
            return
        except ANY_FAULT as error:  # task boundary: a fault of ours must settle the run
            require_stray(error)
            name = type(effect).__name__
            logger.error("run %s: %s failed: %s", self._run.run_id, name, where_raised(error))  # noqa: TRY400 - never its text
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

    def _abandon(self, effect: Abandon) -> Sequence[anyio.TaskHandle[None]]:
        keys = (MODEL, *effect.call_ids) if effect.model else effect.call_ids
        found = [work for key in keys if (work := self._work.get(key)) is not None and _running(work)]
        for work in found:
            work.cancel()
        return found

    # --- effects --------------------------------------------------------------------------------------------------

    def _resolve(self, effect: ResolveTool) -> ToolResolved:
        tools = self.prepared.tools
        assert tools is not None, "a run without tools offers none, and the machine resolves only what was offered"
        checked = tools.check(effect.requested_name, effect.arguments_json, self.prepared.bounds.argument_validation)
        self._checked[effect.call_id] = checked
        return ToolResolved(
            effect.call_id, checked.tool, checked.failure, checked.repairs, checked.annotations, checked.asks_for
        )

    async def _call_model(self, effect: CallModel) -> None:
        telemetry = self.prepared.telemetry
        iteration, attempt = effect.iteration, effect.attempt
        started = time.monotonic_ns()
        first: int | None = None
        reads = said = 0
        failure: Failure | None = None
        budgeted: BudgetedCall | None = None
        try:
            called = await self._called(effect)
            if isinstance(called, LimitTrip):
                return self.feed(BudgetReached(iteration, attempt, called))
            answer, budgeted = called
            with call_guard.watched(self.prepared.request.limits.total) as call:
                async with aclosing(answer) as batches:
                    async for items in batches:
                        reads += 1
                        if first is None and items:
                            first = time.monotonic_ns() - started
                            telemetry.output_began(iteration)
                        for item in items:
                            said += characters(item)
                            if isinstance(item, ResponseIdentified):
                                telemetry.response_identified(iteration, item.response_id, item.model)
                        if said > measure.MAX_ANSWER_CHARACTERS:
                            raise ProviderError(too_long())
                        self.feed(ModelProduced(iteration, attempt, tuple(items)))
                        if self.log.backlogged:
                            await call_guard.not_counted(call, self.log.drained())
        except ProviderError as error:
            failure = replace(error.failure, iteration=iteration)
        except InvalidRequest as error:
            failure = Failure(FailurePhase.MODEL, Reason.PROVIDER_REJECTED, error.message, iteration=iteration)
        telemetry.output_chunks(iteration, reads)
        took = time.monotonic_ns() - started
        jitter, remaining = self._wiring.random(), self._remaining_ns()
        if budgeted is not None and budgeted.trip is not None:
            return self.feed(BudgetReached(iteration, attempt, budgeted.trip, took, first))
        if failure is None:
            return self.feed(ModelEnded(iteration, attempt, took, first, jitter, remaining))
        return self.feed(ModelFailed(iteration, attempt, failure, jitter, took, first, remaining))

    async def _called(self, effect: CallModel) -> tuple[Answer, BudgetedCall | None] | LimitTrip:
        """The answer of a call that is made, or the budget that it does not fit."""
        provider, request = await self._request(effect)
        if self.prepared.purse is None:
            tokens = estimated_tokens(request_size(request))
            self.feed(ModelCalled(effect.iteration, effect.attempt, tokens))
            return provider.generate(request), None
        admitted = await admit(self.prepared.purse, provider, request)
        if isinstance(admitted, LimitTrip):
            return admitted
        request, budgeted = admitted
        self.feed(ModelCalled(effect.iteration, effect.attempt, budgeted.input_tokens, budgeted.cap))
        return budgeted.guard(provider.generate(request)), budgeted

    async def _request(self, effect: CallModel) -> tuple[ModelProvider, ModelRequest]:
        prepared, prompt = self.prepared, self.prepared.prompt
        assert prepared.provider is not None, "a prepared run has a provider"
        assert prompt is not None, "a prepared run has a prompt"
        prompt.extend(effect.append)
        if (revised := await prepared.revised(effect)) is not None:
            self.feed(revised)
            await self.log.flushed(self.log.last)
        request = replace(
            prepared.request,
            system=prompt.system,
            tools=prompt.tools,
            offered=prompt.offered,
            max_output_tokens=effect.max_output_tokens,
            renew_credentials=effect.renew_credentials,
            headers=prepared.telemetry.headers_for_model(effect.iteration),
        )
        if effect.iteration > 1:
            # A forced choice holds for the first iteration only: later it would never let the model answer.
            request = replace(request, tool_choice=ToolChoice())
        change = await fit(prompt.history, prepared.provider, request, prepared.bounds, shorten=effect.shorten)
        if change is not None:
            self.feed(HistoryCut(effect.iteration, effect.attempt, change))
            await self.log.flushed(self.log.last)
        request = replace(request, messages=prompt.messages())
        return prepared.provider, request if effect.offer_tools else without_tools(prepared.provider, request)

    async def _ask_hook(self, effect: AskHook) -> None:
        run = self._run
        asked = CompletionRequest(run.run_id, run.agent_id, run.session_id, effect.outcome, effect.messages)
        hook = self._wiring.completion_hooks[effect.name]  # the policy of a run names only those that there are
        self.feed(await ask_hook(effect.iteration, hook, asked))

    async def _run_tool(self, effect: RunTool) -> None:
        call_id = effect.call_id
        prepared, checked = self.prepared, self._checked[effect.call_id]
        tools = prepared.tools
        assert tools is not None, "a tool that was resolved comes from a view"
        view = tools.view
        tools.begun(call_id, effect.routed_name)
        if checked.tool is None or checked.arguments is None:  # found by an earlier process, and not there any more
            assert checked.failure is not None, "a call that cannot be made says why"
            result = view.settle(
                call_id, ToolOutput((), is_error=True, failure=checked.failure), self.prepared.longest_result
            )
            self.feed(ToolFinished(call_id, result))
            return
        invocation = ToolInvocation(
            run_id=self._run.run_id,
            call_id=call_id,
            native_name=checked.tool.native_name,
            arguments=checked.arguments,
            caller=prepared.acting,
            session_id=self._run.session_id,
            attempt=effect.attempt,
            # A run that an agent makes has a time limit of its own, and may wait for people.
            timeout=None if checked.tool.source is ToolSource.AGENT else prepared.bounds.tool_call_timeout,
            headers=prepared.telemetry.headers_for_tool(call_id),
            on_progress=progress_reporter(call_id, self.feed),
            on_late=lambda: self.feed(ToolResultLate(call_id)),
            ask=partial(self.questions.ask, call_id),
        )
        started = time.monotonic_ns()
        with prepared.telemetry.in_tool(call_id):
            result = await view.execute(effect.routed_name, invocation, self.prepared.longest_result)
        tools.settled(result)
        self.feed(ToolFinished(call_id, result, time.monotonic_ns() - started))

    async def _wait(self, effect: Wait) -> None:
        await anyio.sleep(effect.delay_ns / 1e9)
        self.feed(RetryDue(effect.iteration, effect.attempt))

    async def _await_attachments(self, effect: AwaitAttachments) -> None:
        await anyio.sleep(effect.limit)
        self.feed(AttachmentsOverdue(effect.limit))

    def _settle(self, effect: Settle) -> None:
        assert self._settled is not None, "RunFinished comes before the settlement"
        settled_ns = self._settled.settle_time_ns
        run = replace(self._settled, last_sequence=self.log.last, epoch=self.log.epoch)
        purse, tenant = self.prepared.purse, self.prepared.spec.caller.tenant
        if purse is None:
            spent = spending_of(tenant, self.sessions, run.create_time_ns, run.usage, run.cost)
        else:
            spent = purse.spending(run.usage, run.cost)
            purse.settling()
        self.log.settle(
            Settlement(
                settled_ns,
                encode_run(run),
                stored_messages(self._run.session_id, effect.messages, settled_ns),
                tuple(hook.name for hook in self._wiring.hooks),
                spent,
                effect.finished.outcome.kind,
            )
        )


def _running(work: anyio.TaskHandle[None]) -> bool:
    return work.status in _RUNNING
