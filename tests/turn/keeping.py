"""What a settled run leaves in its session, told by the shadow's books alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from turn.machinekit import assert_well_formed

from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.turn.effects import Settle

if TYPE_CHECKING:
    from turn.shadow import Shadow

EXECUTED = {ToolResultStatus.OK, ToolResultStatus.INTERRUPTED, ToolResultStatus.OUTCOME_UNKNOWN}


def assert_attached(ids: list[str]) -> None:
    """What is attached to a part or call stands right behind it, in the order of its numbers."""
    for place, part_id in enumerate(ids):
        owner, dot, number = part_id.rpartition(".")
        if dot:
            assert place, "an attached part without its owner"
            assert ids[place - 1] == (owner if number == "1" else f"{owner}.{int(number) - 1}"), ids


def check_settle(shadow: Shadow, effect: Settle) -> None:
    """What the session keeps of a run: well-formed, all that was sent, and nothing that misleads the next turn."""
    assert shadow.finished is not None, "Settle before RunFinished"
    assert effect.finished == shadow.finished
    assert effect.messages[: len(shadow.sent)] == tuple(shadow.sent), "the session forgets what was sent"
    assert_well_formed(effect.messages)
    added = [message.message_id for message in effect.messages if message.message_id in shadow.appended]
    assert added == shadow.appended, "the session forgets what the caller added, or turns it round"
    for message in effect.messages:
        assert_attached([part.part_id for part in message.parts])
        for part in message.parts:
            match part.content:
                case ToolCall() as call:
                    known = shadow.calls[call.call_id]
                    assert call.arguments_json in {known.arguments, "{}"}
                    assert isinstance(json.loads(call.arguments_json), dict), "a request that providers refuse"
                case ToolResult() as result:
                    assert result == shadow.calls[result.call_id].result
                case _:
                    pass
    kept = {part.content.call_id for m in effect.messages for part in m.parts if isinstance(part.content, ToolCall)}
    outcome = effect.finished.outcome
    by_tool = outcome.kind is OutcomeKind.ERRORED and outcome.failure is not None
    by_tool = by_tool and outcome.failure is not None and outcome.failure.call_id is not None
    for call_id, book in shadow.calls.items():
        if by_tool and call_id in shadow.now.calls and book.result is not None:
            expired = book.result.failure is not None and book.result.failure.reason is Reason.WAIT_EXPIRED
            may_have = book.result.status in EXECUTED or (expired and book.executed)
            assert (call_id in kept) == may_have, "an unread error, or a lost effect"
            continue
        assert call_id in kept or book.arguments is None, "a whole call is missing in the history"
