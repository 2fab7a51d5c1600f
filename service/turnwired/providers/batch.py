"""Builds one batch of model items: joins what belongs together and gives every part its position. Knows no wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from turnwired.domain.generation import (
    GenerationStopped,
    IrregularityFound,
    ModelItem,
    ReasoningChunk,
    RefusalChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    UsageReported,
)
from turnwired.domain.usage import Usage
from turnwired.providers.errors import protocol_error

MAX_PARTS = 16 * 1024
"""Of one answer: each is kept, numbered and shown, however small it is."""
MAX_WORD = 1024
_NO_CONTENT = frozenset({IrregularityFound, ResponseIdentified, UsageReported})


def has_content(items: Sequence[ModelItem]) -> bool:
    """Whether the model produced something: its identity, its usage and its faults are nothing that it produced."""
    for item in items:  # noqa: SIM110 - any() with a generator costs twice as much, and this runs for every read
        if type(item) not in _NO_CONTENT:
            return True
    return False


class PartKind(Enum):
    """Kinds of parts that grow by text."""

    TEXT = TextChunk
    REASONING = ReasoningChunk
    REFUSAL = RefusalChunk
    ARGUMENTS = ToolArgumentsChunk


class BatchBuilder:
    """Collects the items of one socket read. Lives as long as the answer, since positions go on from read to read.

    Text that follows text, and reasoning that follows reasoning, belongs to one part; anything between begins a new
    one. The last usage of a read is the one that is reported.
    """

    __slots__ = (
        *("_growing", "_index", "_items", "_kind", "_next", "_part", "_part_kind", "_pieces", "_usage"),
        "spoken",
    )

    def __init__(self) -> None:
        self._items: list[ModelItem] = []
        self._pieces: list[str] = []
        self._kind = PartKind.TEXT
        self._index = -1
        self._part = -1
        self._part_kind: PartKind | None = None
        self._growing: PartKind | None = None
        self._next = 0
        self._usage: Usage | None = None
        self.spoken = False  # the model said something to be read: an answer, or that it refuses

    @property
    def reasoning(self) -> bool:
        """Whether the part that grows is reasoning."""
        return self._part_kind is PartKind.REASONING

    def new_part(self) -> int:
        """The position of a part of its own, such as a tool call. Raises ProviderError for one too many."""
        self._flush()
        self._part_kind = None
        if self._next >= MAX_PARTS:
            raise protocol_error(f"The provider sent more than {MAX_PARTS} parts in one answer.")
        self._next += 1
        return self._next - 1

    def text(self, kind: PartKind, text: str) -> None:
        """Text for the current part of that kind."""
        if self._growing is kind:
            self._pieces.append(text)
            return
        if self._part_kind is not kind:
            self._part = self.new_part()
            self._part_kind = kind
            self.spoken = self.spoken or kind in {PartKind.TEXT, PartKind.REFUSAL}
        self._flush()
        self._growing = self._kind = kind
        self._index = self._part
        self._pieces.append(text)

    def arguments(self, index: int, fragment: str) -> None:
        """A fragment of the arguments of the call at ``index``."""
        if self._index != index:
            self._flush()
            self._kind = PartKind.ARGUMENTS
            self._index = index
        self._pieces.append(fragment)

    def grow(self, kind: PartKind, index: int, text: str) -> None:
        """Text for the part at ``index``, which ``new_part`` gave: for wires that say which part they mean."""
        if self._index != index or self._kind is not kind:
            self._flush()
            self._kind = kind
            self._index = index
        self._pieces.append(text)

    def add(self, item: ModelItem) -> None:
        """An item of its own. Names in it are cut to ``MAX_WORD``: they go into events, logs and spans."""
        self._flush()
        if type(item) is ResponseIdentified and len(item.response_id) + len(item.model) > MAX_WORD:
            item = ResponseIdentified(item.response_id[:MAX_WORD], item.model[:MAX_WORD])
        self._items.append(item)

    def usage(self, usage: Usage) -> None:
        """Usage so far."""
        self._usage = usage

    def stop(self, item: GenerationStopped) -> None:
        """The last item of the answer; usage known by now comes before it."""
        self._flush()
        self._flush_usage()
        if len(item.provider_reason) > MAX_WORD:
            item = replace(item, provider_reason=item.provider_reason[:MAX_WORD])
        self._items.append(item)

    def take(self) -> list[ModelItem]:
        """The batch. Empties the builder; positions go on."""
        self._flush()
        self._flush_usage()
        items = self._items
        self._items = []
        return items

    def _flush_usage(self) -> None:
        if self._usage is not None:
            self._items.append(UsageReported(self._usage))
            self._usage = None

    def _flush(self) -> None:
        if self._pieces:
            text = self._pieces[0] if len(self._pieces) == 1 else "".join(self._pieces)
            self._items.append(self._kind.value(self._index, text))
            self._pieces.clear()
        self._index = -1
        self._growing = None
