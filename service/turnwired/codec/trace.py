"""The trace of a run: its steps in the order in which they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwired.codec.approval import approval_from_pb, approval_to_pb
from turnwired.codec.attachment import attachment_from_pb, attachment_to_pb
from turnwired.codec.enums import FINISH_REASON, ITERATION_KIND, TOOL_RESULT_STATUS
from turnwired.codec.message import (
    message_from_pb,
    message_to_pb,
    part_to_pb,
    parts_from_pb,
    tool_call_from_pb,
    tool_call_to_pb,
    tool_result_from_pb,
    tool_result_to_pb,
)
from turnwired.codec.model import model_from_pb, model_to_pb
from turnwired.codec.values import (
    cost_from_pb,
    cost_to_pb,
    duration_from_pb,
    duration_to_pb,
    failure_from_pb,
    failure_to_pb,
    notice_from_pb,
    notice_to_pb,
    time_from_pb,
    time_to_pb,
    usage_from_pb,
    usage_to_pb,
)
from turnwired.domain.approval import Approval
from turnwired.domain.attachment import Attachment
from turnwired.domain.errors import CodecError
from turnwired.domain.message import Message
from turnwired.domain.outcome import Notice
from turnwired.domain.trace import (
    AttemptTrace,
    Entry,
    HistoryChangeTrace,
    IterationTrace,
    RunTrace,
    ToolCallTrace,
    TraceEntry,
    WaitTrace,
)

if TYPE_CHECKING:
    from turnwire.v1 import trace_pb2


def trace_to_pb(value: RunTrace, out: trace_pb2.RunTrace) -> None:
    """All fields."""
    out.SetInParent()
    for entry in value.entries:
        _entry_to_pb(entry, out.entries.add())
    out.through_sequence = value.through_sequence


def trace_from_pb(message: trace_pb2.RunTrace) -> RunTrace:
    """All fields. An entry of a kind that this version does not know is a CodecError."""
    entries: list[TraceEntry] = []
    try:
        for entry in message.entries:
            entries.append(_entry_from_pb(entry))  # noqa: PERF401 - the index of the failing entry is wanted
    except CodecError as error:
        raise error.within(f"entries[{len(entries)}]") from error
    return RunTrace(tuple(entries), message.through_sequence)


def _entry_to_pb(value: TraceEntry, out: trace_pb2.TraceEntry) -> None:
    out.first_sequence = value.first_sequence
    out.last_sequence = value.last_sequence
    time_to_pb(value.start_time_ns, out.start_time)
    if value.end_time_ns:
        time_to_pb(value.end_time_ns, out.end_time)
    match value.entry:
        case IterationTrace() as iteration:
            _iteration_to_pb(iteration, out.iteration)
        case ToolCallTrace() as call:
            _call_to_pb(call, out.tool_call)
        case Message() as message:
            message_to_pb(message, out.input)
        case Approval() as approval:
            approval_to_pb(approval, out.approval)
        case WaitTrace(approval_ids, call_ids):
            out.wait.SetInParent()
            out.wait.approval_ids.extend(approval_ids)
            out.wait.call_ids.extend(call_ids)
        case HistoryChangeTrace() as change:
            _change_to_pb(change, out.history_change)
        case Notice() as notice:
            notice_to_pb(notice, out.notice)
        case Attachment() as attachment:
            attachment_to_pb(attachment, out.attachment)


def _entry_from_pb(message: trace_pb2.TraceEntry) -> TraceEntry:
    entry: Entry
    match message.WhichOneof("entry"):
        case "iteration":
            entry = _iteration_from_pb(message.iteration)
        case "tool_call":
            entry = _call_from_pb(message.tool_call)
        case "input":
            entry = message_from_pb(message.input)
        case "approval":
            entry = approval_from_pb(message.approval)
        case "wait":
            entry = WaitTrace(tuple(message.wait.approval_ids), tuple(message.wait.call_ids))
        case "notice":
            entry = notice_from_pb(message.notice)
        case "history_change":
            entry = _change_from_pb(message.history_change)
        case "attachment":
            entry = attachment_from_pb(message.attachment)
        case None:
            raise CodecError("its kind is not known to this version")
    return TraceEntry(
        message.first_sequence,
        message.last_sequence,
        time_from_pb(message.start_time),
        entry,
        time_from_pb(message.end_time),
    )


def _change_to_pb(value: HistoryChangeTrace, out: trace_pb2.HistoryChangeTrace) -> None:
    out.SetInParent()
    out.dropped_message_count = value.dropped_message_count
    out.dropped_tool_group_count = value.dropped_tool_group_count
    out.tokens_before = value.tokens_before
    out.tokens_after = value.tokens_after


def _change_from_pb(message: trace_pb2.HistoryChangeTrace) -> HistoryChangeTrace:
    return HistoryChangeTrace(
        message.dropped_message_count, message.dropped_tool_group_count, message.tokens_before, message.tokens_after
    )


def _iteration_to_pb(value: IterationTrace, out: trace_pb2.IterationTrace) -> None:
    out.iteration = value.iteration
    out.kind = ITERATION_KIND.to_wire[value.kind]
    model_to_pb(value.model, out.model)
    for part in value.parts:
        part_to_pb(part, out.parts.add())
    if value.finish_reason is not None:
        out.finish_reason = FINISH_REASON.to_wire[value.finish_reason]
    out.provider_finish_reason = value.provider_finish_reason
    usage_to_pb(value.usage, out.usage)
    if value.cost is not None:
        cost_to_pb(value.cost, out.cost)
    if value.time_to_first_token_ns is not None:
        duration_to_pb(value.time_to_first_token_ns, out.time_to_first_token)
    for attempt in value.failed_attempts:
        _attempt_to_pb(attempt, out.failed_attempts.add())
    if value.failure is not None:
        failure_to_pb(value.failure, out.failure)
    out.span_id = value.span_id
    if value.duration_ns:
        duration_to_pb(value.duration_ns, out.duration)
    out.attempt_count = value.attempt_count


def _iteration_from_pb(message: trace_pb2.IterationTrace) -> IterationTrace:
    first_token = message.time_to_first_token
    return IterationTrace(
        iteration=message.iteration,
        kind=ITERATION_KIND.from_wire(message.kind, "kind"),
        model=model_from_pb(message.model),
        parts=parts_from_pb(message.parts, "parts"),
        finish_reason=FINISH_REASON.from_wire_or_none(message.finish_reason, "finish_reason"),
        provider_finish_reason=message.provider_finish_reason,
        usage=usage_from_pb(message.usage),
        cost=cost_from_pb(message.cost) if message.HasField("cost") else None,
        time_to_first_token_ns=duration_from_pb(first_token) if message.HasField("time_to_first_token") else None,
        failed_attempts=tuple(_attempt_from_pb(attempt) for attempt in message.failed_attempts),
        failure=failure_from_pb(message.failure) if message.HasField("failure") else None,
        span_id=message.span_id,
        duration_ns=duration_from_pb(message.duration),
        attempt_count=message.attempt_count,
    )


def _attempt_to_pb(value: AttemptTrace, out: trace_pb2.AttemptTrace) -> None:
    out.attempt = value.attempt
    failure_to_pb(value.failure, out.failure)
    duration_to_pb(value.delay_ns, out.delay)
    if value.usage is not None:
        out.usage.SetInParent()
        usage_to_pb(value.usage, out.usage)


def _attempt_from_pb(message: trace_pb2.AttemptTrace) -> AttemptTrace:
    return AttemptTrace(
        message.attempt,
        failure_from_pb(message.failure),
        duration_from_pb(message.delay),
        usage_from_pb(message.usage) if message.HasField("usage") else None,
    )


def _call_to_pb(value: ToolCallTrace, out: trace_pb2.ToolCallTrace) -> None:
    out.iteration = value.iteration
    tool_call_to_pb(value.call, out.call)
    if value.result is not None:
        tool_result_to_pb(value.result, out.result)
    if value.execute_time_ns:
        time_to_pb(value.execute_time_ns, out.execute_time)
    out.attempt_count = value.attempt_count
    if value.duration_ns:
        duration_to_pb(value.duration_ns, out.duration)
    out.span_id = value.span_id
    out.requested_name = value.requested_name
    if value.status is not None:
        out.status = TOOL_RESULT_STATUS.to_wire[value.status]
    if value.child_run_id is not None:
        out.child_run_id = value.child_run_id


def _call_from_pb(message: trace_pb2.ToolCallTrace) -> ToolCallTrace:
    return ToolCallTrace(
        iteration=message.iteration,
        call=tool_call_from_pb(message.call),
        result=tool_result_from_pb(message.result) if message.HasField("result") else None,
        execute_time_ns=time_from_pb(message.execute_time),
        attempt_count=message.attempt_count,
        duration_ns=duration_from_pb(message.duration),
        span_id=message.span_id,
        requested_name=message.requested_name,
        status=TOOL_RESULT_STATUS.from_wire_or_none(message.status, "status"),
        child_run_id=message.child_run_id if message.HasField("child_run_id") else None,
    )
