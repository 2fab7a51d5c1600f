"""What a chat completions request says: options, structured output, cache key, dialects of schemas."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers.folding import fold, reads

from turnwired.domain.errors import ConfigError, ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.model import GenerationOptions, OutputFormat, Thinking, ThinkingMode
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode, ToolRef, ToolSource
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import (
    Profile,
    PromptCache,
    SchemaAdaptation,
    StructuredOutput,
    ToolCalling,
    Wire,
)

REF = ToolRef("look_up", "lookup", ToolSource.LOCAL)
UNION = '{"type":"object","properties":{"q":{"type":["string","null"],"minLength":1}},"required":["q"]}'
TOOL = Tool(REF, "Looks up.", UNION)
SCHEMA = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}'
CITY = OutputFormat(SCHEMA, "city")
ALL_OPTIONS = GenerationOptions(
    temperature=0.5, top_p=0.9, frequency_penalty=0.1, presence_penalty=-0.1, seed=7, stop_sequences=("END",)
)


def wire(**fields: Any) -> OpenAIChat:
    """A wire for a profile of these fields."""
    return OpenAIChat(Profile("acme", Wire.OPENAI_CHAT, "acme", **fields))


def request(**fields: Any) -> ModelRequest:
    """A request of one message."""
    return ModelRequest("m", [b'{"role":"user","content":"hi"}'], **fields)


def body(chat: OpenAIChat, **fields: Any) -> dict[str, Any]:
    """The decoded body."""
    found: dict[str, Any] = json.loads(chat.call(request(**fields)).body)
    return found


def paths(chat: OpenAIChat, **fields: Any) -> list[str]:
    """The fields that the check names."""
    violations = chat.check(request(**fields))
    assert all(" leave " in one.description or " use the fields" in one.description for one in violations)
    return [violation.field for violation in violations]


@pytest.mark.requirement("CHAT-12")
def test_options_have_the_names_of_the_wire_and_unset_ones_are_not_sent() -> None:
    sent = body(wire(), options=ALL_OPTIONS)
    assert {name: sent[name] for name in ("temperature", "top_p", "seed", "stop")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
    }
    assert (sent["frequency_penalty"], sent["presence_penalty"]) == (0.1, -0.1)
    assert body(wire()).keys() == {"model", "messages", "stream", "stream_options"}


@pytest.mark.requirement("CHAT-12")
def test_options_stand_where_the_profile_says() -> None:
    fields = {"seed": "random_seed", "top_k": "sampling.top_k", "temperature": ""}
    chat = wire(option_fields=fields, output_tokens_field="limits.output", reasoning_effort_field="reasoning.effort")
    sent = body(chat, options=GenerationOptions(seed=1, top_k=4), max_output_tokens=9, reasoning_effort="low")
    assert (sent["random_seed"], sent["sampling"]) == (1, {"top_k": 4})
    assert (sent["limits"], sent["reasoning"]) == ({"output": 9}, {"effort": "low"})
    assert paths(chat, options=GenerationOptions(temperature=1.0)) == ["turn.model.options.temperature"]


@pytest.mark.requirement("CHAT-12")
@pytest.mark.parametrize(
    ("place", "mode", "expected"),
    [
        ("chat_template_kwargs.enable_thinking", ThinkingMode.ENABLED, {"enable_thinking": True}),
        ("chat_template_kwargs.enable_thinking", ThinkingMode.DISABLED, {"enable_thinking": False}),
        ("chat_template_kwargs.enable_thinking", ThinkingMode.ADAPTIVE, None),
        ("chat_template_kwargs.type=enabled|disabled|auto", ThinkingMode.ADAPTIVE, {"type": "auto"}),
        ("chat_template_kwargs.type=|none", ThinkingMode.DISABLED, {"type": "none"}),
        ("chat_template_kwargs.type=|none", ThinkingMode.ENABLED, None),
        ("", ThinkingMode.ENABLED, None),
    ],
)
def test_thinking_is_told_in_the_words_of_the_server(place: str, mode: ThinkingMode, expected: object) -> None:
    chat = wire(option_fields={"thinking": place})
    options = GenerationOptions(thinking=Thinking(mode))
    if expected is None:
        assert paths(chat, options=options) == ["turn.model.options.thinking.mode"]
    else:
        assert body(chat, options=options)["chat_template_kwargs"] == expected
    budget = GenerationOptions(thinking=Thinking(ThinkingMode.UNSPECIFIED, 100))
    assert paths(chat, options=budget) == ["turn.model.options.thinking.budget_tokens"]
    placed = wire(option_fields={"thinking.budget_tokens": "reasoning.max_tokens"})
    assert body(placed, options=budget)["reasoning"] == {"max_tokens": 100}


@pytest.mark.requirement("CHAT-12")
def test_provider_options_join_the_objects_that_options_made_and_win() -> None:
    chat = wire(option_fields={"thinking": "chat_template_kwargs.enable_thinking"})
    options = GenerationOptions(temperature=1.0, thinking=Thinking(ThinkingMode.ENABLED))
    more = {"chat_template_kwargs": {"lang": "de"}, "temperature": 0}
    sent = body(chat, options=options, provider_options=more)
    assert sent["chat_template_kwargs"] == {"enable_thinking": True, "lang": "de"}
    assert sent["temperature"] == 0


@pytest.mark.requirement("CHAT-12")
@pytest.mark.parametrize("fields", [{"temprature": "t"}, {"seed": "a..b"}, {"seed": "a=b"}, {"thinking": "a=1|2|3|4"}])
def test_a_mistake_in_the_places_of_options_names_the_option(fields: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=rf"providers\.acme\.option_fields\.{next(iter(fields))}"):
        wire(option_fields=fields)


@pytest.mark.requirement("CHAT-12", "CHAT-15")
def test_breakpoints_are_no_way_to_cache_over_this_wire() -> None:
    with pytest.raises(ConfigError, match="prompt_cache"):
        wire(prompt_cache=PromptCache.BREAKPOINTS)


OPTIONS = st.builds(
    GenerationOptions,
    temperature=st.none() | st.just(1.0),
    top_k=st.none() | st.just(3),
    stop_sequences=st.sampled_from([(), ("x",)]),
    thinking=st.builds(Thinking, st.sampled_from(ThinkingMode), st.none() | st.just(5)),
)
CHOICES = st.builds(ToolChoice, st.sampled_from(ToolChoiceMode)) | st.just(ToolChoice(routed_name="look_up"))


@pytest.mark.requirement("CHAT-13")
@given(
    options=OPTIONS,
    choice=CHOICES,
    tools=st.booleans(),
    effort=st.sampled_from([None, "", "low"]),
    output=st.sampled_from([None, CITY]),
    more=st.sampled_from([{}, {"seed": 1}, {"n": 2}, {"response_format": {"type": "json_object"}}]),
    fields=st.fixed_dictionaries(
        {
            "tool_calling": st.sampled_from(ToolCalling),
            "tool_choice": st.frozensets(st.sampled_from(ToolChoiceMode)),
            "named_tool_choice": st.booleans(),
            "reasoning_effort_field": st.sampled_from(["", "effort"]),
            "structured_output": st.sampled_from(StructuredOutput),
            "option_fields": st.sampled_from([{}, {"top_k": "top_k", "stop_sequences": "", "thinking": "think"}]),
        }
    ),
)
def test_a_call_refuses_exactly_what_the_check_finds(
    options: GenerationOptions,
    choice: ToolChoice,
    tools: bool,
    effort: str | None,
    output: OutputFormat | None,
    more: dict[str, object],
    fields: dict[str, Any],
) -> None:
    chat = wire(**fields)
    asked = request(
        options=options,
        tools=chat.encode_tools([TOOL]) if tools else b"",
        offered=[TOOL] if tools else [],
        tool_choice=choice,
        reasoning_effort=effort,
        output_format=output,
        provider_options=more,
    )
    violations = chat.check(asked)
    if not violations:
        json.loads(chat.call(asked).body)
        return
    with pytest.raises(ProviderError) as caught:
        chat.call(asked)
    assert caught.value.failure.reason is Reason.OPTION_NOT_SUPPORTED
    assert all(violation.description in caught.value.failure.message for violation in violations)


@pytest.mark.requirement("CHAT-13")
def test_the_check_names_the_field_of_the_turn_for_each_thing_that_cannot_be_asked() -> None:
    chat = wire(tool_choice=frozenset({ToolChoiceMode.AUTO}), named_tool_choice=False, reasoning_effort_field="")
    assert paths(chat, reasoning_effort="high") == ["turn.policy.output.reasoning_effort"]
    for choice in (ToolChoice(ToolChoiceMode.REQUIRED), ToolChoice(routed_name="x")):
        assert paths(chat, tool_choice=choice) == ["turn.tools.choice"]
    assert paths(chat, tool_choice=ToolChoice(ToolChoiceMode.NONE)) == []
    assert paths(chat, tool_choice=ToolChoice(ToolChoiceMode.NONE), tools=b"[]") == ["turn.tools.choice"]
    assert paths(chat, provider_options={"n": 3}) == ["turn.model.provider_options_json"]
    own = {"response_format": {"type": "json_object"}}
    assert paths(chat, provider_options=own, output_format=CITY) == ["turn.output_format"]
    assert paths(chat, provider_options=own) == []


@pytest.mark.requirement("CHAT-14")
def test_a_server_with_json_schema_is_given_the_schema() -> None:
    sent = body(wire(), output_format=CITY)
    form = {"name": "city", "strict": True, "schema": json.loads(SCHEMA)}
    assert sent["response_format"] == {"type": "json_schema", "json_schema": form}
    assert len(sent["messages"]) == 1
    assert body(wire(), output_format=OutputFormat(SCHEMA))["response_format"]["json_schema"]["name"] == "answer"


@pytest.mark.requirement("CHAT-14")
@pytest.mark.parametrize("way", [StructuredOutput.JSON_OBJECT, StructuredOutput.PROMPT])
@pytest.mark.parametrize("blocks", [[], ['Be "brief".\n']])
def test_a_schema_that_is_not_enforced_is_explained_in_the_one_system_message(
    way: StructuredOutput, blocks: list[str]
) -> None:
    chat = wire(structured_output=way)
    sent = body(chat, system=chat.encode_system(blocks, []), output_format=CITY)
    system, user = sent["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"].startswith("".join(blocks))
    assert system["content"].endswith(SCHEMA)
    json_mode = {"type": "json_object"} if way is StructuredOutput.JSON_OBJECT else None
    assert sent.get("response_format") == json_mode
    assert "JSON" in system["content"]  # the JSON mode of OpenAI and others demands the word


@pytest.mark.requirement("CHAT-14")
@pytest.mark.parametrize("first", ["system", "user"])
def test_messages_that_follow_the_system_message_stay_as_they_are(first: str) -> None:
    chat = wire(structured_output=StructuredOutput.PROMPT)
    example = b'{"role":"assistant","content":null,"tool_calls":[]}'
    head = chat.encode_system(["a"], []) if first == "system" else b'{"role":"user","content":"x"}'
    call = chat.call(request(system=head + b"," + example, output_format=CITY))
    assert example in call.body
    messages = json.loads(call.body)["messages"]
    assert [message["role"] for message in messages][:2] == ["system", "assistant" if first == "system" else "user"]
    assert SCHEMA in messages[0]["content"]


@pytest.mark.requirement("CHAT-14")
@pytest.mark.parametrize("way", [StructuredOutput.JSON_SCHEMA, StructuredOutput.JSON_OBJECT])
def test_a_server_that_cannot_enforce_a_schema_beside_tools_is_told_it_until_they_are_gone(
    way: StructuredOutput,
) -> None:
    chat = wire(structured_output=way, structured_output_with_tools=False)
    with_tools = body(chat, tools=chat.encode_tools([TOOL]), offered=[TOOL], output_format=CITY)
    assert "response_format" not in with_tools
    assert "tool" in with_tools["messages"][0]["content"]
    assert SCHEMA in with_tools["messages"][0]["content"]
    assert body(chat, output_format=CITY)["response_format"]["type"] == way.value


@pytest.mark.requirement("CHAT-14")
def test_a_schema_with_more_optional_properties_than_the_server_takes_is_a_hint() -> None:
    optional = OutputFormat('{"type":"object","properties":{"a":{},"b":{}}}')
    for most, strict in ((2, True), (1, False)):
        held = body(wire(strict_optional_properties=most), output_format=optional)["response_format"]["json_schema"]
        assert held["strict"] is strict


@pytest.mark.requirement("PROFILE-1")
def test_fixed_fields_stand_in_every_body_and_the_model_only_where_it_belongs() -> None:
    sent = body(wire(body_fields={"api": "v9", "stream": "no"}, model_in_body=False))
    assert (sent["api"], sent["stream"], "model" in sent) == ("v9", True, False)


@pytest.mark.requirement("CHAT-15")
def test_a_cache_key_goes_only_to_servers_that_have_one() -> None:
    assert body(wire(prompt_cache=PromptCache.KEY), cache_key="k1")["prompt_cache_key"] == "k1"
    assert "prompt_cache_key" not in body(wire(), cache_key="k1")
    assert "prompt_cache_key" not in body(wire(prompt_cache=PromptCache.KEY))


@pytest.mark.requirement("CHAT-16")
def test_schemas_are_sent_in_the_dialect_of_the_server() -> None:
    to = frozenset(SchemaAdaptation)
    chat = wire(schema_adaptations=to)
    [tool] = json.loads(chat.encode_tools([TOOL]))
    [plain] = json.loads(wire().encode_tools([TOOL]))
    assert plain["function"]["parameters"] == json.loads(UNION)
    adapted = tool["function"]["parameters"]
    assert adapted["properties"]["q"] == {"type": "string", "description": "(minLength: 1)", "nullable": True}
    optional = OutputFormat('{"type":"object","properties":{"city":{"type":"string","minLength":1}}}')
    form = body(chat, output_format=optional)["response_format"]["json_schema"]
    # Strictly, an absent city would come as null, which the caller's schema does not allow.
    assert form["strict"] is False
    assert "required" not in form["schema"]
    assert form["schema"]["properties"]["city"]["description"] == "(minLength: 1)"


@pytest.mark.requirement("CHAT-21")
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("value", ['{"city": "Bern"}', '"Bern"', "[1, 2]", "null"])
def test_the_final_answer_under_a_schema_of_calls_is_the_json_of_the_output(value: str, size: int) -> None:
    chat = wire(tool_calling=ToolCalling.JSON_SCHEMA)
    referring = OutputFormat('{"$ref":"#/$defs/C","$defs":{"C":' + SCHEMA + "}}")
    asked = request(tools=chat.encode_tools([TOOL]), offered=[TOOL], output_format=referring)
    call = chat.call(asked)
    schema = json.loads(call.body)["response_format"]["json_schema"]["schema"]
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"tool": "none", "answer": {"city": "Bern"}})
    assert validator.is_valid({"tool": "look_up", "arguments": {"q": "x"}})
    assert not validator.is_valid({"tool": "none", "answer": "Bern"})
    assert not validator.is_valid({"tool": "none", "answer": {"city": 1}})
    turn = f'{{"tool": "none", "answer": {value}}}'
    delta = {"id": "r", "choices": [{"index": 0, "delta": {"content": turn}, "finish_reason": "stop"}]}
    stream = b"data: " + json.dumps(delta).encode() + b"\n\ndata: [DONE]\n\n"
    folded = fold(call.parser(200), reads(stream, size))
    assert folded.text == value
    assert folded.stopped
    assert folded.stopped.reason is FinishReason.STOP
