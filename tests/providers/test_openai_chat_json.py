"""Tools under a JSON schema over chat completions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers.folding import Folded, fold, reads

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode, ToolRef, ToolSource
from turnwired.providers.build import provider_for
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.openai_chat_json import JsonToolParser
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import shipped, with_overrides

ROW = {"local": {"base_url": "http://127.0.0.1:1/v1"}}
PROFILE = with_overrides(shipped(), ROW)["local"]
CHAT = OpenAIChat(PROFILE)
PROVIDER = provider_for(PROFILE, environ={})
REF = ToolRef("get_time", "get_time", ToolSource.LOCAL)
TOOL = Tool(REF, "Tells the time.", '{"type":"object","properties":{"zone":{"type":"string"}}}')


def body(texts: Sequence[str], finish: str = "stop", **first: Any) -> bytes:
    """A stream of these texts."""
    chunks: list[dict[str, Any]] = [{"content": text} for text in texts]
    deltas: list[tuple[dict[str, Any], str | None]] = [*((delta, None) for delta in [first, *chunks]), ({}, finish)]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in deltas]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def parse(stream: bytes, size: int = 0) -> Folded:
    """The folded answer."""
    return fold(JsonToolParser(), reads(stream, size))


CALL = '{"tool": "get_time", "arguments": {"zone": "Asia/Tokyo"}}'
ANSWER = '{"tool": "none", "answer": "It is\\nnoon."}'


@pytest.mark.requirement("WIRE-17")
@given(cuts=st.lists(st.integers(1, len(CALL) - 1), max_size=5), size=st.sampled_from([0, 1, 7, 64]))
def test_a_json_turn_is_a_tool_call_however_it_is_cut(cuts: list[int], size: int) -> None:
    edges = [0, *sorted(cuts), len(CALL)]
    texts = [CALL[a:b] for a, b in pairwise(edges)]
    folded = parse(body(texts), size)
    [call] = folded.calls.values()
    assert (call.name, json.loads(call.arguments), call.closed) == ("get_time", {"zone": "Asia/Tokyo"}, True)
    assert folded.text == ""
    assert folded.stopped
    assert (folded.stopped.reason, folded.stopped.provider_reason) == (FinishReason.TOOL_CALLS, "stop")


@pytest.mark.requirement("WIRE-17")
def test_a_json_answer_is_text_and_reasoning_has_a_part_of_its_own() -> None:
    folded = parse(body([ANSWER[:30], ANSWER[30:]], reasoning_content="hmm"))
    assert (folded.text, folded.reasoning, folded.calls) == ("It is\nnoon.", "hmm", {})
    assert [kind for kind, _ in folded.parts.values()] == ["reasoning", "text"]
    assert folded.stopped
    assert folded.stopped.reason is FinishReason.STOP


@pytest.mark.requirement("WIRE-17", "WIRE-7")
def test_a_call_cut_by_the_output_limit_is_never_closed() -> None:
    folded = parse(body([CALL[:-10]], "length"))
    [call] = folded.calls.values()
    assert not call.closed
    assert folded.stopped
    assert folded.stopped.reason is FinishReason.OUTPUT_LIMIT


@pytest.mark.requirement("WIRE-17", "TRANSPORT-2")
def test_what_is_held_back_until_its_meaning_is_known_is_content_all_the_same() -> None:
    parser = JsonToolParser()
    begun = body(['{"tool": "get']).split(b"data: [DONE]")[0].rsplit(b"data: ", 1)[0]
    assert parser.feed(begun) == []
    assert parser.content
    parser.feed(b'data: {"id":"r","choices":[{"index":0,"delta":{"content":"_time"},"finish_reason":null}]}\n\n')
    assert parser.content
    parser.feed(b": ping\n\n")
    assert not parser.content


@pytest.mark.requirement("WIRE-17")
def test_a_server_that_ignores_the_schema_gives_its_text_as_the_answer() -> None:
    assert parse(body(["Just ", "text."])).text == "Just text."
    assert parse(b'{"choices":[{"index":0,"message":{"content":"{\\"a"},"finish_reason":"length"}]}').text == '{"a'


@pytest.mark.requirement("WIRE-17", "WIRE-10")
def test_an_error_keeps_what_was_held_back() -> None:
    stream = body(['{"to']).split(b"data: [DONE]")[0].rsplit(b"data: ", 1)[0]
    folded = parse(stream + b'data: {"error":{"code":500}}\n\n')
    assert folded.text == '{"to'
    assert folded.error


@pytest.mark.requirement("WIRE-17")
@pytest.mark.parametrize(
    ("choice", "tools", "tool_names"),
    [
        (ToolChoice(), True, ["get_time", "none"]),
        (ToolChoice(ToolChoiceMode.REQUIRED), True, ["get_time"]),
        (ToolChoice(ToolChoiceMode.NONE), True, ["none"]),
        (ToolChoice(routed_name="get_time"), True, ["get_time"]),
        (ToolChoice(ToolChoiceMode.REQUIRED), False, ["none"]),
    ],
)
def test_the_request_asks_for_a_call_or_an_answer(choice: ToolChoice, tools: bool, tool_names: list[str]) -> None:
    encoded = PROVIDER.encode_tools([TOOL]) if tools else b""
    request = ModelRequest("m", [], tools=encoded, tool_choice=choice, offered=[TOOL] if tools else [])
    sent = json.loads(CHAT.call(request).body)
    assert "tools" not in sent
    branches = sent["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [branch["properties"]["tool"]["const"] for branch in branches] == tool_names


@pytest.mark.requirement("WIRE-15", "WIRE-17")
def test_a_response_format_of_ones_own_goes_only_without_tools() -> None:
    own = {"response_format": {"type": "json_object"}}
    assert json.loads(CHAT.call(ModelRequest("m", [], provider_options=own)).body)["response_format"] == {
        "type": "json_object"
    }
    with pytest.raises(ProviderError) as caught:
        CHAT.call(ModelRequest("m", [], tools=b"[]", offered=[TOOL], provider_options=own))
    assert caught.value.failure.reason is Reason.OPTION_NOT_SUPPORTED
    with pytest.raises(ProviderError) as caught:
        CHAT.call(ModelRequest("m", [], tools=b"[]", tool_choice=ToolChoice(routed_name="nobody"), offered=[TOOL]))
    assert caught.value.failure.reason is Reason.INVALID_REQUEST


@pytest.mark.requirement("WIRE-17", "WIRE-13")
def test_history_shows_the_model_its_turns_in_the_form_it_writes() -> None:
    turn = Message(Role.ASSISTANT, (Part("a", ToolCall("c1", REF, '{"zone": "Asia/Tokyo"}')),))
    failure = Failure(FailurePhase.TOOL, Reason.TOOL_TIMEOUT, "no answer")
    results = (
        Part("r", ToolResult("c1", ToolResultStatus.OK, (Part("x", Text("12:00")),))),
        Part("s", ToolResult("c2", ToolResultStatus.ERROR, failure=failure)),
    )
    answer = Message(Role.ASSISTANT, (Part("b", Text("It is\nnoon.")),))
    sent = [json.loads(PROVIDER.encode_message(m)) for m in (turn, Message(Role.TOOL, results), answer)]
    assert [message["role"] for message in sent] == ["assistant", "user", "assistant"]
    assert sent[0]["content"] == CALL
    assert "12:00" in sent[1]["content"]
    assert "no answer" in sent[1]["content"]
    assert sent[2]["content"] == ANSWER
    assert "get_time" in json.loads(PROVIDER.encode_system(["Be brief."], [TOOL]))["content"]
