"""The body of a Messages request, and what is refused before and at the call."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.errors import ConfigError, ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import GenerationOptions, OutputFormat, Thinking, ThinkingMode
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode, ToolRef, ToolSource
from turnwired.providers.anthropic_messages import AnthropicMessages
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import (
    ModelLimitRow,
    Profile,
    PromptCache,
    SchemaAdaptation,
    StructuredOutput,
    ToolCalling,
    Wire,
)

PROFILE = Profile("acme", Wire.ANTHROPIC_MESSAGES, "acme")
CACHING = replace(PROFILE, prompt_cache=PromptCache.BREAKPOINTS)
SAMPLING = replace(PROFILE, option_fields={"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"})
WIRE = AnthropicMessages(PROFILE)
TOOLS = [Tool(ToolRef(name, name, ToolSource.LOCAL), "", '{"type":"object"}') for name in "ab"]
SCHEMA = '{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}'
EPHEMERAL = {"type": "ephemeral"}


def user(words: str) -> Message:
    """A message of the user."""
    return Message(Role.USER, (Part("p", Text(words)),))


def request(wire: AnthropicMessages = WIRE, **fields: Any) -> ModelRequest:
    """A request of one message."""
    return ModelRequest("m", [wire.encode_message(user("hi"))], **fields)


def body(profile: Profile = PROFILE, **fields: Any) -> dict[str, Any]:
    """The body as the server reads it."""
    sent: dict[str, Any] = json.loads(AnthropicMessages(profile).call(request(**fields)).body)
    return sent


def violations(profile: Profile = PROFILE, **fields: Any) -> list[str]:
    """The paths that ``check`` names; a call is refused for the same."""
    wire = AnthropicMessages(profile)
    found = wire.check(request(**fields))
    if found:
        with pytest.raises(ProviderError) as raised:
            wire.call(request(**fields))
        assert raised.value.failure.reason is Reason.OPTION_NOT_SUPPORTED
        assert all(violation.field in raised.value.failure.message for violation in found)
    else:
        wire.call(request(**fields))
    return [violation.field for violation in found]


@pytest.mark.requirement("MSG-20", "MSG-24")
def test_a_plain_request_says_model_messages_and_output_limit() -> None:
    assert body() == {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "max_tokens": 4096,
        "stream": True,
    }


@pytest.mark.requirement("MSG-24")
def test_the_output_limit_is_the_requests_else_the_models_else_a_common_one() -> None:
    limited = replace(PROFILE, model_limits=(ModelLimitRow("m*", 0, 64_000),))
    assert body(limited)["max_tokens"] == 64_000
    assert body(limited, max_output_tokens=7)["max_tokens"] == 7
    assert body(PROFILE)["max_tokens"] == 4096


@pytest.mark.requirement("MSG-21")
def test_the_prompt_has_two_breakpoints_where_asked_for_and_none_else() -> None:
    wire = AnthropicMessages(CACHING)
    system = wire.encode_system(["a", "b"], TOOLS)
    sent = body(CACHING, system=system, tools=wire.encode_tools(TOOLS))
    assert sent["system"][-1]["cache_control"] == sent["cache_control"] == EPHEMERAL
    assert json.dumps(sent).count("cache_control") == 2
    assert "cache_control" not in json.dumps(body(system=WIRE.encode_system(["a"], ())))


@pytest.mark.requirement("MSG-20")
def test_the_next_iteration_only_adds_to_the_prompt() -> None:
    wire = AnthropicMessages(CACHING)
    asked = request(wire, system=wire.encode_system(["be kind"], TOOLS), tools=wire.encode_tools(TOOLS))
    first = wire.call(asked).body
    second = wire.call(replace(asked, messages=[*asked.messages, wire.encode_message(user("more"))])).body
    prefix = first[: first.index(b"]", first.index(b'"messages"')) - 1]
    assert second.startswith(prefix)
    assert first[first.index(b'"max_tokens"') :] == second[second.index(b'"max_tokens"') :]


@pytest.mark.requirement("MSG-20")
def test_a_history_of_a_megabyte_is_joined_and_not_encoded_again() -> None:
    piece = WIRE.encode_message(user("x" * 2000))
    asked = ModelRequest("m", [piece] * 500, system=WIRE.encode_system(["s"], ()))
    assert b",".join([piece] * 500) in WIRE.call(asked).body
    took = []
    for _ in range(20):
        begin = time.perf_counter()
        WIRE.call(asked)
        took.append(time.perf_counter() - begin)
    assert min(took) < 0.006


@pytest.mark.requirement("MSG-22")
@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (ToolChoice(), None, None),
        (ToolChoice(), True, None),
        (ToolChoice(), False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolChoiceMode.AUTO), None, None),
        (ToolChoice(ToolChoiceMode.REQUIRED), None, {"type": "any"}),
        (ToolChoice(ToolChoiceMode.REQUIRED), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolChoiceMode.NONE), False, {"type": "none"}),
        (ToolChoice(routed_name="b"), None, {"type": "tool", "name": "b"}),
    ],
)
def test_the_tool_choice_is_told_in_the_words_of_the_wire(choice: ToolChoice, parallel: bool | None, sent: Any) -> None:
    found = body(tools=WIRE.encode_tools(TOOLS), tool_choice=choice, parallel_tool_calls=parallel)
    assert [tool["name"] for tool in found["tools"]] == ["a", "b"]
    assert found.get("tool_choice") == sent
    assert "tools" not in body(tool_choice=choice, parallel_tool_calls=parallel)


@pytest.mark.requirement("MSG-23")
@pytest.mark.parametrize(
    "options",
    [
        GenerationOptions(temperature=0.5),
        GenerationOptions(top_p=0.5),
        GenerationOptions(top_k=5),
        GenerationOptions(frequency_penalty=0.1),
        GenerationOptions(presence_penalty=0.1),
        GenerationOptions(seed=0),
    ],
)
def test_an_option_without_a_place_is_refused_by_its_path(options: GenerationOptions) -> None:
    [name] = [name for name in GenerationOptions.__slots__ if getattr(options, name) not in (None, (), Thinking())]
    assert violations(options=options) == [f"turn.model.options.{name}"]


@pytest.mark.requirement("MSG-23")
def test_options_that_a_profile_names_are_sent_under_its_names() -> None:
    options = GenerationOptions(temperature=0.0, top_p=0.9, top_k=3, stop_sequences=("END",))
    sent = body(SAMPLING, options=options)
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["stop_sequences"]) == (0.0, 0.9, 3, ["END"])
    renamed = replace(PROFILE, option_fields={"stop_sequences": "stops"})
    assert body(renamed, options=GenerationOptions(stop_sequences=("x",)))["stops"] == ["x"]
    silent = replace(PROFILE, option_fields={"stop_sequences": "", "thinking": ""})
    assert violations(silent, options=GenerationOptions(stop_sequences=("x",))) == ["turn.model.options.stop_sequences"]
    thinking = GenerationOptions(thinking=Thinking(ThinkingMode.ADAPTIVE))
    assert violations(silent, options=thinking) == ["turn.model.options.thinking"]


@pytest.mark.requirement("MSG-23")
def test_effort_and_choices_that_a_server_does_not_know_are_refused() -> None:
    limited = replace(
        PROFILE, reasoning_effort_field="", named_tool_choice=False, tool_choice=frozenset({ToolChoiceMode.AUTO})
    )
    assert violations(limited, reasoning_effort="low") == ["turn.policy.output.reasoning_effort"]
    for choice in (ToolChoice(routed_name="a"), ToolChoice(ToolChoiceMode.REQUIRED), ToolChoice(ToolChoiceMode.NONE)):
        assert violations(limited, tool_choice=choice) == ["turn.tools.choice"]
        assert violations(tool_choice=choice) == []
    assert violations(limited, tool_choice=ToolChoice(ToolChoiceMode.AUTO)) == []


@pytest.mark.requirement("MSG-24")
@pytest.mark.parametrize(
    ("thinking", "limit", "sent"),
    [
        (Thinking(), 4096, None),
        (Thinking(ThinkingMode.ADAPTIVE), 10, {"type": "adaptive"}),
        (Thinking(ThinkingMode.DISABLED), 10, {"type": "disabled"}),
        (Thinking(ThinkingMode.ENABLED, 2000), 2001, {"type": "enabled", "budget_tokens": 2000}),
        (Thinking(ThinkingMode.ENABLED), 8000, {"type": "enabled", "budget_tokens": 4000}),
        (Thinking(ThinkingMode.ENABLED), 1500, {"type": "enabled", "budget_tokens": 1024}),
    ],
)
def test_thinking_is_told_in_the_words_of_the_wire(thinking: Thinking, limit: int, sent: Any) -> None:
    found = body(options=GenerationOptions(thinking=thinking), max_output_tokens=limit)
    assert found.get("thinking") == sent


@pytest.mark.requirement("MSG-24")
@pytest.mark.parametrize(("budget", "limit"), [(2000, 2000), (1023, 9000), (None, 1024)])
def test_a_budget_that_does_not_fit_the_output_is_refused(budget: int | None, limit: int) -> None:
    options = GenerationOptions(thinking=Thinking(ThinkingMode.ENABLED, budget))
    assert violations(options=options, max_output_tokens=limit) == ["turn.model.options.thinking.budget_tokens"]


@pytest.mark.requirement("MSG-23", "MSG-24")
def test_a_model_that_thinks_cannot_be_made_to_call_a_tool() -> None:
    for mode in (ThinkingMode.ADAPTIVE, ThinkingMode.ENABLED):
        options = GenerationOptions(thinking=Thinking(mode))
        for choice in (ToolChoice(ToolChoiceMode.REQUIRED), ToolChoice(routed_name="a")):
            assert violations(options=options, tool_choice=choice) == ["turn.tools.choice"]
    off = GenerationOptions(thinking=Thinking(ThinkingMode.DISABLED))
    assert violations(options=off, tool_choice=ToolChoice(ToolChoiceMode.REQUIRED)) == []


@pytest.mark.requirement("MSG-25")
def test_the_server_is_held_to_a_schema_beside_the_effort() -> None:
    strict = replace(PROFILE, schema_adaptations=frozenset({SchemaAdaptation.NO_VALIDATION_KEYWORDS}))
    sent = body(strict, output_format=OutputFormat(SCHEMA), reasoning_effort="low")["output_config"]
    assert (sent["effort"], sent["format"]["type"]) == ("low", "json_schema")
    assert "minimum" not in sent["format"]["schema"]["properties"]["n"]
    assert body(output_format=OutputFormat(SCHEMA))["output_config"]["format"]["schema"] == json.loads(SCHEMA)
    assert body(reasoning_effort="high")["output_config"] == {"effort": "high"}


@pytest.mark.requirement("MSG-25")
@pytest.mark.parametrize("form", [StructuredOutput.PROMPT, StructuredOutput.JSON_OBJECT])
def test_a_schema_that_the_server_cannot_be_held_to_is_explained(form: StructuredOutput) -> None:
    profile = replace(CACHING, structured_output=form)
    wire = AnthropicMessages(profile)
    sent = body(profile, output_format=OutputFormat(SCHEMA), system=wire.encode_system(["s"], ()))
    assert "output_config" not in sent
    assert [SCHEMA in block["text"] for block in sent["system"]] == [False, True]
    assert SCHEMA in body(profile, output_format=OutputFormat(SCHEMA))["system"][0]["text"]


@pytest.mark.requirement("MSG-25")
def test_a_schema_whose_strict_form_says_something_else_is_explained() -> None:
    closed = replace(PROFILE, schema_adaptations=frozenset({SchemaAdaptation.CLOSED_OBJECTS}))
    free = '{"type":"object","additionalProperties":{"type":"integer"}}'
    sent = body(closed, output_format=OutputFormat(free))
    assert "output_config" not in sent
    assert free in sent["system"][0]["text"]
    assert body(closed, output_format=OutputFormat(SCHEMA))["output_config"]["format"]["schema"] == {
        **json.loads(SCHEMA),
        "additionalProperties": False,
    }


@pytest.mark.requirement("MSG-25")
def test_a_schema_may_leave_properties_out_as_far_as_the_server_takes_it() -> None:
    closed = replace(PROFILE, schema_adaptations=frozenset({SchemaAdaptation.CLOSED_OBJECTS}))
    optional = '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}'
    held = body(closed, output_format=OutputFormat(optional))["output_config"]["format"]["schema"]
    assert held == {**json.loads(optional), "additionalProperties": False}
    for limited in (replace(closed, strict_optional_properties=1), replace(PROFILE, strict_optional_properties=1)):
        assert "output_config" not in body(limited, output_format=OutputFormat(optional))
    unions = '{"type":"object","properties":{"a":{"type":["string","null"]}, "b":{"anyOf":[{"type":"null"}]}}}'
    assert "output_config" not in body(replace(closed, strict_unions=1), output_format=OutputFormat(unions))


@pytest.mark.requirement("MSG-25")
def test_a_server_that_takes_no_format_beside_tools_is_told_in_words_until_they_are_gone() -> None:
    apart = replace(PROFILE, structured_output_with_tools=False)
    sent = body(apart, tools=WIRE.encode_tools(TOOLS), output_format=OutputFormat(SCHEMA))
    assert "output_config" not in sent
    assert sent["system"][0]["text"].startswith("When no tool has to be called any more, answer")
    assert "output_config" in body(apart, output_format=OutputFormat(SCHEMA))


@pytest.mark.requirement("MSG-27")
def test_what_a_profile_says_and_this_wire_cannot_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"providers\.acme\.option_fields\.top_q: .* known are temperature"):
        AnthropicMessages(replace(PROFILE, option_fields={"top_q": "top_q"}))
    with pytest.raises(ConfigError, match=r"providers\.acme\.prompt_cache"):
        AnthropicMessages(replace(PROFILE, prompt_cache=PromptCache.KEY))


@pytest.mark.requirement("MSG-26")
def test_provider_options_come_last_and_cannot_replace_what_the_policy_decides() -> None:
    options = {"service_tier": "auto", "output_config": {"effort": "max"}, "cache_control": {"ttl": "1h"}}
    sent = body(CACHING, output_format=OutputFormat(SCHEMA), reasoning_effort="low", provider_options=options)
    assert (sent["service_tier"], sent["cache_control"]) == ("auto", {"ttl": "1h"})
    assert (sent["output_config"]["effort"], sent["output_config"]["format"]["type"]) == ("max", "json_schema")
    for name in ("model", "messages", "system", "max_tokens", "stream", "tool_choice", "stop_sequences"):
        assert violations(provider_options={name: 1}) == ["turn.model.provider_options_json"]


@pytest.mark.requirement("MSG-26")
def test_provider_options_may_add_tools_that_the_provider_runs() -> None:
    search = {"type": "web_search_20260101", "name": "web_search"}
    sent = body(tools=WIRE.encode_tools(TOOLS), provider_options={"tools": [search]})
    assert [tool["name"] for tool in sent["tools"]] == ["a", "b", "web_search"]
    assert body(provider_options={"tools": [search]})["tools"] == [search]
    for wrong in ({"name": "mine", "input_schema": {}}, {"type": "custom", "name": "mine"}, 1):
        assert violations(provider_options={"tools": [wrong]}) == ["turn.model.provider_options_json.tools"]
    assert violations(provider_options={"tools": search}) == ["turn.model.provider_options_json.tools"]


@pytest.mark.requirement("MSG-27")
def test_a_cloud_takes_the_model_in_the_url_and_the_version_in_the_body() -> None:
    cloud = replace(
        PROFILE,
        path="/models/{model}:streamRawPredict",
        body_fields={"anthropic_version": "vertex-2023-10-16"},
        model_in_body=False,
    )
    call = AnthropicMessages(cloud).call(request(system=WIRE.encode_system(["s"], ())))
    sent = json.loads(call.body)
    assert call.path == "/models/{model}:streamRawPredict"
    assert sent["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in sent
    assert "model" not in json.loads(AnthropicMessages(cloud).call(request()).body)


@pytest.mark.requirement("MSG-28")
def test_the_counter_is_asked_for_what_the_request_is_made_of() -> None:
    assert WIRE.count(request()) is None
    counting = replace(SAMPLING, token_counter=True, prompt_cache=PromptCache.BREAKPOINTS)
    asked = request(
        system=WIRE.encode_system(["s"], ()),
        tools=WIRE.encode_tools(TOOLS),
        reasoning_effort="low",
        options=GenerationOptions(temperature=1, stop_sequences=("x",), thinking=Thinking(ThinkingMode.ADAPTIVE)),
        provider_options={"service_tier": "auto"},
    )
    call = AnthropicMessages(counting).count(asked)
    assert call
    assert call.path == "/messages/count_tokens"
    assert json.loads(call.body).keys() == {"model", "system", "messages", "tools", "thinking", "output_config"}
    plain = AnthropicMessages(counting).count(request())
    assert plain
    assert json.loads(plain.body).keys() == {"model", "messages"}
    assert call.read({"input_tokens": 12}) == 12
    unusable: list[object] = [None, [], {}, *({"input_tokens": value} for value in (None, -1, True, "1"))]
    assert [call.read(answer) for answer in unusable] == [None] * 7


@pytest.mark.requirement("MSG-23")
def test_a_profile_without_native_tool_calls_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"providers\.acme\.tool_calling"):
        AnthropicMessages(replace(PROFILE, tool_calling=ToolCalling.JSON_SCHEMA))


@pytest.mark.requirement("MSG-20")
@given(
    pieces=st.lists(st.sampled_from([b"", b'{"role":"user","content":[]}']), max_size=3),
    system=st.sampled_from([b"", b'{"type":"text","text":"s"}']),
    tools=st.sampled_from([b"", b"[]", b'[{"name":"a"}]']),
)
def test_a_body_is_always_json(pieces: list[bytes], system: bytes, tools: bytes) -> None:
    for profile in (PROFILE, CACHING, replace(PROFILE, model_in_body=False)):
        sent = AnthropicMessages(profile).call(ModelRequest('m"', pieces, system=system, tools=tools)).body
        assert len(msgspec.json.decode(sent)["messages"]) == sum(1 for piece in pieces if piece)
