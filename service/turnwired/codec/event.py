"""Events of a run's log, to records and back.

An event is encoded once; the bytes serve the store and every stream. Deltas come thousands to a second, so their
encoders write attributes of one message (keyword construction costs four times as much) and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from turnwire.v1 import event_pb2
from turnwired.codec.approval import (
    appended_from_pb,
    appended_to_pb,
    approval_from_pb,
    approval_to_pb,
    resolved_from_pb,
    resolved_to_pb,
    waiting_from_pb,
    waiting_to_pb,
)
from turnwired.codec.attachment import attachment_from_pb, attachment_to_pb
from turnwired.codec.enums import FINISH_REASON, ITERATION_KIND, TOOLS_CHANGE_CAUSE
from turnwired.codec.frame import events_of, record_header
from turnwired.codec.message import (
    message_from_pb,
    message_to_pb,
    part_from_pb,
    part_to_pb,
    tool_result_from_pb,
    tool_result_to_pb,
)
from turnwired.codec.model import model_from_pb, model_to_pb
from turnwired.codec.policy import effective_policy_from_pb, encode_effective_policy
from turnwired.codec.trace import trace_from_pb, trace_to_pb
from turnwired.codec.values import (
    cost_from_pb,
    cost_to_pb,
    duration_from_pb,
    duration_to_pb,
    failure_from_pb,
    failure_to_pb,
    model_usage_from_pb,
    model_usage_to_pb,
    notice_from_pb,
    notice_to_pb,
    outcome_from_pb,
    outcome_to_pb,
    tool_ref_from_pb,
    tool_ref_to_pb,
    trace_context_from_pb,
    trace_context_to_pb,
    usage_from_pb,
    usage_to_pb,
)
from turnwired.domain import event as domain
from turnwired.domain.errors import CodecError
from turnwired.domain.event import DELTA_EVENTS, Event, LoggedEvent
from turnwired.domain.outcome import Notice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RunEvent = event_pb2.RunEvent


def encode_event(sequence: int, time_ns: int, iteration: int, event: Event) -> bytes:
    """One record: can be joined with others into a row's body or a frame. ``time_ns`` is Unix time.

    About 2 us for a text delta (measured by ``tests/codec/cost_of_a_delta.py``).
    """
    out = _RunEvent()
    out.sequence = sequence
    when = out.event_time
    when.seconds = time_ns // 1_000_000_000
    when.nanos = time_ns % 1_000_000_000
    out.iteration = iteration
    kind = type(event)
    _ENCODERS[kind](event, out)
    # Equal events give equal bytes. Sorting maps costs a seventh of a delta's time, and deltas have none.
    data = out.SerializeToString() if kind in DELTA_EVENTS else out.SerializeToString(deterministic=True)
    return record_header(len(data)) + data


def decode_events(body: bytes) -> list[LoggedEvent]:
    """The events of a row's body or of a frame. Raises CodecError, also for a kind of event that is not known here."""
    return [event_from_pb(message) for message in events_of(body)]


def event_from_pb(message: event_pb2.RunEvent) -> LoggedEvent:
    """One event with its place in the log."""
    case = message.WhichOneof("event")
    decode = _DECODERS.get(case or "")
    if decode is None:
        raise CodecError(f"event {message.sequence} is {case or 'of a kind'} that this version does not know")
    when = message.event_time
    try:
        event = decode(message)
    except CodecError as error:
        raise error.within(f"event {message.sequence} {case}") from error
    time_ns = when.seconds * 1_000_000_000 + when.nanos
    return LoggedEvent(message.sequence, time_ns, message.iteration, event)


def _text_delta(event: domain.TextDelta, out: event_pb2.RunEvent) -> None:
    delta = out.text_delta
    delta.part_id = event.part_id
    delta.text = event.text


def _reasoning_delta(event: domain.ReasoningDelta, out: event_pb2.RunEvent) -> None:
    delta = out.reasoning_delta
    delta.part_id = event.part_id
    delta.text = event.text


def _arguments_delta(event: domain.ToolCallArgumentsDelta, out: event_pb2.RunEvent) -> None:
    delta = out.tool_call_arguments_delta
    delta.call_id = event.call_id
    delta.fragment = event.fragment


def _progressed(event: domain.ToolCallProgressed, out: event_pb2.RunEvent) -> None:
    progress = out.tool_call_progressed
    progress.call_id = event.call_id
    progress.progress = event.progress
    if event.total is not None:
        progress.total = event.total
    progress.message = event.message


def _part_finished(event: domain.PartFinished, out: event_pb2.RunEvent) -> None:
    part_to_pb(event.part, out.part_finished.part)


def _run_started(event: domain.RunStarted, out: event_pb2.RunEvent) -> None:
    started = out.run_started
    started.run_id = event.run_id
    if event.session_id is not None:
        started.session_id = event.session_id
    started.agent_id = event.agent_id
    started.agent_revision = event.agent_revision
    model_to_pb(event.model, started.model)
    started.effective_policy.MergeFromString(encode_effective_policy(event.effective_policy))
    started.tool_names.extend(event.tool_names)
    trace_context_to_pb(event.trace_context, started.trace_context)
    if event.parent_run_id is not None:
        started.parent_run_id = event.parent_run_id
    started.input_message_ids.extend(event.input_message_ids)


def _iteration_started(event: domain.IterationStarted, out: event_pb2.RunEvent) -> None:
    started = out.iteration_started
    started.kind = ITERATION_KIND.to_wire[event.kind]
    model_to_pb(event.model, started.model)
    started.span_id = event.span_id
    if event.max_output_tokens is not None:
        started.max_output_tokens = event.max_output_tokens


def _iteration_finished(event: domain.IterationFinished, out: event_pb2.RunEvent) -> None:
    finished = out.iteration_finished
    finished.finish_reason = FINISH_REASON.to_wire[event.finish_reason]
    finished.provider_finish_reason = event.provider_finish_reason
    usage_to_pb(event.usage, finished.usage)
    if event.cost is not None:
        cost_to_pb(event.cost, finished.cost)
    duration_to_pb(event.duration_ns, finished.duration)
    if event.time_to_first_token_ns is not None:
        duration_to_pb(event.time_to_first_token_ns, finished.time_to_first_token)
    if event.failure is not None:
        failure_to_pb(event.failure, finished.failure)


def _retry_scheduled(event: domain.IterationRetryScheduled, out: event_pb2.RunEvent) -> None:
    retry = out.iteration_retry_scheduled
    retry.attempt = event.attempt
    duration_to_pb(event.delay_ns, retry.delay)
    failure_to_pb(event.failure, retry.failure)
    usage_to_pb(event.usage, retry.usage)
    if event.cost is not None:
        cost_to_pb(event.cost, retry.cost)


def _call_started(event: domain.ToolCallStarted, out: event_pb2.RunEvent) -> None:
    started = out.tool_call_started
    started.call_id = event.call_id
    if event.tool is not None:
        tool_ref_to_pb(event.tool, started.tool)
    started.requested_name = event.requested_name


def _arguments_finished(event: domain.ToolCallArgumentsFinished, out: event_pb2.RunEvent) -> None:
    finished = out.tool_call_arguments_finished
    finished.call_id = event.call_id
    finished.arguments_json = event.arguments_json


def _executing(event: domain.ToolCallExecuting, out: event_pb2.RunEvent) -> None:
    executing = out.tool_call_executing
    executing.call_id = event.call_id
    executing.attempt = event.attempt
    executing.span_id = event.span_id
    if event.child_run_id is not None:
        executing.child_run_id = event.child_run_id


def _call_finished(event: domain.ToolCallFinished, out: event_pb2.RunEvent) -> None:
    finished = out.tool_call_finished
    tool_result_to_pb(event.result, finished.result)
    if event.duration_ns:
        duration_to_pb(event.duration_ns, finished.duration)


def _approval_requested(event: domain.ApprovalRequested, out: event_pb2.RunEvent) -> None:
    approval_to_pb(event.approval, out.approval_requested.approval)


def _approval_resolved(event: domain.ApprovalResolved, out: event_pb2.RunEvent) -> None:
    resolved_to_pb(event, out.approval_resolved)


def _run_waiting(event: domain.RunWaiting, out: event_pb2.RunEvent) -> None:
    waiting_to_pb(event, out.run_waiting)


def _run_resumed(event: domain.RunResumed, out: event_pb2.RunEvent) -> None:
    del event
    out.run_resumed.SetInParent()


def _input_appended(event: domain.InputAppended, out: event_pb2.RunEvent) -> None:
    appended_to_pb(event, out.input_appended)


def _attachment_updated(event: domain.AttachmentUpdated, out: event_pb2.RunEvent) -> None:
    attachment_to_pb(event.attachment, out.attachment_updated.attachment)


def _tools_changed(event: domain.ToolsChanged, out: event_pb2.RunEvent) -> None:
    changed = out.tools_changed
    changed.cause = TOOLS_CHANGE_CAUSE.to_wire[event.cause]
    changed.added.extend(event.added)
    changed.removed.extend(event.removed)
    changed.updated.extend(event.updated)


def _history_truncated(event: domain.HistoryTruncated, out: event_pb2.RunEvent) -> None:
    truncated = out.history_truncated
    truncated.SetInParent()
    truncated.dropped_message_count = event.dropped_message_count
    truncated.dropped_tool_group_count = event.dropped_tool_group_count
    truncated.tokens_before = event.tokens_before
    truncated.tokens_after = event.tokens_after


def _notice(event: Notice, out: event_pb2.RunEvent) -> None:
    notice_to_pb(event, out.notice)


def _run_finished(event: domain.RunFinished, out: event_pb2.RunEvent) -> None:
    finished = out.run_finished
    outcome_to_pb(event.outcome, finished.outcome)
    if event.message is not None:
        message_to_pb(event.message, finished.message)
    if event.structured_output_json is not None:
        finished.structured_output_json = event.structured_output_json
    usage_to_pb(event.usage, finished.usage)
    if event.cost is not None:
        cost_to_pb(event.cost, finished.cost)
    for item in event.model_usage:
        model_usage_to_pb(item, finished.model_usage.add())
    finished.iteration_count = event.iteration_count
    finished.tool_call_count = event.tool_call_count
    if event.trace is not None:
        trace_to_pb(event.trace, finished.trace)


_ENCODERS: Final[Mapping[type, Callable[[Any, event_pb2.RunEvent], None]]] = {
    domain.TextDelta: _text_delta,
    domain.ReasoningDelta: _reasoning_delta,
    domain.ToolCallArgumentsDelta: _arguments_delta,
    domain.ToolCallProgressed: _progressed,
    domain.PartFinished: _part_finished,
    domain.RunStarted: _run_started,
    domain.IterationStarted: _iteration_started,
    domain.IterationFinished: _iteration_finished,
    domain.IterationRetryScheduled: _retry_scheduled,
    domain.ToolCallStarted: _call_started,
    domain.ToolCallArgumentsFinished: _arguments_finished,
    domain.ToolCallExecuting: _executing,
    domain.ToolCallFinished: _call_finished,
    domain.ApprovalRequested: _approval_requested,
    domain.ApprovalResolved: _approval_resolved,
    domain.RunWaiting: _run_waiting,
    domain.RunResumed: _run_resumed,
    domain.InputAppended: _input_appended,
    domain.AttachmentUpdated: _attachment_updated,
    domain.HistoryTruncated: _history_truncated,
    domain.ToolsChanged: _tools_changed,
    Notice: _notice,
    domain.RunFinished: _run_finished,
}


def _progressed_from(message: event_pb2.RunEvent) -> domain.ToolCallProgressed:
    progress = message.tool_call_progressed
    total = progress.total if progress.HasField("total") else None
    return domain.ToolCallProgressed(progress.call_id, progress.progress, total, progress.message)


def _run_started_from(message: event_pb2.RunEvent) -> domain.RunStarted:
    started = message.run_started
    return domain.RunStarted(
        run_id=started.run_id,
        agent_id=started.agent_id,
        agent_revision=started.agent_revision,
        model=model_from_pb(started.model),
        effective_policy=effective_policy_from_pb(started.effective_policy),
        tool_names=tuple(started.tool_names),
        session_id=started.session_id if started.HasField("session_id") else None,
        parent_run_id=started.parent_run_id if started.HasField("parent_run_id") else None,
        input_message_ids=tuple(started.input_message_ids),
        trace_context=trace_context_from_pb(started.trace_context),
    )


def _iteration_started_from(message: event_pb2.RunEvent) -> domain.IterationStarted:
    started = message.iteration_started
    return domain.IterationStarted(
        kind=ITERATION_KIND.from_wire(started.kind, "kind"),
        model=model_from_pb(started.model),
        span_id=started.span_id,
        max_output_tokens=started.max_output_tokens if started.HasField("max_output_tokens") else None,
    )


def _iteration_finished_from(message: event_pb2.RunEvent) -> domain.IterationFinished:
    finished = message.iteration_finished
    first_token = finished.time_to_first_token
    return domain.IterationFinished(
        finish_reason=FINISH_REASON.from_wire(finished.finish_reason, "finish_reason"),
        provider_finish_reason=finished.provider_finish_reason,
        usage=usage_from_pb(finished.usage),
        cost=cost_from_pb(finished.cost) if finished.HasField("cost") else None,
        duration_ns=duration_from_pb(finished.duration),
        time_to_first_token_ns=duration_from_pb(first_token) if finished.HasField("time_to_first_token") else None,
        failure=failure_from_pb(finished.failure) if finished.HasField("failure") else None,
    )


def _retry_scheduled_from(message: event_pb2.RunEvent) -> domain.IterationRetryScheduled:
    retry = message.iteration_retry_scheduled
    return domain.IterationRetryScheduled(
        attempt=retry.attempt,
        delay_ns=duration_from_pb(retry.delay),
        failure=failure_from_pb(retry.failure),
        usage=usage_from_pb(retry.usage),
        cost=cost_from_pb(retry.cost) if retry.HasField("cost") else None,
    )


def _call_started_from(message: event_pb2.RunEvent) -> domain.ToolCallStarted:
    started = message.tool_call_started
    tool = tool_ref_from_pb(started.tool) if started.HasField("tool") else None
    return domain.ToolCallStarted(started.call_id, tool, started.requested_name)


def _executing_from(message: event_pb2.RunEvent) -> domain.ToolCallExecuting:
    executing = message.tool_call_executing
    child = executing.child_run_id if executing.HasField("child_run_id") else None
    return domain.ToolCallExecuting(executing.call_id, executing.attempt, executing.span_id, child)


def _call_finished_from(message: event_pb2.RunEvent) -> domain.ToolCallFinished:
    finished = message.tool_call_finished
    return domain.ToolCallFinished(tool_result_from_pb(finished.result), duration_from_pb(finished.duration))


def _run_finished_from(message: event_pb2.RunEvent) -> domain.RunFinished:
    finished = message.run_finished
    structured = finished.structured_output_json if finished.HasField("structured_output_json") else None
    return domain.RunFinished(
        outcome=outcome_from_pb(finished.outcome),
        message=message_from_pb(finished.message) if finished.HasField("message") else None,
        structured_output_json=structured,
        usage=usage_from_pb(finished.usage),
        cost=cost_from_pb(finished.cost) if finished.HasField("cost") else None,
        model_usage=tuple(model_usage_from_pb(item) for item in finished.model_usage),
        iteration_count=finished.iteration_count,
        tool_call_count=finished.tool_call_count,
        trace=trace_from_pb(finished.trace) if finished.HasField("trace") else None,
    )


def _tools_changed_from(message: event_pb2.RunEvent) -> domain.ToolsChanged:
    changed = message.tools_changed
    cause = TOOLS_CHANGE_CAUSE.from_wire(changed.cause, "cause")
    return domain.ToolsChanged(cause, tuple(changed.added), tuple(changed.removed), tuple(changed.updated))


def _history_truncated_from(message: event_pb2.RunEvent) -> domain.HistoryTruncated:
    truncated = message.history_truncated
    return domain.HistoryTruncated(
        truncated.dropped_message_count,
        truncated.dropped_tool_group_count,
        truncated.tokens_before,
        truncated.tokens_after,
    )


_DECODERS: Final[Mapping[str, Callable[[event_pb2.RunEvent], Event]]] = {
    "text_delta": lambda m: domain.TextDelta(m.text_delta.part_id, m.text_delta.text),
    "reasoning_delta": lambda m: domain.ReasoningDelta(m.reasoning_delta.part_id, m.reasoning_delta.text),
    "tool_call_arguments_delta": lambda m: domain.ToolCallArgumentsDelta(
        m.tool_call_arguments_delta.call_id, m.tool_call_arguments_delta.fragment
    ),
    "tool_call_progressed": _progressed_from,
    "part_finished": lambda m: domain.PartFinished(part_from_pb(m.part_finished.part)),
    "run_started": _run_started_from,
    "iteration_started": _iteration_started_from,
    "iteration_finished": _iteration_finished_from,
    "iteration_retry_scheduled": _retry_scheduled_from,
    "tool_call_started": _call_started_from,
    "tool_call_arguments_finished": lambda m: domain.ToolCallArgumentsFinished(
        m.tool_call_arguments_finished.call_id, m.tool_call_arguments_finished.arguments_json
    ),
    "tool_call_executing": _executing_from,
    "tool_call_finished": _call_finished_from,
    "approval_requested": lambda m: domain.ApprovalRequested(approval_from_pb(m.approval_requested.approval)),
    "approval_resolved": lambda m: resolved_from_pb(m.approval_resolved),
    "run_waiting": lambda m: waiting_from_pb(m.run_waiting),
    "run_resumed": lambda _: domain.RunResumed(),
    "input_appended": lambda m: appended_from_pb(m.input_appended),
    "attachment_updated": lambda m: domain.AttachmentUpdated(attachment_from_pb(m.attachment_updated.attachment)),
    "history_truncated": _history_truncated_from,
    "tools_changed": _tools_changed_from,
    "notice": lambda m: notice_from_pb(m.notice),
    "run_finished": _run_finished_from,
}
