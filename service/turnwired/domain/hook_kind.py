"""Kinds of events that a hook may ask for. Pure data: who is told what is elsewhere."""

from __future__ import annotations

from enum import StrEnum

from turnwired.domain import event as events
from turnwired.domain.event import Event
from turnwired.domain.message import Content, Reasoning, Text, ToolCall, ToolResult
from turnwired.domain.outcome import Notice


class HookKind(StrEnum):
    """A kind of events, as the configuration names it."""

    RUN = "run"
    """Its begin and its end."""
    ITERATIONS = "iterations"
    """Model calls with their usage and cost, and their retries."""
    TEXT = "text"
    REASONING = "reasoning"
    CALLS = "calls"
    """Tool calls from their first word to their execution, with arguments."""
    RESULTS = "results"
    """What tool calls gave, UI parts included."""
    PARTS = "parts"
    """Files, data and blocks of other kinds that a model makes."""
    WAITING = "waiting"
    """Approvals, what the run waits for, and what the caller adds, files among it."""
    NOTICES = "notices"
    """What should be seen and ends nothing, history that was left out, and changes of the tools."""


def kind_of(event: Event) -> HookKind | None:
    """The kind of an event; None for deltas, which hooks are not told."""
    match event:
        case events.RunStarted() | events.RunFinished():
            return HookKind.RUN
        case events.IterationStarted() | events.IterationFinished() | events.IterationRetryScheduled():
            return HookKind.ITERATIONS
        case events.PartFinished(part):
            return _kind_of_part(part.content)
        case events.ToolCallStarted() | events.ToolCallArgumentsFinished() | events.ToolCallExecuting():
            return HookKind.CALLS
        case events.ToolCallFinished():
            return HookKind.RESULTS
        case events.ApprovalRequested() | events.ApprovalResolved():
            return HookKind.WAITING
        case events.RunWaiting() | events.RunResumed() | events.InputAppended() | events.AttachmentUpdated():
            return HookKind.WAITING
        case Notice() | events.HistoryTruncated() | events.ToolsChanged():
            return HookKind.NOTICES
        case (
            events.TextDelta() | events.ReasoningDelta() | events.ToolCallArgumentsDelta() | events.ToolCallProgressed()
        ):
            return None


def _kind_of_part(content: Content) -> HookKind:
    match content:
        case Text():
            return HookKind.TEXT
        case Reasoning():
            return HookKind.REASONING
        case ToolCall():
            return HookKind.CALLS
        case ToolResult():
            return HookKind.RESULTS
        case _:
            return HookKind.PARTS
