"""What can happen to a turn. Facts are all that the machine learns of the world, in the order they happened.

Every fact about work that the machine started names it (iteration and attempt, or call id), so that a late fact about
work already given up is recognised and ignored. Durations are nanoseconds, measured by whoever reports the fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnwired.domain.approval import ApprovalDecision, PermissionRequest
from turnwired.domain.attachment import Attachment
from turnwired.domain.event import HistoryTruncated, ToolsChanged
from turnwired.domain.failure import Failure
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message, ToolResult
from turnwired.domain.outcome import LimitTrip
from turnwired.domain.tool import ToolAnnotations, ToolRef


@dataclass(frozen=True, slots=True)
class Begin:
    """The run was accepted and prepared. Always the first fact, exactly once."""


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    """The run was accepted but cannot begin: history unreadable, provider not configured. Instead of Begin."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """The request is made. ``input_tokens`` estimates its size, for a provider that does not report any usage.

    ``budget_cap``: a budget leaves the answer less than it may have otherwise, and so is what an output limit means.
    """

    iteration: int
    attempt: int
    input_tokens: int
    budget_cap: LimitTrip | None = None


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """The conversation is too long: the request is made without its oldest groups. Before ModelCalled."""

    iteration: int
    attempt: int
    change: HistoryTruncated


@dataclass(frozen=True, slots=True)
class ToolsRevised:
    """The tools that may be called are these from this iteration on, by routed name. Before ModelCalled.

    ``changes``: what the model sees of it.
    """

    iteration: int
    attempt: int
    tools: Mapping[str, ToolRef]
    changes: tuple[ToolsChanged, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelProduced:
    """What one socket read of a model call brought."""

    iteration: int
    attempt: int
    items: tuple[ModelItem, ...]


@dataclass(frozen=True, slots=True)
class ModelEnded:
    """The provider's answer ended without an error. Whether it ended well is told by a GenerationStopped before it.

    ``jitter`` and ``remaining_ns`` as in ModelFailed: an answer that ended before it began counts as a failed attempt.
    """

    iteration: int
    attempt: int
    duration_ns: int = 0
    time_to_first_token_ns: int | None = None
    jitter: float = 0.0
    remaining_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """A model call failed. ``jitter`` is a random number in [0, 1) drawn by the driver, for the retry delay.

    ``remaining_ns``: how long the run may still go on, negative when it is late already; None: without limit.
    """

    iteration: int
    attempt: int
    failure: Failure
    jitter: float = 0.0
    duration_ns: int = 0
    time_to_first_token_ns: int | None = None
    remaining_ns: int | None = None


@dataclass(frozen=True, slots=True)
class BudgetReached:
    """A budget does not allow the model call, which was not made, or no more of its answer, which was cut there."""

    iteration: int
    attempt: int
    trip: LimitTrip
    duration_ns: int = 0
    time_to_first_token_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The wait before the next attempt is over."""

    iteration: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ToolResolved:
    """The registry's answer to ResolveTool: the tool and no failure, or why the call cannot be made.

    A failure with reason TOOL_DENIED settles the call as DENIED, any other as ERROR; the model is told either way.
    """

    call_id: str
    tool: ToolRef | None
    failure: Failure | None = None
    repairs: tuple[str, ...] = ()
    """What was changed in the arguments before they matched the schema, one sentence each, without values."""
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)
    """What the tool says of itself; where no rule matches, it decides who is asked."""
    asks_for: PermissionRequest | None = None
    """What the call asks for in the tool's own words; None: to call the tool, by its routed name."""


@dataclass(frozen=True, slots=True)
class ToolResultLate:
    """A call that was given up, such as one that timed out, has ended after all. What it gave is not looked at."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool reports progress."""

    call_id: str
    progress: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call that was started has a result."""

    call_id: str
    result: ToolResult
    duration_ns: int = 0


@dataclass(frozen=True, slots=True)
class InputAsked:
    """A tool that runs asks for input, one question at a time. ``title``: its words, for people.

    ``input_schema_json``: of the values that it asks for; None: for consent alone.
    """

    call_id: str
    title: str
    input_schema_json: str | None = None


@dataclass(frozen=True, slots=True)
class InputDropped:
    """A tool that runs does not wait for the answer to its question any more: what is answered now is not meant."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """A person has answered a question. ``patterns``: those of its ``always_patterns`` that ALWAYS allows; empty: all.

    ``comment`` is told to the model on REJECT.
    """

    approval_id: str
    decision: ApprovalDecision
    resolved_by: str
    patterns: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class CallerResult:
    """The caller hands in the result of a call that it executed, capped and cleaned by the driver."""

    result: ToolResult
    duration_ns: int = 0


@dataclass(frozen=True, slots=True)
class WaitExpired:
    """Nobody has answered the question, or handed in the result, in time. ``key``: of AwaitCaller.

    ``limit`` is the time it had, in seconds.
    """

    key: str
    limit: float


@dataclass(frozen=True, slots=True)
class InputGiven:
    """The caller adds input to the run: messages of role USER with their ids."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class AttachmentArrived:
    """A file is there: READY. ``message`` holds it, in the role USER with its id."""

    attachment: Attachment
    message: Message


@dataclass(frozen=True, slots=True)
class AttachmentsOverdue:
    """The wait for attachments is over. ``limit`` is how long it was, in seconds."""

    limit: float


@dataclass(frozen=True, slots=True)
class CompletionDecided:
    """The completion hook has answered: the instruction for a last answer, or None: the run is fine as it is.

    ``problem`` says in a sentence why it could not answer; empty: it did.
    """

    iteration: int
    instruction: str | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody or something wants the run to stop: ``failure.reason`` says who (CANCELLED, SHUTTING_DOWN, ...)."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class DeadlineReached:
    """A time limit of the whole run is over. ``policy_path`` names it; values are in seconds."""

    policy_path: str
    limit: float
    observed: float | None = None


@dataclass(frozen=True, slots=True)
class DriverFailed:
    """The driver itself cannot go on (a fault of this service); the run must still end."""

    failure: Failure


ModelFact = HistoryCut | ToolsRevised | ModelCalled | ModelEnded | ModelFailed | BudgetReached
"""Facts about the model call that is under way."""

ToolFact = (
    ToolResolved
    | ToolProgress
    | InputAsked
    | InputDropped
    | ToolFinished
    | ApprovalAnswered
    | CallerResult
    | WaitExpired
)
"""Facts about calls of the answer that was given last."""

Fact = (
    Begin
    | PreparationFailed
    | HistoryCut
    | ToolsRevised
    | ModelCalled
    | ModelProduced
    | ModelEnded
    | ModelFailed
    | BudgetReached
    | RetryDue
    | ToolResolved
    | ToolProgress
    | InputAsked
    | InputDropped
    | ToolFinished
    | ApprovalAnswered
    | CallerResult
    | WaitExpired
    | InputGiven
    | AttachmentArrived
    | AttachmentsOverdue
    | CompletionDecided
    | ToolResultLate
    | CancelRequested
    | DeadlineReached
    | DriverFailed
)
