"""The parser of chat completions by the data of a profile, its fast way beside its general one, and mutated events."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from providers import corpus
from providers.folding import Folded, add_all, fold, reads

from turnwired.domain.errors import ConfigError
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.openai_chat_fields import AnswerForm
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, UsageArrival, Wire

FIXTURES = Path(__file__).with_name("fixtures")
STREAMS: list[list[Any]] = [
    case["events"] for case in json.loads((FIXTURES / "chat_streams.json").read_text())["cases"]
]
USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "r", "model": "m", "choices": choices, **more}


def stream(events: list[Any]) -> bytes:
    """The body of a stream."""
    texts = [one if isinstance(one, str) else one.get("raw") or json.dumps(one) for one in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def parsed_without_end(events: list[Any], form: AnswerForm) -> tuple[Folded, bool]:
    """What a stream that stays open gives, and whether the answer is known to be over."""
    parser = ChatParser(200, form)
    folded = Folded()
    for one in events:
        add_all(folded, parser.feed(stream([one])))
    return folded, parser.ended


TEXT = event({"content": "a"})
END = event({}, "stop")
TOLD = event(None, usage=USAGE)


@pytest.mark.requirement("CHAT-17")
@pytest.mark.parametrize(
    ("usage", "events", "over"),
    [
        (UsageArrival.AFTER_FINISH, [TEXT, END, TOLD], True),
        (UsageArrival.AFTER_FINISH, [TEXT, END], False),
        (UsageArrival.AFTER_FINISH, [TEXT, TOLD, END], False),
        (UsageArrival.AFTER_FINISH, [TEXT, END, event(None, usage={})], False),
        (UsageArrival.WITH_FINISH, [TEXT, event({}, "stop", usage=USAGE)], True),
        (UsageArrival.WITH_FINISH, [TEXT, event({}, "stop", x_groq={"usage": USAGE})], True),
        (UsageArrival.WITH_FINISH, [TEXT, END], False),
        (UsageArrival.EVERY_CHUNK, [event({"content": "a"}, usage=USAGE), END], True),
        (UsageArrival.EVERY_CHUNK, [TEXT, END], False),
        (UsageArrival.NEVER, [TEXT, END], True),
        (UsageArrival.NEVER, [TEXT], False),
    ],
)
def test_without_an_end_marker_an_answer_is_over_when_nothing_more_is_due(
    usage: UsageArrival, events: list[Any], over: bool
) -> None:
    folded, ended = parsed_without_end(events, AnswerForm(done_marker=False, usage=usage))
    assert (ended, folded.stopped is not None) == (over, over)
    with_marker, ended = parsed_without_end(events, AnswerForm(usage=usage))
    assert not ended
    assert with_marker.stopped is None
    # The end of the body or a marker that comes all the same ends both in the same way.
    closed = fold(ChatParser(200, AnswerForm(done_marker=False, usage=usage)), [stream([*events, "[DONE]"])])
    assert closed == fold(ChatParser(), [stream([*events, "[DONE]"])])


@pytest.mark.requirement("CHAT-17")
def test_usage_counts_when_it_is_in_the_read_of_the_finish_reason() -> None:
    form = AnswerForm(done_marker=False)
    folded = fold(ChatParser(200, form), [stream([TEXT, END, TOLD, event({"content": "not read"})])])
    assert folded.text == "a"
    assert folded.usage


@pytest.mark.requirement("CHAT-18")
@pytest.mark.parametrize("unusual", [False, True])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("reasoning_content", "reasoning", "reasoning_text"), "1"),
        (("reasoning", "reasoning_content"), "2"),
        (("thoughts",), "4"),
        (("a", "b", "thoughts"), "4"),
        ((), ""),
    ],
)
def test_reasoning_is_where_the_profile_says(names: tuple[str, ...], expected: str, unusual: bool) -> None:
    delta = {"reasoning_content": "1", "reasoning": "2", "reasoning_text": "3", "thoughts": "4", "content": "x"}
    events = [TEXT, {**event(delta), **({"x_groq": {}} if unusual else {})}, END]
    wire = OpenAIChat(Profile("acme", Wire.OPENAI_CHAT, "acme", reasoning_fields=names))
    folded = fold(wire.call(ModelRequest("m", [])).parser(200), [stream(events)])
    assert (folded.reasoning, folded.text) == (expected, "ax")


@pytest.mark.requirement("CHAT-18")
@pytest.mark.parametrize("names", [("content",), ("a", "a"), ("a\n",), ("a", "b", "tool_calls")])
def test_fields_that_cannot_hold_reasoning_are_a_mistake_of_the_configuration(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"providers\.acme\.reasoning_fields"):
        OpenAIChat(Profile("acme", Wire.OPENAI_CHAT, "acme", reasoning_fields=names))


TEXTS = st.text(max_size=3) | st.none()
CALL = st.fixed_dictionaries(
    {"index": st.integers(0, 1), "function": st.fixed_dictionaries({"arguments": st.text(max_size=2)})},
    optional={"id": st.sampled_from([None, "", "c"]), "type": st.just("function")},
)
NAMED = st.just({"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}})
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": TEXTS,
        "reasoning_content": TEXTS,
        "reasoning": TEXTS,
        "refusal": st.none(),
        "tool_calls": st.none() | st.lists(CALL | NAMED, max_size=2),
        "reasoning_details": st.just([]),
    },
)
CHUNKS = st.builds(
    lambda delta, finish, usage: event(delta, finish, usage=usage),
    st.none() | DELTAS,
    st.sampled_from([None, None, None, "stop", "tool_calls", "", "error"]),
    st.sampled_from([None, None, USAGE, {}]),
)


@pytest.mark.requirement("CHAT-19")
@settings(max_examples=300)
@given(events=st.lists(CHUNKS, max_size=6), size=st.sampled_from([0, 1]), form=st.sampled_from(UsageArrival))
def test_the_fast_way_and_the_general_one_give_the_same(events: list[Any], size: int, form: UsageArrival) -> None:
    unusual = [{**one, "x_groq": {}} for one in events]
    dialect = AnswerForm(done_marker=form is UsageArrival.AFTER_FINISH, usage=form)
    usual = fold(ChatParser(200, dialect), reads(stream(events), size))
    assert usual == fold(ChatParser(200, dialect), reads(stream(unusual), size))


def mutated(value: Any, data: st.DataObject) -> Any:
    """The value with one place changed."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 9)):
        key = data.draw(st.sampled_from(sorted(value)))
        match data.draw(st.sampled_from(["deeper", "deeper", "gone", "twice"])):
            case "deeper":
                return {**value, key: mutated(value[key], data)}
            case "gone":
                return {name: below for name, below in value.items() if name != key}
            case _:
                return {**value, data.draw(st.sampled_from(sorted(value))): copy.deepcopy(value[key])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 9)):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutated(value[at], data), *value[at + data.draw(st.integers(0, 1)) :]]
    return data.draw(
        st.sampled_from([None, True, 0, -1, 2**70, 1.5, "", "x", "\ud800", [], [None], {}, {"text": []}, [[]], [{}]])
    )


RECORDED = [case["body"] for case in corpus.cases("openai.chat").values() if len(case["body"]) < 20_000]


@pytest.mark.requirement("CHAT-20", "WIRE-3")
@settings(max_examples=300)
@given(data=st.data(), size=st.sampled_from([0, 1, 64]))
def test_mutated_events_never_crash_the_parser(data: st.DataObject, size: int) -> None:
    events = [one if isinstance(one, str) else one.get("raw", one) for one in data.draw(st.sampled_from(STREAMS))]
    for _ in range(data.draw(st.integers(1, 4))):
        if events:
            at = data.draw(st.integers(0, len(events) - 1))
            events[at] = mutated(events[at], data)
    body = b"".join(
        b"data: " + (one if isinstance(one, str) else json.dumps(one)).encode(errors="replace") + b"\n\n"
        for one in events
    )
    form = AnswerForm(done_marker=data.draw(st.booleans()), usage=data.draw(st.sampled_from(UsageArrival)))
    fold(ChatParser(200, form), reads(body, size))


@pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)
@pytest.mark.requirement("CHAT-20", "WIRE-3")
@settings(max_examples=200)
@given(data=st.data(), size=st.sampled_from([0, 7]))
def test_damaged_recordings_never_crash_the_parser(data: st.DataObject, size: int) -> None:
    body = bytearray(data.draw(st.sampled_from(RECORDED)).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, max(len(body) - 1, 0)))
        body[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
    fold(ChatParser(data.draw(st.sampled_from([200, 500]))), reads(bytes(body), size))


@pytest.mark.requirement("CHAT-20")
@pytest.mark.parametrize("depth", [200, 400, 900, 3000])
@pytest.mark.parametrize("field", ["extra_content", "reasoning_details", "content", "images", "tool_calls"])
def test_nesting_of_any_depth_in_any_field_is_no_crash(field: str, depth: int) -> None:
    value = '{"a":' * depth + "1" + "}" * depth
    value = f"[{value}]" if field in {"reasoning_details", "images", "tool_calls"} else value
    raw = f'data: {{"id":"r","choices":[{{"index":0,"delta":{{"{field}":{value}}}}}]}}\n\n'.encode()
    folded = fold(ChatParser(), [raw * 2, stream([END])])
    assert folded.broken or folded.stopped
