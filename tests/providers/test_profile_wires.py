"""Every shipped row on the wire that it names: what is sent for what a run asks, and what is refused beforehand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from turnwired.domain.errors import ConfigError
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import GenerationOptions, OutputFormat, Thinking, ThinkingMode
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode, ToolRef, ToolSource
from turnwired.providers.build import wire_of
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import StructuredOutput, ToolCalling, Wire, shipped
from turnwired.providers.wire import WireFormat

NATIVE = [name for name, row in shipped().items() if row.tool_calling is ToolCalling.NATIVE]
TOOL = Tool(
    ToolRef("find", "find", ToolSource.LOCAL),
    "Finds a thing.",
    '{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}',
)
FORMAT = OutputFormat('{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}', "answer")


def wire(name: str) -> WireFormat:
    """The wire of a row."""
    try:
        return wire_of(shipped()[name])
    except ConfigError as error:
        if "is not there yet" not in str(error):
            raise
        pytest.skip(f"{shipped()[name].wire} is not there yet")


def sent(name: str, **changes: Any) -> dict[str, Any]:
    """The body of a call of this row."""
    of = wire(name)
    message = of.encode_message(Message(Role.USER, (Part("", Text("Hello")),)))
    request = replace(ModelRequest("a-model", [message], system=of.encode_system(["Be brief."], ())), **changes)
    assert list(of.check(request)) == []
    body: dict[str, Any] = json.loads(of.call(request).body)
    return body


def refused(name: str, **changes: Any) -> list[str]:
    """The paths that a row refuses."""
    return [item.field for item in wire(name).check(replace(ModelRequest("a-model", []), **changes))]


def with_tools(name: str, choice: ToolChoice | None = None) -> dict[str, Any]:
    """Changes of a request that offers a tool."""
    offered = {"tools": wire(name).encode_tools([TOOL]), "offered": [TOOL]}
    return offered if choice is None else {**offered, "tool_choice": choice}


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize("name", NATIVE)
def test_each_row_sends_a_turn_with_tools(name: str) -> None:
    body = sent(name, **with_tools(name))
    assert len(body["tools"]) == 1
    assert "find" in json.dumps(body["tools"])
    assert body["stream"] is True


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize("name", NATIVE)
def test_a_tool_choice_is_sent_or_refused_as_the_row_says(name: str) -> None:
    row = shipped()[name]
    required, named = ToolChoice(ToolChoiceMode.REQUIRED), ToolChoice(routed_name="find")
    for choice, obeyed in ((required, required.mode in row.tool_choice), (named, row.named_tool_choice)):
        changes = with_tools(name, choice)
        if obeyed:
            assert sent(name, **changes)["tool_choice"]
        else:
            assert refused(name, **changes) == ["turn.tools.choice"]


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize("name", NATIVE)
def test_a_schema_is_sent_or_explained_as_the_row_says(name: str) -> None:
    row = shipped()[name]
    body = sent(name, output_format=FORMAT)
    text = json.dumps(body)
    forms = [
        body.get("response_format"),
        body.get("text", {}).get("format"),
        body.get("output_config", {}).get("format"),
    ]
    (form,) = [item for item in forms if item] or [None]
    match row.structured_output:
        case StructuredOutput.JSON_SCHEMA:
            assert form is not None
            assert form["type"] == "json_schema"
        case StructuredOutput.JSON_OBJECT:
            assert form == {"type": "json_object"}
            assert "JSON Schema" in text
        case StructuredOutput.PROMPT:
            assert form is None
            assert "JSON Schema" in text


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize(
    ("name", "options", "fields"),
    [
        ("openai", GenerationOptions(seed=1, temperature=0.5), {"seed": 1, "temperature": 0.5}),
        ("mistral", GenerationOptions(seed=1), {"random_seed": 1}),
        ("vllm", GenerationOptions(top_k=5), {"top_k": 5}),
        (
            "llamacpp",
            GenerationOptions(thinking=Thinking(ThinkingMode.DISABLED)),
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        ("deepseek", GenerationOptions(thinking=Thinking(ThinkingMode.DISABLED)), {"thinking": {"type": "disabled"}}),
        (
            "openrouter",
            GenerationOptions(thinking=Thinking(ThinkingMode.ENABLED, 2000)),
            {"reasoning": {"enabled": True, "max_tokens": 2000}},
        ),
        ("anthropic-compatible", GenerationOptions(temperature=0.5, top_k=3), {"temperature": 0.5, "top_k": 3}),
    ],
)
def test_options_stand_where_the_row_says(name: str, options: GenerationOptions, fields: dict[str, Any]) -> None:
    body = sent(name, options=options)
    assert {field: body.get(field) for field in fields} == fields


@pytest.mark.requirement("PROFILE-20")
@pytest.mark.parametrize(
    ("name", "options", "path"),
    [
        ("groq", GenerationOptions(frequency_penalty=0.5), "turn.model.options.frequency_penalty"),
        ("gemini", GenerationOptions(seed=1), "turn.model.options.seed"),
        ("deepseek", GenerationOptions(seed=1), "turn.model.options.seed"),
        ("anthropic", GenerationOptions(temperature=0.5), "turn.model.options.temperature"),
        ("openai", GenerationOptions(top_k=5), "turn.model.options.top_k"),
        ("openai-responses", GenerationOptions(seed=1), "turn.model.options.seed"),
    ],
)
def test_options_that_a_row_has_no_place_for_are_refused(name: str, options: GenerationOptions, path: str) -> None:
    assert refused(name, options=options) == [path]


@pytest.mark.requirement("PROFILE-20")
def test_the_reasoning_effort_stands_where_the_row_says() -> None:
    assert sent("openrouter", reasoning_effort="low")["reasoning"] == {"effort": "low"}
    assert sent("openai", reasoning_effort="low")["reasoning_effort"] == "low"
    assert sent("openai-responses", reasoning_effort="low")["reasoning"]["effort"] == "low"
    assert sent("anthropic", reasoning_effort="low")["output_config"] == {"effort": "low"}


@pytest.mark.requirement("PROFILE-51")
def test_a_wire_that_needs_an_output_limit_takes_the_rows_and_no_other_wire_is_told_it() -> None:
    assert sent("anthropic", model="claude-haiku-5-5")["max_tokens"] == 128_000
    chat = sent("openai", model="gpt-4o-mini")
    assert not {"max_tokens", "max_completion_tokens"} & chat.keys()
    assert sent("openai", model="gpt-4o-mini", max_output_tokens=5)["max_completion_tokens"] == 5
    assert sent("groq", max_output_tokens=5)["max_completion_tokens"] == 5
    assert sent("mistral", max_output_tokens=5)["max_tokens"] == 5


@pytest.mark.requirement("PROFILE-20")
def test_each_wire_has_a_row_that_is_tested_here() -> None:
    assert {shipped()[name].wire for name in NATIVE} == set(Wire)
