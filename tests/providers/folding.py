"""Folds model items into the plain values that tests compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from turnwired.domain.failure import Failure
from turnwired.domain.generation import (
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
from turnwired.domain.usage import Usage
from turnwired.providers.errors import WireError
from turnwired.providers.wire import WireParser


@dataclass(slots=True)
class FoldedCall:
    """One tool call."""

    id: str
    name: str
    arguments: str = ""
    closed: bool = False


@dataclass(slots=True)
class Folded:
    """An answer as a whole. ``parts`` maps positions to (kind, text)."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    parts: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    calls: dict[int, FoldedCall] = field(default_factory=dict[int, FoldedCall])
    identified: ResponseIdentified | None = None
    usage: Usage | None = None
    stopped: GenerationStopped | None = None
    natives: list[NativeItem] = field(default_factory=list[NativeItem])
    media: list[MediaProduced] = field(default_factory=list[MediaProduced])
    irregularities: list[Irregularity] = field(default_factory=list[Irregularity])
    error: WireError | None = None
    broken: Failure | None = None

    def add(self, item: ModelItem) -> None:
        """Take one item; refuses what a parser must never do."""
        assert self.stopped is None, f"{item} after the end signal"
        match item:
            case TextChunk(index, text):
                self._grow(index, "text", text)
                self.text += text
            case ReasoningChunk(index, text, signature):
                self._grow(index, "reasoning", text, signed=bool(signature))
                self.reasoning += text
            case RefusalChunk(index, text):
                self._grow(index, "refusal", text)
                self.refusal += text
            case ToolCallOpened(index, call_id, name):
                assert index not in self.calls
                assert index not in self.parts
                self.calls[index] = FoldedCall(call_id, name)
            case ToolArgumentsChunk(index, fragment):
                assert not self.calls[index].closed
                assert fragment
                self.calls[index].arguments += fragment
            case ToolCallClosed(index):
                assert not self.calls[index].closed
                self.calls[index].closed = True
            case _:
                self._add_rare(item)

    def _add_rare(
        self,
        item: UsageReported | ResponseIdentified | GenerationStopped | NativeItem | MediaProduced | IrregularityFound,
    ) -> None:
        match item:
            case UsageReported(usage):
                self.usage = usage
            case ResponseIdentified():
                assert self.identified is None
                self.identified = item
            case GenerationStopped():
                self.stopped = item
            case NativeItem():
                self.natives.append(item)
            case MediaProduced():
                self.media.append(item)
            case IrregularityFound():
                self.irregularities.append(item.kind)

    def _grow(self, index: int, kind: str, text: str, *, signed: bool = False) -> None:
        assert text or signed
        assert index not in self.calls
        known, before = self.parts.get(index, (kind, ""))
        assert known == kind
        self.parts[index] = (kind, before + text)


def reads(body: bytes, size: int) -> Iterator[bytes]:
    """The body in reads of ``size`` bytes; 0: whole."""
    step = size or max(len(body), 1)
    return (body[i : i + step] for i in range(0, len(body), step))


def fold(parser: WireParser, chunks: Iterable[bytes]) -> Folded:
    """Parse all chunks and fold the items."""
    folded = Folded()
    for chunk in chunks:
        add_all(folded, parser.feed(chunk))
    add_all(folded, parser.finish())
    assert parser.feed(b"data: {}\n\n") == []
    assert parser.finish() == []
    folded.error, folded.broken = parser.error, parser.broken
    return folded


def add_all(folded: Folded, items: Sequence[ModelItem]) -> None:
    """Fold a batch."""
    for item in items:
        folded.add(item)
