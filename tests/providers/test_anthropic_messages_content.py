"""Messages and tools as the JSON of the Messages wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers.messages import answer_of, stream

from turnwired.domain.errors import InvalidRequest
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import ModelItem, NativeItem, ReasoningChunk, TextChunk, ToolArgumentsChunk
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
from turnwired.providers.anthropic_messages_content import call_id, encode_message, encode_system, encode_tools
from turnwired.providers.anthropic_messages_parser import MessagesParser
from turnwired.providers.profiles import InputKind, Profile, PromptCache, SchemaAdaptation, Wire

PROFILE = Profile("acme", Wire.ANTHROPIC_MESSAGES, "acme", inputs=frozenset({InputKind.IMAGE, InputKind.PDF}))
BLIND = Profile("acme", Wire.ANTHROPIC_MESSAGES, "acme", inputs=frozenset())
OTHER = Profile("other", Wire.ANTHROPIC_MESSAGES, "other")
ECHO = Profile("acme", Wire.ANTHROPIC_MESSAGES, "acme", reasoning_echo_field="thinking")
REF = ToolRef("look_up", "lookup", ToolSource.LOCAL)
PNG = Blob("image/png", b"\x89PNG")
PDF = Blob("application/pdf", b"%PDF")
SENT_PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
SENT_PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}}


def message(role: Role, *contents: Content) -> Message:
    """A message of these parts."""
    return Message(role, tuple(Part(f"p{i}", content) for i, content in enumerate(contents)))


def result(*contents: Content, status: ToolResultStatus = ToolResultStatus.OK, **fields: Any) -> ToolResult:
    """A result of call c1."""
    return ToolResult("c1", status, tuple(Part(f"r{i}", content) for i, content in enumerate(contents)), **fields)


def blocks(given_message: Message, profile: Profile = PROFILE, role: str = "user") -> list[dict[str, Any]]:
    """The content blocks of the one message that it becomes."""
    sent = json.loads(encode_message(given_message, profile))
    assert sent["role"] == role
    found: list[dict[str, Any]] = sent["content"]
    return found


def turn(*contents: Content, profile: Profile = PROFILE) -> list[dict[str, Any]]:
    """The blocks of an assistant turn."""
    return blocks(message(Role.ASSISTANT, *contents), profile, "assistant")


def text(words: str) -> dict[str, str]:
    """A text block."""
    return {"type": "text", "text": words}


@pytest.mark.requirement("MSG-21")
def test_system_blocks_stay_apart_and_the_last_one_is_a_breakpoint_where_asked_for() -> None:
    caching = Profile("acme", Wire.ANTHROPIC_MESSAGES, "acme", prompt_cache=PromptCache.BREAKPOINTS)
    assert json.loads(b"[" + encode_system(["a", " ", "b"], PROFILE) + b"]") == [text("a"), text("b")]
    marked = {**text("b"), "cache_control": {"type": "ephemeral"}}
    assert json.loads(b"[" + encode_system(["a", "b"], caching) + b"]") == [text("a"), marked]
    assert encode_system([], caching) == encode_system(["\n"], caching) == b""


@pytest.mark.requirement("MSG-17", "MSG-18")
def test_a_user_message_is_a_list_of_blocks_without_empty_text() -> None:
    parts: list[Content] = [Text("hi"), Text(" \n"), Data('{"a":1}'), ResourceLink("x:y", "Y"), PNG, PDF]
    sent = blocks(message(Role.USER, *parts))
    assert sent == [text("hi"), text('{"a":1}'), text("[Y](x:y)"), SENT_PNG, SENT_PDF]
    assert encode_message(message(Role.USER, Text("")), PROFILE) == b""


@pytest.mark.requirement("MSG-18")
def test_media_may_be_given_by_address_and_text_documents_as_documents() -> None:
    csv = Blob("text/csv", b"1,2")
    by_address = [
        Blob("image/png", b"", "https://x.example/a.png"),
        Blob("application/pdf", b"", "https://x.example/a"),
    ]
    assert blocks(message(Role.USER, *by_address, csv, Blob("text/plain", b" "))) == [
        {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://x.example/a"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "1,2"}},
    ]
    assert blocks(message(Role.USER, csv), BLIND) == [text("1,2")]


@pytest.mark.requirement("MSG-18")
@pytest.mark.parametrize(
    ("content", "profile"),
    [
        (PNG, BLIND),
        (PDF, BLIND),
        (Blob("image/tiff", b"x"), PROFILE),
        (Blob("image/png", b""), PROFILE),
        (Blob("audio/wav", b"x"), PROFILE),
        (Blob("video/mp4", b"x"), PROFILE),
        (AttachmentRef("a"), PROFILE),
        (OpaqueBlock("ui", "{}"), PROFILE),
        (ToolCall("c", REF, "{}"), PROFILE),
    ],
)
def test_what_a_user_message_cannot_carry_is_refused_by_the_part(content: Content, profile: Profile) -> None:
    with pytest.raises(InvalidRequest, match=r"parts\[p0\]"):
        encode_message(message(Role.USER, content), profile)


@pytest.mark.requirement("MSG-15")
def test_a_system_message_inside_the_conversation_is_marked_text_of_the_user() -> None:
    assert blocks(message(Role.SYSTEM, Text("Be brief."), Text("Be kind."))) == [
        text("<system>\nBe brief.\n\nBe kind.\n</system>")
    ]
    assert encode_message(message(Role.SYSTEM, Text(" ")), PROFILE) == b""


@pytest.mark.requirement("MSG-15", "MSG-16")
def test_an_assistant_turn_goes_back_block_by_block_in_its_order() -> None:
    search = '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"q": 1.0}}'
    found = '{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}'
    contents: list[Content] = [
        Reasoning("hm", b"c2ln", "acme"),
        Reasoning("", b"b3BhcXVl", "acme", redacted=True),
        Text("I look."),
        OpaqueBlock("server_tool_use", search, "acme"),
        OpaqueBlock("web_search_tool_result", found, "acme"),
        Reasoning("", b"c2lnMg==", "acme"),
        ToolCall("c1", REF, '{"q": 1}'),
        Text(" "),
        PNG,
    ]
    encoded = encode_message(message(Role.ASSISTANT, *contents), PROFILE)
    assert search.encode() in encoded
    assert turn(*contents) == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        text("I look."),
        json.loads(search),
        json.loads(found),
        {"type": "thinking", "thinking": "", "signature": "c2lnMg=="},
        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": 1}},
    ]
    assert turn(*contents, profile=OTHER) == [
        text("I look."),
        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": 1}},
    ]


@pytest.mark.requirement("MSG-16")
def test_reasoning_without_a_signature_goes_back_only_where_the_server_wants_it() -> None:
    own, foreign = Reasoning("hm", b"", "acme"), Reasoning("hm", b"", "other")
    assert turn(own, Text("a")) == turn(foreign, Text("a"), profile=ECHO) == [text("a")]
    assert turn(own, Text("a"), profile=ECHO)[0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    odd = Reasoning("x", b"\xff", "acme")
    assert encode_message(message(Role.ASSISTANT, odd), PROFILE) == b""


@pytest.mark.requirement("MSG-8", "MSG-15")
def test_citations_and_what_a_call_has_beside_its_input_join_what_is_before_them() -> None:
    cited = OpaqueBlock("citations", '[{"type":"char_location","n": 1.0}]', "acme")
    caller = OpaqueBlock("tool_use", '{"caller":{"type":"x","tool_id":"s1"},"id":"stolen"}', "acme")
    encoded = encode_message(message(Role.ASSISTANT, Text("so"), cited, ToolCall("c1", REF, "{}"), caller), PROFILE)
    assert b'"citations":[{"type":"char_location","n": 1.0}]' in encoded
    assert json.loads(encoded)["content"] == [
        {**text("so"), "citations": [{"type": "char_location", "n": 1.0}]},
        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {}, "caller": {"type": "x", "tool_id": "s1"}},
    ]
    assert turn(Text("so"), caller, ToolCall("c1", REF, "{}"), cited) == [
        text("so"),
        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {}},
    ]


@pytest.mark.requirement("MSG-8")
def test_citations_belong_to_what_is_right_before_them_only() -> None:
    cited = OpaqueBlock("citations", "[]", "acme")
    native = OpaqueBlock("x_result", '{"type":"x_result"}', "acme")
    assert turn(Text("so"), native, cited) == [text("so"), {"type": "x_result"}]


@pytest.mark.requirement("MSG-16")
@pytest.mark.parametrize("broken", ["", "[1]", '{"a":', '1},{"role":"system"', "[" * 5000])
def test_a_native_block_that_is_no_object_is_refused(broken: str) -> None:
    with pytest.raises(InvalidRequest, match=r"parts\[p0\]"):
        encode_message(message(Role.ASSISTANT, OpaqueBlock("x", broken, "acme")), PROFILE)


@pytest.mark.requirement("MSG-15")
def test_a_paused_turn_goes_back_as_it_came() -> None:
    events: list[Any] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I search."}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"q":"x"}'}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}},
        {"type": "message_stop"},
    ]
    parser = MessagesParser()
    contents = [content for item in parser.feed(stream(events)) if (content := content_of(item)) is not None]
    merged = Reasoning("hm", b"c2ln", "acme")
    assert [content for content in contents if not isinstance(content, Reasoning)] == contents[2:]
    assert turn(merged, *contents[2:]) == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        text("I search."),
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
    ]
    assert answer_of(MessagesParser(), [stream(events)]).folded.stopped


def content_of(item: ModelItem) -> Content | None:
    """What an item is as content of a message, for items that come whole."""
    match item:
        case TextChunk(_, words):
            return Text(words)
        case ReasoningChunk(_, words, signature, redacted):
            return Reasoning(words, signature, "acme", redacted)
        case NativeItem(_, kind, value):
            return OpaqueBlock(kind, value, "acme")
        case ToolArgumentsChunk(_, arguments):
            return ToolCall("c", REF, arguments)
        case _:
            return None


@pytest.mark.requirement("MSG-17")
@given(
    arguments=st.text(max_size=30) | st.sampled_from(['{"a":', "null", "[1]", '{"a":1}', "", "  ", '"x"', "[" * 5000])
)
def test_the_input_of_a_call_is_always_an_object(arguments: str) -> None:
    [sent] = turn(ToolCall("c1", REF, arguments))
    assert isinstance(sent["input"], dict)


@pytest.mark.requirement("MSG-17")
@given(st.text(min_size=1, max_size=40))
def test_a_call_and_its_result_have_the_same_id_in_letters_that_the_api_takes(our_id: str) -> None:
    [call] = turn(ToolCall(our_id, REF, "{}"))
    [answer] = blocks(message(Role.TOOL, ToolResult(our_id, ToolResultStatus.OK)))
    assert call["id"] == answer["tool_use_id"] == call_id(our_id)
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in call_id(our_id))
    assert call_id("call_1") == "call_1"


@pytest.mark.requirement("MSG-19")
def test_results_are_blocks_of_one_user_message_in_call_order() -> None:
    second = ToolResult("c2", ToolResultStatus.OK, (Part("x", Text("two")),))
    assert blocks(message(Role.TOOL, result(Text("a"), PNG, Text("b"), PDF), second)) == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("a"), SENT_PNG, text("b"), SENT_PDF]},
        {"type": "tool_result", "tool_use_id": "c2", "content": [text("two")]},
    ]


FAILED = Failure(FailurePhase.TOOL, Reason.TOOL_TIMEOUT, "no answer within 3 s")


@pytest.mark.requirement("MSG-19")
@pytest.mark.parametrize(
    ("given_result", "texts", "is_error"),
    [
        (result(), [], False),
        (result(Text(" ")), [], False),
        (result(structured_json='{"a":1}'), ['{"a":1}'], False),
        (result(Text("x"), structured_json='{"a":1}'), ["x"], False),
        (result(status=ToolResultStatus.ERROR, failure=FAILED), ["The tool failed: no answer within 3 s"], True),
        (result(Text("half"), status=ToolResultStatus.INTERRUPTED), ["The call was interrupted.", "half"], True),
        (result(status=ToolResultStatus.DENIED), ["The call was denied."], True),
        (result(status=ToolResultStatus.NOT_EXECUTED), ["The call was not executed."], True),
        (result(status=ToolResultStatus.OUTCOME_UNKNOWN), ["The outcome of the call is unknown."], True),
        (result(OpaqueBlock("ui", '{"b":2}')), ['{"b":2}'], False),
        (result(Blob("audio/wav", b"xyz")), ["(3 bytes of type audio/wav, which this model cannot be shown)"], False),
        (result(PNG), ["(4 bytes of type image/png, which this model cannot be shown)"], False),
        (result(Blob("text/csv", b"1,2"), Blob("text/csv", b"")), ["1,2"], False),
    ],
)
def test_a_result_says_how_the_call_ended(given_result: ToolResult, texts: list[str], is_error: bool) -> None:
    [sent] = blocks(message(Role.TOOL, given_result), BLIND)
    assert sent.get("content", []) == [text(words) for words in texts]
    assert sent.get("is_error", False) is is_error


@pytest.mark.requirement("MSG-18")
def test_a_tool_message_takes_results_only() -> None:
    with pytest.raises(InvalidRequest):
        encode_message(message(Role.TOOL, Text("x")), PROFILE)


@pytest.mark.requirement("MSG-22")
def test_tools_keep_their_order_and_a_schema_of_an_object_word_for_word() -> None:
    schema = '{ "type": "object", "properties": {"q": {"type": "string"}} }'
    tools = [
        Tool(REF, "Looks up.", schema),
        *(
            Tool(ToolRef(name, name, ToolSource.MCP), "", odd)
            for name, odd in zip("bcde", ["", "true", '{"a":1}', "{"], strict=True)
        ),
    ]
    sent = encode_tools(tools, PROFILE)
    assert schema.encode() in sent
    decoded = json.loads(sent)
    assert [tool["name"] for tool in decoded] == ["look_up", "b", "c", "d", "e"]
    assert decoded[0]["description"] == "Looks up."
    assert [tool["input_schema"] for tool in decoded[1:]] == [
        {"type": "object"},
        {"type": "object"},
        {"a": 1, "type": "object"},
        {"type": "object"},
    ]
    assert "description" not in decoded[1]


@pytest.mark.requirement("MSG-22")
def test_schemas_of_tools_are_adapted_to_the_server() -> None:
    profile = Profile(
        "acme",
        Wire.ANTHROPIC_MESSAGES,
        "acme",
        schema_adaptations=frozenset({SchemaAdaptation.NO_TOP_LEVEL_UNION, SchemaAdaptation.CLOSED_OBJECTS}),
    )
    union = '{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{}}]}'
    [sent] = json.loads(encode_tools([Tool(REF, "", union)], profile))
    assert sent["input_schema"]["type"] == "object"
    assert "anyOf" not in sent["input_schema"]
    assert "additionalProperties" not in sent["input_schema"]


@pytest.mark.requirement("MSG-20")
@given(st.lists(st.text(max_size=10).map(Text) | st.just(PNG) | st.just(Data("1")), max_size=4))
def test_the_same_message_always_gives_the_same_bytes(contents: list[Content]) -> None:
    first, again = (encode_message(message(Role.USER, *contents), PROFILE) for _ in range(2))
    assert first == again
