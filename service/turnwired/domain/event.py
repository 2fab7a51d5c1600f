"""The entries of a run's log. The log is the truth: streams, reloads, traces and telemetry are folds over it.

Durations are nanoseconds. ``DELTA_EVENTS`` may be sent before they are durable; every other event is stored first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from turnwired.domain.approval import Approval, ApprovalDecision
from turnwired.domain.attachment import Attachment
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Part, ToolCall, ToolResult
from turnwired.domain.model import IterationKind, ModelSelection, TraceContext
from turnwired.domain.outcome import Notice, Outcome
from turnwired.domain.policy import EffectivePolicy, PermissionRule
from turnwired.domain.tool import ToolRef
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Cost, Usage

NAMES_SHOWN = 20

# --- deltas: sent at once, stored in batches -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text of the answer, to append to a part."""

    part_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """Text of the model's reasoning, to append to a part."""

    part_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallArgumentsDelta:
    """A fragment of tool arguments; not valid JSON by itself."""

    call_id: str
    fragment: str


@dataclass(frozen=True, slots=True)
class ToolCallProgressed:
    """A running tool reports progress, in units of the tool."""

    call_id: str
    progress: float
    total: float | None = None
    message: str = ""


# --- milestones: durable before they are sent or acted on -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartFinished:
    """A part of the assistant message is complete; equal to what its deltas add up to."""

    part: Part


@dataclass(frozen=True, slots=True)
class RunStarted:
    """First event of every run."""

    run_id: str
    agent_id: str
    agent_revision: int
    model: ModelSelection
    effective_policy: EffectivePolicy
    tool_names: tuple[str, ...]
    session_id: str | None = None
    parent_run_id: str | None = None
    input_message_ids: tuple[str, ...] = ()
    trace_context: TraceContext = field(default_factory=TraceContext)


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """A model call begins. ``max_output_tokens`` is None when left to the provider."""

    kind: IterationKind
    model: ModelSelection
    span_id: str = ""
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class IterationFinished:
    """A model call ended. Its tools may still run: this is not the run's end."""

    finish_reason: FinishReason
    provider_finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    duration_ns: int = 0
    time_to_first_token_ns: int | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class IterationRetryScheduled:
    """A model call failed before any output and is tried again after ``delay_ns``. Its usage counts, where told."""

    attempt: int
    delay_ns: int
    failure: Failure
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model began to call a tool. ``tool`` is None and ``requested_name`` set when no tool has the name."""

    call_id: str
    tool: ToolRef | None
    requested_name: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallArgumentsFinished:
    """The arguments are complete. This is no proof of execution."""

    call_id: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class ToolCallExecuting:
    """The tool is about to be invoked: durable before it runs. ``child_run_id``: the run that an agent makes of it."""

    call_id: str
    attempt: int = 1
    span_id: str = ""
    child_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """The tool call settled, exactly once per call."""

    result: ToolResult
    duration_ns: int = 0


@dataclass(frozen=True, slots=True)
class AttachmentUpdated:
    """An attachment of the turn is there, is awaited, or will not come in time."""

    attachment: Attachment


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A person must decide. The run goes on with what it can do without."""

    approval: Approval


@dataclass(frozen=True, slots=True)
class ApprovalResolved:
    """Somebody or something decided, once per approval. ``comment`` is told to the model on REJECT.

    ``added_rules`` are those that ALWAYS added to the session, word for word.
    """

    approval_id: str
    decision: ApprovalDecision
    resolved_by: str
    comment: str = ""
    added_rules: tuple[PermissionRule, ...] = ()


@dataclass(frozen=True, slots=True)
class RunWaiting:
    """Nothing can go on without the caller: what the run waits for, told whenever that changes.

    ``expire_time_ns``: Unix time at which the first of all that is waited for is given up; 0: never. ``only_new``: it
    waits as well for what was told before and has neither been resolved nor finished since (``domain.waiting``).
    """

    approvals: tuple[Approval, ...] = ()
    client_tool_calls: tuple[ToolCall, ...] = ()
    expire_time_ns: int = 0
    only_new: bool = False


@dataclass(frozen=True, slots=True)
class RunResumed:
    """The run goes on after waiting."""


@dataclass(frozen=True, slots=True)
class InputAppended:
    """The caller added input; the model sees it in the next iteration."""

    input: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class HistoryTruncated:
    """The oldest groups of the conversation are left out from here on: messages, and groups with tool calls of them.

    Tokens are estimates of the conversation as it would have been sent, and as it is.
    """

    dropped_message_count: int
    dropped_tool_group_count: int
    tokens_before: int
    tokens_after: int


class ToolsChangeCause(StrEnum):
    """Why the tools of a run changed: a source came, went or lists others; the model looked for some and found them."""

    SOURCES = "SOURCES"
    FOUND = "FOUND"


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The tools are others from this iteration on. Routed names; ``added`` stand behind those that were there, or are
    back. ``removed`` may still be shown to the model, ``updated`` have another description or schema.
    """

    cause: ToolsChangeCause
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()

    def notice(self) -> Notice:
        """The same in a sentence, for whoever knows notices only."""
        named = (("new", self.added), ("gone", self.removed), ("changed", self.updated))
        words = "; ".join(f"{what}: {_shown(names)}" for what, names in named if names)
        return Notice(Reason.TOOL_SET_CHANGED, f"The tools of the run changed. {words}.", {"cause": self.cause.value})


def _shown(names: tuple[str, ...]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Usage and cost of one model."""

    model: ModelSelection
    usage: Usage
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Last event of every run, exactly once. ``trace`` is set on every outcome but ANSWERED, or when asked for."""

    outcome: Outcome
    message: Message | None = None
    structured_output_json: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    model_usage: tuple[ModelUsage, ...] = ()
    iteration_count: int = 0
    tool_call_count: int = 0
    trace: RunTrace | None = None


Event = (
    TextDelta
    | ReasoningDelta
    | ToolCallArgumentsDelta
    | ToolCallProgressed
    | PartFinished
    | RunStarted
    | IterationStarted
    | IterationFinished
    | IterationRetryScheduled
    | ToolCallStarted
    | ToolCallArgumentsFinished
    | ToolCallExecuting
    | ToolCallFinished
    | ApprovalRequested
    | ApprovalResolved
    | RunWaiting
    | RunResumed
    | InputAppended
    | AttachmentUpdated
    | HistoryTruncated
    | ToolsChanged
    | Notice
    | RunFinished
)

DELTA_EVENTS = (TextDelta, ReasoningDelta, ToolCallArgumentsDelta, ToolCallProgressed)
"""May be sent before they are durable: losing the tail of them in a crash loses no decision."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with its place in the log. ``sequence`` is dense from 1; ``time_ns`` is Unix time."""

    sequence: int
    time_ns: int
    iteration: int
    event: Event
