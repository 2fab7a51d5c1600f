"""Books of what is durable, kept beside the store and written from the design alone: one for each run.

They take every row that reaches the store and assert what must hold of a log as it grows. They know no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.callerbook import CallerBook
from turnwire.v1 import event_pb2
from turnwired.codec.event import event_from_pb
from turnwired.codec.frame import Visibility, events_of
from turnwired.codec.run import decode_turn
from turnwired.domain.event import (
    AttachmentUpdated,
    Event,
    InputAppended,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Reason
from turnwired.domain.message import Text, ToolResult
from turnwired.domain.outcome import Notice
from turnwired.store.port import LogRow, NewRun, Settlement

STARTED, WRITTEN, EXECUTING, SETTLED = range(4)
"""Stations of a call, in their order; only the first and the last are always there."""
_LEVELS = {
    **dict.fromkeys(("run_started", "run_waiting", "run_finished"), Visibility.OUTCOME),
    **dict.fromkeys(("text_delta", "reasoning_delta", "tool_call_arguments_delta"), Visibility.DELTA),
    "tool_call_progressed": Visibility.DELTA,
}


def level_of(raw: event_pb2.RunEvent) -> Visibility:
    """Which streams an event is for, by the words of the contract's StreamDetail."""
    return _LEVELS.get(raw.WhichOneof("event") or "", Visibility.MILESTONE)


@dataclass
class Ledger:
    """What is durable of one run. ``life``: which process created it."""

    new: NewRun
    life: int
    rows: list[LogRow] = field(default_factory=list[LogRow])
    raw: list[event_pb2.RunEvent] = field(default_factory=list[event_pb2.RunEvent])
    events: list[LoggedEvent] = field(default_factory=list[LoggedEvent])
    stations: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    children: dict[str, str] = field(default_factory=dict[str, str])
    late: set[str] = field(default_factory=set[str])
    iterations: int = 0
    open_iteration: bool = False
    retry_due: bool = False
    waiting: bool = False
    resumed: bool = False
    people: CallerBook = field(default_factory=CallerBook)
    started: RunStarted | None = None
    settlement: Settlement | None = None
    finished: RunFinished | None = None

    @property
    def stated(self) -> str:
        """The words of its input, which no other run has."""
        (message,) = decode_turn(self.new.spec, self.new.caller).input
        (part,) = message.parts
        return part.content.text if isinstance(part.content, Text) else ""

    @property
    def last(self) -> int:
        """The newest durable sequence."""
        return self.events[-1].sequence if self.events else 0

    @property
    def settled(self) -> bool:
        """Whether its end is durable."""
        return self.finished is not None

    @property
    def calls(self) -> int:
        """Calls that were let through to a tool."""
        return sum(isinstance(item.event, ToolCallExecuting) for item in self.events)

    @property
    def tokens(self) -> int:
        """Spent by its model calls, as far as that is durable."""
        used = [e.event.usage for e in self.events if isinstance(e.event, IterationFinished | IterationRetryScheduled)]
        return sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in used)

    @property
    def _goes_on(self) -> bool:
        """Whether a tool runs that neither is with the caller nor waits for a person, as far as that is durable."""
        running = {call_id for call_id, station in self.stations.items() if station == EXECUTING}
        return bool(running - self.people.handed.keys() - self.people.asking)

    def executing(self, call_id: str) -> bool:
        """Whether it is durable that the call runs, and that nothing has come of it."""
        return self.stations.get(call_id) == EXECUTING

    def take(self, row: LogRow, settlement: Settlement | None) -> None:
        """A row has become durable."""
        assert row.row_no == len(self.rows) + 1
        assert not self.rows or row.epoch >= self.rows[-1].epoch, "the log goes back to an earlier owner"
        self.rows.append(row)
        for raw in events_of(row.body):
            logged = event_from_pb(raw)
            assert logged.sequence == self.last + 1, "the log has a gap or a repeat"
            assert not self.settled, "something follows the end of the run"
            self.raw.append(raw)
            self.events.append(logged)
            self._take(logged)
        assert (settlement is not None) == self.settled, "the run ends with its settlement, and with nothing else"
        self.settlement = settlement

    def _take(self, logged: LoggedEvent) -> None:
        event = logged.event
        self.people.take(event, goes_on=self._goes_on)
        if not isinstance(event, InputAppended | AttachmentUpdated | Notice):  # what comes meanwhile changes nothing
            self.retry_due = isinstance(event, IterationRetryScheduled)
        self.resumed = self.resumed or (
            self.waiting and len(self.rows) > 1 and self.rows[-1].epoch > self.rows[-2].epoch
        )
        if isinstance(event, RunWaiting | RunResumed | RunFinished):
            self.waiting = isinstance(event, RunWaiting)
        match event:
            case RunStarted():
                assert logged.sequence == 1, "a run begins once"
                assert event.run_id == self.new.run_id
                assert event.parent_run_id == self.new.parent_run_id, "a run forgets on whose behalf it is"
                self.started = event
            case IterationStarted():
                assert not self.open_iteration, "two model calls at once"
                assert self._all_settled, "a call is left behind"
                self.iterations += 1
                assert logged.iteration == self.iterations, "iterations are not counted one by one"
                self.open_iteration = True
            case IterationFinished():
                assert self.open_iteration, "an iteration ends that had not begun"
                self.open_iteration = False
            case Notice(reason=Reason.TOOL_RESULT_LATE):
                call_id = event.metadata["call_id"]
                assert call_id not in self.late, "a late end is told twice"
                self.late.add(call_id)
            case RunFinished():
                assert not self.open_iteration, "the run ends inside of an iteration"
                assert self._all_settled, "the run ends before its calls"
                assert event.tool_call_count == len(self.stations)
                assert event.iteration_count == self.iterations
                self.finished = event
            case _:
                self._take_call(event)

    @property
    def _all_settled(self) -> bool:
        return all(station == SETTLED for station in self.stations.values())

    def _take_call(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call_id):
                assert call_id not in self.stations, "a call begins twice"
                self.stations[call_id] = STARTED
            case ToolCallArgumentsFinished(call_id):
                assert self.stations[call_id] == STARTED
                self.stations[call_id] = WRITTEN
            case ToolCallExecuting(call_id, child_run_id=child):
                assert self.stations[call_id] == WRITTEN, "a call runs before its arguments are whole, or twice"
                assert not self.open_iteration, "a call runs while the model still speaks"
                self.stations[call_id] = EXECUTING
                if child is not None:
                    self.children[call_id] = child
            case ToolCallFinished(result):
                assert self.stations.get(result.call_id, SETTLED) != SETTLED, "a call settles twice, or never began"
                self.stations[result.call_id] = SETTLED
                self.results[result.call_id] = result
            case _:
                pass
