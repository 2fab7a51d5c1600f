"""States of a turn and what each of them listens to, on one page."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from turnwired.turn.facts import (
    ApprovalAnswered,
    AttachmentArrived,
    AttachmentsOverdue,
    Begin,
    BudgetReached,
    CallerResult,
    CancelRequested,
    CompletionDecided,
    DeadlineReached,
    DriverFailed,
    HistoryCut,
    InputAsked,
    InputDropped,
    InputGiven,
    ModelCalled,
    ModelEnded,
    ModelFailed,
    ModelProduced,
    PreparationFailed,
    RetryDue,
    ToolFinished,
    ToolProgress,
    ToolResolved,
    ToolResultLate,
    ToolsRevised,
    WaitExpired,
)


class TurnState(Enum):
    """What the run waits for.

    READY -> CALLING_MODEL, by way of AWAITING_ATTACHMENTS where some are not there yet; CALLING_MODEL <->
    WAITING_TO_RETRY; CALLING_MODEL <-> RUNNING_TOOLS; both of them -> ASKING_HOOK, once, and back to CALLING_MODEL;
    any -> SETTLED, which is left never. A run that waits for its caller is RUNNING_TOOLS: what the caller says comes
    between results of other calls. ``TurnMachine.waiting`` tells whether nothing else goes on.
    """

    READY = auto()
    AWAITING_ATTACHMENTS = auto()
    CALLING_MODEL = auto()
    WAITING_TO_RETRY = auto()
    RUNNING_TOOLS = auto()
    ASKING_HOOK = auto()
    SETTLED = auto()


_STOPS = frozenset({CancelRequested, DeadlineReached, DriverFailed})
_MODEL = frozenset({HistoryCut, ToolsRevised, ModelCalled, ModelProduced, ModelEnded, ModelFailed, BudgetReached})
_TOOLS = frozenset({ToolResolved, ToolProgress, InputAsked, InputDropped, ToolFinished})
_CALLER = frozenset({ApprovalAnswered, CallerResult, WaitExpired})
_MORE = frozenset({AttachmentArrived, InputGiven})

ACCEPTED: Mapping[TurnState, frozenset[type]] = {
    TurnState.READY: _STOPS | {Begin, PreparationFailed},
    TurnState.AWAITING_ATTACHMENTS: _STOPS | _MORE | {AttachmentsOverdue},
    TurnState.CALLING_MODEL: _STOPS | _MODEL | _MORE | {ToolResultLate},
    TurnState.WAITING_TO_RETRY: _STOPS | _MORE | {RetryDue, ToolResultLate},
    TurnState.RUNNING_TOOLS: _STOPS | _TOOLS | _CALLER | _MORE | {ToolResultLate},
    TurnState.ASKING_HOOK: _STOPS | {CompletionDecided, ToolResultLate},
    TurnState.SETTLED: frozenset(),
}
"""The facts that mean something in each state. Any other is late or stray: ignored and counted."""
