"""The splitter of server-sent events, driven with bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.sse import Event, SSESplitter


def split(*reads: bytes) -> list[Event]:
    """All events of a body that ends properly."""
    splitter = SSESplitter()
    return [event for read in reads for event in splitter.feed(read)]


@pytest.mark.requirement("SSE-1")
@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"event: e\ndata: a\n\n", [(b"e", b"a")]),
        (b"data: a\nevent:e\n\n", [(b"e", b"a")]),
        (b"event: e\n\ndata: a\n\n", [(b"", b"a")]),
        (b": ping\n\ndata: a\n\n", [(b"", b"a")]),
        (b": ping\ndata: a\n: pong\n\n", [(b"", b"a")]),
        (b"id: 7\nretry: 10\ndata: a\n\n", [(b"", b"a")]),
        (b"data\n\n", [(b"", b"")]),
        (b"data:\n\n", [(b"", b"")]),
        (b"dataset: a\n\n", []),
        (b"\n\n\n\ndata: a\n\n\n\n", [(b"", b"a")]),
        (b"data: a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"event: e\ndata: a\n\nevent: e\ndata: b\n\n", [(b"e", b"a"), (b"e", b"b")]),
        (b"event: e\ndata: a\n\nevent: f\ndata: b\n\n", [(b"e", b"a"), (b"f", b"b")]),
        (b"event: e\ndata: a\n\nevent: e\ndata: b\ndata: c\n\n", [(b"e", b"a"), (b"e", b"b\nc")]),
        (b"event: e\nid: 1\n\nevent: e\ndata: b\n\n", [(b"e", b"b")]),
        (b"event: e\nid: 1\ndata: a\n\n", [(b"e", b"a")]),
        (b"event: e\ndata: a\n\ndata: b\n\n", [(b"e", b"a"), (b"", b"b")]),
        (b"event: e\ndata: a\n\nevent: ef\ndata: b\n\n", [(b"e", b"a"), (b"ef", b"b")]),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_events_are_read_as_the_standard_says(body: bytes, events: list[Event], end: bytes) -> None:
    body = body.replace(b"\n", end)
    assert split(body) == events
    assert split(*(bytes([byte]) for byte in body)) == events


@pytest.mark.requirement("SSE-1")
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_characters_at_which_text_libraries_break_lines_stay_inside_an_event(character: str) -> None:
    text = f"a{character}b".encode()
    assert split(b"data: " + text + b"\n\n") == [(b"", text)]


@pytest.mark.requirement("SSE-1")
def test_an_event_without_its_blank_line_comes_with_the_end_of_the_body() -> None:
    splitter = SSESplitter()
    assert splitter.feed(b"data: a\n\ndata: b") == [(b"", b"a")]
    assert splitter.flush() == [(b"", b"b")]
    assert splitter.flush() == []


_PIECES = st.sampled_from(
    [
        b"data: x",
        b"data:",
        b"event: e",
        b": c",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"\r\n\r\n",
        b"y",
        b"\xe2\x80\xa8",
        b" ",
    ]
)


@pytest.mark.requirement("SSE-2", "SSE-3")
@given(body=st.lists(_PIECES | st.binary(max_size=4), max_size=30).map(b"".join), data=st.data())
def test_any_cut_of_any_body_gives_the_same_events(body: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    edges = [0, *cuts, len(body)]
    whole, cut = SSESplitter(), SSESplitter()
    expected = whole.feed(body) + whole.flush()
    found = [event for a, b in pairwise(edges) for event in cut.feed(body[a:b])]
    assert found + cut.flush() == expected


@pytest.mark.requirement("SSE-3")
def test_an_event_beyond_the_limit_is_a_protocol_error_and_is_let_go() -> None:
    splitter = SSESplitter(limit=1000)
    for _ in range(10):
        splitter.feed(b"x" * 100)
    with pytest.raises(ProviderError) as caught:
        splitter.feed(b"x")
    assert caught.value.failure.reason is Reason.PROVIDER_PROTOCOL_ERROR
    assert len(splitter._buffer) == 0


@pytest.mark.requirement("SSE-3")
def test_a_long_event_in_reads_of_one_byte_is_looked_at_once() -> None:
    # 400,000 reads of which each would search the whole buffer take minutes; the test's time limit would tell.
    splitter = SSESplitter()
    splitter.feed(b"data: ")
    for _ in range(200_000):
        splitter.feed(b"x")
        splitter.feed(b"y")
    assert len(splitter.feed(b"\n\n")[0][1]) == 400_000
