"""One model answer as it is put together: items of the wire in, delta and part events out.

Tolerates what wires in practice send: repeated openings and closings, names that come late, fragments for a call that
was never opened, blank text before anything else. Knows nothing of tools, retries or outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from turnwired.domain.event import (
    Event,
    PartFinished,
    ReasoningDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallArgumentsFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    RefusalChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import OpaqueBlock, Part, Reasoning, Text, ToolResult
from turnwired.domain.outcome import Notice
from turnwired.domain.tool import ToolRef
from turnwired.domain.usage import Usage
from turnwired.turn.ids import Ids


class CallState(Enum):
    """Where a tool call stands. It only ever moves down this list, and SETTLED is entered once."""

    STREAMED = auto()
    RESOLVING = auto()
    READY = auto()
    EXECUTING = auto()
    SETTLED = auto()


class Call:
    """One tool call, from its first byte to its result.

    ``complete``: the arguments ended well; ``arguments`` is empty before. ``damaged``: fragments were lost or cannot be
    told apart, so that it must not run. ``call_id`` is empty until the call is announced, which takes a name.
    """

    __slots__ = (
        "arguments",
        "call_id",
        "closed",
        "complete",
        "damaged",
        "fragments",
        "name",
        "provider_call_id",
        "repairs",
        "result",
        "sent",
        "state",
        "tool",
    )

    def __init__(self, provider_call_id: str) -> None:
        self.call_id = ""
        self.provider_call_id = provider_call_id
        self.name = ""
        self.tool: ToolRef | None = None
        self.fragments: list[str] = []
        self.sent = 0
        self.closed = False
        self.complete = False
        self.damaged = False
        self.arguments = ""
        self.state = CallState.STREAMED
        self.result: ToolResult | None = None
        self.repairs: tuple[str, ...] = ()


class _Kind(Enum):
    TEXT = auto()
    REASONING = auto()
    REFUSAL = auto()


class _OpenPart:
    """A part of text while it grows. It exists for readers only once it is ``visible``."""

    __slots__ = ("finished", "fragments", "index", "kind", "part_id", "sent", "signature", "visible")

    def __init__(self, kind: _Kind, index: int) -> None:
        self.kind = kind
        self.index = index
        self.part_id = ""
        self.fragments: list[str] = []
        self.sent = 0
        self.visible = False
        self.signature = b""
        self.finished: Part | None = None


class Answer:
    """The answer of one attempt. ``take`` batches of items, then ``finish`` once."""

    def __init__(self, ids: Ids, tools: Mapping[str, ToolRef]) -> None:
        self.calls: list[Call] = []
        self.usage: Usage | None = None
        self.stopped: GenerationStopped | None = None
        self._ids = ids
        self._tools = tools
        self._entries: list[_OpenPart | Part | Call] = []
        self._by_index: dict[int, Call] = {}
        self._part: _OpenPart | None = None
        self._dirty: _OpenPart | Call | None = None
        self._events: list[Event] = []
        self._warned = False

    @property
    def produced(self) -> bool:
        """Whether readers have seen anything of this attempt: text, reasoning, a call or a native item."""
        return any(
            not isinstance(entry, _OpenPart) or entry.sent > 0 or entry.finished is not None for entry in self._entries
        )

    @property
    def has_text(self) -> bool:
        """Whether there is text that is not blank and no refusal."""
        return any(isinstance(entry, _OpenPart) and entry.kind is _Kind.TEXT for entry in self._entries)

    @property
    def refused(self) -> bool:
        """Whether the model said in so many words that it refuses."""
        return any(isinstance(entry, _OpenPart) and entry.kind is _Kind.REFUSAL for entry in self._entries)

    def contents(self) -> list[Part | Call]:
        """Finished parts and announced calls, in the order in which they began."""
        contents: list[Part | Call] = []
        for entry in self._entries:
            if not isinstance(entry, _OpenPart):
                contents.append(entry)
            elif entry.finished is not None:
                contents.append(entry.finished)
        return contents

    def take(self, items: Sequence[ModelItem]) -> list[Event]:
        """Events for one batch of items. Neighbouring chunks of the same part or call become one delta."""
        events = self._events = []
        for item in items:
            match item:
                case TextChunk():
                    self._grow(_Kind.TEXT, item.index, item.text)
                case ToolArgumentsChunk():
                    self._grow_arguments(item)
                case ReasoningChunk():
                    self._grow(_Kind.REASONING, item.index, item.text, item.signature)
                case RefusalChunk():
                    self._grow(_Kind.REFUSAL, item.index, item.text)
                case ToolCallOpened():
                    self._open_call(item)
                case ToolCallClosed():
                    self._close_call(item.index)
                case NativeItem():
                    self._end_part()
                    self._add_finished(Part(self._ids.part(), OpaqueBlock(item.kind, item.json)))
                case UsageReported():
                    self.usage = item.usage  # cumulative: the last one wins as a whole
                case GenerationStopped():
                    self._stop(item)
                case ResponseIdentified():
                    pass
        self._flush()
        return events

    def finish(self, *, complete: bool) -> list[Event]:
        """Events that end the open part and, when the answer is ``complete``, the arguments of every call."""
        events = self._events = []
        self._end_part()
        if complete and any(not call.name for call in self._by_index.values()):
            self._warn("The model opened a tool call and never named the tool; the call was left out.")
        for call in self.calls:
            if complete and not call.complete:
                self._complete(call)
        return events

    def _stop(self, item: GenerationStopped) -> None:
        """Some providers say it twice: the first word counts, unless it was not a known one."""
        if self.stopped is None or self.stopped.reason is FinishReason.OTHER:
            self.stopped = item

    # --- parts of text ----------------------------------------------------------------------------------------------

    def _grow(self, kind: _Kind, index: int, text: str, signature: bytes = b"") -> None:
        if not text and not signature:
            return
        part = self._part
        if part is None or part.index != index or part.kind is not kind:
            self._end_part()
            part = self._part = _OpenPart(kind, index)
        if self._dirty is not part:
            self._flush()
            self._dirty = part
        if text:
            part.fragments.append(text)
        if signature:
            part.signature = signature

    def _flush(self) -> None:
        """Emit what was gathered for one part or call since the delta before."""
        dirty = self._dirty
        if dirty is None:
            return
        self._dirty = None
        fragments = dirty.fragments
        fresh = fragments[-1] if len(fragments) == dirty.sent + 1 else "".join(fragments[dirty.sent :])
        if isinstance(dirty, Call):
            dirty.sent = len(fragments)
            if fresh:
                self._events.append(ToolCallArgumentsDelta(dirty.call_id, fresh))
            return
        if not dirty.visible:
            # Blank text is held back until more follows: alone it is no output, and providers refuse it in history.
            if not dirty.signature and not fresh.strip():
                return
            dirty.visible = True
            dirty.part_id = self._ids.part()
            self._entries.append(dirty)
        dirty.sent = len(fragments)
        if fresh:
            delta = ReasoningDelta if dirty.kind is _Kind.REASONING else TextDelta
            self._events.append(delta(dirty.part_id, fresh))

    def _end_part(self) -> None:
        self._flush()
        part = self._part
        if part is None:
            return
        self._part = None
        if not part.visible:
            return
        text = "".join(part.fragments)
        content = Reasoning(text, part.signature) if part.kind is _Kind.REASONING else Text(text)
        part.finished = Part(part.part_id, content)
        part.fragments = []
        self._events.append(PartFinished(part.finished))

    def _add_finished(self, part: Part) -> None:
        self._entries.append(part)
        self._events.append(PartFinished(part))

    # --- tool calls -------------------------------------------------------------------------------------------------

    def _open_call(self, item: ToolCallOpened) -> None:
        call = self._by_index.get(item.index)
        if call is not None:
            same_id = item.provider_call_id in {"", call.provider_call_id}
            if not item.name or (call.name == item.name and same_id):
                return  # the same opening again
            if not call.name:
                self._announce(call, item.name)
                return
        call = Call(item.provider_call_id)
        self._by_index[item.index] = call
        if item.name:
            self._announce(call, item.name)

    def _announce(self, call: Call, name: str) -> None:
        self._end_part()
        call.call_id = self._ids.call()
        call.name = name
        call.tool = self._tools.get(name)
        self.calls.append(call)
        self._entries.append(call)
        self._events.append(ToolCallStarted(call.call_id, call.tool, "" if call.tool is not None else name))
        if call.fragments:
            self._dirty = call
        if call.closed:
            self._complete(call)

    def _grow_arguments(self, item: ToolArgumentsChunk) -> None:
        if not item.fragment:
            return
        call = self._by_index.get(item.index)
        if call is None:
            call = self._owner_of_stray()
        elif call.closed:
            self._warn("A fragment of tool arguments came after their end and was left out.")
            return
        if call is None:
            return
        call.fragments.append(item.fragment)
        if self._dirty is not call and call.name:
            self._flush()
            self._dirty = call

    def _owner_of_stray(self) -> Call | None:
        """With exactly one open call a stray fragment can only be its; with more, none of them can be trusted."""
        unfinished = [call for call in self._by_index.values() if not call.closed]
        self._warn("A fragment of tool arguments came for a call that was never opened.")
        if len(unfinished) == 1:
            return unfinished[0]
        for call in unfinished:
            call.damaged = True
        return None

    def _close_call(self, index: int) -> None:
        call = self._by_index.get(index)
        if call is None or call.closed:
            return
        call.closed = True
        if call.name:
            self._complete(call)

    def _complete(self, call: Call) -> None:
        self._flush()
        text = "".join(call.fragments)
        call.arguments = text if text.strip() else "{}"  # no arguments are the empty object
        call.closed = call.complete = True
        call.fragments = []
        self._events.append(ToolCallArgumentsFinished(call.call_id, call.arguments))

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            self._flush()
            self._events.append(Notice(Reason.PROVIDER_PROTOCOL_ERROR, message))
