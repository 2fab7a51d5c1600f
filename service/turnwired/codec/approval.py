"""Questions to people, their answers, and what a run waits for."""

from __future__ import annotations

from turnwire.v1 import approval_pb2, event_pb2
from turnwired.codec.enums import APPROVAL_DECISION, APPROVAL_KIND, APPROVAL_STATE
from turnwired.codec.message import (
    message_to_pb,
    messages_from_pb,
    tool_call_from_pb,
    tool_call_to_pb,
)
from turnwired.codec.parse import parse
from turnwired.codec.policy import rule_from_pb, rule_to_pb
from turnwired.codec.values import time_from_pb, time_to_pb
from turnwired.domain.approval import Approval
from turnwired.domain.event import ApprovalResolved, InputAppended, RunWaiting


def encode_approval(value: Approval) -> bytes:
    """An approval as it is stored. Equal values give equal bytes."""
    out = approval_pb2.Approval()
    approval_to_pb(value, out)
    return out.SerializeToString(deterministic=True)


def decode_approval(body: bytes) -> Approval:
    """The inverse of ``encode_approval``. Raises CodecError."""
    return approval_from_pb(parse(approval_pb2.Approval, body))


def encode_waiting(value: RunWaiting) -> bytes:
    """What a run waits for, as it is stored. Equal values give equal bytes."""
    out = event_pb2.RunWaiting()
    waiting_to_pb(value, out)
    return out.SerializeToString(deterministic=True)


def decode_waiting(body: bytes) -> RunWaiting:
    """The inverse of ``encode_waiting``. Raises CodecError."""
    return waiting_from_pb(parse(event_pb2.RunWaiting, body))


def approval_to_pb(value: Approval, out: approval_pb2.Approval) -> None:
    """All fields."""
    out.SetInParent()
    out.approval_id = value.approval_id
    out.kind = APPROVAL_KIND.to_wire[value.kind]
    tool_call_to_pb(value.call, out.call)
    out.permission = value.permission
    out.patterns.extend(value.patterns)
    out.always_patterns.extend(value.always_patterns)
    out.title = value.title
    if value.create_time_ns:
        time_to_pb(value.create_time_ns, out.create_time)
    if value.expire_time_ns:
        time_to_pb(value.expire_time_ns, out.expire_time)
    out.run_id = value.run_id
    out.call_digest = value.call_digest
    out.state = APPROVAL_STATE.to_wire[value.state]
    if value.decision is not None:
        out.decision = APPROVAL_DECISION.to_wire[value.decision]
    out.resolved_by = value.resolved_by
    if value.resolve_time_ns:
        time_to_pb(value.resolve_time_ns, out.resolve_time)
    if value.input_schema_json is not None:
        out.input_schema_json = value.input_schema_json


def approval_from_pb(message: approval_pb2.Approval) -> Approval:
    """The inverse of ``approval_to_pb``; kind and state must be set."""
    return Approval(
        approval_id=message.approval_id,
        kind=APPROVAL_KIND.from_wire(message.kind, "kind"),
        call=tool_call_from_pb(message.call),
        permission=message.permission,
        patterns=tuple(message.patterns),
        always_patterns=tuple(message.always_patterns),
        title=message.title,
        run_id=message.run_id,
        call_digest=message.call_digest,
        create_time_ns=time_from_pb(message.create_time),
        expire_time_ns=time_from_pb(message.expire_time),
        state=APPROVAL_STATE.from_wire(message.state, "state"),
        decision=APPROVAL_DECISION.from_wire_or_none(message.decision, "decision"),
        resolved_by=message.resolved_by,
        resolve_time_ns=time_from_pb(message.resolve_time),
        input_schema_json=message.input_schema_json if message.HasField("input_schema_json") else None,
    )


def resolved_to_pb(value: ApprovalResolved, out: event_pb2.ApprovalResolved) -> None:
    """All fields."""
    out.approval_id = value.approval_id
    out.decision = APPROVAL_DECISION.to_wire[value.decision]
    out.resolved_by = value.resolved_by
    out.comment = value.comment
    for rule in value.added_rules:
        rule_to_pb(rule, out.added_rules.add())


def resolved_from_pb(message: event_pb2.ApprovalResolved) -> ApprovalResolved:
    """The inverse of ``resolved_to_pb``; the decision must be set."""
    return ApprovalResolved(
        message.approval_id,
        APPROVAL_DECISION.from_wire(message.decision, "decision"),
        message.resolved_by,
        message.comment,
        tuple(rule_from_pb(rule) for rule in message.added_rules),
    )


def waiting_to_pb(value: RunWaiting, out: event_pb2.RunWaiting) -> None:
    """All fields."""
    out.SetInParent()
    for approval in value.approvals:
        approval_to_pb(approval, out.approvals.add())
    for call in value.client_tool_calls:
        tool_call_to_pb(call, out.client_tool_calls.add())
    if value.expire_time_ns:
        time_to_pb(value.expire_time_ns, out.expire_time)
    out.only_new = value.only_new


def waiting_from_pb(message: event_pb2.RunWaiting) -> RunWaiting:
    """The inverse of ``waiting_to_pb``."""
    return RunWaiting(
        tuple(approval_from_pb(approval) for approval in message.approvals),
        tuple(tool_call_from_pb(call) for call in message.client_tool_calls),
        time_from_pb(message.expire_time),
        message.only_new,
    )


def appended_to_pb(value: InputAppended, out: event_pb2.InputAppended) -> None:
    """All fields."""
    out.SetInParent()
    for message in value.input:
        message_to_pb(message, out.input.add())


def appended_from_pb(message: event_pb2.InputAppended) -> InputAppended:
    """The inverse of ``appended_to_pb``."""
    return InputAppended(messages_from_pb(message.input, "input"))
