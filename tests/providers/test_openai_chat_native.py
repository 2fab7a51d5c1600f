"""What servers of chat completions want back: kept from answers, and given back to the same provider as it came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers import corpus
from providers.folding import Folded, fold, reads

from turnwired.domain.generation import NativeItem
from turnwired.domain.message import Blob, Content, Message, OpaqueBlock, Part, Reasoning, Role, Text, ToolCall
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.profiles import Profile, ToolCalling, Wire

REF = ToolRef("look_up", "lookup", ToolSource.LOCAL)
DONE = b"data: [DONE]\n\n"


def profile(name: str = "acme", **fields: Any) -> Profile:
    """A profile of this wire."""
    return Profile(name, Wire.OPENAI_CHAT, name, **fields)


def chunks(deltas: Sequence[dict[str, Any]], finish: str | None = "stop") -> bytes:
    """A stream of these deltas."""
    told: list[tuple[dict[str, Any], str | None]] = [(delta, None) for delta in deltas]
    told += [({}, finish)] if finish else []
    events = [{"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in told]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + DONE


def answered(deltas: Sequence[dict[str, Any]], size: int = 0, finish: str | None = "stop") -> Folded:
    """The folded answer of a stream."""
    return fold(ChatParser(), reads(chunks(deltas, finish), size))


def kept(folded: Folded, kind: str = "reasoning_details") -> Any:
    """The JSON of the only native item of a kind."""
    [item] = [item for item in folded.natives if item.kind == kind]
    return json.loads(item.json)


def sent(contents: Sequence[Content], to: Profile) -> dict[str, Any]:
    """An assistant message of these parts as it is sent."""
    parts = tuple(Part(f"p{i}", content) for i, content in enumerate(contents))
    found: dict[str, Any] = json.loads(OpenAIChat(to).encode_message(Message(Role.ASSISTANT, parts)))
    return found


def details(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    """A delta for each entry, as OpenRouter streams them."""
    return [{"reasoning": entry.get("text", ""), "reasoning_details": [entry]} for entry in entries]


THOUGHT = {"type": "reasoning.text", "format": "f", "index": 0}
CIPHER = {"type": "reasoning.encrypted", "format": "f", "index": 0}


@pytest.mark.requirement("CHAT-6")
@pytest.mark.parametrize("size", [0, 1, 64])
def test_streamed_reasoning_details_are_joined_to_the_blocks_that_they_were(size: int) -> None:
    stream = details(
        {**THOUGHT, "text": "Let ", "signature": None},
        {**THOUGHT, "text": "me see."},
        {**THOUGHT, "text": "", "signature": "c2ln"},
        {"type": "reasoning.summary", "index": 1, "summary": "S"},
        {"type": "reasoning.summary", "index": 1, "summary": "um"},
        {"type": "reasoning.summary", "index": 2, "summary": "Next"},
    )
    folded = answered([*stream, {"content": "a", "reasoning_details": []}], size)
    assert kept(folded) == [
        {"type": "reasoning.text", "format": "f", "index": 0, "text": "Let me see.", "signature": "c2ln"},
        {"type": "reasoning.summary", "index": 1, "summary": "Sum"},
        {"type": "reasoning.summary", "index": 2, "summary": "Next"},
    ]
    assert (folded.reasoning, folded.text) == ("Let me see.", "a")


@pytest.mark.requirement("CHAT-6")
def test_blocks_that_share_an_index_are_told_apart_by_what_is_between_them() -> None:
    # Streams in which every block has the index 0 (ai-sdk-provider#519).
    stream = details(
        {**THOUGHT, "text": "a"},
        {**CIPHER, "id": "rs_1", "data": "AA=="},
        {**CIPHER, "id": "rs_2", "data": "BB=="},
        {**THOUGHT, "text": "b"},
        {**CIPHER, "id": "rs_2", "data": "BB=="},
    )
    found = [(entry["type"], entry.get("text", entry.get("data"))) for entry in kept(answered(stream))]
    assert found == [
        ("reasoning.text", "a"),
        ("reasoning.encrypted", "AA=="),
        ("reasoning.encrypted", "BB=="),
        ("reasoning.text", "b"),
    ]


@pytest.mark.requirement("CHAT-6")
def test_reasoning_details_of_a_plain_answer_stay_as_they_are() -> None:
    blocks = [{**THOUGHT, "text": "a"}, {**THOUGHT, "text": "b", "extra": {"n": 1}}, {**CIPHER, "data": "AA=="}]
    message = {"role": "assistant", "content": "x", "reasoning": "ab", "reasoning_details": blocks}
    body = json.dumps({"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    assert kept(fold(ChatParser(), [body.encode()])) == blocks


RECORDED = {name: case for name, case in corpus.cases("openai.chat").items() if "reasoning_details" in case["body"]}


@pytest.mark.skipif(not RECORDED, reason=corpus.ABSENT)
@pytest.mark.requirement("CHAT-6")
@pytest.mark.parametrize("size", [0, 7])
@pytest.mark.parametrize("name", list(RECORDED))
def test_recorded_reasoning_details_hold_the_reasoning_in_whole_blocks(name: str, size: int) -> None:
    folded = fold(ChatParser(), reads(RECORDED[name]["body"].encode(), size))
    filled = '"reasoning_details":[{' in RECORDED[name]["body"].replace(" ", "")
    if not filled or folded.stopped is None:  # two recordings of a server that never says why it stopped
        assert folded.natives == []
        return
    blocks = kept(folded)
    told = "".join(entry.get("text") or entry.get("summary") or "" for entry in blocks)
    if folded.reasoning:  # some say it in the details only
        assert told.replace("\n", "") == folded.reasoning.replace("\n", "")
    grown = [(entry["type"], entry.get("index")) for entry in blocks if "data" not in entry]
    assert len(set(grown)) == len(grown)


@pytest.mark.requirement("CHAT-6")
def test_an_answer_that_did_not_end_leaves_no_reasoning_details() -> None:
    assert answered(details({**THOUGHT, "text": "half"}), finish=None).natives == []


@pytest.mark.requirement("CHAT-6")
def test_encrypted_reasoning_alone_counts_as_content_before_it_is_reported() -> None:
    parser = ChatParser()
    event = chunks([{"reasoning_details": [{**CIPHER, "data": "AA=="}]}], None).removesuffix(DONE)
    assert [type(item).__name__ for item in parser.feed(event)] == ["ResponseIdentified"]
    assert (parser.content, parser.thinking) == (True, True)
    parser.feed(b": ping\n\n")
    assert (parser.content, parser.thinking) == (False, True)
    parser.feed(chunks([{"content": "a"}], None).removesuffix(DONE))
    assert (parser.content, parser.thinking) == (True, False)


@pytest.mark.requirement("CHAT-6", "CHAT-20")
def test_reasoning_details_beyond_the_bound_are_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.providers.openai_chat_native.MAX_KEPT_CHARS", 10_000)
    folded = answered(details(*({**THOUGHT, "index": i, "text": "x" * 100} for i in range(100))))
    assert folded.broken
    assert folded.natives == []


@pytest.mark.requirement("CHAT-6", "CHAT-9")
@given(
    blocks=st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["reasoning.text", "reasoning.encrypted"]), "index": st.integers(0, 3)},
            optional={"text": st.text(max_size=5), "data": st.text(max_size=5), "signature": st.text(max_size=5)},
        ),
        min_size=1,
        max_size=5,
    )
)
def test_reasoning_details_go_back_byte_for_byte_to_their_provider_only(blocks: list[dict[str, Any]]) -> None:
    folded = answered(details(*blocks))
    [item] = folded.natives
    parts: list[Content] = [Reasoning("hm", provider="acme"), Text("a"), OpaqueBlock(item.kind, item.json, "acme")]
    parts_message = Message(Role.ASSISTANT, tuple(Part(str(i), part) for i, part in enumerate(parts)))
    encoded = OpenAIChat(profile()).encode_message(parts_message)
    assert b'"reasoning_details":' + item.json.encode() in encoded
    assert sent(parts, profile("other")) == {"role": "assistant", "content": "a"}


@pytest.mark.requirement("CHAT-7")
@pytest.mark.parametrize("size", [0, 1])
def test_the_signature_of_a_thought_stays_with_its_call(size: int) -> None:
    def call(index: int, **fields: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "id": f"c{index}", **fields}]}

    signed = {"google": {"thought_signature": "c2ln"}}
    opened = {"function": {"name": "look_up", "arguments": "{}"}}
    folded = answered(
        [call(0, **opened, extra_content=signed), call(1, **opened), {"content": "x"}], size, "tool_calls"
    )
    assert folded.natives == [NativeItem(0, "extra_content", json.dumps(signed, separators=(",", ":")))]
    assert all(one.closed for one in folded.calls.values())
    block = OpaqueBlock("extra_content", folded.natives[0].json, "acme")
    parts: list[Content] = [ToolCall("a", REF, "{}"), block, ToolCall("b", REF, "{}")]
    calls = sent(parts, profile())["tool_calls"]
    assert [one.get("extra_content") for one in calls] == [signed, None]
    assert "extra_content" not in json.dumps(sent(parts, profile("other")))


@pytest.mark.requirement("CHAT-7")
def test_extra_content_of_a_message_is_joined_and_never_taken_for_that_of_a_call() -> None:
    deltas: list[dict[str, Any]] = [
        {"content": "<thought>", "extra_content": {"google": {"thought": True}}},
        {"content": "x"},
        {"content": "", "extra_content": {"google": {"thought_signature": "c2ln"}}},
    ]
    folded = answered(deltas)
    value = {"google": {"thought": True, "thought_signature": "c2ln"}}
    assert kept(folded, "message.extra_content") == value
    block = OpaqueBlock("message.extra_content", folded.natives[0].json, "acme")
    message = sent([Text("x"), ToolCall("a", REF, "{}"), block], profile())
    assert message["extra_content"] == value
    assert "extra_content" not in message["tool_calls"][0]


@pytest.mark.requirement("CHAT-8", "CHAT-9")
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", {"content": "ab"}),
        ("reasoning_content", {"content": "ab", "reasoning_content": "xy"}),
        (
            "content.thinking",
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "x"}]},
                    {"type": "text", "text": "a"},
                    {"type": "thinking", "thinking": [{"type": "text", "text": "y"}]},
                    {"type": "text", "text": "b"},
                ]
            },
        ),
    ],
)
def test_reasoning_goes_back_in_the_form_of_the_profile(field: str, expected: dict[str, Any]) -> None:
    own: list[Content] = [Reasoning("x", provider="acme"), Text("a"), Reasoning("y", provider="acme"), Text("b")]
    assert sent(own, profile(reasoning_echo_field=field)) == {"role": "assistant", **expected}
    other = profile("other", reasoning_echo_field=field)
    assert sent(own, other) == {"role": "assistant", "content": "ab"}
    assert sent([Reasoning("x"), Text("a")], other) == {"role": "assistant", "content": "a"}


@pytest.mark.requirement("CHAT-6", "CHAT-8")
def test_what_is_wanted_back_goes_back_also_where_calls_are_made_by_schema() -> None:
    parts: list[Content] = [
        Reasoning("x", provider="acme"),
        ToolCall("c", REF, "{}"),
        OpaqueBlock("reasoning_details", '[{"type":"t"}]', "acme"),
    ]
    to = profile(tool_calling=ToolCalling.JSON_SCHEMA, reasoning_echo_field="reasoning")
    assert sent(parts, to) == {
        "role": "assistant",
        "content": '{"tool": "look_up", "arguments": {}}',
        "reasoning": "x",
        "reasoning_details": [{"type": "t"}],
    }


@pytest.mark.requirement("CHAT-9")
@given(
    contents=st.lists(
        st.builds(Reasoning, st.just("SECRET"), st.just(b"SECRET"), st.sampled_from(["", "acme"]))
        | st.builds(
            OpaqueBlock,
            st.sampled_from(["reasoning_details", "extra_content", "message.extra_content", "server_tool_use"]),
            st.just('{"SECRET":1}'),
            st.sampled_from(["", "acme"]),
        )
        | st.just(Text("t"))
        | st.just(ToolCall("c", REF, "{}")),
        max_size=6,
    ),
    mode=st.sampled_from(ToolCalling),
)
def test_another_provider_gets_a_turn_without_what_is_not_its_own(contents: list[Content], mode: ToolCalling) -> None:
    for field in ("", "reasoning_content", "content.thinking"):
        other = OpenAIChat(profile("other", reasoning_echo_field=field, tool_calling=mode))
        encoded = other.encode_message(Message(Role.ASSISTANT, tuple(Part("p", content) for content in contents)))
        assert b"SECRET" not in encoded


@pytest.mark.requirement("CHAT-9", "CHAT-11")
def test_a_turn_of_nothing_but_a_picture_is_not_lost() -> None:
    picture = Blob("image/png", b"\x89PNG")
    assert sent([picture], profile()) == {"role": "assistant", "content": "(image/png)"}
    assert sent([Text("Here."), picture], profile()) == {"role": "assistant", "content": "Here."}
