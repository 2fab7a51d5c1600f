"""What telemetry says of a run that waits for its caller: events of its span, and how long it waited in all.

Names and counts only: what the calls are to do, what people say and what tools give is in no span.
"""

from __future__ import annotations

from turnwired.domain.event import ApprovalRequested, ApprovalResolved, RunResumed, RunWaiting, ToolCallFinished
from turnwired.domain.waiting import Awaited
from turnwired.telemetry import names
from turnwired.telemetry.spans import Span, clip

Waits = ApprovalRequested | ApprovalResolved | RunWaiting | RunResumed | ToolCallFinished
"""The events that are told here."""


class WaitSpans:
    """Tells the span of one run."""

    __slots__ = ("_awaited", "_since_ns", "_span", "_waited_ns")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._since_ns = 0
        self._waited_ns = 0
        self._awaited = Awaited()

    def event(self, time_ns: int, event: Waits) -> None:
        """Something about waiting happened."""
        self._awaited.take(event)
        match event:
            case ApprovalRequested(approval):
                attributes = {
                    names.APPROVAL_ID: clip(approval.approval_id),
                    names.APPROVAL_KIND: approval.kind.value,
                    names.TOOL_NAME: clip(approval.call.tool.routed_name),
                    names.TOOL_CALL_ID: clip(approval.call.call_id),
                }
                self._span.event(names.EVENT_APPROVAL_REQUESTED, time_ns, attributes)
            case ApprovalResolved(approval_id, decision):
                told = {names.APPROVAL_ID: clip(approval_id), names.APPROVAL_DECISION: decision.value}
                self._span.event(names.EVENT_APPROVAL_RESOLVED, time_ns, told)
            case RunWaiting():
                self._since_ns = self._since_ns or time_ns
                now = self._awaited.now or event
                counts = {
                    names.WAITING_APPROVALS: len(now.approvals),
                    names.WAITING_CALLS: len(now.client_tool_calls),
                }
                self._span.event(names.EVENT_RUN_WAITING, time_ns, counts)
            case RunResumed():
                self._over(time_ns)
                self._span.event(names.EVENT_RUN_RESUMED, time_ns, {})
            case ToolCallFinished():
                pass

    def end(self, time_ns: int) -> None:
        """The run ends, or is left waiting."""
        self._over(time_ns)
        if self._waited_ns:
            self._span.attributes[names.RUN_WAIT_DURATION] = self._waited_ns / 1e9

    def _over(self, time_ns: int) -> None:
        if self._since_ns:
            self._waited_ns += max(0, time_ns - self._since_ns)
            self._since_ns = 0
