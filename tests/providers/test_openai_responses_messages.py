"""Messages and tools as the input items of a Responses request."""

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
from turnwired.providers.openai_responses_messages import encode_message, encode_system, encode_tools
from turnwired.providers.profiles import CallIdForm, InputKind, Profile, SchemaAdaptation, Wire


def profile(**fields: Any) -> Profile:
    """A profile of this wire."""
    return Profile(**{"name": "acme", "wire": Wire.OPENAI_RESPONSES, "telemetry_name": "acme", **fields})


PROFILE = profile()
SEES_ALL = profile(inputs=frozenset(InputKind))
BLIND = profile(inputs=frozenset())
REF = ToolRef("look_up", "lookup", ToolSource.LOCAL)
PNG = Blob("image/png", b"\x89PNG")
PDF = Blob("application/pdf", b"%PDF")
WAV = Blob("audio/wav", b"RIFF")
RS = '{"id":"rs_1","type":"reasoning", "summary":[],"encrypted_content":"gA=="}'
WS = '{"id":"ws_1", "type":"web_search_call","status":"completed"}'


def message(role: Role, *contents: Content) -> Message:
    """A message of these parts."""
    return Message(role, tuple(Part(f"p{i}", content) for i, content in enumerate(contents)))


def own(kind: str, json_text: str, provider: str = "acme") -> OpaqueBlock:
    """A block that the provider made."""
    return OpaqueBlock(kind, json_text, provider)


def result(*contents: Content, status: ToolResultStatus = ToolResultStatus.OK, **fields: Any) -> ToolResult:
    """A result of call c1."""
    return ToolResult("c1", status, tuple(Part(f"r{i}", content) for i, content in enumerate(contents)), **fields)


def encoded(given_message: Message, of: Profile = PROFILE) -> list[dict[str, Any]]:
    """The input items."""
    found: list[dict[str, Any]] = json.loads(b"[" + encode_message(given_message, of) + b"]")
    return found


def turn(*contents: Content, of: Profile = PROFILE) -> list[str]:
    """The items of an assistant's turn as short words."""
    short: dict[str, str] = {"function_call": "call", "message": "text"}
    items = encoded(message(Role.ASSISTANT, *contents), of)
    names: list[str] = []
    for item in items:
        kind = str(item["type"])
        names.append(short.get(kind, kind) + (f" {item['id']}" if "id" in item else ""))
    return names


@pytest.mark.requirement("RESP-14")
def test_system_blocks_are_one_text_and_none_for_none() -> None:
    assert json.loads(encode_system(["a", "", "b"])) == "a\n\nb"
    assert encode_system([]) == encode_system([""]) == b""


@pytest.mark.requirement("RESP-14")
def test_a_message_of_text_is_a_plain_string() -> None:
    parts: list[Content] = [Text("hi"), Data('{"a":1}'), ResourceLink("x:y", "Y"), Blob("text/csv", b"1,2")]
    assert encoded(message(Role.USER, *parts)) == [{"role": "user", "content": 'hi\n\n{"a":1}\n\n[Y](x:y)\n\n1,2'}]
    assert encoded(message(Role.SYSTEM, Text("be"), Text("good"))) == [{"role": "system", "content": "be\n\ngood"}]
    for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL):
        assert encode_message(message(role), PROFILE) == b""


@pytest.mark.requirement("RESP-18")
def test_files_are_sent_as_data_or_as_their_address() -> None:
    parts: list[Content] = [Text("what?"), PNG, Blob("image/png", b"", "https://x.example/a.png"), PDF, WAV]
    parts += [Blob("application/pdf", b"", "https://x.example/a.pdf"), Blob("application/pdf", b"%", "file:///b/c.pdf")]
    [sent] = encoded(message(Role.USER, *parts), SEES_ALL)
    assert sent["content"] == [
        {"type": "input_text", "text": "what?"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
        {"type": "input_image", "image_url": "https://x.example/a.png"},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "input_file", "file_url": "https://x.example/a.pdf"},
        {"type": "input_file", "filename": "c.pdf", "file_data": "data:application/pdf;base64,JQ=="},
    ]


@pytest.mark.requirement("RESP-18")
@pytest.mark.parametrize(
    ("content", "of"),
    [
        (PNG, BLIND),
        (PDF, PROFILE),
        (WAV, PROFILE),
        (Blob("audio/ogg", b"x"), SEES_ALL),
        (Blob("audio/wav", b"", "https://x.example/a.wav"), SEES_ALL),
        (Blob("image/png", b""), SEES_ALL),
        (Blob("video/mp4", b"x"), SEES_ALL),
        (Blob("text/plain", b"", "https://x.example/a.txt"), PROFILE),
        (AttachmentRef("a"), PROFILE),
        (own("ui", "{}"), PROFILE),
        (ToolCall("c", REF, "{}"), PROFILE),
    ],
)
def test_what_a_user_message_cannot_carry_is_refused_by_the_part(content: Content, of: Profile) -> None:
    with pytest.raises(InvalidRequest, match=r"parts\[p0\]"):
        encode_message(message(Role.USER, content), of)


@pytest.mark.requirement("RESP-14")
def test_an_assistant_turn_is_items_in_its_own_order() -> None:
    call = ToolCall("c1", REF, '{"q": 1}')
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    called = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"q": 1}'}
    assert encoded(message(Role.ASSISTANT, Reasoning("hmm"), Text("I look."), call)) == [said, called]
    assert encoded(message(Role.ASSISTANT, call, Text("I look."), Text(""))) == [called, said]
    apart = encoded(message(Role.ASSISTANT, Text("a"), PNG, Text("b")))
    assert [item["content"][0]["text"] for item in apart] == ["a", "b"]
    [joined] = encoded(message(Role.ASSISTANT, Text("a"), Text("b"), own("message", "{}")))
    assert [piece["text"] for piece in joined["content"]] == ["a", "b"]


@pytest.mark.requirement("RESP-14")
@given(
    arguments=st.text(max_size=30) | st.sampled_from(['{"a":', "null", "[1]", '{"a":1}', "", "  ", '"x"', "[" * 5000])
)
def test_arguments_in_a_history_are_always_a_json_object(arguments: str) -> None:
    [sent] = encoded(message(Role.ASSISTANT, ToolCall("c1", REF, arguments)))
    assert isinstance(json.loads(sent["arguments"]), dict)


@pytest.mark.requirement("RESP-14")
@pytest.mark.parametrize("form", list(CallIdForm))
def test_a_call_and_its_result_have_the_same_id_in_the_form_that_the_server_takes(form: CallIdForm) -> None:
    of = profile(call_ids=form)
    [called] = encoded(message(Role.ASSISTANT, ToolCall("c1", REF, "{}")), of)
    [answered] = encoded(message(Role.TOOL, result()), of)
    assert called["call_id"] == answered["call_id"]
    assert (called["call_id"] == "c1") == (form is CallIdForm.ANY)


@pytest.mark.requirement("RESP-15")
def test_what_the_provider_made_goes_back_byte_for_byte_and_in_order() -> None:
    parts: list[Content] = [
        Reasoning("hmm"),
        own("reasoning", RS),
        own("web_search_call", WS),
        Text("found"),
        ToolCall("c1", REF, "{}"),
    ]
    sent = encode_message(message(Role.ASSISTANT, *parts), PROFILE)
    assert sent.startswith(f"{RS},{WS},".encode())
    assert turn(*parts) == ["reasoning rs_1", "web_search_call ws_1", "text", "call"]


@pytest.mark.requirement("RESP-15")
def test_another_provider_gets_the_words_and_the_calls_and_nothing_else() -> None:
    parts: list[Content] = [
        Reasoning("hmm", b"signature", "acme"),
        own("reasoning", RS),
        own("web_search_call", WS),
        own("annotations", "[]"),
        Text("found"),
        own("message", '{"id":"msg_1","phase":"commentary"}'),
        OpaqueBlock("ui", "{}"),
        ToolCall("c1", REF, "{}"),
    ]
    assert turn(*parts) == ["reasoning rs_1", "web_search_call ws_1", "text msg_1", "call"]
    other = profile(name="other")
    assert turn(*parts, of=other) == ["text", "call"]
    assert b"commentary" not in encode_message(message(Role.ASSISTANT, *parts), other)


@pytest.mark.requirement("RESP-16")
def test_reasoning_goes_back_only_with_what_followed_it() -> None:
    reasoning, text, call = own("reasoning", RS), Text("a"), ToolCall("c1", REF, "{}")
    assert turn(reasoning) == []
    assert turn(text, reasoning) == ["text"]
    assert turn(reasoning, own("annotations", "[]")) == []
    assert turn(reasoning, reasoning, call) == ["reasoning rs_1", "reasoning rs_1", "call"]
    assert turn(reasoning, call, reasoning, text) == ["reasoning rs_1", "call", "reasoning rs_1", "text"]


@pytest.mark.requirement("RESP-16")
def test_reasoning_that_is_an_id_of_nothing_does_not_go_back() -> None:
    told = '{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}'
    for nothing in ('{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":null}', "[]", "no json"):
        assert turn(own("reasoning", nothing), Text("a"), own("message", '{"id":"msg_1"}')) == ["text"]
    assert turn(own("reasoning", told), Text("a")) == ["reasoning rs_1", "text"]


@pytest.mark.requirement("RESP-16")
def test_a_message_has_its_id_with_its_reasoning_and_its_phase_always() -> None:
    envelope = own("message", '{"id":"msg_1","phase":"final_answer"}')
    [alone] = encoded(message(Role.ASSISTANT, Text("a"), envelope))
    assert (alone.get("id"), alone["phase"]) == (None, "final_answer")
    [_, paired] = encoded(message(Role.ASSISTANT, own("reasoning", RS), Text("a"), envelope))
    assert (paired["id"], paired["phase"]) == ("msg_1", "final_answer")
    first, second = own("message", '{"id":"m1","phase":"commentary"}'), own("message", '{"id":"m2"}')
    sent = encoded(message(Role.ASSISTANT, own("reasoning", RS), Text("a"), first, Text("b"), second))
    assert [(item.get("id"), item.get("phase")) for item in sent[1:]] == [("m1", "commentary"), ("m2", None)]


@pytest.mark.requirement("RESP-16")
@pytest.mark.parametrize(
    "lost",
    [
        [own("reasoning", '{"id":"rs_2","type":"reasoning","summary":[]}')],
        [own("reasoning", RS), own("shell_call", '{"call_id":"s1"}')],
    ],
    ids=["an-id-of-nothing", "an-unanswered-call"],
)
def test_a_message_behind_reasoning_that_stays_away_loses_its_id(lost: list[Content]) -> None:
    first, second = own("message", '{"id":"m1"}'), own("message", '{"id":"m2"}')
    assert turn(own("reasoning", RS), Text("a"), first, Text("b"), second)[-1] == "text m2"
    sent = turn(own("reasoning", RS), Text("a"), first, *lost, Text("b"), second)
    assert sent == ["reasoning rs_1", "text m1", "text"]


@pytest.mark.requirement("RESP-17")
def test_a_call_of_a_providers_tool_goes_back_only_with_its_output() -> None:
    call, output = (
        own(kind, json.dumps({"type": kind, "call_id": "s1"})) for kind in ("shell_call", "shell_call_output")
    )
    assert turn(call, output, Text("a")) == ["shell_call", "shell_call_output", "text"]
    assert turn(call) == []
    assert turn(call, OpaqueBlock("shell_call_output", '{"call_id":"s1"}', "another")) == []
    assert turn(call, own("shell_call_output", '{"call_id":"s2","type":"shell_call_output"}')) == ["shell_call_output"]
    assert turn(own("reasoning", RS), call, Text("a"), own("message", '{"id":"msg_1"}')) == ["text"]


@pytest.mark.requirement("RESP-19")
def test_results_are_outputs_in_call_order_with_their_files() -> None:
    second = ToolResult("c2", ToolResultStatus.OK, (Part("x", PNG),))
    sent = encoded(message(Role.TOOL, result(Text("one"), PNG, PDF), second), SEES_ALL)
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}
    file = {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    assert sent == [
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "one"}, image, file],
        },
        {"type": "function_call_output", "call_id": "c2", "output": [image]},
    ]


@pytest.mark.requirement("RESP-19")
@pytest.mark.parametrize(
    ("given_result", "text"),
    [
        (result(), "(no output)"),
        (result(Text("a"), Text("b")), "a\nb"),
        (result(structured_json='{"a":1}'), '{"a":1}'),
        (
            result(
                Text("x"),
                status=ToolResultStatus.ERROR,
                failure=Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, "No such file."),
            ),
            "The tool failed: No such file.\nx",
        ),
        (result(status=ToolResultStatus.DENIED), "The call was denied."),
        (result(status=ToolResultStatus.OUTCOME_UNKNOWN), "The outcome of the call is unknown."),
        (result(own("ui", '{"b":2}')), '{"b":2}'),
        (result(WAV), "(4 bytes of type audio/wav, which this model cannot be shown)"),
        (result(PNG), "(4 bytes of type image/png, which this model cannot be shown)"),
        (result(Blob("text/csv", b"1,2")), "1,2"),
    ],
)
def test_a_result_is_text_that_says_how_the_call_ended(given_result: ToolResult, text: str) -> None:
    [sent] = encoded(message(Role.TOOL, given_result), BLIND)
    assert sent == {"type": "function_call_output", "call_id": "c1", "output": text}


@pytest.mark.requirement("RESP-19")
def test_audio_in_a_result_is_named_also_where_messages_may_have_it() -> None:
    [sent] = encoded(message(Role.TOOL, result(WAV)), SEES_ALL)
    assert sent["output"] == "(4 bytes of type audio/wav, which this model cannot be shown)"


@pytest.mark.requirement("RESP-19")
def test_a_tool_message_takes_results_only() -> None:
    with pytest.raises(InvalidRequest):
        encode_message(message(Role.TOOL, Text("x")), PROFILE)


@pytest.mark.requirement("RESP-20")
def test_tools_keep_their_order_and_their_schema_word_for_word() -> None:
    text = '{ "type": "object", "properties": {"q": {"type": "string"}} }'
    tools = [Tool(REF, "Looks up.", text), Tool(ToolRef("b", "b", ToolSource.MCP), "", "")]
    sent = encode_tools(tools, PROFILE)
    assert text.encode() in sent
    first, second = json.loads(sent)
    assert (first["type"], first["name"], first["description"], first["strict"]) == (
        *("function", "look_up", "Looks up."),
        False,
    )
    assert (second["name"], second["parameters"]) == ("b", {"type": "object", "properties": {}})


@pytest.mark.requirement("RESP-20")
def test_schemas_of_tools_are_adapted_but_never_made_strict() -> None:
    adaptations = frozenset({SchemaAdaptation.INLINE_REFS, SchemaAdaptation.ALL_REQUIRED})
    text = '{"type":"object","properties":{"q":{"$ref":"#/$defs/Q"}},"$defs":{"Q":{"type":"string"}}}'
    [sent] = json.loads(encode_tools([Tool(REF, "", text)], profile(schema_adaptations=adaptations)))
    assert sent["parameters"]["properties"] == {"q": {"type": "string"}}
    assert "required" not in sent["parameters"]
    assert sent["strict"] is False


@pytest.mark.requirement("RESP-14")
@given(
    st.lists(
        st.text(max_size=10).map(Text) | st.sampled_from([PNG, Data("1"), own("reasoning", RS), own("x", WS)]),
        max_size=5,
    )
)
def test_the_same_message_always_gives_the_same_bytes(contents: list[Content]) -> None:
    first, again = (encode_message(message(Role.ASSISTANT, *contents), PROFILE) for _ in range(2))
    assert first == again
    assert isinstance(json.loads(b"[" + first + b"]"), list)
