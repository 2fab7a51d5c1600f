"""The output items of a Responses answer: which item and which part of it an event means. Knows no event by name.

Items are found by ``output_index``: the ``item_id`` changes from event to event at some servers. Where there is no
index (llama.cpp sends none) the id has to do. What a server leaves out of its deltas (some send arguments or text only
when they are complete) is taken from the finished item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from turnwired.domain.generation import MediaProduced, NativeItem, ToolCallClosed, ToolCallOpened
from turnwired.providers.batch import BatchBuilder, PartKind
from turnwired.providers.errors import protocol_error
from turnwired.providers.openai_chat_fields import dumps
from turnwired.providers.openai_responses_fields import image_of, list_of, text_of

MAX_ITEMS = 4096
MAX_PARTS = 4096
MAX_HELD_CHARS = 4 * 1024 * 1024
"""Of the arguments of calls that have no name yet."""
ENVELOPE = "message"
"""Kind of the native item that keeps what a message has beside its content, its id and its phase, and where it ends."""
CITATIONS = "annotations"
"""Kind of the native item that keeps what a text refers to."""
REASONING = "reasoning"
CLIENT_ITEMS = frozenset({"computer_call", "local_shell_call", "shell_call", "apply_patch_call"})
"""Tools of the provider that the caller's machine executes; an item ``<kind>_output`` of the same call_id answers."""
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OURS = _CALLS | {"message"}


class Channel(Enum):
    """What of an item an event adds to."""

    TEXT = PartKind.TEXT
    REFUSAL = PartKind.REFUSAL
    SUMMARY = (PartKind.REASONING, "summary")
    REASONING = (PartKind.REASONING, "content")
    ARGUMENTS = PartKind.ARGUMENTS


_PART_KINDS: dict[Channel, PartKind] = {
    channel: channel.value[0] if isinstance(channel.value, tuple) else channel.value for channel in Channel
}
Place = tuple[Channel, int, int]
"""Channel, output_index, and the index of the part within the item."""


@dataclass(slots=True, eq=False)
class _Item:
    """One output item.

    ``type`` is empty until it is known. ``part``: of an opened call, else -1; ``last``: of the newest text, else -1.
    ``complete``: all of it came. ``argued``: arguments came. ``held``: arguments of a call that has no name yet.
    """

    type: str = ""
    call_id: str = ""
    name: str = ""
    part: int = -1
    last: int = -1
    done: bool = False
    complete: bool = False
    listed: bool = False
    argued: bool = False
    held: list[str] = field(default_factory=list[str])
    parts: dict[tuple[Channel, int], int] = field(default_factory=dict[tuple[Channel, int], int])


class ItemTracker:
    """Turns what events say of items into model items, and remembers only what it needs to find them again."""

    __slots__ = (
        *("_at", "_batch", "_calls", "_held", "_ids", "_items", "_kind", "_newest", "_number", "_open", "_part"),
        *("_parts", "_reasoned", "_waiting", "refused"),
    )

    def __init__(self, batch: BatchBuilder) -> None:
        self._batch = batch
        self._items: dict[int, _Item] = {}
        self._calls: list[_Item] = []
        self._ids: dict[str, int] = {}
        self._number = 0
        self._newest = -1
        self._parts = 0
        self._held = 0
        self._at: Place | None = None
        self._kind = PartKind.TEXT
        self._part = -1
        self._open: _Item | None = None
        self._reasoned = False
        self._waiting: set[str] = set()
        self.refused = False

    def __len__(self) -> int:
        return self._number

    @property
    def called(self) -> bool:
        """Whether the model called a function, or a tool of the provider that waits for the caller's answer."""
        return bool(self._calls or self._waiting)

    @property
    def silent(self) -> bool:
        """Whether the model reasons or the provider executes something, so that silence is no surprise."""
        return self._open is not None

    def position(self, item_id: str, *, begins: bool = False) -> int:
        """The place of an item whose events have no index: by its id, else the newest one if that is not finished."""
        known = self._ids.get(item_id)
        if known is not None:
            return known
        newest = self._items.get(self._newest)
        if newest is not None and not newest.done and not begins:
            return self._newest
        if item_id and len(self._ids) < MAX_ITEMS:
            self._ids[item_id] = self._number
        return self._number

    def grow(self, place: Place, text: str) -> None:
        """Take a delta."""
        if place != self._at and not self._find(place, text):
            return
        self._batch.grow(self._kind, self._part, text)

    def whole(self, place: Place, text: str) -> None:
        """Take a complete text: it says something new only where there were no deltas."""
        channel, index, sub = place
        item = self._item(index)
        known = item.argued if channel is Channel.ARGUMENTS else (channel, sub) in item.parts
        if text and not known:
            self.grow(place, text)

    def added(self, index: int, raw: dict[str, Any]) -> None:
        """An item begins."""
        item = self._items.get(index)
        if item is None or self._is_another(item, raw):
            item = self._new(index)
        self._identify(item, raw)
        self._open = None if item.type in _OURS else item

    def finished(self, index: int, raw: dict[str, Any], json: str) -> None:
        """An item is complete; ``json`` is its text as it came, empty when it is not valid JSON."""
        item = self._items.get(index)
        if item is None or self._is_another(item, raw):
            item = self._new(index)
        elif item.done:
            return  # said twice
        self._identify(item, raw)
        item.done = True
        item.complete = raw.get("status") != "incomplete"
        if self._open is item:
            self._open = None
        if item.type in _CALLS:
            field = "input" if item.type == "custom_tool_call" else "arguments"
            self.whole((Channel.ARGUMENTS, index, 0), words_of(raw.get(field)))
        elif item.type == "message":
            self._message(index, item, raw)
        else:
            if item.type == REASONING:
                self._reasoning(index, raw)
            self._native(item, raw, json)

    def close(self, *, ended: bool, whole: bool = False) -> None:
        """The answer is over. Calls whose name never came are reported too.

        ``ended``: the provider said so, and arguments that it called complete can be trusted. ``whole``: it finished
        the answer, so that those of which it said nothing can be trusted too.
        """
        for item in self._calls:
            if item.part < 0:
                self._announce(item)
        if ended:
            for item in self._calls:
                if item.complete if item.done else whole:
                    self._batch.add(ToolCallClosed(item.part))
        self._open = None

    def missing(self, output: list[Any]) -> list[int]:
        """Positions in the final ``output`` whose item never came whole.

        OpenAI ends only the last of several ``mcp_list_tools``, and others stream only a part of what they made. What
        no event told of is compared by number first: positions and ids are not to be trusted at every server.
        """
        calls = {item.call_id for item in self._calls if item.call_id}
        untold = len(output) > self._number
        found: list[int] = []
        for index, raw in enumerate(output):
            if not isinstance(raw, dict):
                continue
            item = self._items.get(index)
            if item is None:
                if untold and raw.get("call_id") not in calls:
                    found.append(index)
            elif not item.done and item.type == raw.get("type"):
                found.append(index)
        return found

    # --- items ------------------------------------------------------------------------------------------------------

    def _item(self, index: int) -> _Item:
        item = self._items.get(index)
        return self._new(index) if item is None else item

    def _new(self, index: int) -> _Item:
        if self._number >= MAX_ITEMS:
            raise protocol_error(f"The provider sent more than {MAX_ITEMS} output items in one answer.")
        self._number += 1
        self._at = None
        self._newest = index
        item = self._items[index] = _Item()
        return item

    def _is_another(self, item: _Item, raw: dict[str, Any]) -> bool:
        """Whether the item is not the one that is known at its position: a server may number all of them alike."""
        call_id = text_of(raw.get("call_id"))
        if item.type and item.type != raw.get("type"):
            return True
        if item.call_id and call_id and item.call_id != call_id:
            return True
        return item.done and raw.get("status") == "in_progress"

    def _identify(self, item: _Item, raw: dict[str, Any]) -> None:
        item.type = text_of(raw.get("type"))
        item.call_id = item.call_id or text_of(raw.get("call_id"))
        if item.type in _CALLS:
            item.name = item.name or text_of(raw.get("name"))
            self._list(item)
            if item.name and item.part < 0:
                self._announce(item)

    def _list(self, item: _Item) -> None:
        if not item.listed:
            item.listed = True
            self._calls.append(item)

    def _announce(self, item: _Item) -> None:
        item.part = self._batch.new_part()
        self._batch.add(ToolCallOpened(item.part, item.call_id, item.name))
        for fragment in item.held:
            self._batch.arguments(item.part, fragment)
        item.held.clear()

    # --- parts ------------------------------------------------------------------------------------------------------

    def _find(self, place: Place, text: str) -> bool:
        """Find the part that grows; False when its text is held back until the call has a name."""
        channel, index, sub = place
        item = self._item(index)
        if channel is Channel.ARGUMENTS:
            item.argued = True
            if item.part < 0:
                item.type = item.type or "function_call"
                self._list(item)
                self._held += len(text)
                if self._held > MAX_HELD_CHARS:
                    raise protocol_error("The provider sent arguments without end for a tool call without a name.")
                item.held.append(text)
                return False
            self._part = item.part
        else:
            part = item.parts.get((channel, sub))
            if part is None:
                self._parts += 1
                if self._parts > MAX_PARTS:
                    raise protocol_error(f"The provider sent more than {MAX_PARTS} parts in one answer.")
                part = item.parts[channel, sub] = item.last = self._batch.new_part()
            self._part = part
            self.refused = self.refused or channel is Channel.REFUSAL
        if self._open is not item:
            self._open = None
        self._at = place
        self._kind = _PART_KINDS[channel]
        return True

    def _message(self, index: int, item: _Item, raw: dict[str, Any]) -> None:
        for sub, part in enumerate(list_of(raw.get("content"))):
            if not isinstance(part, dict):
                continue
            if refusal := text_of(part.get("refusal")):
                self.whole((Channel.REFUSAL, index, sub), refusal)
            elif text := text_of(part.get("text")):
                self.whole((Channel.TEXT, index, sub), text)
            if (cited := part.get("annotations")) and (Channel.TEXT, sub) in item.parts:
                self._batch.add(NativeItem(item.parts[Channel.TEXT, sub], CITATIONS, dumps(cited)))
        envelope = {name: raw[name] for name in ("id", "phase") if isinstance(raw.get(name), str)}
        if item.last >= 0 and (len(item.parts) > 1 or (envelope and (self._reasoned or "phase" in envelope))):
            self._batch.add(NativeItem(item.last, ENVELOPE, dumps(envelope)))

    def _reasoning(self, index: int, raw: dict[str, Any]) -> None:
        for channel, name in ((Channel.SUMMARY, "summary"), (Channel.REASONING, "content")):
            for sub, part in enumerate(list_of(raw.get(name))):
                if isinstance(part, dict) and (text := text_of(part.get("text"))):
                    self.whole((channel, index, sub), text)
        self._reasoned = True

    def _native(self, item: _Item, raw: dict[str, Any], json: str) -> None:
        """Keep the whole item. One that is executed elsewhere than at the provider waits for its output."""
        if item.type in CLIENT_ITEMS:
            self._waiting.add(item.call_id)
        elif item.type.endswith("_output"):
            self._waiting.discard(item.call_id)
        if item.type == "image_generation_call" and (image := image_of(raw)):
            item.last = self._batch.new_part()
            self._batch.add(MediaProduced(item.last, *image))
        if json and item.type:
            position = item.last if item.last >= 0 else self._batch.new_part()
            self._batch.add(NativeItem(position, item.type, json))


def words_of(value: object) -> str:
    """The model's words as text, or compact JSON where a server sends a value for its text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps(value)
