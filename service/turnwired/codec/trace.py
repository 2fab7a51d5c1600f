"""The trace of a run.

The domain keeps a trace per iteration with its calls inside; the contract has one list of entries in the order in which
they began. An iteration is followed by its calls in the model's order, which is how both stay equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from turnwired.codec.enums import FINISH_REASON, ITERATION_KIND, TOOL_RESULT_STATUS
from turnwired.codec.message import part_to_pb, parts_from_pb, tool_result_from_pb, tool_result_to_pb
from turnwired.codec.values import (
    cost_from_pb,
    cost_to_pb,
    duration_from_pb,
    duration_to_pb,
    failure_from_pb,
    failure_to_pb,
    tool_ref_from_pb,
    tool_ref_to_pb,
    usage_from_pb,
    usage_to_pb,
)
from turnwired.domain.errors import CodecError
from turnwired.domain.event import IterationTrace, RunTrace, ToolCallTrace

if TYPE_CHECKING:
    from turnwire.v1 import trace_pb2


def trace_to_pb(value: RunTrace, out: trace_pb2.RunTrace) -> None:
    """All fields."""
    out.SetInParent()
    for iteration in value.iterations:
        _iteration_to_pb(iteration, out.entries.add().iteration)
        for call in iteration.tool_calls:
            _call_to_pb(call, iteration.iteration, out.entries.add().tool_call)


def trace_from_pb(message: trace_pb2.RunTrace) -> RunTrace:
    """Iterations and calls. A call of an iteration that is not there is a CodecError."""
    iterations: dict[int, IterationTrace] = {}
    calls: dict[int, list[ToolCallTrace]] = {}
    for entry in message.entries:
        match entry.WhichOneof("entry"):
            case "iteration":
                iterations[entry.iteration.iteration] = _iteration_from_pb(entry.iteration)
            case "tool_call":
                calls.setdefault(entry.tool_call.iteration, []).append(_call_from_pb(entry.tool_call))
            case _:
                pass  # entries that the domain's trace has no place for
    if not calls.keys() <= iterations.keys():
        raise CodecError("a tool call belongs to no iteration of the trace", "entries")
    return RunTrace(
        tuple(replace(item, tool_calls=tuple(calls.get(number, ()))) for number, item in iterations.items())
    )


def _iteration_to_pb(value: IterationTrace, out: trace_pb2.IterationTrace) -> None:
    out.iteration = value.iteration
    out.kind = ITERATION_KIND.to_wire[value.kind]
    for part in value.parts:
        part_to_pb(part, out.parts.add())
    if value.finish_reason is not None:
        out.finish_reason = FINISH_REASON.to_wire[value.finish_reason]
    out.provider_finish_reason = value.provider_finish_reason
    usage_to_pb(value.usage, out.usage)
    if value.cost is not None:
        cost_to_pb(value.cost, out.cost)
    if value.time_to_first_token_ns is not None:
        out.time_to_first_token.SetInParent()
        duration_to_pb(value.time_to_first_token_ns, out.time_to_first_token)
    if value.failure is not None:
        failure_to_pb(value.failure, out.failure)
    out.span_id = value.span_id
    if value.duration_ns:
        duration_to_pb(value.duration_ns, out.duration)
    out.attempt_count = value.attempts


def _iteration_from_pb(message: trace_pb2.IterationTrace) -> IterationTrace:
    first_token = message.time_to_first_token
    return IterationTrace(
        iteration=message.iteration,
        kind=ITERATION_KIND.from_wire(message.kind, "kind"),
        finish_reason=FINISH_REASON.from_wire_or_none(message.finish_reason, "finish_reason"),
        provider_finish_reason=message.provider_finish_reason,
        parts=parts_from_pb(message.parts, "parts"),
        usage=usage_from_pb(message.usage),
        cost=cost_from_pb(message.cost) if message.HasField("cost") else None,
        failure=failure_from_pb(message.failure) if message.HasField("failure") else None,
        attempts=message.attempt_count,
        duration_ns=duration_from_pb(message.duration),
        time_to_first_token_ns=duration_from_pb(first_token)
        if message.HasField("time_to_first_token")
        else None,
        span_id=message.span_id,
    )


def _call_to_pb(value: ToolCallTrace, iteration: int, out: trace_pb2.ToolCallTrace) -> None:
    out.iteration = iteration
    out.call.call_id = value.call_id
    if value.tool is not None:
        tool_ref_to_pb(value.tool, out.call.tool)
    out.call.arguments_json = value.arguments_json
    out.requested_name = value.requested_name
    out.status = TOOL_RESULT_STATUS.to_wire[value.status]
    if value.result is not None:
        tool_result_to_pb(value.result, out.result)
    if value.duration_ns:
        duration_to_pb(value.duration_ns, out.duration)
    out.span_id = value.span_id


def _call_from_pb(message: trace_pb2.ToolCallTrace) -> ToolCallTrace:
    return ToolCallTrace(
        call_id=message.call.call_id,
        tool=tool_ref_from_pb(message.call.tool) if message.call.HasField("tool") else None,
        requested_name=message.requested_name,
        arguments_json=message.call.arguments_json,
        status=TOOL_RESULT_STATUS.from_wire(message.status, "status"),
        result=tool_result_from_pb(message.result) if message.HasField("result") else None,
        duration_ns=duration_from_pb(message.duration),
        span_id=message.span_id,
    )
