"""The trace of a run as a fold over its log: whoever has the events has the trace. Pure.

Only milestones matter: a finished part carries its text, so a fold over a filtered or merged log gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from turnwired.domain.event import (
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    PartFinished,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.message import Part, ToolCall
from turnwired.domain.outcome import Notice
from turnwired.domain.trace import AttemptTrace, IterationTrace, RunTrace, ToolCallTrace, TraceEntry
from turnwired.domain.usage import Cost, Usage, sum_cost, sum_usage
from turnwired.turn.history import unknown_tool


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
            case Notice():
                self._close(self._begin(logged, event), logged)
            case _:
                pass

    def _begin(self, logged: LoggedEvent, entry: IterationTrace | ToolCallTrace | Notice) -> _Open:
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
                opened.parts.append(part)
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


def _sum(a: Cost | None, b: Cost | None) -> Cost | None:
    return sum_cost(item for item in (a, b) if item is not None)


def trace_of(events: Iterable[LoggedEvent]) -> RunTrace:
    """The trace of a stored log."""
    fold = TraceFold()
    for logged in events:
        fold.add(logged)
    return fold.trace()
