"""The body of a Responses request, what is refused, and the question to the token counter."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from turnwired.domain.errors import ConfigError, ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import GenerationOptions, OutputFormat, Thinking, ThinkingMode
from turnwired.domain.tool import ToolChoice, ToolChoiceMode
from turnwired.providers.build import wire_of
from turnwired.providers.openai_responses import OpenAIResponses
from turnwired.providers.openai_responses_request import RESERVED
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import (
    Profile,
    PromptCache,
    SchemaAdaptation,
    StructuredOutput,
    ToolCalling,
    Wire,
    with_overrides,
)

USER = b'{"role":"user","content":"my diary"}'
SCHEMA = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'
OPEN_SCHEMA = '{"type":"object","properties":{"a":{"type":"string"}}}'


def profile(**fields: Any) -> Profile:
    """A profile of this wire."""
    return Profile(**{"name": "acme", "wire": Wire.OPENAI_RESPONSES, "telemetry_name": "acme", **fields})


def request(**fields: Any) -> ModelRequest:
    """A request of one message."""
    return ModelRequest("m", [b"", USER], **fields)


def body(of: Profile | None = None, **fields: Any) -> dict[str, Any]:
    """The body of such a request."""
    found: dict[str, Any] = json.loads(OpenAIResponses(of or profile()).call(request(**fields)).body)
    return found


def options(**fields: Any) -> dict[str, Any]:
    """Generation options as a field of a request."""
    return {"options": GenerationOptions(**fields)}


def found(of: Profile | None = None, **fields: Any) -> list[str]:
    """The paths of what is refused; a call must refuse the same."""
    wire = OpenAIResponses(of or profile())
    violations = wire.check(ModelRequest("m", [], **fields))
    assert all(violation.description for violation in violations)
    if violations:
        with pytest.raises(ProviderError) as raised:
            wire.call(request(**fields))
        assert raised.value.failure.reason is Reason.OPTION_NOT_SUPPORTED
        assert violations[0].field in raised.value.failure.message
    else:
        wire.call(request(**fields))
    return [violation.field for violation in violations]


@pytest.mark.requirement("RESP-21", "RESP-22")
def test_a_plain_body_stores_nothing_and_asks_for_encrypted_reasoning() -> None:
    assert body(system=b'"be good"') == {
        "model": "m",
        "instructions": "be good",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "my diary"}],
    }
    assert body(profile(include=())) == {"model": "m", "stream": True, "store": False, "input": [json.loads(USER)]}
    assert json.loads(OpenAIResponses(profile()).call(ModelRequest("m", [])).body)["input"] == []


@pytest.mark.requirement("RESP-22")
def test_what_answers_include_is_data_of_the_profile() -> None:
    row = {"wire": "openai.responses", "include": ["web_search_call.action.sources"]}
    assert body(with_overrides({}, {"x": row})["x"])["include"] == ["web_search_call.action.sources"]
    with pytest.raises(ConfigError, match="include"):
        with_overrides({}, {"x": {**row, "include": "all"}})


@pytest.mark.requirement("RESP-21")
def test_a_history_of_a_megabyte_is_joined_in_less_than_six_milliseconds() -> None:
    wire = OpenAIResponses(profile())
    piece = wire.encode_message(Message(Role.USER, (Part("p", Text("x" * 2000)),)))
    asked = ModelRequest("m", [piece] * 550, system=b'"s"', tools=b"[]")
    spent: list[int] = []
    sent = b""
    for _ in range(5):  # the least of several: others may have the processor in between
        start = time.thread_time_ns()
        sent = wire.call(asked).body
        spent.append(time.thread_time_ns() - start)
    assert len(sent) > 1_100_000
    assert b",".join([piece] * 550) in sent
    assert min(spent) < 6_000_000


@pytest.mark.requirement("RESP-21")
def test_the_beginning_of_a_body_stays_when_the_conversation_grows() -> None:
    wire = OpenAIResponses(profile())
    first, then = (wire.call(ModelRequest("m", [USER] * n, system=b'"s"', tools=b"[]")).body for n in (2, 3))
    assert then.startswith(first.removesuffix(b"]}"))


@pytest.mark.requirement("RESP-23")
def test_what_the_policy_and_the_options_say_is_told() -> None:
    sent = body(
        profile(prompt_cache=PromptCache.KEY),
        max_output_tokens=7,
        reasoning_effort="low",
        cache_key="k",
        tools=b'[{"type":"function"}]',
        parallel_tool_calls=False,
        **options(temperature=0.5, top_p=0.9),
    )
    assert {name: sent[name] for name in ("max_output_tokens", "reasoning", "prompt_cache_key")} == {
        "max_output_tokens": 7,
        "reasoning": {"effort": "low"},
        "prompt_cache_key": "k",
    }
    assert (sent["tools"], sent["parallel_tool_calls"]) == ([{"type": "function"}], False)
    assert (sent["temperature"], sent["top_p"]) == (0.5, 0.9)
    assert "prompt_cache_key" not in body(cache_key="k")
    assert "parallel_tool_calls" not in body(profile(parallel_tool_calls=False), tools=b"[]", parallel_tool_calls=True)
    assert "parallel_tool_calls" not in body(parallel_tool_calls=True)


@pytest.mark.requirement("RESP-23")
@pytest.mark.parametrize(
    ("mode", "effort", "sent"),
    [
        (ThinkingMode.UNSPECIFIED, None, None),
        (ThinkingMode.UNSPECIFIED, "", None),
        (ThinkingMode.UNSPECIFIED, "high", "high"),
        (ThinkingMode.ADAPTIVE, None, None),
        (ThinkingMode.ADAPTIVE, "low", "low"),
        (ThinkingMode.ENABLED, None, "medium"),
        (ThinkingMode.ENABLED, "max", "max"),
        (ThinkingMode.DISABLED, None, "none"),
        (ThinkingMode.DISABLED, "none", "none"),
    ],
)
def test_thinking_is_an_effort(mode: ThinkingMode, effort: str | None, sent: str | None) -> None:
    given = body(reasoning_effort=effort, **options(thinking=Thinking(mode)))
    assert given.get("reasoning") == (None if sent is None else {"effort": sent})


@pytest.mark.requirement("RESP-23", "RESP-24")
@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), None),
        (ToolChoice(ToolChoiceMode.AUTO), None),
        (ToolChoice(ToolChoiceMode.NONE), "none"),
        (ToolChoice(ToolChoiceMode.REQUIRED), "required"),
        (ToolChoice(routed_name="f"), {"type": "function", "name": "f"}),
    ],
)
def test_the_tool_choice_is_sent_or_refused(choice: ToolChoice, sent: object) -> None:
    assert body(tools=b"[]", tool_choice=choice).get("tool_choice") == sent
    unable = profile(tool_choice=frozenset({ToolChoiceMode.AUTO}), named_tool_choice=False)
    assert found(unable, tools=b"[]", tool_choice=choice) == ([] if sent is None else ["turn.tools.choice"])


@pytest.mark.requirement("RESP-24")
@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (options(top_k=3), "turn.model.options.top_k"),
        (options(frequency_penalty=1.0), "turn.model.options.frequency_penalty"),
        (options(presence_penalty=0.0), "turn.model.options.presence_penalty"),
        (options(seed=0), "turn.model.options.seed"),
        (options(stop_sequences=("x",)), "turn.model.options.stop_sequences"),
        (options(thinking=Thinking(ThinkingMode.ENABLED, 100)), "turn.model.options.thinking.budget_tokens"),
        (
            {"reasoning_effort": "low", **options(thinking=Thinking(ThinkingMode.DISABLED))},
            "turn.model.options.thinking.mode",
        ),
        ({"provider_options": {"max_output_tokens": 1}}, "turn.model.provider_options_json"),
        (
            {"provider_options": {"text": {"format": {}}}, "output_format": OutputFormat(SCHEMA)},
            "turn.model.provider_options_json",
        ),
    ],
)
def test_what_has_no_place_is_refused_with_its_path(fields: dict[str, Any], path: str) -> None:
    assert found(**fields) == [path]


@pytest.mark.requirement("RESP-23", "RESP-24")
def test_a_profile_names_the_options_that_its_server_has_and_those_that_it_has_not() -> None:
    of = profile(option_fields={"stop_sequences": "stop", "seed": "seed", "temperature": ""})
    sent = body(of, **options(stop_sequences=("a", "b"), seed=7))
    assert (sent["stop"], sent["seed"]) == (["a", "b"], 7)
    assert found(of, **options(temperature=1.0, top_p=1.0)) == ["turn.model.options.temperature"]


@pytest.mark.requirement("RESP-24")
def test_an_option_that_the_wire_does_not_have_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"providers\.acme\.option_fields\.thinking"):
        wire_of(profile(option_fields={"thinking": "thinking"}))


@pytest.mark.requirement("RESP-24")
def test_effort_and_thinking_are_refused_where_the_server_does_not_reason() -> None:
    of = profile(reasoning_effort_field="")
    fields = {"reasoning_effort": "low", **options(thinking=Thinking(ThinkingMode.ENABLED))}
    assert found(of, **fields) == ["turn.model.options.thinking.mode", "turn.policy.output.reasoning_effort"]
    assert found(of) == []


@pytest.mark.requirement("RESP-25")
def test_provider_options_come_last_and_objects_are_merged() -> None:
    given: dict[str, object] = {
        "reasoning": {"summary": "auto"},
        "include": ["a", "reasoning.encrypted_content"],
        "service_tier": "flex",
    }
    given |= {"text": {"verbosity": "low"}, "store": True, "temperature": 1}
    sent = body(
        reasoning_effort="low", output_format=OutputFormat(SCHEMA), provider_options=given, **options(temperature=0.0)
    )
    assert sent["reasoning"] == {"effort": "low", "summary": "auto"}
    assert sent["include"] == ["reasoning.encrypted_content", "a"]
    assert (sent["service_tier"], sent["store"], sent["temperature"]) == ("flex", True, 1)
    assert (sent["text"]["verbosity"], sent["text"]["format"]["type"]) == ("low", "json_schema")


@pytest.mark.requirement("RESP-25")
@pytest.mark.parametrize("name", sorted(RESERVED))
def test_provider_options_cannot_replace_what_is_decided_elsewhere(name: str) -> None:
    wire = OpenAIResponses(profile())
    with pytest.raises(ProviderError, match=name) as raised:
        wire.call(request(provider_options={name: "my secret"}))
    assert "secret" not in str(raised.value.failure)


@pytest.mark.requirement("RESP-26")
@pytest.mark.parametrize(
    ("schema", "adaptations", "strict"),
    [
        (SCHEMA, {SchemaAdaptation.CLOSED_OBJECTS, SchemaAdaptation.ALL_REQUIRED}, True),
        (OPEN_SCHEMA, {SchemaAdaptation.CLOSED_OBJECTS, SchemaAdaptation.ALL_REQUIRED}, False),
    ],
)
def test_structured_output_is_a_schema_that_is_strict_where_that_changes_nothing(
    schema: str, adaptations: set[SchemaAdaptation], strict: bool
) -> None:
    of = profile(schema_adaptations=frozenset(adaptations))
    sent = body(of, output_format=OutputFormat(schema, "the answer!"))
    assert sent["text"]["format"] == {
        "type": "json_schema",
        "name": "the_answer_",
        "schema": json.loads(schema),
        "strict": strict,
    }
    assert body(of, output_format=OutputFormat(schema))["text"]["format"]["name"] == "answer"
    assert "instructions" not in sent


@pytest.mark.requirement("RESP-26")
@pytest.mark.parametrize(
    ("mode", "sent"),
    [(StructuredOutput.JSON_OBJECT, {"format": {"type": "json_object"}}), (StructuredOutput.PROMPT, None)],
)
def test_without_schemas_the_model_is_told_in_words(mode: StructuredOutput, sent: object) -> None:
    of = profile(structured_output=mode)
    wanted = OutputFormat(SCHEMA)
    given = body(of, system=msgspec.json.encode('be "good"'), output_format=wanted)
    assert given.get("text") == sent
    assert given["instructions"].startswith('be "good"\n\nAnswer with one JSON value')
    assert given["instructions"].endswith(SCHEMA)
    assert body(of, output_format=wanted)["instructions"].startswith("Answer with one JSON value")
    assert "instructions" not in body(of)


@pytest.mark.requirement("RESP-26")
@pytest.mark.parametrize("mode", [StructuredOutput.JSON_SCHEMA, StructuredOutput.JSON_OBJECT])
def test_a_server_that_takes_no_format_beside_tools_is_told_in_words_until_they_are_gone(
    mode: StructuredOutput,
) -> None:
    of = profile(structured_output=mode, structured_output_with_tools=False)
    wanted = OutputFormat(SCHEMA)
    given = body(of, tools=b'[{"type":"function","name":"f"}]', output_format=wanted)
    assert "text" not in given
    assert given["instructions"].startswith("When no tool has to be called any more, answer")
    assert given["instructions"].endswith(SCHEMA)
    assert body(of, output_format=wanted)["text"]["format"]["type"] == mode.value


@pytest.mark.requirement("RESP-25")
def test_fixed_fields_stand_in_every_body_and_the_model_only_where_it_belongs() -> None:
    of = profile(body_fields={"api": "v9", "stream": "no"}, model_in_body=False, token_counter=True)
    sent = body(of)
    assert (sent["api"], sent["stream"], "model" in sent) == ("v9", True, False)
    call = OpenAIResponses(of).count(request())
    assert call is not None
    assert json.loads(call.body)["api"] == "v9"


@pytest.mark.requirement("RESP-23")
def test_cache_breakpoints_have_no_place_on_this_wire() -> None:
    with pytest.raises(ConfigError, match=r"providers\.acme\.prompt_cache"):
        OpenAIResponses(profile(prompt_cache=PromptCache.BREAKPOINTS))


@pytest.mark.requirement("RESP-27")
def test_the_counter_is_asked_what_the_answer_depends_on_and_no_more() -> None:
    wire = OpenAIResponses(profile(token_counter=True, prompt_cache=PromptCache.KEY))
    asked = request(
        system=b'"s"',
        tools=b"[]",
        max_output_tokens=7,
        cache_key="k",
        reasoning_effort="low",
        output_format=OutputFormat(SCHEMA),
        provider_options={"service_tier": "flex", "reasoning": {"summary": "auto"}},
        **options(temperature=0.0),
    )
    question = wire.count(asked)
    assert question
    assert question.path == "/responses/input_tokens"
    sent = json.loads(question.body)
    assert sorted(sent) == ["input", "instructions", "model", "reasoning", "text", "tools"]
    assert sent["reasoning"] == {"effort": "low", "summary": "auto"}
    assert question.read({"object": "response.input_tokens", "input_tokens": 11}) == 11
    oddities: list[object] = [{}, {"input_tokens": "11"}, {"input_tokens": -1}, {"input_tokens": True}, [], None]
    for odd in oddities:
        assert question.read(odd) is None
    assert OpenAIResponses(profile()).count(request()) is None
    assert json.loads(wire.count(ModelRequest("m", [])).body) == {"model": "m", "input": []}  # type: ignore[union-attr]


@pytest.mark.requirement("RESP-24")
def test_a_tool_calling_mode_that_the_wire_does_not_have_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"providers\.acme\.tool_calling"):
        wire_of(profile(tool_calling=ToolCalling.JSON_SCHEMA))


@pytest.mark.requirement("RESP-24")
def test_a_path_of_its_own_is_used_for_calls_and_for_counting() -> None:
    wire = OpenAIResponses(profile(path="/v2/responses", token_counter=True))
    assert wire.call(request()).path == "/v2/responses"
    question = wire.count(request())
    assert question
    assert question.path == "/v2/responses/input_tokens"
