"""Tools, rules and requests for tests of runs that wait."""

from __future__ import annotations

import json

import grpc
from rpc.server import details

from turnwire.v1 import approval_pb2, message_pb2, policy_pb2, tool_pb2, turn_service_pb2
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy, TimeoutPolicy

ONCE = approval_pb2.APPROVAL_DECISION_ONCE
ALWAYS = approval_pb2.APPROVAL_DECISION_ALWAYS
REJECT = approval_pb2.APPROVAL_DECISION_REJECT
OK = message_pb2.TOOL_RESULT_STATUS_OK
ERROR = message_pb2.TOOL_RESULT_STATUS_ERROR
DENIED = message_pb2.TOOL_RESULT_STATUS_DENIED


def asking(*patterns: str, **more: object) -> Policy:
    """A policy under which calls of these tools are asked about."""
    rules = tuple(PermissionRule("tool", pattern, PermissionAction.ASK) for pattern in patterns or ("*",))
    timeout = TimeoutPolicy(wait=float(str(more["wait"]))) if "wait" in more else TimeoutPolicy()
    settings = {name: value for name, value in more.items() if name != "wait"}
    return Policy(approval=ApprovalPolicy(rules=rules, **settings), timeout=timeout)  # type: ignore[arg-type]


def client_tools(*names: str) -> tool_pb2.ToolSelection:
    """A selection with tools of the caller that take any text ``q``."""
    selection = tool_pb2.ToolSelection()
    schema = json.dumps({"type": "object", "properties": {"q": {"type": "string"}}})
    for name in names:
        selection.client_tools.add(name=name, description=f"Does {name}.", input_schema_json=schema)
    return selection


def rules(*wanted: tuple[str, str, str]) -> policy_pb2.Policy:
    """A run's own rules: permission, pattern and action."""
    policy = policy_pb2.Policy()
    for permission, pattern, action in wanted:
        policy.approval.rules.add(
            permission=permission,
            pattern=pattern,
            action=policy_pb2.PermissionAction.Value(f"PERMISSION_ACTION_{action}"),
        )
    return policy


def result(
    call_id: str, text: str = "done", status: message_pb2.ToolResultStatus.ValueType = OK
) -> message_pb2.ToolResult:
    """What a call gave."""
    made = message_pb2.ToolResult(call_id=call_id, status=status)
    made.content.add(text=text)
    return made


def statuses(response: turn_service_pb2.SubmitToolResultsResponse) -> list[str]:
    """The receipts, by the last word of their names."""
    names = turn_service_pb2.ToolResultReceiptStatus
    return [names.Name(item.status).removeprefix("TOOL_RESULT_RECEIPT_STATUS_") for item in response.receipts]


def reason(error: grpc.aio.AioRpcError) -> tuple[grpc.StatusCode, str]:
    """Code and reason of an error."""
    return error.code(), details(error)[0].reason
