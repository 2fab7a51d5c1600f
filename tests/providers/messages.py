"""Reads answers of the Messages wire for tests: the folded answer, and what folding leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from providers.folding import Folded, add_all

from turnwired.domain.generation import ModelItem, NativeItem, ReasoningChunk
from turnwired.providers.anthropic_messages_parser import MessagesParser

AFTER_THE_END = b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n'


@dataclass(slots=True)
class Answer:
    """An answer as a whole, with the signatures by position."""

    folded: Folded = field(default_factory=Folded)
    signatures: dict[int, tuple[str, bool]] = field(default_factory=dict[int, tuple[str, bool]])

    def take(self, items: list[ModelItem]) -> None:
        """Take a batch."""
        add_all(self.folded, items)
        for item in items:
            match item:
                case NativeItem():
                    json.loads(item.json)
                case ReasoningChunk(index, _, signature, redacted) if signature:
                    self.signatures[index] = (signature.decode(), redacted)
                case _:
                    pass


def answer_of(parser: MessagesParser, chunks: Iterable[bytes]) -> Answer:
    """Parse all chunks."""
    answer = Answer()
    for chunk in chunks:
        answer.take(parser.feed(chunk))
    answer.take(parser.finish())
    assert parser.feed(AFTER_THE_END) == []
    assert parser.finish() == []
    answer.folded.error, answer.folded.broken = parser.error, parser.broken
    return answer


def stream(events: Iterable[Any], end: str = "\n", *, named: bool = True) -> bytes:
    """The body of a stream; a text is sent as it is."""
    found: list[str] = []
    for event in events:
        if isinstance(event, str):
            found.append(event.replace("\n", end))
            continue
        name = f"event: {event['type']}{end}" if named and "type" in event else ""
        found.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}{end}{end}")
    return "".join(found).encode()
