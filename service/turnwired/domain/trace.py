"""What a run did, in order and whole. A fold over its log: live stream, replay and reload give the same trace.

Times are Unix nanoseconds, 0 when not reached; durations are nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from turnwired.domain.approval import Approval
from turnwired.domain.attachment import Attachment
from turnwired.domain.failure import Failure
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Part, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.model import IterationKind, ModelSelection
from turnwired.domain.outcome import Notice
from turnwired.domain.usage import Cost, Usage


@dataclass(frozen=True, slots=True)
class AttemptTrace:
    """An attempt of a model call that failed and was repeated."""

    attempt: int
    failure: Failure
    delay_ns: int
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class IterationTrace:
    """One model call. ``parts`` is the assistant turn as far as it came; usage and cost include failed attempts."""

    iteration: int
    kind: IterationKind
    model: ModelSelection
    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason | None = None
    provider_finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    time_to_first_token_ns: int | None = None
    failed_attempts: tuple[AttemptTrace, ...] = ()
    failure: Failure | None = None
    span_id: str = ""
    duration_ns: int = 0
    attempt_count: int = 1


@dataclass(frozen=True, slots=True)
class ToolCallTrace:
    """One tool call. ``result`` and ``status`` are None while it is open; ``execute_time_ns`` is 0 if it never ran.

    ``child_run_id`` is the run that an agent made of it.
    """

    iteration: int
    call: ToolCall
    result: ToolResult | None = None
    execute_time_ns: int = 0
    attempt_count: int = 0
    duration_ns: int = 0
    span_id: str = ""
    requested_name: str = ""
    status: ToolResultStatus | None = None
    child_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryChangeTrace:
    """History was cut: messages and groups with tool calls left out, tokens before and after."""

    dropped_message_count: int
    dropped_tool_group_count: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class WaitTrace:
    """A time in which the run waited for its caller: for these approvals and calls."""

    approval_ids: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()


Entry = IterationTrace | ToolCallTrace | Message | Approval | WaitTrace | HistoryChangeTrace | Attachment | Notice
"""A step: of Message, input that was appended; of Approval, a question with its answer; of Attachment, as it was last
seen."""


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One step of a run, with the first and last event that it folds."""

    first_sequence: int
    last_sequence: int
    start_time_ns: int
    entry: Entry
    end_time_ns: int = 0


@dataclass(frozen=True, slots=True)
class RunTrace:
    """All steps, in the order in which they began, from events up to ``through_sequence``."""

    entries: tuple[TraceEntry, ...] = ()
    through_sequence: int = 0
