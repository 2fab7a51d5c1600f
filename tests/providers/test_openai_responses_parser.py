"""The parser of Responses answers, on fixtures of what servers do and on bytes of all kinds."""

from __future__ import annotations

import copy
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
    MediaProduced,
    NativeItem,
    ReasoningChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.providers.errors import classify
from turnwired.providers.openai_responses_items import MAX_ITEMS, MAX_PARTS
from turnwired.providers.openai_responses_parser import ResponsesParser

FIXTURES = Path(__file__).with_name("fixtures")
STREAMS: list[dict[str, Any]] = json.loads((FIXTURES / "responses_streams.json").read_text())["cases"]
BODIES: list[dict[str, Any]] = json.loads((FIXTURES / "responses_bodies.json").read_text())["cases"]
CREATED = {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress"}}
COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": []}}


def stream(events: list[Any], end: str = "\n", *, named: bool = True) -> bytes:
    """The body of a stream; ``named``: with ``event:`` lines, as most servers send it."""
    found = []
    for event in events:
        text = event if isinstance(event, str) else event.get("raw") or json.dumps(event, ensure_ascii=False)
        name = f"event: {event['type']}{end}" if named and isinstance(event, dict) and "type" in event else ""
        found.append(f"{name}data: {text}{end}{end}")
    return "".join(found).encode()


def text_delta(text: str, index: int = 0, part: int = 0) -> dict[str, Any]:
    """A delta of text."""
    return {"type": "response.output_text.delta", "output_index": index, "content_index": part, "delta": text}


def added(index: int, **item: Any) -> dict[str, Any]:
    """An item that begins."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def finished(index: int, **item: Any) -> dict[str, Any]:
    """An item that is complete."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


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
    assert [item.kind for item in folded.natives] == expect.get("natives", [])
    assert [[item.media_type, len(item.data)] for item in folded.media] == expect.get("media", [])
    check_usage(folded, expect)


def check_usage(folded: Folded, expect: dict[str, Any]) -> None:
    """Compare the counts that a fixture names."""
    usage = folded.usage
    assert ([usage.input_tokens, usage.output_tokens] if usage else None) == expect.get("usage")
    if usage:
        counts = (usage.reasoning_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        assert counts == (expect["reasoning_tokens"], expect["cached"], expect["written"])


@pytest.mark.requirement("RESP-3", "RESP-4", "RESP-5", "RESP-6", "RESP-7", "RESP-8", "RESP-9", "RESP-10")
@pytest.mark.parametrize("size", [1, 7, 64, 4096, 0])
@pytest.mark.parametrize(("end", "named"), [("\n", True), ("\n", False), ("\r\n", True)], ids=["LF", "unnamed", "CRLF"])
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case["name"].replace(" ", "-"))
def test_a_stream_gives_what_the_fixture_says(case: dict[str, Any], size: int, end: str, named: bool) -> None:
    check(fold(ResponsesParser(), reads(stream(case["events"], end, named=named), size)), case["expect"])


@pytest.mark.requirement("RESP-2", "RESP-3", "RESP-8")
@pytest.mark.parametrize("size", [1, 64, 0])
@pytest.mark.parametrize("case", BODIES, ids=lambda case: case["name"].replace(" ", "-"))
def test_a_plain_body_gives_what_the_fixture_says(case: dict[str, Any], size: int) -> None:
    check(fold(ResponsesParser(case["status"]), reads(case["body"].encode(), size)), case["expect"])


@pytest.mark.requirement("RESP-4")
def test_an_event_without_a_type_is_told_by_its_name() -> None:
    done = json.dumps(
        {"response": {"status": "completed", "output": [{"type": "message", "content": [{"text": "a"}]}]}}
    )
    folded = fold(ResponsesParser(), [f"event: response.completed\ndata: {done}\n\n".encode()])
    assert (folded.text, folded.stopped is not None) == ("a", True)


@pytest.mark.requirement("RESP-2")
def test_a_named_error_event_that_is_no_json_is_an_error() -> None:
    folded = fold(ResponsesParser(), [b"event: error\ndata: upstream gone\n\n"])
    assert folded.error
    assert folded.error.message == "upstream gone"


@pytest.mark.requirement("RESP-11")
def test_what_comes_in_one_read_is_one_item_of_each_part() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f"}
    arguments = [
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": piece} for piece in ("{", "}")
    ]
    events = [CREATED, *map(text_delta, "abc"), added(1, **call), *arguments, finished(1, **call, arguments="{}")]
    usage = {"input_tokens": 1, "output_tokens": 2}
    end = {"type": "response.completed", "response": {"status": "completed", "usage": usage}}
    items = ResponsesParser().feed(stream([*events, end]))
    assert [type(item) for item in items] == [
        ResponseIdentified,
        TextChunk,
        ToolCallOpened,
        ToolArgumentsChunk,
        ToolCallClosed,
        UsageReported,
        GenerationStopped,
    ]
    assert items[1:4] == [TextChunk(0, "abc"), ToolCallOpened(1, "c", "f"), ToolArgumentsChunk(1, "{}")]


@pytest.mark.requirement("RESP-9")
def test_a_reasoning_item_is_kept_byte_for_byte_behind_its_text_and_only_when_it_is_complete() -> None:
    item = '{ "type":"reasoning", "id":"rs_1","encrypted_content":"gA\\u00413D==",  "summary":[{"text":"hm"}],"x":1e2}'
    early = '{"type":"reasoning","id":"rs_1","encrypted_content":"unfinished","summary":[]}'
    body = (
        f'data: {{"type":"response.output_item.added","output_index":0,"item":{early}}}\n\n'
        'data: {"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"hm"}\n\n'
        f'data: {{"type":"response.output_item.done","item":{item},"output_index":0}}\n\n'
    ).encode()
    items = ResponsesParser().feed(body)
    assert items == [ReasoningChunk(0, "hm"), NativeItem(0, "reasoning", item)]
    whole = ResponsesParser()
    whole.feed(f'{{"status":"completed","output":[{item}]}}'.encode())
    assert [found for found in whole.finish() if isinstance(found, NativeItem)] == [NativeItem(0, "reasoning", item)]


@pytest.mark.requirement("RESP-10")
def test_an_image_comes_as_a_file_and_its_item_stays_behind_it() -> None:
    item = {"type": "image_generation_call", "id": "ig", "result": "iVBORw=="}
    for result in ("iVBORw==", "data:image/png;base64,iVBORw=="):
        items = ResponsesParser().feed(stream([text_delta("a"), finished(1, **{**item, "result": result})]))
        assert isinstance(items[-1], NativeItem)
        assert items[1] == MediaProduced(1, "image/png", b"\x89PNG")
        assert items[-1].index == 1


@pytest.mark.requirement("RESP-9")
def test_a_message_keeps_its_id_behind_reasoning_and_its_phase_and_its_end_always() -> None:
    content = [{"type": "output_text", "text": "x"}]
    message = {"type": "message", "id": "msg_1", "content": content}
    reasoning = finished(0, type="reasoning", id="rs_1", encrypted_content="g")

    def envelopes(*events: dict[str, Any]) -> list[Any]:
        natives = fold(ResponsesParser(), [stream(list(events))]).natives
        return [json.loads(item.json) for item in natives if item.kind == "message"]

    assert envelopes(finished(0, **message)) == []
    assert envelopes(reasoning, finished(1, **message)) == [{"id": "msg_1"}]
    two = {**message, "content": [*content, {"type": "output_text", "text": "y"}]}
    assert envelopes(finished(0, **two)) == [{"id": "msg_1"}]
    assert envelopes(finished(0, **message, phase="commentary")) == [{"id": "msg_1", "phase": "commentary"}]


@pytest.mark.requirement("RESP-12")
def test_the_model_is_known_to_think_while_a_reasoning_item_or_a_tool_of_the_provider_is_open() -> None:
    parser = ResponsesParser()

    def thinking(*events: Any) -> tuple[bool, bool]:
        parser.feed(stream(list(events)))
        return parser.thinking, parser.content

    assert thinking(CREATED) == (False, False)
    assert thinking(added(0, type="reasoning")) == (True, True)
    assert thinking({"type": "keepalive"}) == (True, False)
    delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "x"}
    assert thinking(delta) == (True, True)
    assert thinking(finished(0, type="reasoning")) == (False, True)
    assert thinking(added(1, type="code_interpreter_call")) == (True, True)
    assert thinking({"type": "response.code_interpreter_call_code.delta", "output_index": 1, "delta": "1"})[1]
    assert thinking({"type": "response.web_search_call.searching", "output_index": 1}) == (True, False)
    assert thinking(finished(1, type="code_interpreter_call")) == (False, True)
    assert thinking(added(2, type="message")) == (False, True)
    assert thinking(text_delta("x", 2)) == (False, True)
    assert thinking(text_delta("", 2)) == (False, False)
    assert thinking(added(3, type="reasoning"), text_delta("y", 2)) == (False, True)
    assert not parser.finish_seen
    assert thinking(COMPLETED) == (False, True)
    assert parser.finish_seen


@pytest.mark.requirement("RESP-13")
def test_items_and_parts_without_end_are_a_protocol_error() -> None:
    events = [added(index, type="message") for index in range(MAX_ITEMS + 1)]
    assert fold(ResponsesParser(), reads(stream(events), 4096)).broken
    folded = fold(ResponsesParser(), reads(stream([text_delta("a", 0, part) for part in range(MAX_PARTS + 1)]), 4096))
    assert folded.broken
    assert len(folded.parts) == MAX_PARTS
    spread = [text_delta("a", index, part) for index in range(3) for part in range(MAX_PARTS // 2)]
    assert fold(ResponsesParser(), reads(stream(spread), 4096)).broken
    anonymous = [{"type": "response.output_text.delta", "item_id": f"m{n}", "delta": "a"} for n in range(9000)]
    assert len(fold(ResponsesParser(), reads(stream(anonymous), 4096)).parts) == 1


@pytest.mark.requirement("RESP-13")
def test_arguments_without_end_for_a_call_without_a_name_are_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.providers.openai_responses_items.MAX_HELD_CHARS", 10)
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "12345"}
    assert fold(ResponsesParser(), [stream([delta] * 2)]).broken is None
    assert fold(ResponsesParser(), [stream([delta] * 3)]).broken
    named = added(0, type="function_call", call_id="c", name="f")
    assert fold(ResponsesParser(), [stream([named, *[delta] * 3])]).broken is None


@pytest.mark.requirement("RESP-4")
@given(case=st.sampled_from(STREAMS), data=st.data())
def test_any_cut_of_any_stream_gives_the_same_answer(case: dict[str, Any], data: st.DataObject) -> None:
    body = stream(case["events"])
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=10))), len(body)]
    cut = [body[a:b] for a, b in pairwise(edges)]
    assert fold(ResponsesParser(), cut) == fold(ResponsesParser(), [body])


_WORDS = tuple(
    re.findall(
        r"[\w.]+",
        "response.created response.completed response.incomplete response.failed response.done response.cancelled "
        "response.output_item.added response.output_item.done response.output_text.delta response.output_text.done "
        "response.refusal.delta response.refusal.done response.reasoning_summary_text.delta "
        "response.reasoning_text.delta response.reasoning_text.done response.function_call_arguments.delta "
        "response.function_call_arguments.done response.custom_tool_call_input.done error message reasoning "
        "function_call custom_tool_call shell_call shell_call_output image_generation_call completed incomplete "
        "in_progress failed queued",
    )
)
_NAMES = tuple(
    re.findall(
        r"\w+",
        "type response item output_index content_index summary_index item_id id delta text refusal arguments input "
        "call_id name status output content summary annotations encrypted_content phase result output_format error "
        "code usage input_tokens input_tokens_details incomplete_details reason part object",
    )
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=20,
)
_EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(_WORDS)},
    optional={
        "output_index": st.integers(-1, 2) | _JSON,
        "item_id": st.sampled_from(["a", "b"]),
        "item": st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=5),
        "response": st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=5),
        "delta": st.text(max_size=3) | _JSON,
        "text": st.text(max_size=3),
        "arguments": st.text(max_size=3) | _JSON,
    },
)


@pytest.mark.requirement("RESP-13")
@settings(max_examples=400)
@given(
    events=st.lists(_EVENTS | _JSON, max_size=8),
    status=st.sampled_from([200, 200, 400, 500]),
    size=st.sampled_from([0, 1, 7]),
)
def test_json_of_any_shape_never_crashes_the_parser(events: list[Any], status: int, size: int) -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    folded = fold(ResponsesParser(status), reads(body, size))
    assert folded.stopped is None or folded.error is None
    if folded.error:
        classify(folded.error)
    fold(ResponsesParser(status), reads(json.dumps(events[0]).encode() if events else b"", size))


@pytest.mark.requirement("RESP-13")
@settings(max_examples=300)
@given(case=st.sampled_from(STREAMS), data=st.data())
def test_a_stream_with_changes_in_it_never_crashes_the_parser(case: dict[str, Any], data: st.DataObject) -> None:
    events: list[Any] = copy.deepcopy(case["events"])
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(events) - 1))
        event = events[index]
        match data.draw(st.sampled_from(["drop", "repeat", "move", "change", "remove"])):
            case "drop" if len(events) > 1:
                del events[index]
            case "repeat":
                events.insert(index, event)
            case "move":
                events.insert(data.draw(st.integers(0, len(events) - 1)), events.pop(index))
            case "change" if isinstance(event, dict) and event:
                events[index] = {**event, data.draw(st.sampled_from(sorted(event))): data.draw(_JSON)}
            case "remove" if isinstance(event, dict) and len(event) > 1:
                events[index] = {name: event[name] for name in data.draw(st.sets(st.sampled_from(sorted(event))))}
            case _:
                pass
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert fold(ResponsesParser(), [body]) == fold(ResponsesParser(), reads(body, 5))


@pytest.mark.requirement("RESP-13")
@settings(max_examples=300)
@given(body=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: b"data: " + text.encode() + b"\n\n"))
def test_bytes_of_any_kind_never_crash_the_parser(body: bytes) -> None:
    assert fold(ResponsesParser(), [body]) == fold(ResponsesParser(), reads(body, 1))


@pytest.mark.requirement("RESP-13")
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"type":"response.output_item.done","item":{"content":['])
def test_deep_nesting_is_no_crash(opening: bytes) -> None:
    assert fold(ResponsesParser(), [b"data: " + opening * 100_000 + b"\n\n"]).broken
    assert fold(ResponsesParser(), [opening * 100_000]).broken


@pytest.mark.requirement("RESP-13")
def test_a_plain_body_beyond_the_limit_is_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.providers.body.MAX_BODY_BYTES", 1000)
    parser = ResponsesParser()
    for _ in range(20):
        parser.feed(b'{"a":"' + b"x" * 100)
    assert parser.broken
    assert parser.finish() == []
