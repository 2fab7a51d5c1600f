"""What a run asks of its caller, followed from events alone: questions, answers, calls that it executes, its input.

The part of the second opinion (``shadow.py``) that is about people. It keeps its own books, and decides by names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnwired.domain.approval import BY_CASCADE, BY_TIMEOUT, Approval, ApprovalDecision, ApprovalKind, ApprovalState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    RunResumed,
    RunWaiting,
)
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.policy import PermissionAction, PermissionRule, ToolExecutionMode
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.policy.permissions import Permissions
from turnwired.turn.facts import ApprovalAnswered, Fact, WaitExpired

if TYPE_CHECKING:
    from turn.shadow import CallBook, Shadow

ASK, ALLOW, DENY = PermissionAction.ASK, PermissionAction.ALLOW, PermissionAction.DENY


@dataclass(frozen=True)
class People:
    """Who may do what in a run: actions by tool, what is done about circles, and tools that the caller executes."""

    actions: tuple[tuple[str, PermissionAction], ...] = ()
    circles: PermissionAction = DENY
    client: frozenset[str] = frozenset()

    @property
    def permissions(self) -> Permissions:
        rules = tuple(PermissionRule("tool", name, action) for name, action in self.actions)
        circles = () if self.circles is ASK else (PermissionRule("doom_loop", "*", self.circles),)
        return Permissions((PermissionRule("*", "*", ALLOW), *rules, *circles))

    def ref(self, name: str) -> ToolRef:
        return ToolRef(name, name, ToolSource.CLIENT if name in self.client else ToolSource.LOCAL)


@dataclass
class CallerBook:
    """What the run waits for, and what it was told of it."""

    people: People = field(default_factory=People)
    pending: dict[str, Approval] = field(default_factory=dict[str, Approval])
    asked: dict[str, str] = field(default_factory=dict[str, str])  # call id by approval id, all that ever were
    approved: set[str] = field(default_factory=set[str])
    rejected: set[str] = field(default_factory=set[str])
    allowed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])  # what ALWAYS was answered to
    told: tuple[list[str], list[str]] | None = None
    fact: Fact | None = None
    resolved_now: list[ApprovalResolved] = field(default_factory=list[ApprovalResolved])
    told_now: int = 0

    def action(self, name: str) -> PermissionAction:
        if ("tool", name) in self.allowed:
            return ALLOW
        return dict(self.people.actions).get(name, ALLOW)

    def asks(self, call_id: str) -> bool:
        """Whether a question about the call waits for its answer."""
        return any(approval.call.call_id == call_id for approval in self.pending.values())

    def by_caller(self, shadow: Shadow, name: str) -> bool:
        return name in self.people.client or shadow.bounds.execution_mode is ToolExecutionMode.RETURN

    # --- one step ---------------------------------------------------------------------------------------------------

    def begin(self, fact: Fact | None) -> None:
        self.fact = fact
        self.resolved_now = []
        self.told_now = 0

    def event(self, shadow: Shadow, event: Event) -> bool:
        match event:
            case ApprovalRequested(approval):
                self._requested(shadow, approval)
            case ApprovalResolved():
                self._resolved(event)
            case RunWaiting():
                ids = [approval.approval_id for approval in event.approvals]
                now = (ids, [call.call_id for call in event.client_tool_calls])
                assert now != self.told, "the same is waited for, and told again"
                assert list(event.approvals) == list(self.pending.values())
                self.told = now
                self.told_now += 1
                assert self.told_now == 1, "told twice in one step"
            case RunResumed():
                assert self.told is not None, "goes on without having waited"
                self.told = None
            case _:
                return False
        return True

    def _requested(self, shadow: Shadow, approval: Approval) -> None:
        call = shadow.calls[approval.call.call_id]
        name = approval.call.tool.routed_name
        assert approval.approval_id not in self.asked, "an approval id twice"
        assert approval.call.call_id not in self.asked.values(), "a second question about a call"
        assert call.resolvable, "a question about a call that cannot run"
        assert call.result is None
        assert not call.executed
        assert approval.state is ApprovalState.PENDING
        assert approval.run_id
        assert approval.call.arguments_json == call.arguments
        digest = hashlib.sha256(f"{name}\0{call.arguments}".encode()).hexdigest()
        assert approval.call_digest == digest
        assert approval.patterns == approval.always_patterns == (name,)
        assert name in approval.title
        assert '"a"' not in approval.title, "a title with arguments"
        assert self.action(name) is not DENY, "a question about what is denied"
        if approval.kind is ApprovalKind.LOOP_DETECTED:
            assert approval.permission == "doom_loop"
            assert self.people.circles is ASK
            assert ("doom_loop", name) not in self.allowed, "a question that was answered for always"
            shadow.stopped_circle(call)
        else:
            assert approval.permission == "tool"
            assert self.action(name) in {ASK, PermissionAction.ALWAYS_ASK}, "a question that no rule asks for"
        self.pending[approval.approval_id] = approval
        self.asked[approval.approval_id] = approval.call.call_id

    def _resolved(self, event: ApprovalResolved) -> None:
        approval = self.pending.pop(event.approval_id)
        call_id = approval.call.call_id
        first = not self.resolved_now
        self.resolved_now.append(event)
        match self.fact:
            case ApprovalAnswered(approval_id, decision, by, _, comment) if first:
                assert (event.approval_id, event.decision, event.resolved_by) == (approval_id, decision, by)
                assert event.comment == (comment if decision is ApprovalDecision.REJECT else "")
            case ApprovalAnswered(_, decision):
                assert event.resolved_by == BY_CASCADE
                assert decision is not ApprovalDecision.ONCE, "an answer for one call settles another"
                assert (event.decision is ApprovalDecision.REJECT) == (decision is ApprovalDecision.REJECT)
            case WaitExpired(key):
                assert first
                assert event.approval_id == key
                assert (event.decision, event.resolved_by) == (ApprovalDecision.REJECT, BY_TIMEOUT)
            case _:
                raise AssertionError("a question is settled by nobody")
        rule = PermissionRule(approval.permission, approval.always_patterns[0], ALLOW)
        assert event.added_rules == ((rule,) if event.decision is ApprovalDecision.ALWAYS else ())
        if event.added_rules:
            self.allowed.add((approval.permission, approval.always_patterns[0]))
        if event.decision is ApprovalDecision.REJECT:
            self.rejected.add(call_id)
        else:
            self.approved.add(call_id)

    # --- what must hold ---------------------------------------------------------------------------------------------

    def check_start(self, call_id: str, call: CallBook) -> None:
        """A call begins."""
        assert not self.asks(call_id), "a call begins while a person is asked about it"
        assert call_id not in self.rejected, "a rejected call begins"
        action = self.action(call.name)
        assert action is not DENY, "a denied call begins"
        assert action is ALLOW or call_id in self.approved, "a call begins that nobody was asked about"

    def check_result(self, call_id: str, call: CallBook, result: ToolResult) -> None:
        """A call has its result."""
        reason = result.failure.reason if result.failure is not None else None
        if result.status is ToolResultStatus.DENIED:
            assert not call.executed, "denied, and yet it ran"
            assert reason in {Reason.TOOL_DENIED, Reason.TOOL_REJECTED, Reason.WAIT_EXPIRED}
        if result.status is ToolResultStatus.DENIED and call.resolvable:
            assert (reason is Reason.TOOL_DENIED) == (self.action(call.name) is DENY), "a denial that no rule says"
            assert (reason is not Reason.TOOL_DENIED) == (call_id in self.rejected)
        if reason is Reason.WAIT_EXPIRED:
            assert isinstance(self.fact, WaitExpired)

    def check(self, shadow: Shadow) -> None:
        """After a step of a run that goes on."""
        if isinstance(self.fact, ApprovalAnswered) and self.fact.decision is ApprovalDecision.REJECT:
            assert not self.pending, "a rejection leaves questions"
        for approval in self.pending.values():
            if approval.permission == "tool" and self.resolved_now:
                assert ("tool", approval.call.tool.routed_name) not in self.allowed, "asks what was answered for always"
        quiet = bool(self.pending or shadow.with_caller) and not shadow.goes_on
        assert (self.told is not None) == quiet, "waits and does not say so, or says so and does not wait"
        if quiet:
            assert self.told == (list(self.pending), shadow.with_caller), "what is waited for was not told"
