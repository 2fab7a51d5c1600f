"""What closes the log of a run that nobody executes any more: a pure function from its stored events to the last ones.

Nothing is run again. A call that had begun may have taken effect, and its result says so; a call that had not is said
not to have run; text that was streamed is kept as far as it was stored. The history is the one the machine would keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from turnwired.domain.attachment import Attachment
from turnwired.domain.event import (
    AttachmentUpdated,
    Event,
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
    ToolCallStarted,
)
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Part, Reasoning, Text, ToolResult, ToolResultStatus
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import EffectivePolicy, Policy
from turnwired.domain.tool import ToolRef
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Cost, Usage, sum_cost, sum_usage
from turnwired.turn.aftermath import ended_by_tool
from turnwired.turn.attachments import missing
from turnwired.turn.batch import settled_result
from turnwired.turn.completion import INSTRUCTION
from turnwired.turn.effects import Emitted
from turnwired.turn.ending import UNFINISHED, Ending
from turnwired.turn.history import Transcript, call_part
from turnwired.turn.ids import Ids
from turnwired.turn.pieces import place_of
from turnwired.turn.structured import correction


@dataclass(frozen=True, slots=True)
class Closing:
    """``events`` to append, the last of them RunFinished; none when the run had settled. ``messages``: its history.

    As with the machine, an empty RunTrace in RunFinished asks whoever numbers the events to put in the fold.
    """

    events: tuple[Emitted, ...]
    messages: tuple[Message, ...]


@dataclass(slots=True)
class _Call:
    tool: ToolRef | None
    requested_name: str
    fragments: list[str] = field(default_factory=list[str])
    arguments: str | None = None
    executing: bool = False
    result: ToolResult | None = None


@dataclass(slots=True)
class _OpenPart:
    reasoning: bool
    fragments: list[str] = field(default_factory=list[str])

    def finish(self, part_id: str, provider: str) -> Part:
        text = "".join(self.fragments)
        return Part(part_id, Reasoning(text, provider=provider) if self.reasoning else Text(text))


@dataclass(slots=True)
class _Held:
    """What the caller added that no turn has read yet, and the files that it did not bring."""

    messages: list[Message] = field(default_factory=list[Message])
    missing: list[Attachment] = field(default_factory=list[Attachment])

    def put(self, transcript: Transcript, ids: Ids, run_id: str) -> None:
        """Hold it for the next turn, as the machine did."""
        transcript.hold(self.messages)
        if self.missing:
            transcript.hold((missing(self.missing, ids, run_id),))


@dataclass(slots=True)
class _Iteration:
    number: int
    entries: dict[str, Part | _OpenPart | _Call] = field(default_factory=dict[str, "Part | _OpenPart | _Call"])
    finish_reason: FinishReason | None = None
    correction: str = ""
    held: _Held | None = None
    """Input that stands before its turn."""
    held_before_correction: _Held | None = None


def closing_step(
    run_id: str,
    agent_id: str,
    session_id: str | None,
    events: Iterable[LoggedEvent],
    failure: Failure,
    parent_run_id: str | None = None,
) -> Closing:
    """Close the log of a run that was found unfinished: ERRORED with ``failure``, such as SERVER_RESTARTED.

    A run that died before its first event was stored gets a RunStarted that names no model and no policy.
    """
    replay = Replay()
    for logged in events:
        replay.add(logged)
    policy = EffectivePolicy(Policy(), ())
    started = RunStarted(run_id, agent_id, 0, ModelSelection("", ""), policy, (), session_id, parent_run_id)
    return replay.close(started, failure)


class Replay:
    """The state of a run as its log tells it."""

    def __init__(self) -> None:
        self._iterations: list[_Iteration] = []
        self._calls: dict[str, _Call] = {}
        self._usages: list[Usage] = []
        self._costs: list[Cost | None] = []
        self._started = False
        self._settled = False
        self._unread = False
        self._provider = ""
        self._held = _Held()

    def _take_held(self) -> _Held:
        held, self._held = self._held, _Held()
        return held

    def add(self, logged: LoggedEvent) -> None:
        """Take the next event."""
        event = logged.event
        self._started = True
        match event:
            case RunStarted():
                self._provider = event.model.provider
            case IterationStarted():
                self._iterations.append(_Iteration(logged.iteration, held=self._take_held()))
            case TextDelta() | ReasoningDelta():
                self._grow(event)
            case PartFinished(part):
                self._put(part)
            case IterationRetryScheduled(usage=usage, cost=cost):
                self._usages.append(usage)
                if usage != Usage():
                    self._costs.append(cost)
            case IterationFinished():
                self._iterations[-1].finish_reason = event.finish_reason
                self._usages.append(event.usage)
                self._costs.append(event.cost)
            case Notice(Reason.STRUCTURED_OUTPUT_INVALID, message) if self._iterations:
                self._correct(correction(message))
            case Notice(metadata=metadata) if INSTRUCTION in metadata and self._iterations:
                self._correct(metadata[INSTRUCTION])
            case RunFinished():
                self._settled = True
                self._unread = ended_by_tool(event.outcome)
            case _:
                self._add_call_event(event)

    def _correct(self, words: str) -> None:
        iteration = self._iterations[-1]
        iteration.correction = words
        iteration.held_before_correction = self._take_held()

    def _add_call_event(self, event: Event) -> None:
        match event:
            case ToolCallStarted():
                call = _Call(event.tool, event.requested_name)
                self._calls[event.call_id] = self._entries[event.call_id] = call
            case ToolCallArgumentsDelta(call_id, fragment):
                self._calls[call_id].fragments.append(fragment)
            case ToolCallArgumentsFinished(call_id, arguments_json):
                self._calls[call_id].arguments = arguments_json
            case ToolCallExecuting(call_id):
                self._calls[call_id].executing = True
            case ToolCallFinished(result):
                self._calls[result.call_id].result = result
            case InputAppended(messages):
                self._held.messages += messages
            case AttachmentUpdated(Attachment(failure=Failure(reason=Reason.ATTACHMENT_NOT_READY)) as attachment):
                self._held.missing.append(attachment)
            case _:
                pass

    @property
    def _entries(self) -> dict[str, Part | _OpenPart | _Call]:
        return self._iterations[-1].entries

    def _put(self, part: Part) -> None:
        """A finished part: where its deltas were, or behind the part or call that it is attached to."""
        entries = self._entries
        if part.part_id not in entries and (place := place_of(part.part_id, list(entries))) < len(entries):
            items: list[tuple[str, Part | _OpenPart | _Call]] = list(entries.items())
            items.insert(place, (part.part_id, part))
            entries.clear()
            entries.update(items)
        else:
            entries[part.part_id] = part

    def _grow(self, delta: TextDelta | ReasoningDelta) -> None:
        entry = self._entries.setdefault(delta.part_id, _OpenPart(isinstance(delta, ReasoningDelta)))
        if isinstance(entry, _OpenPart):
            entry.fragments.append(delta.text)

    def close(self, started: RunStarted, failure: Failure) -> Closing:
        """What closes the log after these events."""
        run_id = started.run_id
        ids = Ids(run_id, part_prefix="part_r")  # the run's own part ids are taken
        last = self._iterations[-1].number if self._iterations else 0
        failure = replace(failure, iteration=failure.iteration or last)
        closing: list[Event] = []
        if not self._settled:
            self._close_iteration(closing, failure)
            self._close_calls(closing, ids, last)
        transcript = self.transcript(run_id, ids)
        transcript.end()
        emitted = [Emitted(last, event) for event in closing]
        if not self._started:
            emitted.append(Emitted(0, started))
        if not self._settled:
            emitted.append(Emitted(0, self._finished(failure, transcript.shown())))
        return Closing(tuple(emitted), transcript.messages())

    def _close_iteration(self, closing: list[Event], failure: Failure) -> None:
        if not self._iterations or self._iterations[-1].finish_reason is not None:
            return
        entries = self._entries
        for part_id, entry in entries.items():
            if isinstance(entry, _OpenPart):
                part = entries[part_id] = entry.finish(part_id, self._provider)
                closing.append(PartFinished(part))
        self._iterations[-1].finish_reason = FinishReason.ABORTED
        self._costs.append(None)  # what the open call used is not known: the cost is a lower bound
        closing.append(IterationFinished(FinishReason.ABORTED, failure=failure))

    def _close_calls(self, closing: list[Event], ids: Ids, iteration: int) -> None:
        for call_id, call in self._calls.items():
            if call.result is not None:
                continue
            if call.executing:
                status, reason = ToolResultStatus.OUTCOME_UNKNOWN, Reason.TOOL_OUTCOME_UNKNOWN
                message = "Outcome unknown: the run broke off while the tool ran. It may have taken effect."
            else:
                status, reason = ToolResultStatus.NOT_EXECUTED, Reason.TOOL_NOT_EXECUTED
                message = "Not executed: the run broke off before the tool began."
            call.result = settled_result(call_id, ids.part(), status, reason, message, iteration)
            closing.append(ToolCallFinished(call.result))

    def transcript(self, run_id: str, ids: Ids, *, tools_run: bool = False) -> Transcript:
        """What the run has added to its conversation. ``tools_run``: the last calls have not all settled."""
        transcript = Transcript(run_id, ids)
        last = self._iterations[-1] if self._iterations else None
        for iteration in self._iterations:
            cut = iteration.finish_reason in UNFINISHED
            parts: list[Part] = []
            results: list[ToolResult] = []
            for entry_id, entry in iteration.entries.items():
                if isinstance(entry, Part):
                    parts.append(entry)
                elif isinstance(entry, _Call) and not (cut and entry.arguments is None):
                    parts.append(call_part(entry_id, entry.tool, entry.requested_name, entry.arguments or ""))
                    if entry.result is not None:
                        results.append(entry.result)
            if iteration.held is not None:
                iteration.held.put(transcript, ids, run_id)
            transcript.begin_turn()
            transcript.add_turn(parts, cut=cut, paused=iteration.finish_reason is FinishReason.PAUSE)
            if not (tools_run and iteration is last):
                transcript.add_results(results)
            if iteration.correction:
                if iteration.held_before_correction is not None:
                    iteration.held_before_correction.put(transcript, ids, run_id)
                transcript.add_correction(iteration.correction)
        if self._unread:
            transcript.leave_out_unread()
        self._held.put(transcript, ids, run_id)
        return transcript

    def _finished(self, failure: Failure, message: Message | None) -> RunFinished:
        outcome = Ending(OutcomeKind.ERRORED, failure).outcome(has_output=message is not None)
        return RunFinished(
            outcome=outcome,
            message=message,
            usage=sum_usage(self._usages),
            cost=sum_cost(self._costs),
            iteration_count=len(self._iterations),
            tool_call_count=len(self._calls),
            trace=RunTrace(),
        )
