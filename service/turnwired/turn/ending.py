"""How a run ends: the rules that turn what happened into the one outcome, and the words that say what to do. Pure.

An answer counts only with a positive end signal and something to show. Every other end carries a failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.outcome import LimitTrip, Notice, Outcome, OutcomeKind
from turnwired.domain.usage import Usage
from turnwired.policy.bounds import Bounds
from turnwired.turn.answer import Answer
from turnwired.turn.facts import CancelRequested, DeadlineReached, DriverFailed

COMPLETE = frozenset({FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER, FinishReason.PAUSE})
"""Finish reasons after which the whole answer can be trusted, its calls included. The word itself steers nothing."""

UNFINISHED = frozenset({FinishReason.EOF, FinishReason.ERROR, FinishReason.ABORTED})
"""Finish reasons after which the answer is cut at an unknown place."""

_PLAIN_WORD = re.compile(r"[a-z_]{1,40}(:[a-z_]{1,40})?")
"""A provider's word that can be repeated: in anything longer or richer there may be text of the prompt, or a key."""

CUT_BY_LIMIT = (
    "Not executed: the answer reached the output token limit, so this call may be incomplete. "
    "Make it again with a smaller payload, or in several calls."
)
CUT = "Not executed: the answer broke off before its end, so this call may be incomplete."

USAGE_UNREPORTED = Notice(
    Reason.USAGE_UNREPORTED,
    "The provider reported no usage. Tokens of this run are estimated from the sizes of request and answer, and so is "
    "what is computed from them.",
)

_RECOVERABLE = frozenset(
    {
        OutcomeKind.TOOL_ONLY,
        OutcomeKind.MAX_STEPS,
        OutcomeKind.OUTPUT_LIMIT,
        OutcomeKind.PROVIDER_EOF,
        OutcomeKind.BUDGET_EXCEEDED,
        OutcomeKind.ABORTED,
    }
)


CONTEXT_FULL = Notice(
    Reason.CONTEXT_OVERFLOW,
    "The conversation does not fit the model's context window, or what context.max_history_tokens allows of it. Let "
    "its oldest messages be left out (context.overflow_mode TRUNCATE), begin a new session with a summary of this "
    "one, send less with the turn, let tools give shorter results (tool.max_result_bytes), or use a model with a "
    "larger window.",
)


@dataclass(frozen=True, slots=True)
class OutputCap:
    """Most output tokens of one model call, and which setting says so. ``tokens`` None: the provider's own limit."""

    tokens: int | None
    policy_path: str = "output.max_output_tokens"


@dataclass(frozen=True, slots=True)
class Ending:
    """A decided end of a run, before it is known what there is to show. ``whole``: whatever there is, is not cut."""

    kind: OutcomeKind
    failure: Failure | None = None
    limit_trip: LimitTrip | None = None
    whole: bool = False

    def outcome(self, *, has_output: bool) -> Outcome:
        """The outcome; ``has_output``: there is something to show."""
        errored = self.kind is OutcomeKind.ERRORED and self.failure is not None and self.failure.retryable
        return Outcome(
            self.kind,
            self.failure,
            self.limit_trip,
            recoverable=errored or self.kind in _RECOVERABLE,
            partial=has_output and not self.whole,
        )

    def explained(self, why: str) -> Ending:
        """The same end, its failure saying more."""
        if self.failure is None or not why:
            return self
        return replace(self, failure=replace(self.failure, message=f"{self.failure.message} {why}"))


ANSWERED = Ending(OutcomeKind.ANSWERED, whole=True)


def _model(kind: OutcomeKind, reason: Reason, message: str, *, retryable: bool = False) -> Ending:
    return Ending(kind, Failure(FailurePhase.MODEL, reason, message, retryable=retryable))


def of_complete_answer(answer: Answer, reason: FinishReason, calls_settled: int) -> Ending:
    """The end after a whole answer without tool calls. ``calls_settled`` counts the calls of the run before it."""
    if answer.refused:
        return _refusal(answer, Reason.MODEL_REFUSED)
    if answer.has_output:
        return ANSWERED
    if reason is FinishReason.TOOL_CALLS:
        return _model(
            OutcomeKind.ERRORED,
            Reason.PROVIDER_PROTOCOL_ERROR,
            "The provider said that the model calls tools, but sent no call and no text. Send the turn again; "
            "if it happens often, check that the provider supports tools for this model.",
            retryable=True,
        )
    if calls_settled:
        return _model(
            OutcomeKind.TOOL_ONLY,
            Reason.ANSWER_MISSING,
            "The model ended the turn after its tools without any text. The results are kept; ask it to answer.",
            retryable=True,
        )
    return _model(
        OutcomeKind.ERRORED,
        Reason.ANSWER_MISSING,
        "The model ended the turn without any output. Send the turn again.",
        retryable=True,
    )


def of_cut_answer(answer: Answer, reason: FinishReason, provider_reason: str, cap: OutputCap, usage: Usage) -> Ending:
    """The end after an answer that stopped for another reason than being complete."""
    match reason:
        case FinishReason.OUTPUT_LIMIT:
            return _output_limit(cap, usage)
        case FinishReason.CONTEXT_LIMIT:
            return _model(
                OutcomeKind.OUTPUT_LIMIT,
                Reason.CONTEXT_OVERFLOW,
                "The model's context window was full before the answer was complete. Shorten the conversation or "
                "use a model with a larger window.",
            )
        case FinishReason.REFUSAL:
            return _refusal(answer, Reason.MODEL_REFUSED)
        case FinishReason.CONTENT_FILTER:
            return _refusal(answer, Reason.MODEL_REFUSED if answer.refused else Reason.PROVIDER_CONTENT_FILTERED)
        case FinishReason.EOF:
            return _model(
                OutcomeKind.PROVIDER_EOF,
                Reason.PROVIDER_STREAM_ENDED,
                "The provider's stream ended without saying that the answer is complete. Send the turn again.",
                retryable=True,
            )
        case _:
            told = f" ({provider_reason})" if _PLAIN_WORD.fullmatch(provider_reason) else ""
            return _model(
                OutcomeKind.ERRORED,
                Reason.PROVIDER_MODEL_FAULT,
                f"The provider gave up on the answer{told}. Send the turn again.",
                retryable=True,
            )


def _output_limit(cap: OutputCap, usage: Usage) -> Ending:
    trip = None
    reason = Reason.OUTPUT_LIMIT_REACHED  # the provider's own, unless the policy set one
    if cap.tokens is not None:
        reason = Reason.LIMIT_REACHED
        observed = usage.output_tokens if usage.output_tokens is not None else cap.tokens
        trip = LimitTrip(cap.policy_path, str(cap.tokens), str(observed))
    failure = Failure(
        FailurePhase.MODEL,
        reason,
        "The model reached its output token limit before the answer was complete. "
        f"Raise {cap.policy_path} or ask for less.",
    )
    return Ending(OutcomeKind.OUTPUT_LIMIT, failure, trip)


def _refusal(answer: Answer, reason: Reason) -> Ending:
    who = "The model" if reason is Reason.MODEL_REFUSED else "A content filter of the provider"
    message = f"{who} refused to answer. Sending the same turn again will not help."
    failure = Failure(FailurePhase.MODEL, reason, message)
    return Ending(OutcomeKind.REFUSED, failure, whole=not answer.has_output)


def max_steps(bounds: Bounds) -> Ending:
    """Another model call is needed and not allowed."""
    failure = Failure(
        FailurePhase.MODEL,
        Reason.LIMIT_REACHED,
        f"The run needs more than {bounds.max_steps} model calls. The results so far are kept; raise loop.max_steps "
        "or send another turn to go on.",
    )
    limit = str(bounds.max_steps)
    return Ending(OutcomeKind.MAX_STEPS, failure, LimitTrip("loop.max_steps", limit, str(bounds.max_steps + 1)))


def max_tool_calls(bounds: Bounds, asked: int) -> Ending:
    """The model asked for ``asked`` calls in all, more than the run allows."""
    failure = Failure(
        FailurePhase.TOOL,
        Reason.LIMIT_REACHED,
        f"The model asked for {asked} tool calls and the run allows {bounds.max_tool_calls}. The results so far are "
        "kept; raise loop.max_tool_calls or send another turn to go on.",
    )
    trip = LimitTrip("loop.max_tool_calls", str(bounds.max_tool_calls), str(asked))
    return Ending(OutcomeKind.MAX_STEPS, failure, trip)


def in_circles(told: int) -> Ending:
    """The model was told ``told`` times that it goes round in circles, and goes on."""
    failure = Failure(
        FailurePhase.TOOL,
        Reason.TOOL_LOOP_DETECTED,
        f"The model repeats tool calls that change nothing, also after it was told so {told} times. The results so far "
        "are kept. Ask for something else, raise loop.repeated_call_threshold, or name a tool that is polled in "
        "tools.polling.",
    )
    return Ending(OutcomeKind.ERRORED, failure)


def tool_failed(tool_name: str, call_id: str, failure: Failure | None) -> Ending:
    """A tool failed and the policy says that this ends the run."""
    cause = failure if failure is not None else Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, "It gave an error.")
    message = f"The tool {tool_name} failed and tool.error_mode is ABORT. {cause.message}"
    return Ending(OutcomeKind.ERRORED, replace(cause, phase=_tool_phase(cause), message=message, call_id=call_id))


def _tool_phase(cause: Failure) -> FailurePhase:
    """Whether the tool was not found, not reached, or failed itself."""
    stages = {FailurePhase.ROUTING, FailurePhase.TRANSPORT}
    return cause.phase if cause.phase in stages else FailurePhase.TOOL


def of_stop(fact: CancelRequested | DeadlineReached | DriverFailed) -> Ending:
    """The end of a run that somebody or something stops."""
    match fact:
        case CancelRequested(failure):
            return Ending(OutcomeKind.ABORTED, failure)
        case DeadlineReached(policy_path, limit, observed):
            return _deadline(policy_path, limit, limit if observed is None else observed)
        case DriverFailed(failure):
            return Ending(OutcomeKind.ERRORED, failure)


def _deadline(policy_path: str, limit: float, observed: float) -> Ending:
    """A time limit of the whole run is over. Both in seconds."""
    seconds = _seconds(limit)
    failure = Failure(
        FailurePhase.SETTLEMENT,
        Reason.DEADLINE_EXCEEDED,
        f"The run took longer than {seconds} s ({policy_path}). What was done is kept; raise the limit.",
    )
    return Ending(OutcomeKind.BUDGET_EXCEEDED, failure, LimitTrip(policy_path, seconds, _seconds(observed)))


def wait_expired(limit: float) -> Ending:
    """The caller let a question or a call wait for ``limit`` seconds, and the policy says that this ends the run."""
    seconds = _seconds(limit)
    failure = Failure(
        FailurePhase.TOOL,
        Reason.WAIT_EXPIRED,
        f"Nobody answered within {seconds} s (timeout.wait), and approval.wait_expiry is ABORT. What was done is kept; "
        "answer sooner, raise the limit, or let the run go on without an answer.",
    )
    return Ending(OutcomeKind.ABORTED, failure, LimitTrip("timeout.wait", seconds, seconds))


def _seconds(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
