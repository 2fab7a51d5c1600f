"""One model answer as it is put together: items of the wire in, delta and part events out.

Tolerates what wires in practice send: repeated openings and closings, names that come late, fragments for a call that
was never opened, blank text before anything else. Knows nothing of tools, retries or outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    Irregularity,
    IrregularityFound,
    MediaProduced,
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
from turnwired.domain.message import Blob, OpaqueBlock, Part, Reasoning, Text
from turnwired.domain.outcome import Notice
from turnwired.domain.tool import ToolRef
from turnwired.domain.usage import Usage
from turnwired.turn.ids import Ids
from turnwired.turn.pieces import Call, Kind, OpenPart, Piece, WholePart, attached_id

MAX_FILE_BYTES = 3 << 20
"""Bytes of all files in one answer: they travel together in the run's last event, and an event must fit the 4 MiB that
gRPC clients take by default."""

IRREGULARITY = "irregularity"
"""Key in the metadata of a notice: in what the provider departed from its protocol (domain.generation.Irregularity)."""


class Answer:
    """The answer of one attempt. ``take`` batches of items, then ``finish`` once.

    ``tools`` are those that it may name. ``provider`` is written on what only that provider understands.
    """

    def __init__(self, ids: Ids, tools: Mapping[str, ToolRef], provider: str = "") -> None:
        self.calls: list[Call] = []
        self.usage: Usage | None = None
        self.stopped: GenerationStopped | None = None
        self._ids = ids
        self.tools = tools
        self._provider = provider
        self._entries: list[Piece] = []
        self._by_index: dict[int, Call] = {}
        self._newest: dict[int, Piece] = {}  # at each position, whatever it is
        self._file_bytes = 0
        self._file_refused = False
        self._part: OpenPart | None = None
        self._dirty: OpenPart | Call | None = None
        self._events: list[Event] = []
        self._warned: set[Irregularity | None] = set()

    @property
    def produced(self) -> bool:
        """Whether readers have seen anything of this attempt: text, reasoning, a call, a file or a native item."""
        return any(
            not isinstance(entry, OpenPart) or entry.sent > 0 or entry.finished is not None for entry in self._entries
        )

    @property
    def has_output(self) -> bool:
        """Whether there is something to show that is no refusal: text that is not blank, or a file."""
        return any(
            entry.kind is Kind.TEXT
            if isinstance(entry, OpenPart)
            else isinstance(entry, WholePart) and isinstance(entry.part.content, Blob)
            for entry in self._entries
        )

    @property
    def text(self) -> str:
        """The text of all finished parts that are neither reasoning nor a refusal."""
        parts = (entry.finished for entry in self._entries if isinstance(entry, OpenPart) and entry.kind is Kind.TEXT)
        return "".join(part.content.text for part in parts if part is not None and isinstance(part.content, Text))

    @property
    def refused(self) -> bool:
        """Whether the model said in so many words that it refuses."""
        return any(isinstance(entry, OpenPart) and entry.kind is Kind.REFUSAL for entry in self._entries)

    @property
    def size(self) -> int:
        """Bytes of UTF-8 that the model wrote: text, reasoning and arguments."""
        size = 0
        for entry in self._entries:
            if isinstance(entry, WholePart):
                continue
            written = [*entry.fragments, entry.arguments if isinstance(entry, Call) else ""]
            if isinstance(entry, OpenPart) and entry.finished is not None:
                content = entry.finished.content
                written.append(content.text if isinstance(content, Text | Reasoning) else "")
            size += sum(len(text.encode()) for text in written)
        return size

    def contents(self) -> list[Part | Call]:
        """Finished parts and announced calls, in the order in which they began; what is attached, behind its owner."""
        contents: list[Part | Call] = []
        for entry in self._entries:
            if isinstance(entry, Call):
                contents.append(entry)
            elif isinstance(entry, WholePart):
                contents.append(entry.part)
            elif entry.finished is not None:
                contents.append(entry.finished)
        return contents

    def take(self, items: Sequence[ModelItem]) -> list[Event]:
        """Events for one batch of items. Neighbouring chunks of the same part or call become one delta."""
        events = self._events = []
        for item in items:
            match item:
                case TextChunk():
                    self._grow(Kind.TEXT, item.index, item.text)
                case ToolArgumentsChunk():
                    self._grow_arguments(item)
                case ReasoningChunk():
                    self._grow(Kind.REASONING, item.index, item.text, item.signature, redacted=item.redacted)
                case RefusalChunk():
                    self._grow(Kind.REFUSAL, item.index, item.text)
                case ToolCallOpened():
                    self._open_call(item)
                case UsageReported(usage):
                    if usage.input_tokens is not None or usage.output_tokens is not None:
                        self.usage = usage  # cumulative: the last one wins as a whole; one without counts is none
                case _:
                    self._take_rare(item)
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

    def _take_rare(
        self,
        item: ToolCallClosed | NativeItem | MediaProduced | GenerationStopped | ResponseIdentified | IrregularityFound,
    ) -> None:
        match item:
            case IrregularityFound(kind, message, damaged):
                self._warn(message, kind)
                for index in damaged:
                    self._by_index[index].damaged = True
            case ToolCallClosed():
                self._close_call(item.index)
            case NativeItem():
                self._add_native(item)
            case MediaProduced():
                self._add_file(item)
            case GenerationStopped():
                self._stop(item)
            case ResponseIdentified():
                pass

    def _stop(self, item: GenerationStopped) -> None:
        """Some providers say it twice: the first word counts, unless it was not a known one."""
        if self.stopped is None or self.stopped.reason is FinishReason.OTHER:
            self.stopped = item

    # --- parts of text ----------------------------------------------------------------------------------------------

    def _grow(self, kind: Kind, index: int, text: str, signature: bytes = b"", *, redacted: bool = False) -> None:
        if not text and not signature:
            return
        part = self._part
        if part is None or part.index != index or part.kind is not kind:
            self._end_part()
            part = self._part = self._newest[index] = OpenPart(kind, index)
        if self._dirty is not part:
            self._flush()
            self._dirty = part
        if text:
            part.fragments.append(text)
        if signature:
            part.signature = signature
        if redacted:
            part.redacted = True

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
            dirty.id = self._ids.part()
            self._entries.append(dirty)
        dirty.sent = len(fragments)
        if fresh:
            delta = ReasoningDelta if dirty.kind is Kind.REASONING else TextDelta
            self._events.append(delta(dirty.id, fresh))

    def _end_part(self) -> None:
        self._flush()
        part = self._part
        if part is None:
            return
        self._part = None
        if part.visible:
            part.finished = Part(part.id, self._content(part))
            part.fragments = []
            self._events.append(PartFinished(part.finished))
        for item in part.waiting:
            self._place(item, part if part.visible else None)

    def _content(self, part: OpenPart) -> Text | Reasoning:
        text = "".join(part.fragments)
        if part.kind is not Kind.REASONING:
            return Text(text)
        return Reasoning(text, part.signature, self._provider, part.redacted)

    # --- parts that come whole --------------------------------------------------------------------------------------

    def _add_native(self, item: NativeItem) -> None:
        """Behind the part or call that is at its position already, once that has an id; else as a part of its own."""
        owner = self._newest.get(item.index)
        if isinstance(owner, WholePart) or (owner is not None and owner.there):
            self._flush()
            self._place(item, owner)
        elif isinstance(owner, Call) or (owner is not None and owner is self._part):
            owner.waiting.append(item)
        else:
            self._end_part()
            self._place(item, None)

    def _place(self, item: NativeItem, owner: Piece | None) -> None:
        content = OpaqueBlock(item.kind, item.json, self._provider)
        if owner is None:
            self._add_whole(item.index, Part(self._ids.part(), content))
            return
        owner.attached += 1
        part = Part(attached_id(owner.id, owner.attached), content)
        self._entries.insert(self._place_of(owner) + owner.attached, WholePart(part))
        self._events.append(PartFinished(part))

    def _place_of(self, owner: Piece) -> int:
        """From the end: what is attached comes soon after its owner, and answers may have thousands of parts."""
        entries = self._entries
        return next(place for place in range(len(entries) - 1, -1, -1) if entries[place] is owner)

    def _add_file(self, item: MediaProduced) -> None:
        if not item.data:
            return
        self._end_part()
        if self._file_bytes + len(item.data) > MAX_FILE_BYTES:
            self._refuse_file(item)
            return
        self._file_bytes += len(item.data)
        self._add_whole(item.index, Part(self._ids.part(), Blob(item.media_type, item.data)))

    def _refuse_file(self, item: MediaProduced) -> None:
        if self._file_refused:
            return
        self._file_refused = True
        self._events.append(
            Notice(
                Reason.MESSAGE_TOO_LARGE,
                f"A file that the model made ({item.media_type[:64]}, {len(item.data)} bytes) was left out: the files "
                f"of one answer may have {MAX_FILE_BYTES} bytes together. Ask for smaller ones, or for fewer.",
            )
        )

    def _add_whole(self, index: int, part: Part) -> None:
        whole = self._newest[index] = WholePart(part)
        self._entries.append(whole)
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
        self._by_index[item.index] = self._newest[item.index] = call
        if item.name:
            self._announce(call, item.name)

    def _announce(self, call: Call, name: str) -> None:
        self._end_part()
        call.call_id = self._ids.call()
        call.name = name
        call.tool = self.tools.get(name)
        self.calls.append(call)
        self._entries.append(call)
        self._events.append(ToolCallStarted(call.call_id, call.tool, "" if call.tool is not None else name))
        for waiting in call.waiting:
            self._place(waiting, call)
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
        message = "A fragment of tool arguments came for a call that was never opened."
        self._warn(message, Irregularity.STRAY_INDEX)
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

    def _warn(self, message: str, kind: Irregularity | None = None) -> None:
        """Tell of a fault of the provider: of each kind once, of one without a kind only if it is the first."""
        if kind not in self._warned and (kind is not None or not self._warned):
            self._warned.add(kind)
            self._flush()
            told = {IRREGULARITY: kind.value} if kind is not None else {}
            self._events.append(Notice(Reason.PROVIDER_PROTOCOL_ERROR, message, told))
