"""A second opinion on a run: follows events and effects alone and asserts the invariants after each step.

Written from the design notes, not from the machine: it keeps its own books and looks at none of the machine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turn.callerbook import CallerBook, People
from turn.keeping import EXECUTED, check_settle
from turn.machinekit import assert_well_formed, text_of

from turnwired.domain.attachment import AttachmentState
from turnwired.domain.event import (
    AttachmentUpdated,
    Event,
    HistoryTruncated,
    InputAppended,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    PartFinished,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallStarted,
    ToolsChanged,
)
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import (
    Blob,
    Message,
    OpaqueBlock,
    Reasoning,
    Text,
    ToolResult,
    ToolResultStatus,
)
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode, HistoryOverflowMode
from turnwired.domain.usage import Usage, sum_usage
from turnwired.policy.bounds import Bounds
from turnwired.turn.effects import (
    Abandon,
    AnswerTool,
    AskHook,
    AwaitAttachments,
    AwaitCaller,
    CallModel,
    Effect,
    ResolveTool,
    RunTool,
    Settle,
    Step,
    Wait,
)
from turnwired.turn.facts import BudgetReached, CompletionDecided, Fact, ModelEnded, ModelFailed, RetryDue, ToolFinished

WELL_ENDED = {FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER, FinishReason.PAUSE}
UNFINISHED = {FinishReason.EOF, FinishReason.ERROR, FinishReason.ABORTED}
WHOLE = set(FinishReason) - WELL_ENDED - UNFINISHED
"""Words of a provider that stopped on purpose: what it reports of usage is final."""


@dataclass
class CallBook:
    """What is known of one call."""

    iteration: int
    name: str = ""
    fragments: list[str] = field(default_factory=list[str])
    arguments: str | None = None
    resolving: bool = False
    asked: bool = False
    resolvable: bool = False
    executing: bool = False
    with_caller: bool = False
    executed: bool = False
    late: bool = False
    repairs: tuple[str, ...] = ()
    result: ToolResult | None = None


@dataclass
class IterationBook:
    """What is known of one iteration."""

    correction: bool = False
    synthesis: bool = False
    may_call: bool = True
    said: bool = False
    attempt: int = 0
    rejected: bool = False
    renewed: int = 0
    too_long: bool = False
    shortened: int = 0
    output: bool = False
    finish: FinishReason | None = None
    calls: list[str] = field(default_factory=list[str])


class Shadow:
    """Follows one run. ``take`` asserts; the rest is to be read."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        include_trace: bool,
        structured: bool = False,
        people: People | None = None,
        files: Sequence[str] = (),
    ) -> None:
        self.to_come = set(files)
        self.ready: set[str] = set()
        self.held: set[str] = set()
        self.appended: list[str] = []
        self.bounds = bounds
        self.caller = CallerBook(people if people is not None else People())
        self.structured = structured
        self.include_trace = include_trace
        self.log: list[LoggedEvent] = []
        self.iterations: list[IterationBook] = []
        self.calls: dict[str, CallBook] = {}
        self.parts: dict[str, list[str]] = {}
        self.finished_parts: set[str] = set()
        self.reasoning_parts: set[str] = set()
        self.sent: list[Message] = []
        self.model: tuple[int, int] | None = None
        self.waiting: tuple[int, int] | None = None
        self.hook: int | None = None
        self.declined = False
        self.completed = 0
        self.finished: RunFinished | None = None
        self.settled: Settle | None = None
        self.usages: list[Usage] = []
        self.resolved_count = 0
        self.notices = 0
        self.notice_reasons: list[tuple[Reason, str]] = []
        self.unreported = False
        self.remaining_ns: int | None = None
        self.cuts = 0
        self.changes = 0

    # --- what is alive ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> IterationBook:
        return self.iterations[-1]

    @property
    def resolving(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if call.resolving and call.result is None]

    @property
    def executing(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if call.executing and call.result is None]

    @property
    def with_caller(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if call.with_caller and call.result is None]

    @property
    def goes_on(self) -> bool:
        """Whether anything is under way that does not wait for the caller."""
        return bool(self.model or self.waiting or self.hook or self.resolving or self.executing)

    @property
    def counted_calls(self) -> int:
        """Calls of answers that ended well: those that the bound on tool calls is about."""
        return sum(len(book.calls) for book in self.iterations if book.finish in WELL_ENDED)

    def restarted(self) -> None:
        """Another process goes on with the run: it sends all of it anew, and knows of nothing that is given up."""
        self.sent = []
        for call in self.calls.values():
            call.late = call.executed

    @property
    def now_goes_on(self) -> bool:
        """Whether the iteration goes on with a turn that the provider paused, or is tried again."""
        before = self.iterations[-2] if len(self.iterations) > 1 else None
        return self.now.attempt > 0 or (before is not None and before.finish is FinishReason.PAUSE)

    @property
    def awaiting(self) -> bool:
        """Whether the run waits for its files."""
        return bool(self.log) and not self.iterations and self.finished is None

    @property
    def takes_input(self) -> bool:
        """Whether what the caller adds now is read by the model."""
        if self.awaiting:
            return True
        if not self.iterations or self.hook is not None or self.now.correction or self.now.synthesis:
            return False
        stuck = self.now.finish in WELL_ENDED and self.counted_calls > self.bounds.max_tool_calls
        return self.finished is None and not stuck and len(self.iterations) < self.bounds.max_steps

    # --- one step ---------------------------------------------------------------------------------------------------

    def take(self, fact: Fact | None, step: Step) -> None:
        """Check what one fact led to (None: one that means nothing), and what holds after it."""
        if self.settled is not None:
            assert step == Step(), "something happened after the run was settled"
            return
        alive = self._alive_beside(fact)
        self.caller.begin(fact)
        for emitted in step.events:
            assert self.finished is None, "an event after RunFinished"
            self.log.append(LoggedEvent(len(self.log) + 1, len(self.log) + 1, emitted.iteration, emitted.event))
            self._event(emitted.iteration, emitted.event)
        abandoned = None
        for effect in step.effects:
            if isinstance(effect, Abandon):
                assert abandoned is None
                abandoned = effect
            self._effect(effect)
        if self.finished is not None:
            assert step.effects, "RunFinished without Settle"
            assert isinstance(step.effects[-1], Settle), "RunFinished without Settle, or an effect after it"
            assert all(isinstance(effect, Abandon | Settle) for effect in step.effects), "work for a settled run"
            assert abandoned == alive, "what was alive was not abandoned, or something else was"
        else:
            assert abandoned is None, "work of a run that goes on was abandoned"
            busy = self.goes_on or self.caller.pending or self.with_caller
            assert busy or not self.iterations, "the run is not settled and waits for nothing"
            self.caller.check(self)

    def _alive_beside(self, fact: Fact | None) -> Abandon | None:
        """The work in progress apart from that which the fact ends, as the Abandon that would stop it."""
        match fact:
            case BudgetReached():
                self.model = None
            case ModelEnded() | ModelFailed():
                self.model = None
                self.remaining_ns = fact.remaining_ns if isinstance(fact, ModelFailed) else None
            case RetryDue():
                self.waiting = None
            case CompletionDecided():
                self.hook = None
                self.declined = not fact.instruction and not fact.problem
            case _:
                pass
        finishing = fact.call_id if isinstance(fact, ToolFinished) else None
        calls = tuple(call_id for call_id in self.executing if call_id != finishing)
        model = self.model is not None or self.waiting is not None or self.hook is not None
        return Abandon(model, calls) if model or calls else None

    def _event(self, iteration: int, event: Event) -> None:
        if isinstance(event, RunStarted | RunFinished):
            assert iteration == 0
        else:
            assert iteration == len(self.iterations) + isinstance(event, IterationStarted), "wrong iteration"
        assert (len(self.log) == 1) == isinstance(event, RunStarted), "RunStarted is the first event, once"
        if self.caller.event(self, event):
            return
        match event:
            case RunStarted():
                pass
            case IterationStarted():
                self._iteration_started(event)
            case TextDelta() | ReasoningDelta() | PartFinished():
                self._part_event(event)
            case IterationRetryScheduled():
                assert self.now.finish is None
                assert not self.now.output, "tried again after output"
                assert event.attempt == self.now.attempt
                assert event.attempt < self.bounds.max_attempts, "too many attempts"
                self.now.rejected = event.failure.reason is Reason.PROVIDER_AUTH_FAILED
                self.now.too_long = event.failure.reason is Reason.CONTEXT_OVERFLOW
                if self.now.rejected or self.now.too_long:
                    assert event.delay_ns == 0, "credentials are renewed, and history is shortened, at once"
                else:
                    assert event.delay_ns >= (event.failure.retry_after or 0) * 1e9
                self.usages.append(event.usage)
                assert event.delay_ns <= max(self.bounds.retry_max_delay, 120.0) * 1.25e9
            case IterationFinished():
                self._iteration_finished(event)
            case Notice(reason):
                self.notices += 1
                self.notice_reasons.append((event.reason, event.metadata.get("call_id", "")))
                if reason is Reason.USAGE_UNREPORTED:
                    assert not self.unreported, "missing usage is told twice"
                    self.unreported = True
            case RunFinished():
                self._run_finished(event)
            case _:
                self._call_event(iteration, event)

    def _iteration_started(self, event: IterationStarted) -> None:
        assert not self.to_come, "files are not waited for"
        assert self.caller.told is None, "goes on without saying so"
        assert all(call.result is not None for call in self.calls.values()), "a call is still open"
        assert not self.iterations or self.now.finish is not None, "the iteration before is still open"
        synthesis = event.kind is IterationKind.SYNTHESIS
        within = self.counted_calls <= self.bounds.max_tool_calls
        assert within or synthesis, "goes on beyond the bound on tool calls"
        cut = [book for book in self.iterations if book.finish not in WELL_ENDED]
        assert all(book.finish is FinishReason.OUTPUT_LIMIT for book in cut), "goes on after a cut answer"
        assert len(cut) <= 1, "tells the model of cut calls again and again"
        correction = event.kind is IterationKind.STRUCTURED_OUTPUT
        assert not correction or self.structured, "a correction of free text"
        corrections = [book for book in self.iterations if book.correction]
        paused = bool(corrections) and self.now.correction and self.now.finish is FinishReason.PAUSE
        assert not corrections or paused, "goes on after a correction"
        before = [book for book in self.iterations if book.synthesis]
        assert synthesis or not before, "goes on after the pass"
        may_call = self._synthesis_begins(before) if synthesis else not correction
        self.iterations.append(IterationBook(correction, synthesis, may_call))
        if synthesis:
            assert event.max_output_tokens == self.bounds.reserved_output_tokens, "the reserve is not used"

    def _synthesis_begins(self, before: list[IterationBook]) -> bool:
        """Whether the pass that begins may call tools."""
        if before:
            assert len(before) == 1, "a pass too many"
            assert before[0].may_call, "a second pass"
            assert before[0].calls, "a second pass that no tools ask for"
            return False
        assert self.completed, "a pass without a completed result"
        wants = self.bounds.completion_mode is not CompletionMode.NONE
        assert self.wants_answer(wants_text=wants), "a pass that nobody asked for"
        assert not self.declined, "a pass that the hook declined"
        return self.bounds.completion_tools and not self.at_bound

    @property
    def at_bound(self) -> bool:
        """Whether the loop could not go on, whatever the model wants."""
        over = self.counted_calls > self.bounds.max_tool_calls
        return bool(self.now.calls) and (over or len(self.iterations) == self.bounds.max_steps)

    def wants_answer(self, *, wants_text: bool) -> bool:
        """Whether the loop has ended well, with results and no text after them, and the policy completes that."""
        if self.now.finish not in WELL_ENDED or self.now.correction or self.now.synthesis or not self.completed:
            return False
        if self.now.calls:
            return self.at_bound and (wants_text or self.bounds.answer_at_step_bound)
        return wants_text and not self.now.said

    def _part_event(self, event: TextDelta | ReasoningDelta | PartFinished) -> None:
        assert self.now.finish is None, "output after the iteration finished"
        self.now.output = True
        if isinstance(event, PartFinished):
            part = event.part
            assert part.part_id not in self.finished_parts, "a part finished twice"
            self.finished_parts.add(part.part_id)
            deltas = "".join(self.parts.get(part.part_id, []))
            self.now.said = self.now.said or isinstance(part.content, Text | Blob)
            match part.content:
                case Text(text):
                    assert text == deltas, "a part differs from its deltas"
                    assert text.strip(), "a blank part of text"
                    assert part.part_id not in self.reasoning_parts
                case Reasoning(text, signature):
                    assert text == deltas, "a part differs from its deltas"
                    assert signature or part.part_id in self.reasoning_parts
                case content:
                    assert isinstance(content, OpaqueBlock | Blob)
            return
        assert event.text, "an empty delta"
        assert event.part_id not in self.finished_parts, "a delta after its part finished"
        if isinstance(event, ReasoningDelta):
            self.reasoning_parts.add(event.part_id)
        self.parts.setdefault(event.part_id, []).append(event.text)

    def _input_event(self, event: AttachmentUpdated | InputAppended) -> None:
        match event:
            case AttachmentUpdated(attachment):
                name, state = attachment.attachment_id, attachment.state
                assert name not in self.ready, "a file that was there changes"
                assert (state is AttachmentState.FAILED) == (attachment.failure is not None)
                if state is not AttachmentState.PENDING:
                    self.to_come.discard(name)
                if state is AttachmentState.READY:
                    self.ready.add(name)
            case InputAppended(messages):
                for message in messages:
                    self.held.add(message.message_id)
                    self.appended.append(message.message_id)

    def _call_event(self, iteration: int, event: Event) -> None:
        match event:
            case AttachmentUpdated() | InputAppended():
                self._input_event(event)
            case HistoryTruncated():
                assert self.model == (iteration, self.now.attempt), "history is cut for a request that is not made"
                self.cuts += 1
            case ToolsChanged():
                assert self.model == (iteration, self.now.attempt), "tools change between the iterations"
                self.changes += 1
            case ToolCallStarted():
                assert self.now.finish is None
                assert event.call_id not in self.calls, "a call id twice"
                assert (event.tool is None) == bool(event.requested_name)
                name = event.tool.routed_name if event.tool is not None else event.requested_name
                self.calls[event.call_id] = CallBook(iteration, name)
                self.now.calls.append(event.call_id)
                self.now.output = True
            case ToolCallArgumentsDelta(call_id, fragment):
                assert self.now.finish is None
                assert fragment
                assert self.calls[call_id].arguments is None, "a fragment after the arguments finished"
                self.calls[call_id].fragments.append(fragment)
            case ToolCallArgumentsFinished(call_id, arguments):
                assert self.now.finish is None
                assert self.calls[call_id].arguments is None, "arguments finished twice"
                text = "".join(self.calls[call_id].fragments)
                assert arguments == (text if text.strip() else "{}"), "arguments differ from their fragments"
                self.calls[call_id].arguments = arguments
            case ToolCallExecuting():
                self._executing(event)
            case ToolCallProgressed(call_id):
                assert call_id in self.executing
            case _:
                assert isinstance(event, ToolCallFinished)
                self._call_finished(event.result)

    def _executing(self, event: ToolCallExecuting) -> None:
        call = self.calls[event.call_id]
        assert self.now.finish in WELL_ENDED, "a tool starts although its answer did not end well"
        assert self.now.may_call, "a tool starts that was not offered"
        assert event.call_id in self.now.calls
        assert call.resolvable, "a tool starts unchecked"
        assert not call.executed, "a tool starts twice"
        assert call.result is None, "a tool starts after its call settled"
        assert not self.resolving, "a tool starts before all calls are checked"
        self.caller.check_start(event.call_id, call)
        before = self.now.calls[: self.now.calls.index(event.call_id)]
        call.with_caller = self.caller.by_caller(self, call.name)
        call.executing, call.executed = not call.with_caller, True
        if call.with_caller:
            return
        assert self.caller.told is None, "goes on without saying so"
        began = [self.calls[i].executed or self.calls[i].result is not None or self.caller.asks(i) for i in before]
        assert all(began), "not in model order"
        assert len(self.executing) <= self.bounds.max_parallel_calls, "too many tools at once"

    def _call_finished(self, result: ToolResult) -> None:
        call = self.calls[result.call_id]
        assert call.result is None, "a call finished twice"
        assert self.now.finish is not None, "a call settled before its answer ended"
        if result.status is ToolResultStatus.NOT_EXECUTED:
            assert not call.executed
        if result.status in EXECUTED:
            assert call.executed, f"{result.status} without executing"
        self.caller.check_result(result.call_id, call, result)
        if result.failure is not None and result.failure.reason is Reason.TOOL_LOOP_DETECTED:
            self.stopped_circle(call)
        expired = result.failure is not None and result.failure.reason is Reason.WAIT_EXPIRED
        if call.executed and not expired and result.status in {ToolResultStatus.OK, ToolResultStatus.ERROR}:
            self.completed += 1
        call.result = result

    def stopped_circle(self, call: CallBook) -> None:
        """Who is told of a circle has made the call before, so many times, in earlier answers."""
        threshold = self.bounds.repeated_call_threshold
        same = [
            book
            for book in self.calls.values()
            if (book.name, book.arguments) == (call.name, call.arguments) and book.iteration < call.iteration
        ]
        assert 0 < threshold <= len(same), "a circle that is none"

    def _iteration_finished(self, event: IterationFinished) -> None:
        assert self.now.finish is None, "an iteration finished twice"
        assert set(self.parts) <= self.finished_parts, "a part is still open"
        if event.finish_reason in WELL_ENDED:
            assert all(self.calls[call_id].arguments is not None for call_id in self.now.calls)
        self.now.finish = event.finish_reason
        self.usages.append(event.usage)

    def _run_finished(self, event: RunFinished) -> None:
        outcome = event.outcome
        assert all(call.result is not None for call in self.calls.values()), "a call never settled"
        assert not self.iterations or self.now.finish is not None, "the iteration never finished"
        assert event.iteration_count == len(self.iterations)
        assert event.tool_call_count == len(self.calls)
        assert event.usage == sum_usage(self.usages), "usage was lost"
        assert (outcome.failure is None) == (outcome.kind is OutcomeKind.ANSWERED)
        if outcome.failure is not None:
            assert outcome.failure.message
            assert outcome.failure.iteration == len(self.iterations)
        assert (event.trace is not None) == (self.include_trace or outcome.kind is not OutcomeKind.ANSWERED)
        has_value = self.structured and outcome.kind is OutcomeKind.ANSWERED
        if outcome.kind is not OutcomeKind.MAX_STEPS or not self.now.synthesis or not self.structured:
            assert (event.structured_output_json is not None) == has_value, "a value that was not asked for, or none"
        if outcome.kind in {OutcomeKind.TOOL_ONLY, OutcomeKind.MAX_STEPS} and not self.declined:
            wants = self.bounds.completion_mode is not CompletionMode.NONE
            assert not self.wants_answer(wants_text=wants), "an answer was promised and not asked for"
        phase = outcome.failure.phase if outcome.failure is not None else None
        if phase is FailurePhase.SYNTHESIS:
            assert self.now.synthesis, "a failure of a pass that there was not"
        if event.structured_output_json is not None:
            assert event.message is not None
            assert event.structured_output_json == text_of(event.message).strip()
            assert event.structured_output_json.startswith("a"), "a value that does not match"
        if outcome.kind is OutcomeKind.ANSWERED:
            assert not self.held, "ends without an answer to what the caller added"
            assert self.now.finish in WELL_ENDED, "success without a positive end"
            assert event.message is not None
            files = any(isinstance(part.content, Blob) for part in event.message.parts)
            assert files or text_of(event.message).strip(), "success without anything to show"
            assert not self.now.calls, "success while the model asked for tools"
            assert not outcome.partial
        if outcome.kind is OutcomeKind.TOOL_ONLY:
            assert self.calls
            assert event.message is None or (self.now.synthesis and self.now.calls)
        assert not (outcome.partial and event.message is None)
        self.finished = event

    def _effect(self, effect: Effect) -> None:  # noqa: C901 - one case for each effect
        match effect:
            case CallModel():
                assert (effect.iteration, effect.attempt) == (len(self.iterations), self.now.attempt + 1)
                steps = sum(not book.synthesis for book in self.iterations)
                assert steps <= self.bounds.max_steps, "too many steps"
                assert effect.attempt <= self.bounds.max_attempts
                assert effect.attempt == 1 or not effect.append, "a retry changes the request"
                assert self.model is None
                assert self.waiting is None
                assert effect.renew_credentials == self.now.rejected, "renews for nothing, or asks with rejected ones"
                self.now.renewed += effect.renew_credentials
                assert self.now.renewed <= 1, "renews again what was rejected again"
                assert effect.shorten == self.now.too_long, "shortens what fits, or sends again what is too long"
                self.now.shortened += effect.shorten
                assert self.now.shortened <= 1, "shortens twice in an iteration"
                assert not effect.shorten or self.bounds.history_overflow is HistoryOverflowMode.TRUNCATE
                self.now.rejected = self.now.too_long = False
                self.held -= {message.message_id for message in effect.append}
                assert not self.held or self.now_goes_on, "the model does not see what the caller added"
                self.sent.extend(effect.append)
                assert_well_formed(tuple(self.sent))
                assert effect.iteration == 1 or self.sent, "the next request says nothing new"
                assert effect.offer_tools == self.now.may_call, "offers tools where none may be called, or none"
                if self.now.synthesis:
                    assert effect.max_output_tokens == self.bounds.reserved_output_tokens
                self.now.attempt = effect.attempt
                self.model = (effect.iteration, effect.attempt)
            case AwaitCaller(key):
                assert key in self.caller.pending or key in self.with_caller, "waits for what nobody asked for"
            case AnswerTool():
                raise AssertionError("an answer to what no tool has asked")
            case AskHook():
                assert effect.name == self.bounds.completion_hook
                assert self.bounds.completion_mode is CompletionMode.CUSTOM
                assert self.wants_answer(wants_text=True), "a hook is asked about a run that needs nothing"
                assert effect.messages[: len(self.sent)] == tuple(self.sent)
                assert_well_formed(effect.messages)
                self.hook = effect.iteration
            case Wait():
                assert effect.attempt == self.now.attempt + 1
                assert not self.now.rejected, "waits with rejected credentials"
                assert not self.now.too_long, "waits with what is too long"
                if self.remaining_ns is not None:
                    assert effect.delay_ns < self.remaining_ns, "begins a wait that outlasts the run"
                self.waiting = (effect.iteration, effect.attempt)
            case ResolveTool(call_id, _, arguments):
                call = self.calls[call_id]
                assert call.result is None
                assert not call.resolving
                assert call.arguments == arguments
                call.resolving = True
                limits = self.bounds.max_tool_calls_per_tool
                limit = limits[call.name] if call.name in limits else limits.get("*")
                asked = sum(book.asked for book in self.calls.values() if book.name == call.name)
                assert limit is None or asked < limit, "too many calls of one tool"
                call.asked = True
                self.resolved_count += 1
                assert self.resolved_count <= self.bounds.max_tool_calls, "too many tool calls"
            case RunTool(call_id, _, arguments):
                assert call_id in self.executing, "RunTool without ToolCallExecuting, or of the caller's call"
                assert arguments == self.calls[call_id].arguments
            case Abandon():
                pass
            case AwaitAttachments():
                assert self.awaiting, "waits for files while the run goes on"
                assert self.to_come, "waits for nothing"
            case Settle():
                check_settle(self, effect)
                self.settled = effect
