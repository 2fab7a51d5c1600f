"""What becomes of a call beyond its one result: repairs that the model is told of, late ends, unread errors. Pure.

It may know calls and results, never the batch or the machine that settles them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from turnwired.domain.failure import Reason
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.outcome import Notice, Outcome, OutcomeKind
from turnwired.turn.out import Out
from turnwired.turn.pieces import Call


def repaired(call: Call) -> Notice:
    """The notice of a call whose arguments were repaired before it ran."""
    words = f"{_repaired_words(call)}{'; '.join(call.repairs)}."
    return Notice(Reason.TOOL_ARGUMENTS_REPAIRED, words, {"call_id": call.call_id, "tool": call.name[:64]})


def repairs_told(notice: Notice, call: Call) -> tuple[str, ...]:
    """What ``repaired`` told, as one sentence."""
    return (notice.message.removeprefix(_repaired_words(call)).removesuffix("."),)


def _repaired_words(call: Call) -> str:
    return f"The arguments of {call.name[:64]} were repaired: "


def with_repairs(result: ToolResult, call: Call, part_id: str) -> ToolResult:
    """The result, with a last part that tells the model what was repaired: it should write it right the next time."""
    words = f"[The arguments did not match the schema and were repaired: {'; '.join(call.repairs)}.]"
    return replace(result, content=(*result.content, Part(part_id, Text(words))))


class LateResults:
    """Ends of calls that nobody waits for any more: dropped, and told once for each call."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._told: set[str] = set()

    def began(self, call_ids: Iterable[str]) -> None:
        """These calls run."""
        self._begun.update(call_ids)

    def take(self, call_id: str, out: Out) -> bool:
        """Tell of a late end. False when the call never ran, or this was told before."""
        if call_id not in self._begun or call_id in self._told:
            return False
        self._told.add(call_id)
        words = "A call that had been given up ended after all. Its result was dropped; it may have taken effect."
        out.emit(Notice(Reason.TOOL_RESULT_LATE, words, {"call_id": call_id}))
        return True


def unread(result: ToolResult) -> bool:
    """Whether a result is an error that leaves nothing behind, so that a model that never read it misses nothing.

    A tool that ran out of its time, was interrupted or lost may have taken effect: that has to be known later on.
    """
    if result.status is ToolResultStatus.ERROR:
        return result.failure is None or result.failure.reason not in {Reason.TOOL_TIMEOUT, Reason.WAIT_EXPIRED}
    return result.status in {ToolResultStatus.NOT_EXECUTED, ToolResultStatus.DENIED}


def ended_by_tool(outcome: Outcome) -> bool:
    """Whether a failing call ended the run (tool.error_mode ABORT): the only end by error that names a call."""
    return outcome.kind is OutcomeKind.ERRORED and outcome.failure is not None and outcome.failure.call_id is not None
