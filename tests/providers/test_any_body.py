"""Any cut of any body gives the same answer, on all three wires: good bodies, damaged ones, those of another wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from providers import corpus
from providers.folding import Folded, fold
from providers.messages import answer_of

from turnwired.providers.anthropic_messages_parser import MessagesParser
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.openai_responses_parser import ResponsesParser

FIXTURES = Path(__file__).with_name("fixtures")
WIRES = {"chat": "openai.chat", "messages": "anthropic.messages", "responses": "openai.responses"}


def _chat(status: int, chunks: Iterable[bytes]) -> Folded:
    return fold(ChatParser(status), list(chunks))


def _responses(status: int, chunks: Iterable[bytes]) -> Folded:
    return fold(ResponsesParser(status), list(chunks))


def _messages(status: int, chunks: Iterable[bytes]) -> Folded:
    return answer_of(MessagesParser(status), chunks).folded


READERS: dict[str, Callable[[int, Iterable[bytes]], Folded]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}


def _text(event: Any) -> str:
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n"


@cache
def bodies(wire: str) -> list[bytes]:
    """Streams and plain answers of a wire: our own, and the short ones of the corpus where it is here."""
    streams = json.loads((FIXTURES / f"{wire}_streams.json").read_text(encoding="utf-8"))["cases"]
    found = ["".join(map(_text, case["events"])).encode() for case in streams]
    recorded = (case["body"].encode() for case in corpus.cases(WIRES[wire]).values())
    return found + [body for body in recorded if 0 < len(body) < 20_000]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The body of any wire, with pieces lost, repeated, moved or made up."""
    body = draw(st.sampled_from(bodies(draw(st.sampled_from(list(WIRES))))))
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(0, len(body)))
        end = min(len(body), begin + draw(st.sampled_from([0, 1, 2, 9, 80, 500])))
        twice = body[begin:end] * 2
        piece = draw(st.sampled_from([b"", twice, b"\n\n", b'"', b"\r", b"\xff", b"{", b"data: [DONE]\n\n"]))
        place = draw(st.sampled_from([begin, 0, len(body)]))
        rest = body[:begin] + body[end:]
        body = rest[:place] + piece + rest[place:]
    return body


@pytest.mark.requirement("WIRE-2", "RESP-4", "MSG-2")
@pytest.mark.parametrize("wire", list(WIRES))
@settings(max_examples=150)
@given(body=damaged(), status=st.sampled_from([200, 200, 200, 500]), data=st.data())
def test_any_cut_of_any_body_gives_the_same_answer(wire: str, body: bytes, status: int, data: st.DataObject) -> None:
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12))), len(body)]
    read = READERS[wire]
    assert read(status, [body[a:b] for a, b in pairwise(edges)]) == read(status, [body])
