"""The turn machine: facts go in, events and effects come out, in the manner of h11.

It alone owns a run's lifecycle, the pairing of calls and results, the bounds, retries and the outcome. It is pure: no
I/O, no clock, no randomness, no tasks, no logging; the same facts give the same steps. It may know the domain and the
numbers of the policy, never a provider, a tool source, a store or the driver that feeds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from turnwired.domain.approval import Approval
from turnwired.domain.event import (
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    RunFinished,
    RunWaiting,
)
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Part, ToolCall
from turnwired.domain.model import CheckedOutput, IterationKind
from turnwired.domain.outcome import LimitTrip, Notice, Outcome, OutcomeKind
from turnwired.domain.policy import ToolErrorMode, ToolExecutionMode, WaitExpiryMode
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Usage
from turnwired.turn import budget, completion, ending, retry, structured
from turnwired.turn.admission import Admission
from turnwired.turn.aftermath import LateResults
from turnwired.turn.answer import Answer
from turnwired.turn.attachments import Attachments
from turnwired.turn.batch import ToolBatch
from turnwired.turn.completion import Completion
from turnwired.turn.effects import Abandon, AskHook, CallModel, Emitted, Settle, Step, Wait
from turnwired.turn.ending import Ending, OutputCap
from turnwired.turn.facts import (
    AttachmentArrived,
    AttachmentsOverdue,
    Begin,
    BudgetReached,
    CancelRequested,
    CompletionDecided,
    DeadlineReached,
    DriverFailed,
    Fact,
    HistoryCut,
    InputGiven,
    ModelCalled,
    ModelEnded,
    ModelFact,
    ModelFailed,
    ModelProduced,
    PreparationFailed,
    RetryDue,
    ToolFact,
    ToolProgress,
    ToolResultLate,
    ToolsRevised,
    WaitExpired,
)
from turnwired.turn.history import Transcript, call_part
from turnwired.turn.ids import Ids
from turnwired.turn.ledger import Ledger, spent_usage
from turnwired.turn.out import NOTHING, Out
from turnwired.turn.pieces import Call
from turnwired.turn.setup import OutputCheck, TurnSetup
from turnwired.turn.standing import Standing
from turnwired.turn.state import ACCEPTED, TurnState
from turnwired.turn.waiting import Waiting, calls_with_caller


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
        self._ids, self._tools = Ids(setup.run_id), setup.tools
        self._answer = self._new_answer()
        self._batch: ToolBatch | None = None
        self._transcript = Transcript(setup.run_id, self._ids)
        self._ledger = Ledger(setup.price)
        self._calls_settled = self._calls_completed = 0
        self._waiting = Waiting(setup.run_id, setup.permissions, self._ids)
        self._admission = Admission(setup.bounds, setup.polling_tools, self._waiting.loop_action)
        self._completion = Completion(setup.bounds, setup.effective_policy.policy.output.max_output_tokens)
        self._limit_reported = self._renewed = self._shortened = False
        self._late = LateResults()
        self.attachments = Attachments(setup.attachments, setup.run_id, self._ids, setup.bounds.missing_attachments)
        self._kind = IterationKind.STEP
        self._input_tokens: int | None = None
        self._budget_cap: LimitTrip | None = None
        self._usage_missed = False

    @property
    def executing(self) -> tuple[str, ...]:
        """Ids of the tool calls that run now."""
        return self._batch.executing if self._batch is not None else ()

    @property
    def pending_approvals(self) -> Mapping[str, Approval]:
        """Questions without an answer, by id. Their times are the driver's to put in."""
        return self._waiting.approvals

    @property
    def pending_calls(self) -> Mapping[str, ToolCall]:
        """Calls that the caller executes now, by id."""
        return calls_with_caller(self._batch)

    @property
    def waiting(self) -> RunWaiting | None:
        """What the run waits for when nothing of it can go on without the caller; None: it goes on."""
        return self._waiting.now(self._batch)

    @property
    def takes_input(self) -> bool:
        """Whether there will be another iteration that can read what the caller adds now."""
        stuck = self._batch is not None and self._batch.over_bound
        lasts = InputGiven in ACCEPTED[self.state] and self._kind is IterationKind.STEP
        return lasts and not stuck and self.iteration < self.setup.bounds.max_steps

    def stand_at(self, standing: Standing) -> None:
        """Stand where this run stood before, in place of Begin (``turnwired.turn.resume``)."""
        self.state, self.iteration, self.attempt = TurnState.RUNNING_TOOLS, standing.iteration, 1
        self._kind, self._ids, self._batch = standing.kind, standing.ids, standing.batch
        self._transcript, self._waiting = standing.transcript, standing.waiting
        self._ledger, self._admission, self._completion = standing.ledger, standing.admission, standing.completion
        self.attachments = standing.attachments
        self._calls_settled, self._calls_completed = standing.calls_settled, standing.calls_completed
        self._limit_reported, self._usage_missed = standing.limit_reported, standing.usage_missed
        self._answer = self._new_answer()

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
        if isinstance(fact, ToolFact):
            return self._tool_fact(fact, out)
        match fact:
            case Begin():
                self._begin(out)
            case PreparationFailed(failure):
                self._stop(out, Ending(OutcomeKind.ERRORED, failure), FinishReason.ERROR)
            case HistoryCut() | ToolsRevised() | ModelCalled() | ModelEnded() | ModelFailed() | BudgetReached():
                return self._is_current(fact.iteration, fact.attempt) and self._model_fact(fact, out)
            case RetryDue(iteration, attempt):
                return self._retry_due(iteration, attempt, out)
            case InputGiven() | AttachmentArrived() | AttachmentsOverdue():
                return self._more_given(fact, out)
            case CompletionDecided():
                return fact.iteration == self.iteration and self._completion_decided(fact, out)
            case ToolResultLate(call_id):
                return self._late.take(call_id, out)
            case CancelRequested() | DeadlineReached() | DriverFailed():
                self._stop(out, ending.of_stop(fact), FinishReason.ABORTED)
            case ModelProduced():
                return False
        return True

    # --- the model ----------------------------------------------------------------------------------------------------

    def _run_started(self, out: Out) -> None:
        out.emit_for_run(self.setup.started())
        for notice in self.setup.notices:
            out.emit_for_run(notice)

    def _begin(self, out: Out) -> None:
        self._run_started(out)
        waits = self.attachments.begin(out, self.setup.bounds.attachment_wait)
        if self.attachments.failure is not None:
            self._stop(out, Ending(OutcomeKind.ERRORED, self.attachments.failure), FinishReason.ABORTED)
        elif waits:
            self.state = TurnState.AWAITING_ATTACHMENTS
        else:
            self._next_iteration(out)

    def _more_given(self, fact: InputGiven | AttachmentArrived | AttachmentsOverdue, out: Out) -> bool:
        if not self.takes_input or not self.attachments.take(fact, self._transcript, out):
            return False
        if self.attachments.failure is not None:
            self._stop(out, Ending(OutcomeKind.ERRORED, self.attachments.failure), FinishReason.ABORTED)
        elif self.state is TurnState.AWAITING_ATTACHMENTS and not self.attachments.pending:
            self._next_iteration(out)
        return True

    def _next_iteration(self, out: Out, kind: IterationKind = IterationKind.STEP) -> None:
        self.iteration += 1
        self.attempt = 0
        self._kind = kind
        self._renewed = self._shortened = False
        self._batch = None
        self._transcript.begin_turn()
        out.iteration = self.iteration
        limit = self._output_cap.tokens
        out.emit(IterationStarted(kind, self.setup.model, max_output_tokens=limit))
        self._call_model(out)

    def _call_model(self, out: Out, *, renew: bool = False, shorten: bool = False) -> None:
        self.attempt += 1
        self._answer = self._new_answer()
        self._input_tokens = self._budget_cap = None
        self.state = TurnState.CALLING_MODEL
        append = self._transcript.fresh()
        limit = self._output_cap.tokens
        tools = self._offers_tools
        out.do(CallModel(self.iteration, self.attempt, self._kind, append, tools, limit, renew, shorten))

    @property
    def _in_pass(self) -> bool:
        return self._kind is IterationKind.SYNTHESIS

    @property
    def _offers_tools(self) -> bool:
        return self._completion.offers_tools if self._in_pass else self._kind is IterationKind.STEP

    @property
    def _output_cap(self) -> OutputCap:
        return self._completion.output_cap if self._in_pass else OutputCap(self.setup.bounds.max_output_tokens)

    def _new_answer(self) -> Answer:
        return Answer(self._ids, self._tools, self.setup.model.provider)

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

    def _model_fact(self, fact: ModelFact, out: Out) -> bool:
        match fact:
            case HistoryCut():
                out.emit(fact.change)
            case ToolsRevised():
                self._tools = self._answer.tools = fact.tools
                out.emit_all(fact.changes)
            case ModelCalled():
                self._input_tokens, self._budget_cap = fact.input_tokens, fact.budget_cap
            case ModelEnded():
                self._model_ended(fact, out)
            case ModelFailed():
                self._model_failed(fact, out)
            case BudgetReached():
                self._budget_reached(fact, out)
        return True

    def _model_ended(self, fact: ModelEnded, out: Out) -> None:
        answer, stopped = self._answer, self._answer.stopped
        reason = stopped.reason if stopped is not None else FinishReason.EOF
        provider_reason = stopped.provider_reason if stopped is not None else ""
        cut: Ending | None = None
        if reason not in ending.COMPLETE:
            if reason is FinishReason.OUTPUT_LIMIT and self._budget_cap is not None:
                cut = budget.reached(self._budget_cap)
            else:
                usage = answer.usage or Usage()
                cut = ending.of_cut_answer(answer, reason, provider_reason, self._output_cap, usage)
            cut = self._located(cut)
            if reason in ending.UNFINISHED and not answer.produced:
                why_not = self._try_again(out, cut.failure, fact)
                if why_not is None:
                    return
                cut = cut.explained(why_not)
        failure = cut.failure if cut is not None and reason in ending.UNFINISHED else None
        self._close_iteration(out, reason, fact, failure=failure, provider_reason=provider_reason)
        if cut is not None:
            self._after_cut_answer(out, cut, reason)
        elif answer.calls and not self._offers_tools:
            self._refuse_tools(out)
        elif answer.calls:
            self._begin_tools(out)
        elif reason is FinishReason.PAUSE and self._transcript.turn is not None and not self._in_pass:
            self._go_on(out, self._kind)  # the provider wants its own unfinished turn back
        elif self._transcript.holds and self._kind is IterationKind.STEP:
            self._go_on(out)  # the caller has added to what is to be answered
        else:
            self._after_answer(out, reason)

    def _after_answer(self, out: Out, reason: FinishReason) -> None:
        end = ending.of_complete_answer(self._answer, reason, self._calls_settled)
        if reason is FinishReason.TOOL_CALLS and end.failure is not None:
            out.emit(Notice(end.failure.reason, "The provider's finish word promises tool calls, but there are none."))
        check = self.setup.check_output
        if check is not None and structured.wants_output(end):
            self._after_structured_answer(out, end, check)
        else:
            self._conclude(out, end)

    def _after_structured_answer(self, out: Out, end: Ending, check: OutputCheck) -> None:
        """Take the value; told what is wrong the model can correct it, once: it must not go round in circles."""
        missing = end.kind is not OutcomeKind.ANSWERED
        checked = CheckedOutput(None, (structured.NO_ANSWER,)) if missing else structured.read(self._answer.text, check)
        corrected = self._kind is not IterationKind.STEP
        if checked.json is not None:
            self._conclude(out, end, checked.json)
        elif corrected or self.iteration >= self.setup.bounds.max_steps:
            self._conclude(out, end if missing else structured.invalid(checked.problems, corrected=corrected))
        else:
            notice = structured.told(checked.problems)
            out.emit(notice)
            self._transcript.add_correction(structured.correction(notice.message))
            self._next_iteration(out, IterationKind.STRUCTURED_OUTPUT)

    def _after_cut_answer(self, out: Out, cut: Ending, reason: FinishReason) -> None:
        calls = self._answer.calls
        by_limit = reason is FinishReason.OUTPUT_LIMIT
        if calls:
            self._calls_settled += len(calls)
            self._batch = ToolBatch(calls, self._ids, self.setup.bounds.max_parallel_calls)
            self._batch.refuse(out, ending.CUT_BY_LIMIT if by_limit else ending.CUT, Reason.TOOL_CALL_TRUNCATED)
            self._transcript.add_results(self._batch.results())
        can_go_on = self.iteration < self.setup.bounds.max_steps and self._kind is IterationKind.STEP
        can_go_on = can_go_on and cut.kind is not OutcomeKind.BUDGET_EXCEEDED
        if calls and by_limit and can_go_on and not self._limit_reported:
            # Told once, the model can make smaller calls; told twice it would go round in circles.
            self._limit_reported = True
            self._next_iteration(out)
        else:
            self._conclude(out, cut)

    def _model_failed(self, fact: ModelFailed, out: Out) -> None:
        failure = replace(fact.failure, iteration=self.iteration)
        reason = self._try_again(out, failure, fact)
        if reason is not None:
            failure = replace(failure, message=f"{failure.message} {reason}".rstrip())
            self._close_iteration(out, FinishReason.ERROR, fact, failure=failure)
            self._after_cut_answer(out, Ending(OutcomeKind.ERRORED, failure), FinishReason.ERROR)

    def _budget_reached(self, fact: BudgetReached, out: Out) -> None:
        end = self._located(budget.reached(fact.trip))
        # A call that was not made cost nothing, which is what ERROR says of an attempt without output.
        reason = FinishReason.ERROR if self._input_tokens is None else FinishReason.ABORTED
        self._close_iteration(out, reason, fact, failure=end.failure)
        self._after_cut_answer(out, end, reason)

    def _try_again(self, out: Out, failure: Failure | None, fact: ModelEnded | ModelFailed) -> str | None:
        """Schedule another attempt, or say why there is none."""
        if failure is None:
            return ""
        produced, tried = self._answer.produced, (self._renewed, self._shortened)
        attempt = retry.Attempt(self.attempt, failure, produced, *tried, fact.jitter, fact.remaining_ns)
        next_step = retry.after(self.setup.bounds, attempt)
        if isinstance(next_step, retry.GiveUp):
            return next_step.why
        usage = self._answer.usage
        cost = self._ledger.charge(usage, fact.duration_ns, spent=type(fact) is ModelEnded)
        out.emit(IterationRetryScheduled(self.attempt, next_step.delay_ns, failure, usage or Usage(), cost))
        if next_step.renew or next_step.shorten:
            self._renewed |= next_step.renew
            self._shortened |= next_step.shorten
            self._call_model(out, renew=next_step.renew, shorten=next_step.shorten)
        else:
            self._answer = self._new_answer()
            self.state = TurnState.WAITING_TO_RETRY
            out.do(Wait(self.iteration, self.attempt + 1, next_step.delay_ns))
        return None

    def _retry_due(self, iteration: int, attempt: int, out: Out) -> bool:
        if not self._is_current(iteration, attempt - 1):
            return False
        self._call_model(out)
        return True

    def _close_iteration(
        self,
        out: Out,
        reason: FinishReason,
        timed: ModelEnded | ModelFailed | BudgetReached | None = None,
        *,
        failure: Failure | None = None,
        provider_reason: str = "",
    ) -> None:
        """Emit what ends the answer and the iteration, and keep the assistant's turn."""
        took, first_ns = (0, None) if timed is None else (timed.duration_ns, timed.time_to_first_token_ns)
        answer, usage = self._answer, self._answer.usage
        unfinished = reason in ending.UNFINISHED
        out.emit_all(answer.finish(complete=reason in ending.COMPLETE))
        # A call that was refused before its first byte cost nothing; one that was under way may have.
        under_way = self.state is TurnState.CALLING_MODEL and reason is not FinishReason.ERROR
        spent = answer.produced or under_way
        if spent:
            usage = self._usage_of(out, answer, cut=unfinished)
        cost = self._ledger.charge(usage, took, spent=spent)
        out.emit(IterationFinished(reason, provider_reason, usage or Usage(), cost, took, first_ns, failure))
        parts = [
            entry if isinstance(entry, Part) else call_part(entry.call_id, entry.tool, entry.name, entry.arguments)
            for entry in answer.contents()
            if not (unfinished and isinstance(entry, Call) and not entry.complete)
        ]
        self._transcript.add_turn(parts, cut=unfinished, paused=reason is FinishReason.PAUSE)

    def _usage_of(self, out: Out, answer: Answer, *, cut: bool) -> Usage | None:
        """Reported or else estimated; a provider that answers and reports none is named once in a run."""
        reported = answer.usage
        usage = spent_usage(reported, self._input_tokens, answer.size, cut=cut)
        if reported is None and usage is not None and not cut and not self._usage_missed:
            self._usage_missed = True
            out.emit(ending.USAGE_UNREPORTED)
        return usage

    # --- tools --------------------------------------------------------------------------------------------------------

    def _refuse_tools(self, out: Out) -> None:
        """The model was offered no tools and called some all the same: nothing of that runs."""
        calls = self._answer.calls
        self._calls_settled += len(calls)
        self._batch = ToolBatch(calls, self._ids, self.setup.bounds.max_parallel_calls)
        self._batch.refuse(out, completion.NOT_OFFERED if self._in_pass else structured.NOT_ASKED_FOR)
        self._transcript.add_results(self._batch.results())
        if self._in_pass:
            out.emit(completion.CALLED_TOOLS)
            self._conclude(out, completion.called_tools())
        else:
            self._settle(out, structured.invalid((structured.NO_ANSWER,), corrected=True))

    def _begin_tools(self, out: Out) -> None:
        calls = self._answer.calls
        verdicts = self._admission.judge(calls)
        self._calls_settled += len(calls)
        bounds = self.setup.bounds
        returns = bounds.execution_mode is ToolExecutionMode.RETURN
        self._batch = ToolBatch(calls, self._ids, bounds.max_parallel_calls, returns=returns)
        self.state = TurnState.RUNNING_TOOLS
        out.emit_all(self._admission.notices(calls, verdicts))
        self._batch.admit(out, self._tools, verdicts)
        if not self._abort_on_failure(out, self._batch):
            self._batch.resolve(out)
            self._advance_tools(out, self._batch)

    def _tool_fact(self, fact: ToolFact, out: Out) -> bool:
        batch = self._batch
        if batch is None or not self._waiting.take(fact, batch, out):
            return False
        if type(fact) is WaitExpired and self.setup.bounds.wait_expiry is WaitExpiryMode.ABORT:
            self._stop(out, ending.wait_expired(fact.limit), FinishReason.ABORTED)
        elif type(fact) is not ToolProgress and not self._abort_on_failure(out, batch):
            self._advance_tools(out, batch)
        return True

    def _abort_on_failure(self, out: Out, batch: ToolBatch) -> bool:
        culprit = batch.culprit
        if culprit is None or self.setup.bounds.error_mode is not ToolErrorMode.ABORT:
            return False
        failure = culprit.result.failure if culprit.result is not None else None
        self._stop(out, ending.tool_failed(culprit.name, culprit.call_id, failure), FinishReason.ABORTED, unread=True)
        return True

    def _advance_tools(self, out: Out, batch: ToolBatch) -> None:
        self._waiting.resume(batch, out)
        batch.start(out)
        self._late.began(batch.executing)
        if not batch.done:
            self._waiting.wait(batch, out)
            return
        self._transcript.add_results(batch.results())
        self._calls_completed += batch.completed
        self._admission.settled(batch.calls, batch.verdicts)
        if self._admission.lost:
            self._settle(out, ending.in_circles(self._admission.circles))
        elif self._in_pass:
            self._completion.tools_used()
            self._next_iteration(out, IterationKind.SYNTHESIS)
        elif batch.over_bound:
            self._conclude(out, ending.max_tool_calls(self.setup.bounds, self._admission.counted))
        else:
            self._go_on(out)

    def _go_on(self, out: Out, kind: IterationKind = IterationKind.STEP) -> None:
        if self.iteration >= self.setup.bounds.max_steps:
            end = ending.max_steps(self.setup.bounds)
            # A paused turn is the provider's to go on with: nobody can ask for an answer behind it.
            if self._batch is None:
                self._settle(out, end)
            else:
                self._conclude(out, end)
        else:
            self._next_iteration(out, kind)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _conclude(self, out: Out, end: Ending, structured_output_json: str | None = None) -> None:
        """The loop has ended, or the pass after it: settle, unless the policy wants an answer that is missing."""
        if self._in_pass:
            self._batch = None
            end = self._completion.after_pass(end, has_output=self._transcript.turn_is_shown)
        elif self._kind is IterationKind.STEP:
            plan = self._completion.plan(end, self._calls_completed)
            match plan:
                case completion.AskModel(instruction):
                    return self._synthesize(out, instruction)
                case completion.AskHook(name):
                    self._batch = None
                    self.state = TurnState.ASKING_HOOK
                    return out.do(AskHook(self.iteration, name, end.kind, self._transcript.messages()))
                case None:
                    pass
        return self._settle(out, end, structured_output_json)

    def _completion_decided(self, fact: CompletionDecided, out: Out) -> bool:
        """The hook has spoken, or could not: then the run is completed as if there were none."""
        end = self._completion.end
        assert end is not None, "the machine asked for this"
        if fact.problem:
            out.emit(completion.hook_failed(fact.problem))
        if fact.problem or fact.instruction:
            self._synthesize(out, fact.instruction or self._completion.instruction)
        else:
            self._settle(out, end)
        return True

    def _synthesize(self, out: Out, instruction: str) -> None:
        out.emit(self._completion.told(instruction))
        self._transcript.add_correction(instruction)
        self._next_iteration(out, IterationKind.SYNTHESIS)

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
        busy = model_busy or self.state is TurnState.ASKING_HOOK
        if busy or executing:
            out.do(Abandon(busy, executing))
        self._settle(out, end)

    def _settle(self, out: Out, end: Ending, structured_output_json: str | None = None) -> None:
        end = self._located(end)
        if end.failure is not None and end.failure.reason is Reason.CONTEXT_OVERFLOW:
            out.emit(ending.CONTEXT_FULL)
        self._waiting.withdraw()
        self._transcript.end()
        message = self._transcript.shown()
        self.outcome = end.outcome(has_output=message is not None)
        self.state = TurnState.SETTLED
        wants_trace = self.setup.include_trace or self.outcome.kind is not OutcomeKind.ANSWERED
        finished = RunFinished(
            outcome=self.outcome,
            message=message,
            structured_output_json=structured_output_json,
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
