"""What a run told, as text that a test can compare: an ``on_event`` that keeps events and shows differences as a diff.

Ids, times, durations and token counts differ from run to run and are left out; calls are numbered as they begin. Text
that came in pieces is one line. Knows the events of the domain and nothing of how they came.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from turnwired.domain.event import (
    Event,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    PartFinished,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallStarted,
    ToolsChanged,
)
from turnwired.domain.failure import Failure
from turnwired.domain.message import Reasoning, Text, ToolCall
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import Notice

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class EventCollector:
    """Keeps what it is called with. Pass it to ``run_turn(on_event=...)``, or ``add`` events of any other source.

    A rewind drops what it takes back, as a reader must.
    """

    events: list[LoggedEvent] = field(default_factory=list[LoggedEvent])
    _told: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)

    def __call__(self, item: object) -> None:
        """Keep an event, or go back to where a rewind says."""
        if isinstance(item, LoggedEvent):
            self.add(item)
        elif isinstance(sequence := getattr(item, "sequence", None), int):
            self.events = [event for event in self.events if event.sequence <= sequence]
        else:
            raise TypeError(f"an event or a rewind is kept, not {type(item).__name__}")

    def add(self, event: LoggedEvent) -> None:
        """Keep one event."""
        self.events.append(event)
        self._told.set()

    async def until(self, line: str) -> None:
        """Return when the run has told this line, at once if it has already. Bound it: a run may never tell it."""
        while line not in self.lines():
            self._told.clear()
            await self._told.wait()

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [item.event for item in self.events if isinstance(item.event, kind)]

    def lines(self) -> list[str]:
        """One line for each step of the run."""
        return lines_of(self.events)

    def expect(self, expected: str | Sequence[str]) -> None:
        """The run told exactly these lines. Raises AssertionError with the difference as text."""
        wanted, seen = _lines(expected), self.lines()
        if wanted != seen:
            raise AssertionError("the run told something else than was expected:\n" + _difference(wanted, seen))

    def expect_in_order(self, expected: str | Sequence[str]) -> None:
        """The run told these lines in this order, others between them or not. Raises AssertionError."""
        seen = self.lines()
        left = iter(seen)
        for line in _lines(expected):
            if line not in left:
                told = "\n".join(f"  {item}" for item in seen)
                raise AssertionError(f"the run did not tell, at its place: {line}\nit told:\n{told}")


def lines_of(events: Sequence[LoggedEvent]) -> list[str]:
    """The events as lines; pieces of one text are joined."""
    numbers: dict[str, int] = {}
    lines: list[str] = []
    joined: tuple[str, str] | None = None  # part and text so far of the line that is open
    for logged in events:
        event = logged.event
        if isinstance(event, (TextDelta, ReasoningDelta)):
            word = "text" if isinstance(event, TextDelta) else "reasoning"
            if joined is not None and joined[0] == event.part_id:
                joined = event.part_id, joined[1] + event.text
                lines[-1] = f"{word}: {joined[1]!r}"
            else:
                joined = event.part_id, event.text
                lines.append(f"{word}: {event.text!r}")
            continue
        line = _line(event, logged.iteration, numbers)
        if line:
            joined = None
            lines.append(line)
    return lines


def _line(event: Event, iteration: int, numbers: dict[str, int]) -> str:
    """One event; empty for what another line says already."""
    match event:
        case RunStarted():
            return f"run started: {event.agent_id} with {event.model.provider}/{event.model.model}"
        case IterationStarted():
            kind = "" if event.kind is IterationKind.STEP else f": {event.kind.value}"
            return f"iteration {iteration} started{kind}"
        case IterationFinished():
            return f"iteration {iteration} finished: {event.finish_reason.value}{_why(event.failure)}"
        case IterationRetryScheduled():
            return f"attempt {event.attempt} failed{_why(event.failure)}, tried again"
        case Notice():
            return f"notice: {event.reason.value}"
        case ToolsChanged():
            signed = [*(f"+{it}" for it in event.added), *(f"-{it}" for it in event.removed)]
            return f"tools changed: {' '.join([*signed, *(f'~{it}' for it in event.updated)])}"
        case RunFinished():
            outcome = event.outcome
            limit = f", {outcome.limit_trip.policy_path}" if outcome.limit_trip is not None else ""
            partial = ", partial" if outcome.partial else ""
            return f"run finished: {outcome.kind.value}{_why(outcome.failure)}{limit}{partial}"
        case PartFinished():
            content = event.part.content
            told = isinstance(content, (Text, Reasoning, ToolCall))
            return "" if told else f"part: {type(content).__name__}"
        case _:
            return _call_line(event, numbers)


def _call_line(event: Event, numbers: dict[str, int]) -> str:
    match event:
        case ToolCallStarted():
            number = numbers.setdefault(event.call_id, len(numbers) + 1)
            name = event.tool.routed_name if event.tool is not None else f"{event.requested_name} (no such tool)"
            return f"call {number} started: {name}"
        case ToolCallArgumentsDelta():
            return ""
        case ToolCallArgumentsFinished():
            return f"call {numbers.get(event.call_id)} arguments: {event.arguments_json}"
        case ToolCallExecuting():
            again = f" again, attempt {event.attempt}" if event.attempt > 1 else ""
            return f"call {numbers.get(event.call_id)} executing{again}"
        case ToolCallProgressed():
            total = "" if event.total is None else f" of {event.total:g}"
            return f"call {numbers.get(event.call_id)} progress: {event.progress:g}{total} {event.message}".rstrip()
        case ToolCallFinished():
            result = event.result
            return f"call {numbers.get(result.call_id)} finished: {result.status.value}{_why(result.failure)}"
        case _:
            return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(event).__name__).lower()


def _why(failure: Failure | None) -> str:
    return "" if failure is None else f" ({failure.phase.value}/{failure.reason.value})"


def _lines(expected: str | Sequence[str]) -> list[str]:
    if not isinstance(expected, str):
        return list(expected)
    return [line for line in textwrap.dedent(expected).strip().splitlines() if line.strip()]


def _difference(wanted: Sequence[str], seen: Sequence[str]) -> str:
    """Every line of both: ``-`` was expected and not told, ``+`` was told and not expected."""
    return "\n".join(line for line in difflib.ndiff(list(wanted), list(seen)) if not line.startswith("?"))
