"""What a run waits for, as its events say: the fold that everybody needs who reads them. It may know events alone."""

from __future__ import annotations

from turnwired.domain.approval import Approval
from turnwired.domain.event import ApprovalResolved, Event, RunFinished, RunResumed, RunWaiting, ToolCallFinished
from turnwired.domain.message import ToolCall


class Awaited:
    """The questions and calls that a run waits for. ``take`` its events in order; those that say nothing are let by."""

    __slots__ = ("_approvals", "_calls", "_expires", "_waits")

    def __init__(self) -> None:
        self._approvals: dict[str, Approval] = {}
        self._calls: dict[str, ToolCall] = {}
        self._expires = 0
        self._waits = False

    def take(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case RunWaiting(approvals, calls, expires, only_new):
                if not only_new:
                    self._approvals, self._calls = {}, {}
                self._approvals.update({approval.approval_id: approval for approval in approvals})
                self._calls.update({call.call_id: call for call in calls})
                self._expires, self._waits = expires, True
            case ApprovalResolved(approval_id):
                self._approvals.pop(approval_id, None)
            case ToolCallFinished(result):
                self._calls.pop(result.call_id, None)
            case RunResumed():
                self._waits = False  # what it did not go on with, it will wait for again
            case RunFinished():
                self._approvals, self._calls, self._waits = {}, {}, False
            case _:
                pass

    @property
    def keys(self) -> tuple[str, ...]:
        """Ids of the questions and calls that have been told and are open, whether the run waits or not."""
        return (*self._approvals, *self._calls)

    @property
    def now(self) -> RunWaiting | None:
        """All that the run waits for, in full; None: it does not wait."""
        if not self._waits:
            return None
        return RunWaiting(tuple(self._approvals.values()), tuple(self._calls.values()), self._expires)
