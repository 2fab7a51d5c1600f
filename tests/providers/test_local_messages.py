"""A real llama.cpp server over the Messages wire: the same three turns as over the other wires.

The embedded model was trained for none of it, so calls and JSON have solved ones before them, as a conversation would.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Content, Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.model import GenerationOptions, OutputFormat
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.providers.build import provider_for
from turnwired.providers.local.process import ModelServer
from turnwired.providers.local.weights import EMBEDDED, MODEL_NAME, models_directory, problem_with
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest
from turnwired.providers.profiles import Profile, StructuredOutput, Wire

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(200)]

LAUNCHER = Path(__file__).with_name("llama_server.py")
REF = ToolRef("current_time", "current_time", ToolSource.LOCAL)
CLOCK = Tool(
    REF,
    "Gives the current time in a time zone.",
    '{"type":"object","properties":{"timezone":{"type":"string"}},"required":["timezone"]}',
)
TEXT = {"type": "string"}
SCHEMA = json.dumps({"type": "object", "properties": {"city": TEXT, "country": TEXT}, "required": ["city", "country"]})


def say(role: Role, *contents: Content) -> Message:
    """A message."""
    return Message(role, tuple(Part(f"p{i}", content) for i, content in enumerate(contents)))


def solved(number: int, city: str, zone: str, time: str) -> list[Message]:
    """A question for the time, answered with the tool."""
    call_id = f"call_{number}"
    result = ToolResult(call_id, ToolResultStatus.OK, (Part("r", Text(time)),))
    return [
        say(Role.USER, Text(f"What time is it in {city}?")),
        say(Role.ASSISTANT, ToolCall(call_id, REF, json.dumps({"timezone": zone}))),
        say(Role.TOOL, result),
        say(Role.ASSISTANT, Text(f"It is {time} in {city}.")),
    ]


@pytest.fixture
async def provider() -> AsyncIterator[ModelProvider]:
    """The server over this wire; it knows no schema, so that one is explained to the model."""
    if problem := problem_with(EMBEDDED, models_directory()):
        pytest.skip(problem)
    weights = os.fspath(models_directory() / EMBEDDED.file)
    server = ModelServer((sys.executable, os.fspath(LAUNCHER), weights, MODEL_NAME), origin="llama.cpp")
    try:
        endpoint = await server.endpoint()
        profile = Profile(
            "llama.cpp",
            Wire.ANTHROPIC_MESSAGES,
            "llama_cpp",
            base_url=f"{endpoint.url}/v1",
            key_env="KEY",
            structured_output=StructuredOutput.PROMPT,
            option_fields={"temperature": "temperature"},
            token_counter=True,
        )
        built = provider_for(profile, environ={"KEY": endpoint.key})
        yield built
        await built.aclose()
    finally:
        await server.aclose()


def request(
    provider: ModelProvider, messages: Sequence[Message], tools: Sequence[Tool] = (), output: OutputFormat | None = None
) -> ModelRequest:
    """A greedy request of a few tokens."""
    return ModelRequest(
        MODEL_NAME,
        [provider.encode_message(message) for message in messages],
        system=provider.encode_system(["Answer briefly."], tools),
        tools=provider.encode_tools(tools) if tools else b"",
        offered=tools,
        max_output_tokens=64,
        options=GenerationOptions(temperature=0.0),
        output_format=output,
        limits=CallLimits(total=120.0),
    )


async def ask(provider: ModelProvider, asked: ModelRequest) -> list[ModelItem]:
    """The items of the answer."""
    items = [item async for batch in provider.generate(asked) for item in batch]
    assert any(isinstance(item, UsageReported) for item in items)
    return items


def text_of(items: Sequence[ModelItem]) -> str:
    """The text of an answer."""
    return "".join(item.text for item in items if isinstance(item, TextChunk))


@pytest.mark.requirement("MSG-28", "MSG-29")
async def test_a_real_server_answers_a_text_turn_and_counts_its_tokens(provider: ModelProvider) -> None:
    asked = request(provider, [say(Role.USER, Text("Where is the Eiffel Tower?"))])
    items = await ask(provider, asked)
    assert "Paris" in text_of(items)
    assert isinstance(items[-1], GenerationStopped)
    counted = await provider.count_tokens(asked)
    [usage] = {item.usage.input_tokens for item in items if isinstance(item, UsageReported)}
    assert (counted.tokens, counted.exact) == (usage, True)


@pytest.mark.requirement("MSG-29")
async def test_a_real_server_calls_a_tool_and_answers_from_its_result(provider: ModelProvider) -> None:
    history = [*solved(1, "Paris", "Europe/Paris", "14:05"), *solved(2, "Berlin", "Europe/Berlin", "09:40")]
    question = say(Role.USER, Text("What time is it in London?"))
    items = await ask(provider, request(provider, [*history, question], [CLOCK]))
    [opened] = [item for item in items if isinstance(item, ToolCallOpened)]
    arguments = "".join(item.fragment for item in items if isinstance(item, ToolArgumentsChunk))
    assert opened.name == "current_time"
    assert json.loads(arguments) == {"timezone": "Europe/London"}
    assert sum(isinstance(item, ToolCallClosed) for item in items) == 1
    stopped = items[-1]
    assert isinstance(stopped, GenerationStopped)
    assert stopped.reason is FinishReason.TOOL_CALLS
    answered = solved(3, "London", "Europe/London", "17:48")[:3]
    items = await ask(provider, request(provider, [*history, *answered], [CLOCK]))
    assert "17:48" in text_of(items)


@pytest.mark.requirement("MSG-25", "MSG-29")
async def test_a_real_server_answers_in_the_form_that_is_explained_to_it(provider: ModelProvider) -> None:
    history = [
        say(Role.USER, Text("Paris is in France.")),
        say(Role.ASSISTANT, Text('{"city": "Paris", "country": "France"}')),
        say(Role.USER, Text("Rome is in Italy.")),
        say(Role.ASSISTANT, Text('{"city": "Rome", "country": "Italy"}')),
        say(Role.USER, Text("Madrid is in Spain.")),
    ]
    items = await ask(provider, request(provider, history, output=OutputFormat(SCHEMA)))
    assert json.loads(text_of(items)) == {"city": "Madrid", "country": "Spain"}
