"""A run that asks people, driven in tests: rules, answers, and shorthands for what came of them."""

from __future__ import annotations

from turn.machinekit import (
    Driven,
    a_call,
    bounds_with,
    setup_with,
    stop,
)

from turnwired.domain.approval import (
    ApprovalDecision,
)
from turnwired.domain.event import (
    ToolCallFinished,
)
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Text, ToolResult, ToolResultStatus
from turnwired.domain.policy import PermissionAction, PermissionRule
from turnwired.policy.permissions import Permissions
from turnwired.turn.facts import ApprovalAnswered

ONCE, ALWAYS, REJECT = ApprovalDecision.ONCE, ApprovalDecision.ALWAYS, ApprovalDecision.REJECT
OK, DENIED, NOT_EXECUTED = ToolResultStatus.OK, ToolResultStatus.DENIED, ToolResultStatus.NOT_EXECUTED
FIRST, SECOND, THIRD = (f"appr_89abcdef_{number}" for number in (1, 2, 3))
CALLS = tuple(f"call_89abcdef_{number}" for number in range(1, 9))


def rule(pattern: str, action: PermissionAction, permission: str = "tool") -> PermissionRule:
    return PermissionRule(permission, pattern, action)


ASKS = Permissions((rule("write", PermissionAction.ASK), rule("slow", PermissionAction.DENY)))
"""Look may run, a person is asked about write, and slow is denied."""


def driven(permissions: Permissions = ASKS, **bounds: object) -> Driven:
    return Driven(setup_with(bounds_with(**bounds), permissions=permissions))


def calls_tools(run: Driven, *wanted: tuple[str, str]) -> None:
    """One answer with these calls (name, arguments); the registry finds them."""
    items = [item for index, (name, arguments) in enumerate(wanted) for item in a_call(index, name, arguments)]
    run.answers(*items, stop(FinishReason.TOOL_CALLS))
    run.resolves()


def finishes_all(run: Driven) -> None:
    while run.machine.executing:
        run.finishes(run.machine.executing[0])


def answer(run: Driven, approval_id: str, decision: ApprovalDecision, comment: str = "", *patterns: str) -> None:
    run.feed(ApprovalAnswered(approval_id, decision, "ann", patterns, comment))


def results(run: Driven) -> list[ToolResult]:
    return [event.result for event in run.events(ToolCallFinished)]


def statuses(run: Driven) -> list[ToolResultStatus]:
    return [result.status for result in results(run)]


def words(result: ToolResult) -> str:
    return " ".join(part.content.text for part in result.content if isinstance(part.content, Text))
