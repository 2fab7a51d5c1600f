"""How values of the domain become attributes, and which ends are errors. Pure.

An end is an error when the operation did not do what it is for. A caller's own cancel is not one, nor is a limit that
did its work: both are told by outcome and reason. Nothing here takes a message, an argument or a result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from turnwired.domain.event import IterationFinished
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import Outcome, OutcomeKind
from turnwired.domain.usage import Cost, Usage, UsageSource
from turnwired.telemetry import names
from turnwired.telemetry.spans import Attributes, clip

_CALLERS_WISH = frozenset({Reason.CANCELLED, Reason.CALLER_DISCONNECTED})
_MAX_LABELS = 16


def chat_error(event: IterationFinished) -> str | None:
    """The ``error.type`` of a model call, or None when it did its work or the caller stopped it."""
    match event.finish_reason:
        case FinishReason.ERROR:
            return names.ERROR_OTHER if event.failure is None else event.failure.reason.value
        case FinishReason.EOF:
            return names.ERROR_PROVIDER_EOF if event.failure is None else event.failure.reason.value
        case FinishReason.ABORTED:
            if event.failure is None or event.failure.reason in _CALLERS_WISH:
                return None
            return event.failure.reason.value
        case (
            FinishReason.STOP
            | FinishReason.TOOL_CALLS
            | FinishReason.OUTPUT_LIMIT
            | FinishReason.CONTEXT_LIMIT
            | FinishReason.REFUSAL
            | FinishReason.CONTENT_FILTER
            | FinishReason.PAUSE
            | FinishReason.OTHER
        ):
            return None


def finish_reasons(event: IterationFinished) -> tuple[str, ...]:
    """The provider's own word where the generation ended by itself, ``error`` where it was cut."""
    match event.finish_reason:
        case FinishReason.ERROR | FinishReason.EOF | FinishReason.ABORTED:
            return (names.FINISH_ERROR,)
        case FinishReason.STOP:
            word = "stop"
        case FinishReason.TOOL_CALLS:
            word = "tool_calls"
        case FinishReason.OUTPUT_LIMIT | FinishReason.CONTEXT_LIMIT:
            word = "length"
        case FinishReason.REFUSAL | FinishReason.CONTENT_FILTER:
            word = "content_filter"
        case FinishReason.PAUSE:
            word = "pause"
        case FinishReason.OTHER:
            word = "other"
    return (clip(event.provider_finish_reason) or word,)


def tool_error(result: ToolResult) -> str | None:
    """The ``error.type`` of a tool's execution, or None."""
    reason = None if result.failure is None else result.failure.reason
    match result.status:
        case ToolResultStatus.OK | ToolResultStatus.DENIED | ToolResultStatus.NOT_EXECUTED:
            return None
        case ToolResultStatus.ERROR:
            return names.ERROR_TOOL if reason is None else reason.value
        case ToolResultStatus.INTERRUPTED:
            if reason is None or reason is Reason.TOOL_INTERRUPTED or reason in _CALLERS_WISH:
                return None
            return reason.value
        case ToolResultStatus.OUTCOME_UNKNOWN:
            return Reason.TOOL_OUTCOME_UNKNOWN.value


def run_error(outcome: Outcome) -> str | None:
    """The ``error.type`` of a run, or None."""
    reason = None if outcome.failure is None else outcome.failure.reason
    match outcome.kind:
        case OutcomeKind.ERRORED | OutcomeKind.PROVIDER_EOF:
            return outcome.kind.value if reason is None else reason.value
        case OutcomeKind.ABORTED:
            return None if reason is None or reason in _CALLERS_WISH else reason.value
        case (
            OutcomeKind.ANSWERED
            | OutcomeKind.TOOL_ONLY
            | OutcomeKind.MAX_STEPS
            | OutcomeKind.OUTPUT_LIMIT
            | OutcomeKind.BUDGET_EXCEEDED
            | OutcomeKind.REFUSED
        ):
            return None


def add_failure(attributes: Attributes, failure: Failure | None) -> None:
    """Where and why it failed; never the message, which quotes what others wrote."""
    if failure is not None:
        attributes[names.FAILURE_PHASE] = failure.phase.value
        attributes[names.FAILURE_REASON] = failure.reason.value


def add_usage(attributes: Attributes, usage: Usage) -> None:
    """The tokens that were told."""
    for name, tokens in (
        (names.USAGE_INPUT_TOKENS, usage.input_tokens),
        (names.USAGE_OUTPUT_TOKENS, usage.output_tokens),
        (names.USAGE_CACHE_READ_TOKENS, usage.cache_read_tokens),
        (names.USAGE_CACHE_WRITE_TOKENS, usage.cache_write_tokens),
        (names.USAGE_REASONING_TOKENS, usage.reasoning_tokens),
    ):
        if tokens is not None:
            attributes[name] = tokens
    if usage.source in (UsageSource.ESTIMATED, UsageSource.MIXED):
        attributes[names.USAGE_SOURCE] = usage.source.value


def add_cost(attributes: Attributes, cost: Cost) -> None:
    """What the model call cost, in units of its currency."""
    attributes[names.COST_AMOUNT] = cost.amount_nanos / 1e9
    attributes[names.COST_CURRENCY] = cost.currency_code
    if not cost.complete:
        attributes[names.COST_COMPLETE] = False


def label_attributes(labels: Mapping[str, str]) -> Attributes:
    """The caller's labels, the first 16 of them."""
    return {
        names.RUN_LABEL + clip(key): clip(value)
        for (key, value), _ in zip(labels.items(), range(_MAX_LABELS), strict=False)
    }


_FLOAT_PARAMETERS = {
    "temperature": names.REQUEST_TEMPERATURE,
    "top_p": names.REQUEST_TOP_P,
    "frequency_penalty": names.REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": names.REQUEST_PRESENCE_PENALTY,
}


def request_parameters(model: ModelSelection, *, structured: bool) -> Attributes:
    """What the request says of generation: its options, else sampling parameters among those of the provider."""
    attributes = _provider_parameters(model.provider_options_json)
    options = model.options
    for option, name in _FLOAT_PARAMETERS.items():
        value = getattr(options, option)
        if value is not None:
            attributes[name] = float(value)
    if options.seed is not None:
        attributes[names.REQUEST_SEED] = options.seed
    if options.top_k is not None:
        attributes[names.REQUEST_TOP_K] = options.top_k
    if options.stop_sequences:
        attributes[names.REQUEST_STOP_SEQUENCES] = tuple(clip(text) for text in options.stop_sequences)
    if structured:
        attributes[names.OUTPUT_TYPE] = names.OUTPUT_JSON
    return attributes


def _provider_parameters(options_json: str | None) -> Attributes:
    """Sampling parameters among a provider's options. Others stay out: they may hold text of the prompt."""
    if not options_json:
        return {}
    try:
        options = json.loads(options_json)
    except (ValueError, RecursionError):
        return {}  # the provider's wire refuses it; telemetry has no say
    if not isinstance(options, dict):
        return {}
    attributes: Attributes = {}
    for option, name in _FLOAT_PARAMETERS.items():
        value = options.get(option)
        if isinstance(value, int | float) and not isinstance(value, bool):
            attributes[name] = float(value)
    seed = options.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 1 << 63:
        attributes[names.REQUEST_SEED] = seed
    return attributes
