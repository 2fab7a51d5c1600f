"""Messages and tools as the JSON of chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.errors import InvalidRequest
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import (
    AttachmentRef,
    Blob,
    Content,
    Data,
    Message,
    OpaqueBlock,
    Part,
    Reasoning,
    ResourceLink,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolResultStatus,
)
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.providers.openai_chat_messages import call_id, encode_message, encode_system, encode_tools
from turnwired.providers.profiles import CallIdForm, Profile, Wire

PROFILE = Profile("acme", Wire.OPENAI_CHAT, "acme")
BLIND = Profile("blind", Wire.OPENAI_CHAT, "blind", inputs=frozenset())
ECHO = Profile("echo", Wire.OPENAI_CHAT, "echo", reasoning_echo_field="reasoning_content")
MISTRAL = Profile("mistral", Wire.OPENAI_CHAT, "mistral", call_ids=CallIdForm.ALPHANUMERIC_9)
REF = ToolRef("look_up", "lookup", ToolSource.LOCAL)
PNG = Blob("image/png", b"\x89PNG")


def message(role: Role, *contents: Content) -> Message:
    """A message of these parts."""
    return Message(role, tuple(Part(f"p{i}", content) for i, content in enumerate(contents)))


def result(*contents: Content, status: ToolResultStatus = ToolResultStatus.OK, **fields: Any) -> ToolResult:
    """A result of call c1."""
    return ToolResult("c1", status, tuple(Part(f"r{i}", content) for i, content in enumerate(contents)), **fields)


def encoded(given_message: Message, profile: Profile = PROFILE) -> list[dict[str, Any]]:
    """The message objects."""
    found: list[dict[str, Any]] = json.loads(b"[" + encode_message(given_message, profile) + b"]")
    return found


@pytest.mark.requirement("WIRE-13")
def test_system_blocks_are_one_message_and_none_for_none() -> None:
    assert json.loads(encode_system(["a", "", "b"])) == {"role": "system", "content": "a\n\nb"}
    assert encode_system([]) == encode_system([""]) == b""


@pytest.mark.requirement("WIRE-13")
def test_a_user_message_of_text_is_a_plain_string() -> None:
    parts: list[Content] = [Text("hi"), Data('{"a":1}'), ResourceLink("x:y", "Y"), Blob("text/csv", b"1,2")]
    assert encoded(message(Role.USER, *parts)) == [{"role": "user", "content": 'hi\n\n{"a":1}\n\n[Y](x:y)\n\n1,2'}]


@pytest.mark.requirement("WIRE-13")
def test_an_image_is_sent_as_data_or_as_its_address() -> None:
    [sent] = encoded(message(Role.USER, Text("what?"), PNG, Blob("image/png", b"", "https://x.example/a.png")))
    assert sent["content"] == [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
    ]


@pytest.mark.requirement("WIRE-15")
@pytest.mark.parametrize(
    ("content", "profile"),
    [
        (PNG, BLIND),
        (Blob("audio/wav", b"x"), PROFILE),
        (Blob("application/pdf", b"x"), PROFILE),
        (Blob("text/plain", b"", "https://x.example/a.txt"), PROFILE),
        (AttachmentRef("a"), PROFILE),
        (OpaqueBlock("ui", "{}"), PROFILE),
        (ToolCall("c", REF, "{}"), PROFILE),
    ],
)
def test_what_a_user_message_cannot_carry_is_refused_by_the_part(content: Content, profile: Profile) -> None:
    with pytest.raises(InvalidRequest, match=r"parts\[p0\]"):
        encode_message(message(Role.USER, content), profile)


@pytest.mark.requirement("WIRE-13", "WIRE-14")
def test_an_assistant_turn_has_its_text_and_calls_and_leaves_reasoning_out() -> None:
    turn = message(Role.ASSISTANT, Reasoning("hmm", b"sig", "echo"), Text("I look."), ToolCall("c1", REF, '{"q": 1}'))
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": 1}'}}
    assert encoded(turn) == [{"role": "assistant", "content": "I look.", "tool_calls": [call]}]
    assert encoded(turn, ECHO)[0]["reasoning_content"] == "hmm"
    assert encoded(message(Role.ASSISTANT, ToolCall("c1", REF, "{}")))[0]["content"] is None
    assert encode_message(message(Role.ASSISTANT, Reasoning("hmm")), PROFILE) == b""


@pytest.mark.requirement("WIRE-14")
@given(
    arguments=st.text(max_size=30) | st.sampled_from(['{"a":', "null", "[1]", '{"a":1}', "", "  ", '"x"', "[" * 5000])
)
def test_arguments_in_a_history_are_always_a_json_object(arguments: str) -> None:
    [sent] = encoded(message(Role.ASSISTANT, ToolCall("c1", REF, arguments)))
    assert isinstance(json.loads(sent["tool_calls"][0]["function"]["arguments"]), dict)


@pytest.mark.requirement("WIRE-14")
@given(st.text(min_size=1, max_size=40))
def test_a_call_and_its_result_have_the_same_id_in_the_form_that_the_server_takes(our_id: str) -> None:
    turn = message(Role.ASSISTANT, ToolCall(our_id, REF, "{}"))
    answer = message(Role.TOOL, ToolResult(our_id, ToolResultStatus.OK))
    [call], [tool] = encoded(turn, MISTRAL), encoded(answer, MISTRAL)
    assert call["tool_calls"][0]["id"] == tool["tool_call_id"] == call_id(our_id, CallIdForm.ALPHANUMERIC_9)
    assert len(tool["tool_call_id"]) == 9
    assert tool["tool_call_id"].isalnum()


@pytest.mark.requirement("WIRE-13")
def test_results_are_tool_messages_in_call_order_then_their_images() -> None:
    second = ToolResult("c2", ToolResultStatus.OK, (Part("x", Text("two")),))
    sent = encoded(message(Role.TOOL, result(Text("one"), PNG), second))
    assert [(m["role"], m.get("tool_call_id")) for m in sent] == [("tool", "c1"), ("tool", "c2"), ("user", None)]
    assert [m["content"] for m in sent[:2]] == ["one", "two"]
    assert sent[2]["content"][1]["type"] == "image_url"


FAILED = Failure(FailurePhase.TOOL, Reason.TOOL_TIMEOUT, "no answer within 3 s")


@pytest.mark.requirement("WIRE-13", "WIRE-15")
@pytest.mark.parametrize(
    ("given_result", "text"),
    [
        (result(), "(no output)"),
        (result(structured_json='{"a":1}'), '{"a":1}'),
        (result(Text("x"), structured_json='{"a":1}'), "x"),
        (result(status=ToolResultStatus.ERROR, failure=FAILED), "The tool failed: no answer within 3 s"),
        (result(Text("half"), status=ToolResultStatus.INTERRUPTED), "The call was interrupted.\nhalf"),
        (result(status=ToolResultStatus.DENIED), "The call was denied."),
        (result(status=ToolResultStatus.NOT_EXECUTED), "The call was not executed."),
        (result(status=ToolResultStatus.OUTCOME_UNKNOWN), "The outcome of the call is unknown."),
        (result(OpaqueBlock("ui", '{"b":2}')), '{"b":2}'),
        (result(Blob("audio/wav", b"xyz")), "(3 bytes of type audio/wav, which this model cannot be shown)"),
        (result(PNG), "(4 bytes of type image/png, which this model cannot be shown)"),
    ],
)
def test_a_result_is_text_that_says_how_the_call_ended(given_result: ToolResult, text: str) -> None:
    assert encoded(message(Role.TOOL, given_result), BLIND) == [{"role": "tool", "tool_call_id": "c1", "content": text}]


@pytest.mark.requirement("WIRE-15")
def test_a_tool_message_takes_results_only() -> None:
    with pytest.raises(InvalidRequest):
        encode_message(message(Role.TOOL, Text("x")), PROFILE)


@pytest.mark.requirement("WIRE-13")
def test_tools_keep_their_order_and_their_schema_word_for_word() -> None:
    schema = '{ "type": "object", "properties": {"q": {"type": "string"}} }'
    tools = [Tool(REF, "Looks up.", schema), Tool(ToolRef("b", "b", ToolSource.MCP), "", "")]
    sent = encode_tools(tools, PROFILE)
    assert schema.encode() in sent
    decoded = json.loads(sent)
    assert [tool["function"]["name"] for tool in decoded] == ["look_up", "b"]
    assert decoded[0]["function"]["description"] == "Looks up."
    assert decoded[1]["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.requirement("WIRE-13")
@given(st.lists(st.text(max_size=10).map(Text) | st.just(PNG) | st.just(Data("1")), max_size=4))
def test_the_same_message_always_gives_the_same_bytes(contents: list[Content]) -> None:
    first, again = (encode_message(message(Role.USER, *contents), PROFILE) for _ in range(2))
    assert first == again
