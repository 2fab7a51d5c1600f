"""The turn machine: facts go in, events and effects come out, in the manner of h11.

It alone owns a run's lifecycle, the pairing of calls and results, the bounds, retries and the outcome. It is pure: no
I/O, no clock, no randomness, no tasks, no logging; the same facts give the same steps. It may know the domain and the
numbers of the policy, never a provider, a tool source, a store or the driver that feeds it.
"""

from __future__ import annotations

from dataclasses import replace

from turnwired.domain.event import (
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    RunFinished,
    RunStarted,
)
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Part
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import Notice, Outcome, OutcomeKind
from turnwired.domain.policy import ToolErrorMode
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Usage
from turnwired.turn import ending, retry
from turnwired.turn.aftermath import LateResults
from turnwired.turn.answer import Answer, Call
from turnwired.turn.batch import ToolBatch
from turnwired.turn.effects import Abandon, CallModel, Emitted, Settle, Step, Wait
from turnwired.turn.ending import Ending
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
    ToolResultLate,
)
from turnwired.turn.history import Transcript, call_part
from turnwired.turn.ids import Ids
from turnwired.turn.ledger import Ledger
from turnwired.turn.out import NOTHING, Out
from turnwired.turn.setup import TurnSetup
from turnwired.turn.state import ACCEPTED, TurnState

CUT_BY_LIMIT = (
    "Not executed: the answer reached the output token limit, so this call may be incomplete. "
    "Make it again with a smaller payload, or in several calls."
)
CUT = "Not executed: the answer broke off before its end, so this call may be incomplete."


class TurnMachine:
    """One run, from Begin to Settle. ``feed`` facts in the order in which they happened; never from two threads.

    The events of a step come before its effects (see ``Abandon`` for the one exception). In ``RunFinished`` the trace
    is None or an empty RunTrace: the latter asks whoever numbers and times the events to put in the fold of the log
    (``turnwired.turn.trace``), which the machine, having no clock, cannot.
    """

    def __init__(self, setup: TurnSetup) -> None:
        self.setup = setup
        self.state = TurnState.READY
        self.iteration = 0
        self.attempt = 0
        self.outcome: Outcome | None = None
        self.ignored = 0
        self._ids = Ids(setup.run_id)
        self._answer = self._new_answer()
        self._batch: ToolBatch | None = None
        self._transcript = Transcript(setup.run_id, self._ids)
        self._ledger = Ledger(setup.price)
        self._calls_settled = 0
        self._calls_counted = 0
        self._limit_reported = False
        self._late = LateResults()

    @property
    def executing(self) -> tuple[str, ...]:
        """Ids of the tool calls that run now."""
        return self._batch.executing if self._batch is not None else ()

    def feed(self, fact: Fact) -> Step:
        """Take one fact and say what follows from it: events first, in order, then effects, in order.

        Never raises: a fact that does not fit the state is ignored and counted in ``ignored``.
        """
        if type(fact) is ModelProduced and self.state is TurnState.CALLING_MODEL:
            return self._model_produced(fact)  # first, because there are a thousand of these to one of the others
        if type(fact) not in ACCEPTED[self.state]:
            self.ignored += 1
            return NOTHING
        out = Out(self.iteration)
        if not self._dispatch(fact, out):
            self.ignored += 1
        return out.step()

    def _dispatch(self, fact: Fact, out: Out) -> bool:
        match fact:
            case Begin():
                self._run_started(out)
                self._next_iteration(out)
            case PreparationFailed(failure):
                self._stop(out, Ending(OutcomeKind.ERRORED, failure), FinishReason.ERROR)
            case ModelEnded():
                return self._model_ended(fact, out)
            case ModelFailed():
                return self._model_failed(fact, out)
            case RetryDue(iteration, attempt):
                return self._retry_due(iteration, attempt, out)
            case ToolResolved() | ToolProgress() | ToolFinished():
                return self._tool_fact(fact, out)
            case ToolResultLate(call_id):
                return self._late.take(call_id, out)
            case CancelRequested(failure):
                self._stop(out, Ending(OutcomeKind.ABORTED, failure), FinishReason.ABORTED)
            case DeadlineReached(policy_path, limit, observed):
                over = ending.deadline(policy_path, limit, limit if observed is None else observed)
                self._stop(out, over, FinishReason.ABORTED)
            case DriverFailed(failure):
                self._stop(out, Ending(OutcomeKind.ERRORED, failure), FinishReason.ABORTED)
            case ModelProduced():
                return False
        return True

    # --- the model ----------------------------------------------------------------------------------------------------

    def _run_started(self, out: Out) -> None:
        setup = self.setup
        out.emit_for_run(
            RunStarted(
                run_id=setup.run_id,
                agent_id=setup.agent_id,
                agent_revision=setup.agent_revision,
                model=setup.model,
                effective_policy=setup.effective_policy,
                tool_names=tuple(setup.tools),
                session_id=setup.session_id,
                parent_run_id=setup.parent_run_id,
                input_message_ids=setup.input_message_ids,
                trace_context=setup.trace_context,
            )
        )
        for notice in setup.notices:
            out.emit_for_run(notice)

    def _next_iteration(self, out: Out) -> None:
        self.iteration += 1
        self.attempt = 0
        self._batch = None
        self._transcript.begin_turn()
        out.iteration = self.iteration
        limit = self.setup.bounds.max_output_tokens
        out.emit(IterationStarted(IterationKind.STEP, self.setup.model, max_output_tokens=limit))
        self._call_model(out)

    def _call_model(self, out: Out) -> None:
        self.attempt += 1
        self._answer = self._new_answer()
        self.state = TurnState.CALLING_MODEL
        append = self._transcript.fresh()
        limit = self.setup.bounds.max_output_tokens
        out.do(CallModel(self.iteration, self.attempt, IterationKind.STEP, append, max_output_tokens=limit))

    def _new_answer(self) -> Answer:
        return Answer(self._ids, self.setup.tools)

    def _is_current(self, iteration: int, attempt: int) -> bool:
        return iteration == self.iteration and attempt == self.attempt

    def _model_produced(self, fact: ModelProduced) -> Step:
        # The hot path: one delta of one part costs a few microseconds here (tests/turn/test_hot_path.py).
        if fact.iteration != self.iteration or fact.attempt != self.attempt:
            self.ignored += 1
            return NOTHING
        events = self._answer.take(fact.items)
        if not events:
            return NOTHING
        iteration = self.iteration
        return Step(tuple([Emitted(iteration, event) for event in events]))

    def _model_ended(self, fact: ModelEnded, out: Out) -> bool:
        if not self._is_current(fact.iteration, fact.attempt):
            return False
        answer, stopped = self._answer, self._answer.stopped
        reason = stopped.reason if stopped is not None else FinishReason.EOF
        provider_reason = stopped.provider_reason if stopped is not None else ""
        cut: Ending | None = None
        if reason not in ending.COMPLETE:
            usage = answer.usage or Usage()
            cut = self._located(ending.of_cut_answer(answer, reason, provider_reason, self.setup.bounds, usage))
        self._close_iteration(
            out,
            reason,
            failure=cut.failure if cut is not None and reason in ending.UNFINISHED else None,
            provider_reason=provider_reason,
            duration_ns=fact.duration_ns,
            time_to_first_token_ns=fact.time_to_first_token_ns,
        )
        if cut is not None:
            self._after_cut_answer(out, cut, reason)
        elif answer.calls:
            self._begin_tools(out)
        elif reason is FinishReason.PAUSE and self._transcript.turn is not None:
            self._go_on(out)  # the provider wants its own unfinished turn back
        else:
            self._after_answer(out, reason)
        return True

    def _after_answer(self, out: Out, reason: FinishReason) -> None:
        end = ending.of_complete_answer(self._answer, reason, self._calls_settled)
        if reason is FinishReason.TOOL_CALLS and end.failure is not None:
            out.emit(Notice(end.failure.reason, "The provider's finish word promises tool calls, but there are none."))
        self._settle(out, end)

    def _after_cut_answer(self, out: Out, cut: Ending, reason: FinishReason) -> None:
        calls = self._answer.calls
        by_limit = reason is FinishReason.OUTPUT_LIMIT
        if calls:
            self._calls_settled += len(calls)
            self._batch = ToolBatch(calls, self._ids, self.setup.bounds.max_parallel_calls)
            self._batch.refuse(out, CUT_BY_LIMIT if by_limit else CUT, Reason.TOOL_CALL_TRUNCATED)
            self._transcript.add_results(self._batch.results())
        can_go_on = self.iteration < self.setup.bounds.max_steps and not self._limit_reported
        if calls and by_limit and can_go_on:
            # Told once, the model can make smaller calls; told twice it would go round in circles.
            self._limit_reported = True
            self._next_iteration(out)
        else:
            self._settle(out, cut)

    def _model_failed(self, fact: ModelFailed, out: Out) -> bool:
        if not self._is_current(fact.iteration, fact.attempt):
            return False
        failure = replace(fact.failure, iteration=self.iteration)
        bounds = self.setup.bounds
        reason = retry.why_not(bounds, self.attempt, failure, produced=self._answer.produced)
        if reason is not None:
            failure = replace(failure, message=f"{failure.message} {reason}".rstrip())
            self._close_iteration(
                out,
                FinishReason.ERROR,
                failure=failure,
                duration_ns=fact.duration_ns,
                time_to_first_token_ns=fact.time_to_first_token_ns,
            )
            self._after_cut_answer(out, Ending(OutcomeKind.ERRORED, failure), FinishReason.ERROR)
            return True
        delay = retry.delay_ns(bounds, self.attempt, failure, fact.jitter)
        usage = self._answer.usage
        cost = self._ledger.charge(usage, fact.duration_ns, spent=False)
        out.emit(IterationRetryScheduled(self.attempt, delay, failure, usage or Usage(), cost))
        self._answer = self._new_answer()
        self.state = TurnState.WAITING_TO_RETRY
        out.do(Wait(self.iteration, self.attempt + 1, delay))
        return True

    def _retry_due(self, iteration: int, attempt: int, out: Out) -> bool:
        if not self._is_current(iteration, attempt - 1):
            return False
        self._call_model(out)
        return True

    def _close_iteration(
        self,
        out: Out,
        reason: FinishReason,
        *,
        failure: Failure | None = None,
        provider_reason: str = "",
        duration_ns: int = 0,
        time_to_first_token_ns: int | None = None,
    ) -> None:
        """Emit what ends the answer and the iteration, and keep the assistant's turn."""
        answer, usage = self._answer, self._answer.usage
        unfinished = reason in ending.UNFINISHED
        out.emit_all(answer.finish(complete=reason in ending.COMPLETE))
        # A call that was refused before its first byte cost nothing; one that was under way may have.
        under_way = self.state is TurnState.CALLING_MODEL and reason is not FinishReason.ERROR
        cost = self._ledger.charge(usage, duration_ns, spent=answer.produced or under_way)
        out.emit(
            IterationFinished(
                reason, provider_reason, usage or Usage(), cost, duration_ns, time_to_first_token_ns, failure
            )
        )
        parts = [
            entry if isinstance(entry, Part) else call_part(entry.call_id, entry.tool, entry.name, entry.arguments)
            for entry in answer.contents()
            if not (unfinished and isinstance(entry, Call) and not entry.complete)
        ]
        self._transcript.add_turn(parts, cut=unfinished, paused=reason is FinishReason.PAUSE)

    # --- tools --------------------------------------------------------------------------------------------------------

    def _begin_tools(self, out: Out) -> None:
        calls = self._answer.calls
        bounds = self.setup.bounds
        room = max(bounds.max_tool_calls - self._calls_counted, 0)
        self._calls_counted += len(calls)
        self._calls_settled += len(calls)
        self._batch = ToolBatch(calls, self._ids, bounds.max_parallel_calls)
        self.state = TurnState.RUNNING_TOOLS
        self._batch.admit(out, self.setup.tools, room)
        if not self._abort_on_failure(out, self._batch):
            self._batch.resolve(out)
            self._advance_tools(out, self._batch)

    def _tool_fact(self, fact: ToolResolved | ToolProgress | ToolFinished, out: Out) -> bool:
        batch = self._batch
        if batch is None:
            return False
        match fact:
            case ToolProgress():
                return batch.progressed(fact, out)
            case ToolResolved():
                taken = batch.resolved(fact, out)
            case ToolFinished():
                taken = batch.finished(fact, out)
        if taken and not self._abort_on_failure(out, batch):
            self._advance_tools(out, batch)
        return taken

    def _abort_on_failure(self, out: Out, batch: ToolBatch) -> bool:
        culprit = batch.culprit
        if culprit is None or self.setup.bounds.error_mode is not ToolErrorMode.ABORT:
            return False
        failure = culprit.result.failure if culprit.result is not None else None
        self._stop(out, ending.tool_failed(culprit.name, failure), FinishReason.ABORTED, unread=True)
        return True

    def _advance_tools(self, out: Out, batch: ToolBatch) -> None:
        batch.start(out)
        self._late.began(batch.executing)
        if not batch.done:
            return
        self._transcript.add_results(batch.results())
        if batch.over_bound:
            self._settle(out, ending.max_tool_calls(self.setup.bounds, self._calls_counted))
        else:
            self._go_on(out)

    def _go_on(self, out: Out) -> None:
        if self.iteration >= self.setup.bounds.max_steps:
            self._settle(out, ending.max_steps(self.setup.bounds))
        else:
            self._next_iteration(out)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _stop(self, out: Out, end: Ending, reason: FinishReason, *, unread: bool = False) -> None:
        """End the run now, from whatever state: close what is open, give up what runs, settle.

        ``unread``: the session keeps no errors of this turn that no model has read.
        """
        end = self._located(end)
        executing = self.executing
        model_busy = self.state in {TurnState.CALLING_MODEL, TurnState.WAITING_TO_RETRY}
        if self.state is TurnState.READY:
            self._run_started(out)
        elif model_busy:
            self._close_iteration(out, reason, failure=end.failure)
            if self._answer.calls:
                self._calls_settled += len(self._answer.calls)
                self._batch = ToolBatch(self._answer.calls, self._ids, self.setup.bounds.max_parallel_calls)
        if self._batch is not None:
            self._batch.interrupt(out)
            self._transcript.add_results(self._batch.results())
            if unread:
                self._transcript.leave_out_unread()
        if model_busy or executing:
            out.do(Abandon(model_busy, executing))
        self._settle(out, end)

    def _settle(self, out: Out, end: Ending) -> None:
        end = self._located(end)
        message = self._transcript.shown()
        self.outcome = end.outcome(has_output=message is not None)
        self.state = TurnState.SETTLED
        wants_trace = self.setup.include_trace or self.outcome.kind is not OutcomeKind.ANSWERED
        finished = RunFinished(
            outcome=self.outcome,
            message=message,
            usage=self._ledger.usage(),
            cost=self._ledger.cost(),
            iteration_count=self.iteration,
            tool_call_count=self._calls_settled,
            trace=RunTrace() if wants_trace else None,
        )
        out.emit_for_run(finished)
        out.do(Settle(finished, self._transcript.messages()))

    def _located(self, end: Ending) -> Ending:
        """The end with its failure saying in which iteration it happened."""
        if end.failure is None or end.failure.iteration or not self.iteration:
            return end
        return replace(end, failure=replace(end.failure, iteration=self.iteration))
