"""What the machine wants done. The driver does it once everything emitted before it is durable, and reports a fact."""

from __future__ import annotations

from dataclasses import dataclass

from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.event import Event, RunFinished
from turnwired.domain.message import Message
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import OutcomeKind


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model -> ModelCalled, ModelProduced*, then ModelEnded or ModelFailed.

    ``append`` are the messages that this run added since its call before (assistant turn, then one TOOL message with
    the results in call order): the request is the one before plus these, so its prefix only grows. Empty on a retry.
    ``offer_tools`` is False for a pass that must not call tools. ``renew_credentials``: the provider rejected those of
    the attempt before, so they are read or fetched anew. ``shorten``: the attempt before did not fit the model, and
    this one is to be a quarter shorter, by its oldest groups; one that cannot be fails with CONTEXT_OVERFLOW.
    -> HistoryCut first, where the conversation does not fit.
    """

    iteration: int
    attempt: int
    kind: IterationKind
    append: tuple[Message, ...]
    offer_tools: bool = True
    max_output_tokens: int | None = None
    renew_credentials: bool = False
    shorten: bool = False


@dataclass(frozen=True, slots=True)
class ResolveTool:
    """Find the tool and check its arguments -> ToolResolved, at once."""

    call_id: str
    requested_name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a resolved tool -> ToolProgress*, then ToolFinished. Its ToolCallExecuting must be durable first."""

    call_id: str
    routed_name: str
    arguments_json: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class AwaitCaller:
    """Wait for the caller -> ApprovalAnswered or CallerResult, or WaitExpired once ``timeout.wait`` is over.

    ``key`` is the approval's id, or the id of a call that the caller executes. The driver drops its timer when it sees
    the approval resolved or the call finished.
    """

    key: str


@dataclass(frozen=True, slots=True)
class AnswerTool:
    """Tell a tool what became of the question that it asked. ``decision`` None: nobody answered in time."""

    call_id: str
    approval_id: str
    decision: ApprovalDecision | None


@dataclass(frozen=True, slots=True)
class AskHook:
    """Have the deployment's completion hook of this name look at the run -> CompletionDecided.

    ``outcome`` is how the run ends if nothing follows; ``messages`` are those that it added so far.
    """

    iteration: int
    name: str
    outcome: OutcomeKind
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class AwaitAttachments:
    """Wait for attachments to arrive, at most so many seconds -> AttachmentsOverdue. Nobody minds if it comes late."""

    limit: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait -> RetryDue."""

    iteration: int
    attempt: int
    delay_ns: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Stop work whose facts are no longer wanted: these tool calls and, with ``model``, what else there is.

    That is the model call, the wait before it is tried again, or the hook that is asked.

    The one effect that comes before the events of its step: the driver cancels the work and waits, bounded, until it
    has unwound, and only then logs the events, so that a run is never reported ended while a tool of it still acts.
    """

    model: bool
    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """The run has ended. ``finished`` has been emitted; ``messages`` is what the session keeps of this run, in order.

    Well-formed always: every call in it has exactly one result after it, in call order.
    """

    finished: RunFinished
    messages: tuple[Message, ...]


Effect = (
    CallModel | AskHook | ResolveTool | RunTool | AwaitCaller | AnswerTool | Wait | Abandon | Settle | AwaitAttachments
)


@dataclass(frozen=True, slots=True)
class Emitted:
    """An event for the log and the iteration it belongs to (0: the run itself)."""

    iteration: int
    event: Event


@dataclass(frozen=True, slots=True)
class Step:
    """The machine's answer to one fact: events first, in order, then effects, in order."""

    events: tuple[Emitted, ...] = ()
    effects: tuple[Effect, ...] = ()
