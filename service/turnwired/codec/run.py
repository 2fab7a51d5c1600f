"""Runs and the turns that ask for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from turnwire.v1 import turn_service_pb2
from turnwired.codec.approval import waiting_from_pb, waiting_to_pb
from turnwired.codec.attachment import attachment_from_pb, attachment_to_pb
from turnwired.codec.enums import ON_DISCONNECT, RUN_STATE
from turnwired.codec.message import message_from_pb, message_to_pb, messages_from_pb
from turnwired.codec.model import model_from_pb, model_to_pb, output_format_from_pb, output_format_to_pb
from turnwired.codec.parse import parse
from turnwired.codec.policy import policy_from_pb, policy_to_pb
from turnwired.codec.values import (
    cost_from_pb,
    cost_to_pb,
    outcome_from_pb,
    outcome_to_pb,
    time_from_pb,
    time_to_pb,
    tool_selection_from_pb,
    tool_selection_to_pb,
    trace_context_from_pb,
    trace_context_to_pb,
    usage_from_pb,
    usage_to_pb,
)
from turnwired.domain.errors import CodecError
from turnwired.domain.run import Caller, Cursor, Run, TurnSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnwire.v1 import event_pb2, run_pb2

Wire = TypeVar("Wire")
Value = TypeVar("Value")


def encode_run(value: Run) -> bytes:
    """A run with its final message and value, as GetRun answers it without the trace. Equal values, equal bytes."""
    out = turn_service_pb2.GetRunResponse()
    run_to_pb(value, out.run)
    if value.message is not None:
        message_to_pb(value.message, out.message)
    if value.structured_output_json is not None:
        out.structured_output_json = value.structured_output_json
    return out.SerializeToString(deterministic=True)


def decode_run(body: bytes) -> Run:
    """The inverse of ``encode_run``. Raises CodecError."""
    message = parse(turn_service_pb2.GetRunResponse, body)
    structured = message.structured_output_json if message.HasField("structured_output_json") else None
    return replace(
        run_from_pb(message.run),
        message=message_from_pb(message.message) if message.HasField("message") else None,
        structured_output_json=structured,
    )


def run_to_pb(value: Run, out: run_pb2.Run) -> None:
    """All fields but the final message and value, which are beside the run in GetRunResponse."""
    out.run_id = value.run_id
    if value.session_id is not None:
        out.session_id = value.session_id
    out.agent_id = value.agent_id
    out.state = RUN_STATE.to_wire[value.state]
    if value.outcome is not None:
        outcome_to_pb(value.outcome, out.outcome)
    if value.waiting is not None:
        waiting_to_pb(value.waiting, out.waiting)
    out.last_sequence = value.last_sequence
    usage_to_pb(value.usage, out.usage)
    if value.cost is not None:
        cost_to_pb(value.cost, out.cost)
    time_to_pb(value.create_time_ns, out.create_time)
    if value.settle_time_ns:
        time_to_pb(value.settle_time_ns, out.settle_time)
    trace_context_to_pb(value.trace_context, out.trace_context)
    out.labels.update(value.labels)
    if value.parent_run_id is not None:
        out.parent_run_id = value.parent_run_id
    out.epoch = value.epoch
    if value.model is not None:
        model_to_pb(value.model, out.model)
    if value.start_time_ns:
        time_to_pb(value.start_time_ns, out.start_time)
    out.agent_revision = value.agent_revision


def run_from_pb(message: run_pb2.Run) -> Run:
    """The inverse of ``run_to_pb``; the state must be set."""
    return Run(
        run_id=message.run_id,
        agent_id=message.agent_id,
        state=RUN_STATE.from_wire(message.state, "state"),
        create_time_ns=time_from_pb(message.create_time),
        session_id=message.session_id if message.HasField("session_id") else None,
        parent_run_id=message.parent_run_id if message.HasField("parent_run_id") else None,
        outcome=outcome_from_pb(message.outcome) if message.HasField("outcome") else None,
        waiting=waiting_from_pb(message.waiting) if message.HasField("waiting") else None,
        epoch=message.epoch,
        last_sequence=message.last_sequence,
        usage=usage_from_pb(message.usage),
        cost=cost_from_pb(message.cost) if message.HasField("cost") else None,
        settle_time_ns=time_from_pb(message.settle_time),
        trace_context=trace_context_from_pb(message.trace_context),
        labels=dict(message.labels),
        model=model_from_pb(message.model) if message.HasField("model") else None,
        start_time_ns=time_from_pb(message.start_time),
        agent_revision=message.agent_revision,
    )


def cursor_from_pb(message: event_pb2.Cursor) -> Cursor:
    """All fields; the start of the log for an unset message. A negative number is a CodecError."""
    if message.epoch < 0:
        raise CodecError("must not be negative", "epoch")
    if message.sequence < 0:
        raise CodecError("must not be negative", "sequence")
    return Cursor(message.epoch, message.sequence)


def encode_turn(value: TurnSpec) -> bytes:
    """A turn as it is stored, without its caller and digest. Equal values give equal bytes."""
    out = turn_service_pb2.RunTurnRequest()
    turn_to_pb(value, out.turn)
    if value.on_disconnect is not None:
        out.on_disconnect = ON_DISCONNECT.to_wire[value.on_disconnect]
    return out.SerializeToString(deterministic=True)


def decode_turn(body: bytes, caller: Caller, digest: bytes = b"") -> TurnSpec:
    """The inverse of ``encode_turn``. Raises CodecError."""
    message = parse(turn_service_pb2.RunTurnRequest, body)
    on_disconnect = ON_DISCONNECT.from_wire_or_none(message.on_disconnect, "on_disconnect")
    return replace(turn_from_pb(message.turn, caller), on_disconnect=on_disconnect, digest=digest)


def turn_to_pb(value: TurnSpec, out: turn_service_pb2.TurnSpec) -> None:
    """All fields of the contract's TurnSpec that the domain has."""
    out.request_id = value.request_id
    out.agent_id = value.agent_id
    if value.session_id is not None:
        out.session_id = value.session_id
    for message in value.input:
        message_to_pb(message, out.input.add())
    for attachment in value.attachments:
        attachment_to_pb(attachment, out.attachments.add())
    policy_to_pb(value.policy, out.policy)
    tool_selection_to_pb(value.tools, out.tools)
    if value.model is not None:
        model_to_pb(value.model, out.model)
    if value.output_format is not None:
        output_format_to_pb(value.output_format, out.output_format)
    out.include_trace = value.include_trace
    out.labels.update(value.labels)
    if value.parent_run_id is not None:
        out.parent_run_id = value.parent_run_id


def turn_from_pb(message: turn_service_pb2.TurnSpec, caller: Caller) -> TurnSpec:
    """What the domain has a place for.

    Of attachments those that have a state, as stored ones do; those of a caller bring bytes, and are for the caller of
    this function to read. The rest (on_busy, policy leaves named by ``unenforced_paths``) it is to refuse. CodecErrors
    carry paths below the turn.
    """
    return TurnSpec(
        caller=caller,
        input=messages_from_pb(message.input, "input"),
        attachments=tuple(attachment_from_pb(each) for each in message.attachments if each.state),
        request_id=message.request_id,
        agent_id=message.agent_id,
        session_id=message.session_id if message.HasField("session_id") else None,
        policy=_decoded(policy_from_pb, message.policy, "policy"),
        tools=_decoded(tool_selection_from_pb, message.tools, "tools"),
        model=model_from_pb(message.model) if message.HasField("model") else None,
        output_format=output_format_from_pb(message.output_format) if message.HasField("output_format") else None,
        include_trace=message.include_trace,
        labels=dict(message.labels),
        parent_run_id=message.parent_run_id if message.HasField("parent_run_id") else None,
    )


def _decoded(decode: Callable[[Wire], Value], message: Wire, field: str) -> Value:
    try:
        return decode(message)
    except CodecError as error:
        raise error.within(field) from error
