"""A run as far as it has been seen: the fold that most callers want over the updates of ``follow``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwire.cursor import Update
    from turnwire.v1.event_pb2 import RunEvent, RunFinished, RunStarted, RunWaiting
    from turnwire.v1.message_pb2 import Message
    from turnwire.v1.outcome_pb2 import Outcome
    from turnwire.v1.usage_pb2 import Usage


class RunView:
    """Keeps the events of a run and answers the questions that callers ask of them.

    Memory grows with the run; code that only shows text as it comes needs no view, but must then handle
    ``Update.rewind_to`` itself.
    """

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def apply(self, update: Update) -> None:
        """Takes one update, in the order in which they come."""
        if update.rewind_to is not None:
            while self.events and self.events[-1].sequence > update.rewind_to:
                self.events.pop()
        self.events.extend(update.events)

    @property
    def started(self) -> RunStarted | None:
        """The first event, once it is there."""
        for event in self.events[:1]:
            if event.WhichOneof("event") == "run_started":
                return event.run_started
        return None

    @property
    def finished(self) -> RunFinished | None:
        """The last event, once it is there."""
        for event in self.events[-1:]:
            if event.WhichOneof("event") == "run_finished":
                return event.run_finished
        return None

    @property
    def run_id(self) -> str | None:
        """The run's id, once it is known."""
        return self.started.run_id if self.started else None

    @property
    def waiting(self) -> RunWaiting | None:
        """All that the run waits for from its caller, while it does."""
        settled: set[str] = set()
        told: list[RunWaiting] = []  # the newest first
        for event in reversed(self.events):
            match event.WhichOneof("event"):
                case "run_waiting":
                    told.append(event.run_waiting)
                    if not event.run_waiting.only_new:
                        return _together(told, settled)
                case "run_resumed" | "run_finished" if not told:
                    return None
                case "approval_resolved":
                    settled.add(event.approval_resolved.approval_id)
                case "tool_call_finished":
                    settled.add(event.tool_call_finished.result.call_id)
                case _:
                    pass
        return _together(told, settled)

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it goes on."""
        return self.finished.outcome if self.finished else None

    @property
    def usage(self) -> Usage | None:
        """Tokens of the whole run, once it has ended."""
        finished = self.finished
        return finished.usage if finished is not None and finished.HasField("usage") else None

    @property
    def message(self) -> Message | None:
        """The final message, when the run has ended with one."""
        finished = self.finished
        return finished.message if finished is not None and finished.HasField("message") else None

    @property
    def structured_output_json(self) -> str | None:
        """The JSON text that matches the output format, when one was asked for and the run has ended with it."""
        finished = self.finished
        return finished.structured_output_json if finished and finished.HasField("structured_output_json") else None

    @property
    def text(self) -> str:
        """The text of the answer: of the final message, or else of the newest iteration as far as it came."""
        if self.message is not None:
            return "".join(part.text for part in self.message.parts)
        newest = max((event.iteration for event in self.events), default=0)
        parts: dict[str, str] = {}
        for event in self.events:
            if event.iteration != newest:
                continue
            match event.WhichOneof("event"):
                case "text_delta":
                    delta = event.text_delta
                    parts[delta.part_id] = parts.get(delta.part_id, "") + delta.text
                case "part_finished" if event.part_finished.part.WhichOneof("content") == "text":
                    parts[event.part_finished.part.part_id] = event.part_finished.part.text
                case _:
                    pass
        return "".join(parts.values())


def _together(told: list[RunWaiting], settled: set[str]) -> RunWaiting | None:
    """What was told, the newest first, without what has been settled since."""
    if not told:
        return None
    whole = type(told[0])()
    if told[0].HasField("expire_time"):
        whole.expire_time.CopyFrom(told[0].expire_time)
    for waiting in reversed(told):
        whole.approvals.extend(item for item in waiting.approvals if item.approval_id not in settled)
        whole.client_tool_calls.extend(call for call in waiting.client_tool_calls if call.call_id not in settled)
    return whole
