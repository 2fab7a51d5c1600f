"""Answers of a hostile or broken provider: any value at any place, and more of everything than there can be."""

from __future__ import annotations

import copy
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from providers.calls import answer_of, provider, request
from providers.server import Answer as Sending
from providers.server import Request

from turnwired.domain.failure import Reason
from turnwired.domain.generation import ModelItem, NativeItem, ResponseIdentified, UsageReported
from turnwired.providers import transport
from turnwired.providers.anthropic_messages_parser import MessagesParser
from turnwired.providers.batch import MAX_PARTS, MAX_WORD
from turnwired.providers.openai_chat_json import JsonToolParser
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.openai_responses_parser import ResponsesParser
from turnwired.providers.wire import WireParser
from turnwired.turn.answer import Answer
from turnwired.turn.ids import Ids

Path = tuple[str | int, ...]


def _chat(**delta: object) -> dict[str, Any]:
    return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _block(index: int, kind: str, **fields: object) -> dict[str, Any]:
    return {"type": f"content_block_{kind}", "index": index, **fields}


def _item(index: int, kind: str, **fields: object) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": fields}


CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"g": {"s": "x"}}}
CHAT = [
    _chat(reasoning="hm", reasoning_details=[{"type": "reasoning.text", "text": "a"}, {"data": "x", "id": "i"}]),
    _chat(content="hi"),
    _chat(content=[{"type": "text", "text": "a"}, {"thinking": [{"text": "t"}]}]),
    _chat(images=[{"image_url": {"url": "data:image/png;base64,AAAA"}}], refusal="no", extra_content={"g": {"s": 1}}),
    _chat(tool_calls=[CALL]),
    _chat(function_call={"name": "f", "arguments": "{}"}),
    {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}},
    },
    {"choices": [], "error": {"message": "m", "type": "t", "code": "c", "param": "p"}},
]
RESPONSES = [
    {"type": "response.created", "response": {"id": "r", "model": "m"}},
    _item(0, "done", type="reasoning", id="i", summary=[{"text": "x"}], encrypted_content="e"),
    _item(1, "done", type="message", id="j", content=[{"text": "x", "annotations": [{"a": 1}]}]),
    _item(2, "done", type="function_call", call_id="c", name="f", arguments="{}"),
    _item(3, "done", type="image_generation_call", result="AAAA", output_format="png"),
    _item(4, "done", type="web_search_call", action={"a": 1}),
    {"type": "response.output_text.delta", "output_index": 5, "content_index": 0, "delta": "x"},
    {
        "type": "response.incomplete",
        "response": {
            "status": "incomplete",
            "output": [],
            "error": {"message": "m", "code": "c"},
            "usage": {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
            "incomplete_details": {"reason": "x"},
        },
    },
]
MESSAGES = [
    {
        "type": "message_start",
        "message": {
            "id": "r",
            "model": "m",
            "content": [],
            "usage": {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3},
        },
    },
    _block(0, "start", content_block={"type": "thinking", "thinking": "x", "signature": "s"}),
    _block(0, "delta", delta={"type": "signature_delta", "signature": "x"}),
    _block(1, "start", content_block={"type": "text", "text": "a", "citations": [{"a": 1}]}),
    _block(1, "delta", delta={"type": "citations_delta", "citation": {"a": 1}}),
    _block(2, "start", content_block={"type": "tool_use", "id": "c", "name": "f", "input": {}, "caller": {"a": 1}}),
    _block(3, "start", content_block={"type": "server_tool_use", "id": "c", "input": {}}),
    _block(3, "delta", delta={"type": "input_json_delta", "partial_json": "{}"}),
    _block(4, "start", content_block={"type": "redacted_thinking", "data": "x"}),
    {"type": "error_or_not", "error": None},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]
DEEP = (190, 480, 900, *range(965, 1000, 10))
VALUES = [
    *("null", "true", "NaN", "-Infinity", "1e999", "9223372036854775807", "-1", "9" * 4200, "9" * 5000, '""', "{}"),
    *(r'"\ud800"', r'"a\udc00b"', r'"\u0000"', '"\u2028"', "[null]", '{"a":NaN}', '[{"a":1e999}]', r'{"\ud800":1}'),
    *("[" * depth + "]" * depth for depth in DEEP),
    *('{"a":' * depth + "1" + "}" * depth for depth in DEEP),
    *('[{"text":' + "[" * depth + "]" * depth + "}]" for depth in DEEP),
]
MARK = "the-place-of-the-value"


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    entries: Sequence[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    for step, below in entries:
        yield from _paths(below, (*path, step))


def _marked(events: Sequence[dict[str, Any]], path: Path) -> str:
    changed: Any = copy.deepcopy(list(events))
    node = changed
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = MARK
    return "".join(f"data: {json.dumps(event)}\n\n" for event in changed)


def _stored(items: Sequence[ModelItem]) -> None:
    """Fold the items as a run does; what is kept must be text, JSON and numbers that a log takes."""
    answer = Answer(Ids("run"), {}, "p")
    for event in [*answer.take(items), *answer.finish(complete=True)]:
        msgspec.json.encode(event)
    for item in items:
        if isinstance(item, NativeItem):
            msgspec.json.decode(item.json)
        if isinstance(item, UsageReported):
            counts = (item.usage.input_tokens, item.usage.output_tokens, item.usage.reasoning_tokens)
            assert all(count is None or 0 <= count < 2**53 for count in counts)


@pytest.mark.requirement("HOSTILE-2")
@pytest.mark.parametrize(
    ("make", "events"),
    [(ChatParser, CHAT), (JsonToolParser, CHAT), (ResponsesParser, RESPONSES), (MessagesParser, MESSAGES)],
    ids=["chat", "json tools", "responses", "messages"],
)
def test_any_value_at_any_place_gives_items_that_can_be_kept(
    make: Callable[[], WireParser], events: list[dict[str, Any]]
) -> None:
    # Each value at each place of the answer once: the place decides where a parser is on the stack.
    for path, value in itertools.product(_paths(events), VALUES):
        if len(path) > 1:
            body = _marked(events, path).replace(json.dumps(MARK), value).encode()
            parser = make()
            _stored([*parser.feed(body), *parser.finish()])


@pytest.mark.requirement("HOSTILE-2")
@pytest.mark.parametrize(
    "written",
    [
        r'{"tool":"\ud800","arguments":{}}',
        r'{"arguments":"\udfff{}","tool":"f"}',
        '{"tool":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"arguments":' + "[" * 100_000,
        '{"answer":' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_any_json_turn_gives_items_that_can_be_kept(written: str) -> None:
    parser = JsonToolParser()
    _stored([*parser.feed(f"data: {json.dumps(_chat(content=written))}\n\n".encode()), *parser.finish()])


def _seconds(make: Callable[[], WireParser], event: Callable[[int], Sequence[dict[str, Any]]], count: int) -> float:
    body = "".join(f"data: {json.dumps(one)}\n\n" for number in range(count) for one in event(number)).encode()
    parser, answer = make(), Answer(Ids("run"), {}, "p")
    begun = time.process_time()
    for at in range(0, len(body), 64 * 1024):
        answer.take(parser.feed(body[at : at + 64 * 1024]))
    answer.finish(complete=True)
    return time.process_time() - begun


def _cited(number: int) -> Sequence[dict[str, Any]]:
    block = {"type": "text", "text": "q", "citations": [1]}
    return _block(number, "start", content_block=block), _block(number, "stop")


@pytest.mark.requirement("HOSTILE-3")
@pytest.mark.parametrize(
    ("make", "event"),
    [
        (
            ChatParser,
            lambda _: [_chat(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "{"}}])],
        ),
        (ChatParser, lambda number: [_chat(reasoning_details=[{"data": str(number)}])]),
        (MessagesParser, _cited),
    ],
    ids=["name repeated", "encrypted details", "cited blocks"],
)
def test_the_time_for_an_answer_grows_with_its_length(
    make: Callable[[], WireParser], event: Callable[[int], Sequence[dict[str, Any]]]
) -> None:
    few, many = (min(_seconds(make, event, count) for _ in range(2)) for count in (1500, 12_000))
    assert many < 8 * few * 3, "eight times as much takes eight times as long, and not sixty-four times"


@pytest.mark.requirement("HOSTILE-4")
@pytest.mark.parametrize(
    ("make", "event"),
    [
        (ChatParser, lambda number: [_chat(**({"content": "a"} if number % 2 else {"reasoning": "b"}))]),
        (JsonToolParser, lambda _: [_chat(content='{"tool":"f","arguments":{}}')]),
        (MessagesParser, _cited),
        (ResponsesParser, lambda number: [_item(number, "done", type="web_search_call")]),
    ],
    ids=["chat", "json tools", "messages", "responses"],
)
def test_an_answer_of_endless_parts_is_broken(
    make: Callable[[], WireParser], event: Callable[[int], Sequence[dict[str, Any]]]
) -> None:
    parser = make()
    for number in range(MAX_PARTS + 2):
        parser.feed("".join(f"data: {json.dumps(one)}\n\n" for one in event(number)).encode())
        if parser.ended:
            break
    assert parser.broken is not None
    assert parser.broken.reason is Reason.PROVIDER_PROTOCOL_ERROR
    assert parser.feed(f"data: {json.dumps(event(0)[0])}\n\n".encode()) == []


@pytest.mark.requirement("HOSTILE-4")
async def test_an_endless_answer_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 1024 * 1024)

    async def endless(_: Request, sending: Sending) -> None:
        await sending.start()
        while not sending.gone.is_set():
            await sending.send(b": nothing\n\n" * 4096)

    folded, failure = await answer_of(endless)
    assert failure is not None
    assert failure.reason is Reason.PROVIDER_PROTOCOL_ERROR
    assert folded.text == ""


@pytest.mark.requirement("HOSTILE-7")
def test_names_that_a_provider_gives_are_cut() -> None:
    parser = ChatParser()
    chunk = {"id": "i" * 10**6, "model": "m" * 10**6, "choices": [{"index": 0, "finish_reason": "w" * 10**6}]}
    items = [*parser.feed(f"data: {json.dumps(chunk)}\n\n".encode()), *parser.finish()]
    identified = next(item for item in items if isinstance(item, ResponseIdentified))
    assert len(identified.response_id) == len(identified.model) == MAX_WORD
    assert all(len(repr(item)) < 3 * MAX_WORD for item in items)


@pytest.mark.requirement("HOSTILE-8")
@pytest.mark.parametrize("model", [".", "..", "../x", "a/b", "..%2f", "x?y#z", "{model}", "ü \u2028"])
async def test_a_models_name_stays_in_its_place_of_the_url(model: str) -> None:
    paths: list[str] = []

    async def handler(asked: Request, sending: Sending) -> None:
        paths.append(asked.path)
        await sending.all(b"{}", 404)

    folded, failure = await answer_of(handler, path="/deployments/{model}/chat", asked=replace(request(), model=model))
    assert folded.text == ""
    assert failure is not None
    assert failure.reason is Reason.MODEL_NOT_FOUND
    assert all(path.startswith("/v1/deployments/") and path.endswith("/chat") for path in paths)
    assert all(path.count("/") == 4 for path in paths)


@pytest.mark.requirement("HOSTILE-9")
@pytest.mark.parametrize("name", ["n_predict", "n_cmpl", "best_of", "max_tokens", "n"])
def test_no_provider_option_is_another_name_of_a_limit(name: str) -> None:
    chat = provider("http://127.0.0.1:1/v1")
    assert [found.field for found in chat.check(request(provider_options={name: 10**6}))] == [
        "turn.model.provider_options_json"
    ]
