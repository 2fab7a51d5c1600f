"""The trace of a run as a fold over its log: whoever has the events has the trace. Pure.

Only milestones matter: a finished part carries its text, so a fold over a filtered or merged log gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from turnwired.domain.approval import BY_TIMEOUT, Approval, ApprovalState
from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    AttachmentUpdated,
    HistoryTruncated,
    InputAppended,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    PartFinished,
    RunFinished,
    RunResumed,
    RunWaiting,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
    ToolsChanged,
)
from turnwired.domain.message import (
    Blob,
    Content,
    Data,
    Message,
    OpaqueBlock,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
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
from turnwired.domain.usage import Cost, Usage, sum_cost, sum_usage
from turnwired.turn.history import unknown_tool
from turnwired.turn.pieces import place_of


@dataclass(slots=True)
class _Open:
    """An entry while it can still change."""

    entry: TraceEntry
    parts: list[Part]


class TraceFold:
    """Folds events, in the order of their sequence numbers, into a RunTrace."""

    def __init__(self) -> None:
        self._entries: list[_Open] = []
        self._iterations: dict[int, _Open] = {}
        self._calls: dict[str, _Open] = {}
        self._approvals: dict[str, _Open] = {}
        self._wait: _Open | None = None
        self._attachments: dict[str, _Open] = {}
        self._through = 0

    def add(self, logged: LoggedEvent) -> None:
        """Fold one event; deltas and events of other matters change only ``through_sequence``."""
        self._through = max(self._through, logged.sequence)
        event = logged.event
        match event:
            case IterationStarted():
                entry = IterationTrace(logged.iteration, event.kind, event.model, span_id=event.span_id)
                self._iterations[logged.iteration] = self._begin(logged, entry)
            case PartFinished() | IterationRetryScheduled() | IterationFinished():
                opened = self._iterations.get(logged.iteration)
                if opened is not None:
                    self._fold_iteration(opened, logged)
            case ToolCallStarted():
                call = ToolCall(event.call_id, event.tool or unknown_tool(event.requested_name), "")
                trace = ToolCallTrace(logged.iteration, call, requested_name=event.requested_name)
                asking = self._iterations.get(logged.iteration)
                if asking is not None:
                    asking.parts.append(Part(event.call_id, call))
                self._calls[event.call_id] = self._begin(logged, trace)
            case ToolCallArgumentsFinished() | ToolCallExecuting():
                self._fold_call(event.call_id, logged)
            case ToolCallFinished():
                self._fold_call(event.result.call_id, logged)
            case _:
                self._fold_context(logged)

    def _fold_context(self, logged: LoggedEvent) -> None:
        """What is of no call: entries that are whole at once, but for an attachment that is awaited."""
        match logged.event:
            case AttachmentUpdated(attachment):
                self._fold_attachment(attachment, logged)
            case HistoryTruncated(messages, groups, before, after):
                self._close(self._begin(logged, HistoryChangeTrace(messages, groups, before, after)), logged)
            case Notice() as notice:
                self._close(self._begin(logged, notice), logged)
            case ToolsChanged() as change:
                self._close(self._begin(logged, change.notice()), logged)
            case _:
                self._add_waiting(logged)

    def _add_waiting(self, logged: LoggedEvent) -> None:
        """Events about the caller: what it is asked, what it is waited for, what it adds."""
        event = logged.event
        match event:
            case InputAppended(messages):
                for message in messages:
                    self._close(self._begin(logged, message), logged)
            case ApprovalRequested(approval):
                self._approvals[approval.approval_id] = self._begin(logged, approval)
            case ApprovalResolved():
                self._resolve(event, logged)
            case RunWaiting():
                self._end_wait(logged)
                approvals = tuple(approval.approval_id for approval in event.approvals)
                calls = tuple(call.call_id for call in event.client_tool_calls)
                self._wait = self._begin(logged, WaitTrace(approvals, calls))
            case RunResumed():
                self._end_wait(logged)
            case RunFinished():
                self._end_wait(logged)
                for opened in self._approvals.values():
                    self._withdraw(opened, logged)
            case _:
                pass

    def _fold_attachment(self, attachment: Attachment, logged: LoggedEvent) -> None:
        opened = self._attachments.get(attachment.attachment_id)
        if opened is None:
            opened = self._attachments[attachment.attachment_id] = self._begin(logged, attachment)
        opened.entry = replace(opened.entry, entry=attachment, last_sequence=logged.sequence)
        if attachment.state is not AttachmentState.PENDING:
            self._close(opened, logged)

    def _resolve(self, event: ApprovalResolved, logged: LoggedEvent) -> None:
        opened = self._approvals.get(event.approval_id)
        if opened is None:
            return
        asked = opened.entry.entry
        assert isinstance(asked, Approval)
        opened.entry = replace(opened.entry, entry=resolved(asked, event, logged.time_ns))
        self._close(opened, logged)

    def _withdraw(self, opened: _Open, logged: LoggedEvent) -> None:
        asked = opened.entry.entry
        if isinstance(asked, Approval) and asked.state is ApprovalState.PENDING:
            opened.entry = replace(opened.entry, entry=replace(asked, state=ApprovalState.WITHDRAWN))
            self._close(opened, logged)

    def _end_wait(self, logged: LoggedEvent) -> None:
        if self._wait is not None:
            self._close(self._wait, logged)
            self._wait = None

    def _begin(self, logged: LoggedEvent, entry: Entry) -> _Open:
        opened = _Open(TraceEntry(logged.sequence, logged.sequence, logged.time_ns, entry), [])
        self._entries.append(opened)
        return opened

    def _close(self, opened: _Open, logged: LoggedEvent) -> None:
        opened.entry = replace(opened.entry, last_sequence=logged.sequence, end_time_ns=logged.time_ns)

    def _fold_iteration(self, opened: _Open, logged: LoggedEvent) -> None:
        trace = opened.entry.entry
        assert isinstance(trace, IterationTrace)
        match logged.event:
            case PartFinished(part):
                opened.parts.insert(place_of(part.part_id, [each.part_id for each in opened.parts]), part)
            case IterationRetryScheduled() as retry:
                failed = AttemptTrace(
                    retry.attempt, retry.failure, retry.delay_ns, None if retry.usage == Usage() else retry.usage
                )
                trace = replace(
                    trace,
                    failed_attempts=(*trace.failed_attempts, failed),
                    attempt_count=retry.attempt + 1,
                    usage=sum_usage([trace.usage, retry.usage]),
                    cost=_sum(trace.cost, retry.cost),
                )
            case IterationFinished() as finished:
                trace = replace(
                    trace,
                    parts=tuple(opened.parts),
                    finish_reason=finished.finish_reason,
                    provider_finish_reason=finished.provider_finish_reason,
                    usage=sum_usage([trace.usage, finished.usage]),
                    cost=_sum(trace.cost, finished.cost),
                    time_to_first_token_ns=finished.time_to_first_token_ns,
                    failure=finished.failure,
                    duration_ns=finished.duration_ns,
                )
                self._close(opened, logged)
            case _:
                pass
        opened.entry = replace(opened.entry, entry=trace, last_sequence=logged.sequence)

    def _fold_call(self, call_id: str, logged: LoggedEvent) -> None:
        opened = self._calls.get(call_id)
        if opened is None:
            return
        trace = opened.entry.entry
        assert isinstance(trace, ToolCallTrace)
        match logged.event:
            case ToolCallArgumentsFinished(_, arguments_json):
                trace = replace(trace, call=replace(trace.call, arguments_json=arguments_json))
                asking = self._iterations.get(trace.iteration)
                if asking is not None:
                    asking.parts[:] = [
                        Part(call_id, trace.call) if part.part_id == call_id else part for part in asking.parts
                    ]
            case ToolCallExecuting() as executing:
                trace = replace(
                    trace,
                    execute_time_ns=logged.time_ns,
                    attempt_count=executing.attempt,
                    span_id=executing.span_id,
                    child_run_id=executing.child_run_id,
                )
            case ToolCallFinished() as finished:
                trace = replace(
                    trace, result=finished.result, status=finished.result.status, duration_ns=finished.duration_ns
                )
                self._close(opened, logged)
            case _:
                pass
        opened.entry = replace(opened.entry, entry=trace, last_sequence=logged.sequence)

    def trace(self) -> RunTrace:
        """The trace so far. An iteration that is still open shows the parts finished so far."""
        entries = []
        for opened in self._entries:
            entry = opened.entry
            if isinstance(entry.entry, IterationTrace) and entry.end_time_ns == 0 and opened.parts:
                entry = replace(entry, entry=replace(entry.entry, parts=tuple(opened.parts)))
            entries.append(entry)
        return RunTrace(tuple(entries), self._through)


def resolved(asked: Approval, answer: ApprovalResolved, time_ns: int) -> Approval:
    """The question with its answer."""
    state = ApprovalState.EXPIRED if answer.resolved_by == BY_TIMEOUT else ApprovalState.RESOLVED
    return replace(
        asked, state=state, decision=answer.decision, resolved_by=answer.resolved_by, resolve_time_ns=time_ns
    )


def _sum(a: Cost | None, b: Cost | None) -> Cost | None:
    return sum_cost(item for item in (a, b) if item is not None)


def trace_of(events: Iterable[LoggedEvent]) -> RunTrace:
    """The trace of a stored log."""
    fold = TraceFold()
    for logged in events:
        fold.add(logged)
    return fold.trace()


TRACE_BYTES = 2 << 20
"""A trace travels in one message with the run's end; gRPC clients take 4 MiB unless they are told otherwise."""
EVENT_BYTES = 7 << 19
"""What contents of one event may have together, with room for the rest of the message."""
_CUTS = (32 << 10, 8 << 10, 2 << 10, 512, 64, 0)


def bounded(trace: RunTrace, max_bytes: int = TRACE_BYTES) -> RunTrace:
    """The same steps, with long contents cut as far as it takes to fit; the log itself keeps them whole.

    A tool result that was cut has ``original_size_bytes``. Sizes are of UTF-8 text and of bytes; names, ids and times
    are not counted.
    """
    for longest in _CUTS:
        if sum(map(_size, trace.entries)) <= max_bytes:
            break
        trace = replace(trace, entries=tuple(_cut_entry(entry, longest) for entry in trace.entries))
    return trace


def bounded_beside(trace: RunTrace, message: Message | None, structured_json: str | None = None) -> RunTrace:
    """The trace as it travels in one event with the run's message and structured output."""
    taken = 0 if message is None else sum(_content_size(part.content) for part in message.parts)
    return bounded(trace, max(0, min(TRACE_BYTES, EVENT_BYTES - taken - len((structured_json or "").encode()))))


def _size(entry: TraceEntry) -> int:
    match entry.entry:
        case IterationTrace(parts=parts):
            return sum(_content_size(part.content) for part in parts)
        case ToolCallTrace(call=call, result=result):
            return len(call.arguments_json.encode()) + (0 if result is None else _content_size(result))
        case Notice(message=text):
            return len(text.encode())
        case Message(parts=parts):
            return sum(_content_size(part.content) for part in parts)
        case Approval(call=call):
            return len(call.arguments_json.encode())
        case WaitTrace() | HistoryChangeTrace() | Attachment():
            return 0


def _content_size(content: Content) -> int:
    match content:
        case Text(text) | Data(text):
            return len(text.encode())
        case Reasoning(text, signature):
            return len(text.encode()) + len(signature)
        case ToolCall(arguments_json=arguments):
            return len(arguments.encode())
        case ToolResult(content=parts, structured_json=structured):
            return sum(_content_size(part.content) for part in parts) + len((structured or "").encode())
        case Blob(data=data):
            return len(data)
        case OpaqueBlock(value_json=value):
            return len(value.encode())
        case _:
            return 0


def _cut_entry(entry: TraceEntry, longest: int) -> TraceEntry:
    match entry.entry:
        case IterationTrace() as iteration:
            parts = tuple(replace(part, content=_cut(part.content, longest)) for part in iteration.parts)
            return replace(entry, entry=replace(iteration, parts=parts))
        case ToolCallTrace() as call:
            result = None if call.result is None else _cut_result(call.result, longest)
            arguments = _cut_text(call.call.arguments_json, longest)
            return replace(entry, entry=replace(call, call=replace(call.call, arguments_json=arguments), result=result))
        case Message() as message:
            parts = tuple(replace(part, content=_cut(part.content, longest)) for part in message.parts)
            return replace(entry, entry=replace(message, parts=parts))
        case Approval() as approval:
            arguments = _cut_text(approval.call.arguments_json, longest)
            return replace(entry, entry=replace(approval, call=replace(approval.call, arguments_json=arguments)))
        case Notice() | WaitTrace() | HistoryChangeTrace() | Attachment():
            return entry


def _cut(content: Content, longest: int) -> Content:
    match content:
        case Text(text):
            return Text(_cut_text(text, longest))
        case Reasoning() as reasoning:
            signature = reasoning.signature if len(reasoning.signature) <= longest else b""
            return replace(reasoning, text=_cut_text(reasoning.text, longest), signature=signature)
        case ToolCall() as call:
            return replace(call, arguments_json=_cut_text(call.arguments_json, longest))
        case ToolResult() as result:
            return _cut_result(result, longest)
        case Data(text) if len(text.encode()) > longest:
            return Text(_cut_text(text, longest))  # cut JSON is none
        case Blob(data=data) as blob if len(data) > longest:
            return replace(blob, data=b"")
        case OpaqueBlock(value_json=value) as block if len(value.encode()) > longest:
            return replace(block, value_json="null")
        case _:
            return content


def _cut_result(result: ToolResult, longest: int) -> ToolResult:
    size = _content_size(result)
    if size <= longest:
        return result
    structured = result.structured_json
    return replace(
        result,
        content=tuple(replace(part, content=_cut(part.content, longest)) for part in result.content),
        structured_json=structured if structured is not None and len(structured.encode()) <= longest else None,
        original_size_bytes=result.original_size_bytes if result.original_size_bytes is not None else size,
    )


def _cut_text(text: str, longest: int) -> str:
    data = text.encode()
    if len(data) <= longest:
        return text
    return f"{data[:longest].decode(errors='ignore')} [{len(data) - longest} bytes left out of the trace]"
