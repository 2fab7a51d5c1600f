"""What the end of an answer, of a run or of a process must lead to, told by the shadow's books alone."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Any

from turn.machinekit import RUN_ID, assert_well_formed, failure
from turn.shadow import WELL_ENDED, IterationBook, Shadow

from turnwired.domain.event import IterationFinished, PartFinished, RunFinished, ToolCallFinished
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Reasoning, Role, Text, ToolCall, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import CompletionMode, HistoryOverflowMode, ToolErrorMode
from turnwired.domain.trace import IterationTrace, ToolCallTrace
from turnwired.turn.effects import Settle, Step
from turnwired.turn.recovery import closing_step
from turnwired.turn.trace import TraceFold, trace_of


def expected_kinds(
    shadow: Shadow, reason: FinishReason | None, book: IterationBook, *, said_text: bool, refused: bool, held: bool
) -> set[OutcomeKind | None]:
    """What the end of an answer may lead to; None: the run goes on. ``held``: there was input that waited for it."""
    calls = book.calls
    if held and not calls and reason in WELL_ENDED and not book.correction and not book.synthesis:
        return {None, OutcomeKind.MAX_STEPS} if reason is FinishReason.PAUSE else {None}
    if book.synthesis:
        return _after_pass(shadow, reason, book, said_text=said_text, refused=refused)
    abort = shadow.bounds.error_mode is ToolErrorMode.ABORT or shadow.bounds.repeated_call_threshold > 0
    match reason:
        case None | FinishReason.EOF:
            return {OutcomeKind.PROVIDER_EOF}
        case FinishReason.ERROR | FinishReason.ABORTED:
            return {OutcomeKind.ERRORED}
        case FinishReason.REFUSAL | FinishReason.CONTENT_FILTER:
            return {OutcomeKind.REFUSED}
        case FinishReason.CONTEXT_LIMIT:
            return {OutcomeKind.OUTPUT_LIMIT}
        case FinishReason.OUTPUT_LIMIT:
            return {OutcomeKind.OUTPUT_LIMIT, None} if calls else {OutcomeKind.OUTPUT_LIMIT}
        case _ if calls and book.correction:
            return {OutcomeKind.ERRORED}
        case _ if calls:
            return {None, OutcomeKind.MAX_STEPS, *([OutcomeKind.ERRORED] if abort else [])}
        case FinishReason.PAUSE if book.output:
            return {None, OutcomeKind.MAX_STEPS}
        case _:
            return _after_whole_answer(shadow, reason, book, said_text=said_text, refused=refused)


def _after_whole_answer(
    shadow: Shadow, reason: FinishReason, book: IterationBook, *, said_text: bool, refused: bool
) -> set[OutcomeKind | None]:
    """One that ended well and calls nothing."""
    again: set[OutcomeKind | None] = {None} if shadow.structured and not book.correction else set()
    if refused:
        return {OutcomeKind.REFUSED}
    if said_text:
        return {OutcomeKind.ANSWERED, OutcomeKind.ERRORED, *again} if shadow.structured else {OutcomeKind.ANSWERED}
    if reason is FinishReason.TOOL_CALLS:
        return {OutcomeKind.ERRORED}
    if shadow.completed and shadow.bounds.completion_mode is not CompletionMode.NONE:
        again = {None}
    return {OutcomeKind.TOOL_ONLY if shadow.calls else OutcomeKind.ERRORED, *again}


def _after_pass(
    shadow: Shadow, reason: FinishReason | None, book: IterationBook, *, said_text: bool, refused: bool
) -> set[OutcomeKind | None]:
    """The answer from tool results: a run at its bound stays there, else it answers or says what lacks."""
    if book.calls and reason in WELL_ENDED and book.may_call:
        abort = shadow.bounds.error_mode is ToolErrorMode.ABORT or shadow.bounds.repeated_call_threshold > 0
        return {None, *([OutcomeKind.ERRORED] if abort else [])}
    found: dict[FinishReason, OutcomeKind] = {
        FinishReason.REFUSAL: OutcomeKind.REFUSED,
        FinishReason.CONTENT_FILTER: OutcomeKind.REFUSED,
        FinishReason.ERROR: OutcomeKind.ERRORED,
        FinishReason.ABORTED: OutcomeKind.ERRORED,
        FinishReason.CONTEXT_LIMIT: OutcomeKind.OUTPUT_LIMIT,
        FinishReason.OUTPUT_LIMIT: OutcomeKind.OUTPUT_LIMIT,
        FinishReason.EOF: OutcomeKind.PROVIDER_EOF,
    }
    at_bound = {OutcomeKind.MAX_STEPS}
    if reason is not None and reason in WELL_ENDED:
        if book.calls:
            return {OutcomeKind.TOOL_ONLY, *at_bound}
        if refused:
            return {OutcomeKind.REFUSED, *at_bound}
        if said_text:
            return {OutcomeKind.ANSWERED, *at_bound, *([OutcomeKind.ERRORED] if shadow.structured else [])}
        return {OutcomeKind.TOOL_ONLY, *at_bound}
    return {OutcomeKind.TOOL_ONLY, found[reason or FinishReason.EOF], *at_bound}


class AfterFailure(Enum):
    """What a failed attempt leads to."""

    WAIT = auto()
    RENEW = auto()
    SHORTEN = auto()
    END = auto()


def expected_after_failure(shadow: Shadow, fault: Failure, jitter: float, left: int | None) -> AfterFailure:
    """What a failed attempt leads to when the run may go on for ``left`` nanoseconds still."""
    bounds, now = shadow.bounds, shadow.now
    if now.output or now.attempt >= bounds.max_attempts:
        return AfterFailure.END
    if fault.reason is Reason.CONTEXT_OVERFLOW:
        may = bounds.history_overflow is HistoryOverflowMode.TRUNCATE and not now.shortened
        return AfterFailure.SHORTEN if may else AfterFailure.END
    if fault.reason is Reason.PROVIDER_AUTH_FAILED:
        return AfterFailure.END if now.renewed else AfterFailure.RENEW
    asked = fault.retry_after or 0.0
    if not fault.retryable or asked > 120:
        return AfterFailure.END
    share = jitter / 4
    backoff = min(bounds.retry_initial_delay * 2 ** (now.attempt - 1), bounds.retry_max_delay)
    delay = max(asked * (1 + share), backoff * (1 - share))
    return AfterFailure.END if left is not None and int(delay * 1e9) >= left else AfterFailure.WAIT


def check_trace(shadow: Shadow, fold: TraceFold) -> None:
    """The trace is the same however it is folded, and tells of every iteration and call."""
    trace = trace_of(shadow.log)
    assert trace == fold.trace(), "folding as it goes and folding the log differ"
    entries = [entry.entry for entry in trace.entries]
    assert sum(isinstance(entry, IterationTrace) for entry in entries) == len(shadow.iterations)
    traced = [entry for entry in entries if isinstance(entry, ToolCallTrace)]
    assert {entry.call.call_id: entry.status for entry in traced} == {
        call_id: call.result.status for call_id, call in shadow.calls.items() if call.result
    }


def check_recovery(shadow: Shadow, messages: tuple[Message, ...]) -> None:
    """The history that recovery finds in the log is the one the machine kept."""
    log = shadow.log
    fault = failure(Reason.SERVER_RESTARTED)
    whole = closing_step(RUN_ID, "agent", None, log, fault)
    assert whole.events == ()
    assert [simple(message) for message in whole.messages] == [simple(message) for message in messages]


def check_crash(shadow: Shadow) -> None:
    """Recovery closes the log of this moment: what is open is closed, nothing else is touched."""
    closing = closing_step(RUN_ID, "agent", None, shadow.log, failure(Reason.SERVER_RESTARTED))
    events = [emitted.event for emitted in closing.events]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].outcome.kind is OutcomeKind.ERRORED
    results = {event.result.call_id: event.result for event in events if isinstance(event, ToolCallFinished)}
    assert list(results) == [call_id for call_id, call in shadow.calls.items() if call.result is None]
    for call_id, result in results.items():
        running = shadow.calls[call_id].executed
        assert result.status is (ToolResultStatus.OUTCOME_UNKNOWN if running else ToolResultStatus.NOT_EXECUTED)
    parts = {event.part.part_id: event.part.content for event in events if isinstance(event, PartFinished)}
    assert set(parts) == set(shadow.parts) - shadow.finished_parts, "recovery leaves a part open"
    for part_id, content in parts.items():
        assert isinstance(content, Text | Reasoning)
        assert content.text == "".join(shadow.parts[part_id])
    open_iteration = bool(shadow.iterations) and shadow.now.finish is None
    assert any(isinstance(event, IterationFinished) for event in events) == open_iteration
    assert_well_formed(closing.messages)
    assert [simple(message) for message in closing.messages[: len(shadow.sent)]] == [simple(m) for m in shadow.sent]


def simple(message: Message) -> tuple[Role, str, list[Any]]:
    """A message without what the log does not hold: ids of result parts, and the tool that the registry named."""
    contents: list[Any] = []
    for part in message.parts:
        content = part.content
        contents.append((content.call_id, content.arguments_json) if isinstance(content, ToolCall) else content)
    return message.role, message.message_id, contents


def alike(step: Step) -> str:
    """What a step says, whatever its parts are called, and apart from how much a model call repeats."""
    settled = [effect.messages for effect in step.effects if isinstance(effect, Settle)]
    said = (step.events, [type(effect) for effect in step.effects], settled)
    return re.sub(r"'part_(e\d+_)?\d+", "'part", repr(said))
