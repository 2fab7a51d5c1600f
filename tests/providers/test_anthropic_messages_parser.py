"""The parser of the Messages wire, on fixtures of what servers do and on bytes of all kinds."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from providers.folding import reads
from providers.messages import Answer, answer_of, stream

from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    NativeItem,
    ReasoningChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.usage import Usage, UsageSource
from turnwired.providers import anthropic_messages_parser
from turnwired.providers.anthropic_messages_parser import MAX_OPEN_BLOCKS, MessagesParser
from turnwired.providers.errors import classify

FIXTURES = Path(__file__).with_name("fixtures")
STREAMS: list[dict[str, Any]] = json.loads((FIXTURES / "messages_streams.json").read_text())["cases"]
BODIES: list[dict[str, Any]] = json.loads((FIXTURES / "messages_bodies.json").read_text())["cases"]
SIZES = [1, 7, 64, 4096, 0]
START = {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "usage": {"input_tokens": 1}}}


def block(index: int, **fields: Any) -> dict[str, Any]:
    """The start of a block."""
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    """A delta."""
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index: int) -> dict[str, Any]:
    """The end of a block."""
    return {"type": "content_block_stop", "index": index}


def end(reason: str = "end_turn") -> list[dict[str, Any]]:
    """The end of an answer."""
    return [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]


def check(answer: Answer, expect: dict[str, Any]) -> None:
    """Compare with a fixture's expectations; what it does not name is nothing."""
    folded = answer.folded
    parts = [[kind, text] for _, (kind, text) in sorted(folded.parts.items())]
    assert parts == expect.get("parts", [])
    calls = [[c.id, c.name, c.arguments, c.closed] for _, c in sorted(folded.calls.items())]
    assert calls == expect.get("calls", [])
    natives = [[item.kind, item.json if "raw" in expect else json.loads(item.json)] for item in folded.natives]
    assert natives == expect.get("natives", [])
    assert [list(signed) for signed in answer.signatures.values()] == expect.get("signatures", [])
    assert (folded.stopped.reason if folded.stopped else None) == expect.get("finish")
    assert (folded.stopped.provider_reason if folded.stopped else None) == expect.get("word")
    assert (str(folded.broken.reason) if folded.broken else None) == expect.get("broken")
    assert ([folded.error.type, folded.error.code] if folded.error else None) == expect.get("error")
    if folded.error:
        assert classify(folded.error) == expect["kind"]
    usage = folded.usage
    counts = usage and [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ]
    assert counts == expect.get("usage")


@pytest.mark.requirement("MSG-2", "MSG-5", "MSG-6", "MSG-7", "MSG-8", "MSG-10", "MSG-11", "MSG-12", "MSG-13")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("line_end", "named"), [("\n", True), ("\r\n", True), ("\n", False)], ids=["LF", "CRLF", "bare"]
)
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case["name"].replace(" ", "-"))
def test_a_stream_gives_what_the_fixture_says(case: dict[str, Any], size: int, line_end: str, named: bool) -> None:
    body = stream(case["events"], line_end, named=named)
    check(answer_of(MessagesParser(), reads(body, size)), case["expect"])


@pytest.mark.requirement("MSG-2", "MSG-9", "MSG-10", "MSG-11")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", BODIES, ids=lambda case: case["name"].replace(" ", "-"))
def test_a_plain_body_gives_what_the_fixture_says(case: dict[str, Any], size: int) -> None:
    body = case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])
    check(answer_of(MessagesParser(case["status"]), reads(body.encode(), size)), case["expect"])


@pytest.mark.requirement("MSG-4", "MSG-5")
def test_what_comes_in_one_read_is_one_item_of_each_block() -> None:
    events = [START, block(0, type="thinking", thinking="", signature="")]
    events += [delta(0, type="thinking_delta", thinking=x) for x in "abc"]
    events += [delta(0, type="signature_delta", signature="c2ln"), stop(0), block(1, type="text", text="")]
    events += [delta(1, type="text_delta", text=x) for x in "def"]
    events += [stop(1), block(2, type="tool_use", id="t", name="f", input={})]
    events += [delta(2, type="input_json_delta", partial_json=x) for x in ('{"a', '":1}')]
    events += [stop(2), *end("tool_use")]
    assert MessagesParser().feed(stream(events)) == [
        ResponseIdentified("m", "c"),
        ReasoningChunk(0, "abc"),
        ReasoningChunk(0, "", b"c2ln"),
        TextChunk(1, "def"),
        ToolCallOpened(2, "t", "f"),
        ToolArgumentsChunk(2, '{"a":1}'),
        ToolCallClosed(2),
        UsageReported(Usage(1, source=UsageSource.PROVIDER)),
        GenerationStopped(FinishReason.TOOL_CALLS, "tool_use"),
    ]


@pytest.mark.requirement("MSG-7")
def test_a_native_block_that_came_whole_is_kept_byte_for_byte() -> None:
    text = '{ "type":"web_search_tool_result",  "content": [ {"n": 1.50, "u": "\\u00e9é"} ] }'
    start = f'data: {{"type":"content_block_start","index":0,"content_block":{text}}}\n\n'
    answer = answer_of(MessagesParser(), [stream([START, start, stop(0), *end()])])
    assert answer.folded.natives == [NativeItem(0, "web_search_tool_result", text)]
    whole = f'{{"type":"message","content":[{text}],"stop_reason":"end_turn"}}'
    assert answer_of(MessagesParser(), [whole.encode()]).folded.natives == answer.folded.natives


@pytest.mark.requirement("MSG-7")
def test_the_fields_of_a_native_block_that_grew_keep_their_bytes() -> None:
    start = (
        'data: {"type":"content_block_start","index":0,"content_block":{"type":"x_tool_use","n":1.50,"input":{}}}\n\n'
    )
    grown = [delta(0, type="input_json_delta", partial_json=x) for x in ('{"q":', " 1.0}")]
    [item] = answer_of(MessagesParser(), [stream([START, start, *grown, stop(0), *end()])]).folded.natives
    assert item.json == '{"type":"x_tool_use","n":1.50,"input":{"q": 1.0}}'


@pytest.mark.requirement("MSG-14")
def test_silence_is_thinking_while_the_model_thinks_or_a_tool_of_the_provider_runs() -> None:
    parser = MessagesParser()
    steps: list[tuple[Any, bool, bool]] = [
        (START, False, False),
        (block(0, type="thinking", thinking=""), True, False),
        ({"type": "ping"}, True, False),
        (delta(0, type="thinking_delta", thinking="a"), True, True),
        (stop(0), False, False),
        (block(1, type="server_tool_use", id="s", name="web_search", input={}), False, True),
        (delta(1, type="input_json_delta", partial_json="{}"), False, True),
        (stop(1), True, True),
        ({"type": "ping"}, True, False),
        (block(2, type="web_search_tool_result", tool_use_id="s", content=[]), False, True),
        (stop(2), False, True),
        (block(3, type="text", text=""), False, False),
        (delta(3, type="text_delta", text=""), False, False),
        (delta(3, type="text_delta", text="b"), False, True),
    ]
    for event, thinking, content in steps:
        parser.feed(stream([event]))
        assert (parser.thinking, parser.content) == (thinking, content), event


@pytest.mark.requirement("MSG-11")
def test_the_stop_reason_is_seen_before_the_answer_ends() -> None:
    parser = MessagesParser()
    parser.feed(stream([START, end()[0]]))
    assert (parser.finish_seen, parser.ended) == (True, False)
    parser.feed(stream([end()[1]]))
    assert parser.ended


@pytest.mark.requirement("MSG-2")
@given(case=st.sampled_from(STREAMS), data=st.data())
def test_any_cut_of_any_stream_gives_the_same_answer(case: dict[str, Any], data: st.DataObject) -> None:
    body = stream(case["events"])
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=10))), len(body)]
    cut = [body[a:b] for a, b in pairwise(edges)]
    assert answer_of(MessagesParser(), cut) == answer_of(MessagesParser(), [body])


_WORDS = re.findall(
    r"\w+",
    "type index delta message content content_block id model name input text thinking signature data citations "
    "citation partial_json stop_reason usage input_tokens output_tokens output_tokens_details thinking_tokens error "
    "details error_code caller encrypted_content",
)
_TYPES = re.findall(
    r"\w+",
    "message_start message_delta message_stop content_block_start content_block_delta content_block_stop ping error "
    "text thinking redacted_thinking tool_use server_tool_use compaction text_delta thinking_delta signature_delta "
    "input_json_delta citations_delta compaction_delta end_turn tool_use max_tokens",
)
_LEAVES = st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=5) | st.sampled_from(_TYPES)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=5),
    max_leaves=25,
)


@st.composite
def _mutated(draw: st.DrawFn) -> list[Any]:
    """The events of a fixture with one of them changed, left out, repeated or put elsewhere."""
    events = list(draw(st.sampled_from(STREAMS))["events"])
    for _ in range(draw(st.integers(1, 3))):
        if not events:
            break
        at = draw(st.integers(0, len(events) - 1))
        match draw(st.sampled_from(["field", "drop", "repeat", "move", "any"])):
            case "field" if isinstance(events[at], dict):
                changed = {draw(st.sampled_from(_WORDS)): draw(_JSON)}
                inner = [key for key, value in events[at].items() if isinstance(value, dict)]
                key = draw(st.sampled_from(["", *inner]))
                events[at] = {**events[at], **({key: {**events[at][key], **changed}} if key else changed)}
            case "drop":
                del events[at]
            case "repeat":
                events.insert(at, events[at])
            case "move":
                events.append(events.pop(at))
            case _:
                events[at] = draw(_JSON)
    return events


@pytest.mark.requirement("MSG-3")
@settings(max_examples=300)
@given(events=_mutated(), size=st.sampled_from([0, 1, 7]))
def test_events_that_were_changed_never_crash_the_parser(events: list[Any], size: int) -> None:
    sent = [event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n" for event in events]
    body = stream(sent)
    assert answer_of(MessagesParser(), reads(body, size)) == answer_of(MessagesParser(), [body])


@pytest.mark.requirement("MSG-3")
@settings(max_examples=300)
@given(
    events=st.lists(_JSON, max_size=6), status=st.sampled_from([200, 200, 400, 500]), size=st.sampled_from([0, 1, 7])
)
def test_json_of_any_shape_never_crashes_the_parser(events: list[Any], status: int, size: int) -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    folded = answer_of(MessagesParser(status), reads(body, size)).folded
    if folded.error:
        classify(folded.error)
    whole = json.dumps(events[0]).encode() if events else b""
    answer_of(MessagesParser(status), reads(whole, size))


@pytest.mark.requirement("MSG-3")
@settings(max_examples=300)
@given(body=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: b"data: " + text.encode() + b"\n\n"))
def test_bytes_of_any_kind_never_crash_the_parser(body: bytes) -> None:
    assert answer_of(MessagesParser(), [body]) == answer_of(MessagesParser(), reads(body, 1))


@pytest.mark.requirement("MSG-3")
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"type":"content_block_start","content_block":{"a":['])
def test_deep_nesting_is_no_crash(opening: bytes) -> None:
    assert answer_of(MessagesParser(), [b"data: " + opening * 100_000 + b"\n\n"]).folded.broken
    assert answer_of(MessagesParser(), [opening * 100_000]).folded.broken


@pytest.mark.requirement("MSG-3")
@pytest.mark.parametrize("depth", [100, 300, 900, 990, 1000])
def test_a_block_nested_as_deep_as_can_be_read_is_kept_or_refused(depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    start = f'data: {{"type":"content_block_start","index":0,"content_block":{{"type":"x","content":{nested}}}}}\n\n'
    grown = delta(0, type="y", more="z")
    for events in ([START, start, stop(0), *end()], [START, start, grown, stop(0), *end()]):
        folded = answer_of(MessagesParser(), [stream(events)]).folded
        assert (folded.broken is None) == (len(folded.natives) == 1)


@pytest.mark.requirement("MSG-3")
def test_what_is_held_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_messages_parser, "MAX_BODY_BYTES", 1000)
    monkeypatch.setattr("turnwired.providers.body.MAX_BODY_BYTES", 1000)
    endless = [delta(0, type="compaction_delta", content="x" * 50)] * 30
    for first in (block(0, type="compaction", content=None), block(0, type="text", text="t")):
        folded = answer_of(MessagesParser(), reads(stream([START, first, *endless]), 64)).folded
        assert (folded.broken is not None) == (first["content_block"]["type"] == "compaction")
    cited = [delta(0, type="citations_delta", citation={"url": "x" * 50})] * 30
    assert answer_of(MessagesParser(), [stream([START, block(0, type="text", text="t"), *cited])]).folded.broken
    whole = [event for index in range(20) for event in (block(index, type="x", data="x" * 100), stop(index))]
    assert len(answer_of(MessagesParser(), [stream([START, *whole, *end()])]).folded.natives) == 20
    parser = MessagesParser()
    for _ in range(20):
        parser.feed(b'{"a":"' + b"x" * 100)
    assert parser.broken


@pytest.mark.requirement("MSG-3")
def test_blocks_that_are_never_closed_are_bounded() -> None:
    events = [START, *(block(index, type="text", text="") for index in range(MAX_OPEN_BLOCKS + 1))]
    assert answer_of(MessagesParser(), [stream(events)]).folded.broken


@pytest.mark.requirement("MSG-9")
def test_a_named_error_event_that_is_no_json_is_an_error() -> None:
    folded = answer_of(MessagesParser(), [b"event: error\ndata: upstream gone\n\n"]).folded
    assert folded.error
    assert folded.error.message == "upstream gone"
