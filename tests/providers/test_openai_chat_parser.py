"""The parser of chat completions, on fixtures of what servers do and on bytes of all kinds."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from providers.folding import Folded, fold, reads

from turnwired.domain.generation import (
    GenerationStopped,
    ReasoningChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.providers.errors import classify
from turnwired.providers.openai_chat_calls import MAX_CALLS
from turnwired.providers.openai_chat_parser import ChatParser

FIXTURES = Path(__file__).with_name("fixtures")
STREAMS: list[dict[str, Any]] = json.loads((FIXTURES / "chat_streams.json").read_text())["cases"]
BODIES: list[dict[str, Any]] = json.loads((FIXTURES / "chat_bodies.json").read_text())["cases"]


def stream(events: list[Any], end: str = "\n", prefix: str = "data: ") -> bytes:
    """The body of a stream."""
    found = []
    for event in events:
        text = event if isinstance(event, str) else event.get("raw") or json.dumps(event, ensure_ascii=False)
        found.append(f"{prefix}{text}{end}{end}")
    return "".join(found).encode()


def check(folded: Folded, expect: dict[str, Any]) -> None:
    """Compare with a fixture's expectations; text, reasoning, refusal, calls, error and broken are always told."""
    assert folded.text == expect.get("text", "")
    assert folded.reasoning == expect.get("reasoning", "")
    assert folded.refusal == expect.get("refusal", "")
    calls = [[c.id, c.name, c.arguments, c.closed] for _, c in sorted(folded.calls.items())]
    assert calls == expect.get("calls", [])
    assert (folded.stopped.reason if folded.stopped else None) == expect["finish"]
    assert (str(folded.broken.reason) if folded.broken else None) == expect.get("broken")
    assert ([folded.error.type, folded.error.code] if folded.error else None) == expect.get("error")
    if folded.error:
        assert classify(folded.error) == expect["kind"]
    if "word" in expect:
        assert folded.stopped
        assert folded.stopped.provider_reason == expect["word"]
    if "parts" in expect:
        assert [kind for _, (kind, _) in sorted(folded.parts.items())] == expect["parts"]
    if "id" in expect:
        assert folded.identified
        assert folded.identified.response_id == expect["id"]
    check_usage(folded, expect)


def check_usage(folded: Folded, expect: dict[str, Any]) -> None:
    """Compare the counts that a fixture names."""
    if "usage" not in expect:
        return
    usage = folded.usage
    assert ([usage.input_tokens, usage.output_tokens] if usage else None) == expect["usage"]
    if usage:
        assert usage.reasoning_tokens == expect.get("reasoning_tokens")
        assert usage.cache_read_tokens == expect.get("cached")


@pytest.mark.requirement("WIRE-2", "WIRE-6", "WIRE-7", "WIRE-8", "WIRE-9", "WIRE-10")
@pytest.mark.parametrize("size", [1, 7, 64, 4096, 0])
@pytest.mark.parametrize(("end", "prefix"), [("\n", "data: "), ("\r\n", "data:")], ids=["LF", "CRLF-no-space"])
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case["name"].replace(" ", "-"))
def test_a_stream_gives_what_the_fixture_says(case: dict[str, Any], size: int, end: str, prefix: str) -> None:
    check(fold(ChatParser(), reads(stream(case["events"], end, prefix), size)), case["expect"])


@pytest.mark.requirement("WIRE-2", "WIRE-5", "WIRE-10")
@pytest.mark.parametrize("size", [1, 64, 0])
@pytest.mark.parametrize("case", BODIES, ids=lambda case: case["name"].replace(" ", "-"))
def test_a_plain_body_gives_what_the_fixture_says(case: dict[str, Any], size: int) -> None:
    check(fold(ChatParser(case["status"]), reads(case["body"].encode(), size)), case["expect"])


@pytest.mark.requirement("WIRE-10")
def test_a_named_error_event_that_is_no_json_is_an_error() -> None:
    folded = fold(ChatParser(), [b"event: error\ndata: upstream gone\n\n"])
    assert folded.error
    assert folded.error.message == "upstream gone"


@pytest.mark.requirement("WIRE-4")
def test_what_comes_in_one_read_is_one_item_of_each_part() -> None:
    def delta(**fields: Any) -> dict[str, Any]:
        return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}

    def call(arguments: str, **more: Any) -> dict[str, Any]:
        return delta(tool_calls=[{"index": 0, **more, "function": {"arguments": arguments}}])

    opened = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}])
    events = [delta(role="assistant"), *(delta(reasoning=x) for x in "abc"), *(delta(content=x) for x in "def")]
    events += [opened, *(call(x) for x in ("{", '"a"', ":1}"))]
    events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    events += [{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}]
    items = ChatParser().feed(stream([*events, "[DONE]"]))
    assert [type(item) for item in items] == [
        ResponseIdentified,
        ReasoningChunk,
        TextChunk,
        ToolCallOpened,
        ToolArgumentsChunk,
        ToolCallClosed,
        UsageReported,
        GenerationStopped,
    ]
    assert items[1:5] == [
        ReasoningChunk(0, "abc"),
        TextChunk(1, "def"),
        ToolCallOpened(2, "c", "f"),
        ToolArgumentsChunk(2, '{"a":1}'),
    ]


@pytest.mark.requirement("WIRE-3")
def test_calls_without_end_are_a_protocol_error() -> None:
    events = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": i, "function": {"name": "f"}}]}}]}
        for i in range(MAX_CALLS + 1)
    ]
    folded = fold(ChatParser(), reads(stream(events), 4096))
    assert folded.broken
    assert len(folded.calls) == MAX_CALLS


@pytest.mark.requirement("WIRE-2")
@given(case=st.sampled_from(STREAMS), data=st.data())
def test_any_cut_of_any_stream_gives_the_same_answer(case: dict[str, Any], data: st.DataObject) -> None:
    body = stream(case["events"])
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=10))), len(body)]
    cut = [body[a:b] for a, b in pairwise(edges)]
    assert fold(ChatParser(), cut) == fold(ChatParser(), [body])


_NAMES = tuple(
    re.findall(
        r"\w+",
        "id model choices index delta message content reasoning refusal tool_calls function name arguments "
        "function_call finish_reason usage prompt_tokens completion_tokens error code type text thinking "
        "x_groq completion_tokens_details detail reasoning_details extra_content images image_url url summary data",
    )
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@pytest.mark.requirement("WIRE-3")
@settings(max_examples=300)
@given(
    events=st.lists(_JSON, max_size=6), status=st.sampled_from([200, 200, 400, 500]), size=st.sampled_from([0, 1, 7])
)
def test_json_of_any_shape_never_crashes_the_parser(events: list[Any], status: int, size: int) -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    folded = fold(ChatParser(status), reads(body, size))
    if folded.error:
        classify(folded.error)
    whole = json.dumps(events[0]).encode() if events else b""
    fold(ChatParser(status), reads(whole, size))


@pytest.mark.requirement("WIRE-3")
@settings(max_examples=300)
@given(body=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: b"data: " + text.encode() + b"\n\n"))
def test_bytes_of_any_kind_never_crash_the_parser(body: bytes) -> None:
    assert fold(ChatParser(), [body]) == fold(ChatParser(), reads(body, 1))


@pytest.mark.requirement("WIRE-3")
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"choices":[{"delta":{"content":['])
def test_deep_nesting_is_no_crash(opening: bytes) -> None:
    folded = fold(ChatParser(), [b"data: " + opening * 100_000 + b"\n\n"])
    assert folded.broken
    assert fold(ChatParser(), [opening * 100_000]).broken


@pytest.mark.requirement("WIRE-3")
def test_a_plain_body_beyond_the_limit_is_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.providers.body.MAX_BODY_BYTES", 1000)
    parser = ChatParser()
    for _ in range(20):
        parser.feed(b'{"a":"' + b"x" * 100)
    assert parser.broken
    assert parser.finish() == []
