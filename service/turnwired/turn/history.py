"""The messages that a run adds to its conversation, well-formed whatever happened: each call with exactly one result.

Used by the machine while a run lives and by recovery when it died, so that both leave the same history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from turnwired.domain.message import (
    AttachmentRef,
    Blob,
    Data,
    Message,
    OpaqueBlock,
    Part,
    ResourceLink,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from turnwired.domain.text import parse_json
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.turn.aftermath import unread
from turnwired.turn.ids import Ids

VISIBLE = (Text, Blob, ResourceLink, Data, AttachmentRef)
"""What a person is shown as the answer; reasoning, calls and native items are not."""


def unknown_tool(requested_name: str) -> ToolRef:
    """The reference of a tool that no source has: the name the model used, and nothing else."""
    return ToolRef(requested_name, "", ToolSource.UNSPECIFIED)


def call_part(call_id: str, tool: ToolRef | None, requested_name: str, arguments_json: str) -> Part:
    """A tool call as a part of the assistant's turn; its part id is its call id, as in the deltas."""
    ref = tool if tool is not None else unknown_tool(requested_name)
    return Part(call_id, ToolCall(call_id, ref, replayable(arguments_json)))


def replayable(arguments_json: str) -> str:
    """The arguments if they are a JSON object, else ``{}``: strict providers refuse a history with anything else.

    The model's own words stay in the log.
    """
    try:
        value = parse_json(arguments_json)
    except (ValueError, RecursionError):
        return "{}"
    return arguments_json if isinstance(value, dict) else "{}"


def _without_calls(parts: Iterable[Part], kept: set[str]) -> list[Part]:
    """The parts without the other calls, and without the native items that belong to them and so stand behind them."""
    found: list[Part] = []
    leaving = False
    for part in parts:
        if isinstance(part.content, ToolCall):
            leaving = part.content.call_id not in kept
        elif not isinstance(part.content, OpaqueBlock):
            leaving = False
        if not leaving:
            found.append(part)
    return found


class Transcript:
    """What one run adds to its conversation: assistant turns, each followed by one message with its results.

    A turn without calls can be followed by a correction, in the words of a user. Input that the caller adds meanwhile
    is held until the next turn begins, so that it never stands between a call and its result, nor in a turn that the
    provider goes on with.
    """

    def __init__(self, run_id: str, ids: Ids) -> None:
        self._run_id = run_id
        self._ids = ids
        self._messages: list[Message] = []
        self._handed_out = 0
        self._turn: Message | None = None
        self._corrected: Message | None = None
        self._held: list[Message] = []
        self._paused = False

    @property
    def turn(self) -> Message | None:
        """The assistant's message of the iteration, as far as it is kept."""
        return self._turn

    @property
    def turn_is_shown(self) -> bool:
        """Whether the iteration has said something that can be shown."""
        return self._turn is not None and any(isinstance(part.content, VISIBLE) for part in self._turn.parts)

    def begin_turn(self) -> None:
        """A new iteration begins; it has said nothing yet. What was held stands before it."""
        if not self._paused:
            self._put_held()
        self._turn = None
        self._paused = False

    def add_turn(self, parts: Sequence[Part], *, cut: bool, paused: bool = False) -> None:
        """Add the assistant's turn, unless nothing of it is worth keeping.

        Of a turn that was ``cut`` only text, files and calls stay: providers refuse unfinished reasoning and native
        items that lack what should have followed. Cut calls without all of their arguments the caller leaves out.
        A turn without anything to show or to answer stays only when it was ``paused`` and must go back as it is.
        """
        kept = tuple(part for part in parts if not cut or isinstance(part.content, Text | Blob | ToolCall))
        if not any(isinstance(part.content, (*VISIBLE, ToolCall)) for part in kept) and not (paused and kept):
            return
        self._turn = Message(Role.ASSISTANT, kept, self._ids.message(), self._run_id)
        self._paused = paused and not any(isinstance(part.content, ToolCall) for part in kept)
        self._messages.append(self._turn)

    def add_results(self, results: Iterable[ToolResult]) -> None:
        """Add the results of the turn's calls, in the order of the calls; each of them has one."""
        calls = [part.content for part in self._turn.parts if isinstance(part.content, ToolCall)] if self._turn else []
        if not calls:
            return
        by_id = {result.call_id: result for result in results}
        parts = tuple(Part(self._ids.part(), by_id[call.call_id]) for call in calls)
        self._messages.append(Message(Role.TOOL, parts, self._ids.message(), self._run_id))

    def leave_out_unread(self) -> None:
        """Take the errors of the last turn, with their calls, out of what the session keeps: no model has read them.

        For the end of a run by a failing tool. Calls that may have taken effect stay, each with its result; without
        any, what was said stays. The log keeps everything.
        """
        turn = self._turn
        if turn is None or len(self._messages) < 2 or self._messages[-2] is not turn:
            return
        answers = self._messages[-1]
        kept = tuple(p for p in answers.parts if isinstance(p.content, ToolResult) and not unread(p.content))
        if len(kept) == len(answers.parts):
            return
        del self._messages[-2:]
        ids = {part.content.call_id for part in kept if isinstance(part.content, ToolResult)}
        parts = _without_calls(turn.parts, ids) if ids else [p for p in turn.parts if isinstance(p.content, VISIBLE)]
        self._turn = replace(turn, parts=tuple(parts)) if parts else None
        if self._turn is not None:
            self._messages.append(self._turn)
        if kept:
            self._messages.append(replace(answers, parts=kept))

    @property
    def holds(self) -> bool:
        """Whether there is input that the model has not seen."""
        return bool(self._held)

    def hold(self, messages: Iterable[Message]) -> None:
        """Keep input of the caller for the next turn."""
        self._held += messages

    def end(self) -> None:
        """There is no further turn: input that the model has not seen stands behind the last."""
        self._put_held()

    def _put_held(self) -> None:
        if not self._held:
            return
        turn = self._turn
        if turn is not None and not any(isinstance(part.content, ToolCall) for part in turn.parts):
            self._corrected = turn  # it was an answer: unless the model says more, it is shown
        self._messages += self._held
        self._held = []

    def add_correction(self, text: str) -> None:
        """Tell the model, as a user would, what is wrong or missing. Unless it says more, the turn before is shown."""
        self._put_held()
        self._corrected = self._turn
        part = Part(self._ids.part(), Text(text))
        self._messages.append(Message(Role.USER, (part,), self._ids.message(), self._run_id))

    def fresh(self) -> tuple[Message, ...]:
        """The messages added since this was asked before: what the next request has more than the one before."""
        fresh = tuple(self._messages[self._handed_out :])
        self._handed_out = len(self._messages)
        return fresh

    def messages(self) -> tuple[Message, ...]:
        """All messages of the run."""
        return tuple(self._messages)

    def shown(self) -> Message | None:
        """What of the last turn that said anything is to be shown as the run's message; None when there is nothing."""
        for turn in (self._turn, self._corrected):
            parts = () if turn is None else tuple(part for part in turn.parts if isinstance(part.content, VISIBLE))
            if turn is not None and parts:
                return Message(Role.ASSISTANT, parts, turn.message_id, self._run_id)
        return None
