"""Tables between the domain's enums and those of the contract, matched by name.

Both sides have the same members (a test holds them together), so a table is a loop at import and a dict look-up later.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from turnwire.v1 import (
    approval_pb2,
    event_pb2,
    mcp_server_service_pb2,
    message_pb2,
    model_pb2,
    outcome_pb2,
    policy_pb2,
    run_pb2,
    tool_host_registry_service_pb2,
    tool_pb2,
    trace_pb2,
    turn_service_pb2,
    usage_pb2,
)
from turnwired.domain.approval import ApprovalDecision, ApprovalKind, ApprovalState
from turnwired.domain.attachment import AttachmentState
from turnwired.domain.errors import CodecError
from turnwired.domain.event import ToolsChangeCause
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.mcp import McpServerState, McpTransport
from turnwired.domain.message import Role, ToolResultStatus
from turnwired.domain.model import IterationKind, ThinkingMode
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import LimitMode, PermissionAction, PolicyLayer
from turnwired.domain.run import OnDisconnect, RunState
from turnwired.domain.tool import CollisionResolution, ToolChoiceMode, ToolSource
from turnwired.domain.tool_host import ToolHostState
from turnwired.domain.usage import UsageSource

if TYPE_CHECKING:
    from collections.abc import Iterable

DomainEnum = TypeVar("DomainEnum", bound=StrEnum)
WireNumber = TypeVar("WireNumber", bound=int)


class EnumTable(Generic[DomainEnum, WireNumber]):
    """One enum in both worlds. ``items`` are the contract's (name, number) pairs, ``prefix`` what their names share."""

    def __init__(self, domain: type[DomainEnum], items: Iterable[tuple[str, WireNumber]], prefix: str) -> None:
        numbers = {name.removeprefix(prefix): number for name, number in items}
        self.wire_numbers = {int(number) for number in numbers.values()}
        self.to_wire: dict[DomainEnum, WireNumber] = {member: numbers[member.name] for member in domain}
        self._members: dict[int, DomainEnum] = {number: member for member, number in self.to_wire.items()}

    def from_wire(self, number: int, field: str) -> DomainEnum:
        """The member; CodecError at ``field`` when it is not set or from a newer contract."""
        member = self._members.get(number)
        if member is None:
            problem = "must be set" if number == 0 else f"{number} is not known to this version"
            raise CodecError(problem, field)
        return member

    def from_wire_or_none(self, number: int, field: str) -> DomainEnum | None:
        """As ``from_wire``; None when it is not set."""
        return self.from_wire(number, field) if number else None


APPROVAL_DECISION = EnumTable(ApprovalDecision, approval_pb2.ApprovalDecision.items(), "APPROVAL_DECISION_")
APPROVAL_KIND = EnumTable(ApprovalKind, approval_pb2.ApprovalKind.items(), "APPROVAL_KIND_")
APPROVAL_STATE = EnumTable(ApprovalState, approval_pb2.ApprovalState.items(), "APPROVAL_STATE_")
ATTACHMENT_STATE = EnumTable(AttachmentState, message_pb2.AttachmentState.items(), "ATTACHMENT_STATE_")
COLLISION_RESOLUTION = EnumTable(CollisionResolution, tool_pb2.CollisionResolution.items(), "COLLISION_RESOLUTION_")
FAILURE_PHASE = EnumTable(FailurePhase, outcome_pb2.FailurePhase.items(), "FAILURE_PHASE_")
FINISH_REASON = EnumTable(FinishReason, trace_pb2.FinishReason.items(), "FINISH_REASON_")
ITERATION_KIND = EnumTable(IterationKind, trace_pb2.IterationKind.items(), "ITERATION_KIND_")
LIMIT_MODE = EnumTable(LimitMode, policy_pb2.LimitMode.items(), "LIMIT_MODE_")
MCP_SERVER_STATE = EnumTable(McpServerState, mcp_server_service_pb2.McpServerState.items(), "MCP_SERVER_STATE_")
MCP_TRANSPORT = EnumTable(McpTransport, mcp_server_service_pb2.McpTransport.items(), "MCP_TRANSPORT_")
ON_DISCONNECT = EnumTable(OnDisconnect, turn_service_pb2.OnDisconnect.items(), "ON_DISCONNECT_")
OUTCOME_KIND = EnumTable(OutcomeKind, outcome_pb2.OutcomeKind.items(), "OUTCOME_KIND_")
PERMISSION_ACTION = EnumTable(PermissionAction, policy_pb2.PermissionAction.items(), "PERMISSION_ACTION_")
POLICY_LAYER = EnumTable(PolicyLayer, policy_pb2.PolicyLayer.items(), "POLICY_LAYER_")
REASON = EnumTable(Reason, outcome_pb2.Reason.items(), "REASON_")
ROLE = EnumTable(Role, message_pb2.Role.items(), "ROLE_")
RUN_STATE = EnumTable(RunState, run_pb2.RunState.items(), "RUN_STATE_")
THINKING_MODE = EnumTable(ThinkingMode, model_pb2.ThinkingMode.items(), "THINKING_MODE_")
TOOL_HOST_STATE = EnumTable(ToolHostState, tool_host_registry_service_pb2.ToolHostState.items(), "TOOL_HOST_STATE_")
TOOL_CHOICE_MODE = EnumTable(ToolChoiceMode, tool_pb2.ToolChoiceMode.items(), "TOOL_CHOICE_MODE_")
TOOL_RESULT_STATUS = EnumTable(ToolResultStatus, message_pb2.ToolResultStatus.items(), "TOOL_RESULT_STATUS_")
TOOL_SOURCE = EnumTable(ToolSource, tool_pb2.ToolSource.items(), "TOOL_SOURCE_")
TOOLS_CHANGE_CAUSE = EnumTable(ToolsChangeCause, event_pb2.ToolsChangeCause.items(), "TOOLS_CHANGE_CAUSE_")
USAGE_SOURCE = EnumTable(UsageSource, usage_pb2.UsageSource.items(), "USAGE_SOURCE_")
