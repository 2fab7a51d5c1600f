"""llama.cpp's own Responses endpoint with the embedded weights: the wire against a server that nobody scripted.

It sends no ``output_index``, knows schemas by the ``response_format`` of chat completions only, and holds nobody to a
tool choice: the model is led to its call by two examples.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from providers.folding import Folded, add_all

from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.model import GenerationOptions, OutputFormat
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.providers.build import provider_for
from turnwired.providers.credentials import KeyCredentials
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.local.process import ModelServer
from turnwired.providers.local.weights import EMBEDDED, MODEL_NAME, models_directory, problem_with
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import Profile, StructuredOutput, Wire

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(200)]

SERVER = Path(__file__).with_name("llama_server.py")
SCHEMA = {
    "type": "object",
    "properties": {"color": {"type": "string", "enum": ["red", "green"]}},
    "required": ["color"],
    "additionalProperties": False,
}
ZONE = {"type": "object", "properties": {"timezone": {"type": "string"}}, "required": ["timezone"]}
CLOCK = Tool(ToolRef("get_time", "get_time", ToolSource.LOCAL), "Current time", json.dumps(ZONE))


class _Key:
    """The key that the server was given."""

    hint = "the server's process"

    def __init__(self, value: str) -> None:
        self._value = value

    def key(self) -> str:
        """The key."""
        return self._value


@pytest.fixture
async def provider() -> AsyncIterator[HttpProvider]:
    """A provider of this wire over a server of its own."""
    if problem := problem_with(EMBEDDED, models_directory()):
        pytest.skip(problem)
    server = ModelServer((sys.executable, str(SERVER), str(models_directory() / EMBEDDED.file), MODEL_NAME), origin="x")
    endpoint = await server.endpoint()
    profile = Profile(
        "llamacpp",
        Wire.OPENAI_RESPONSES,
        "llama_cpp",
        base_url=f"{endpoint.url}/v1",
        headers={"Connection": "close"},
        structured_output=StructuredOutput.PROMPT,
        token_counter=True,
    )
    built = provider_for(profile, KeyCredentials(_Key(endpoint.key)))
    yield built
    await built.aclose()
    await server.aclose()


def said(role: Role, *contents: Text | ToolCall | ToolResult) -> Message:
    """A message."""
    return Message(role, tuple(Part(f"p{i}", content) for i, content in enumerate(contents)))


def question(city: str) -> Message:
    """What is asked."""
    return said(Role.USER, Text(f"What time is it in {city}?"))


def call(call_id: str, zone: str) -> Message:
    """What is called."""
    return said(Role.ASSISTANT, ToolCall(call_id, CLOCK.ref, json.dumps({"timezone": zone})))


def result(call_id: str, time: str) -> Message:
    """What the call gave."""
    return said(Role.TOOL, ToolResult(call_id, ToolResultStatus.OK, (Part("t", Text(time)),)))


def example(call_id: str, city: str, zone: str, time: str) -> list[Message]:
    """A turn as it should be."""
    answered = said(Role.ASSISTANT, Text(f"It is {time} in {city}."))
    return [question(city), call(call_id, zone), result(call_id, time), answered]


def request(provider: HttpProvider, *messages: Message, tools: tuple[Tool, ...] = ()) -> ModelRequest:
    """A request that is answered greedily."""
    return ModelRequest(
        MODEL_NAME,
        [provider.encode_message(message) for message in messages],
        system=provider.encode_system(["You are brief."], tools),
        tools=provider.encode_tools(tools) if tools else b"",
        offered=tools,
        max_output_tokens=60,
        options=GenerationOptions(temperature=0.0),
        limits=CallLimits(total=120.0),
    )


async def answer(provider: HttpProvider, asked: ModelRequest) -> Folded:
    """The folded answer."""
    folded = Folded()
    async with aclosing(provider.generate(asked)) as batches:
        async for items in batches:
            add_all(folded, items)
    return folded


@pytest.mark.requirement("RESP-27", "RESP-29")
async def test_llama_cpp_answers_with_text_and_counts_what_it_was_asked(provider: HttpProvider) -> None:
    asked = request(provider, said(Role.USER, Text("Say hello.")))
    folded = await answer(provider, asked)
    assert folded.text
    assert folded.identified
    assert folded.stopped
    assert folded.stopped.reason is FinishReason.STOP
    assert folded.usage
    count = await provider.count_tokens(asked)
    assert (count.tokens, count.exact) == (folded.usage.input_tokens, True)


@pytest.mark.requirement("RESP-29")
async def test_llama_cpp_calls_a_tool_and_answers_from_its_result(provider: HttpProvider) -> None:
    led = [*example("e1", "Paris", "Europe/Paris", "10:15"), *example("e2", "New York", "America/New_York", "04:15")]
    asked = [*led, question("Tokyo")]
    folded = await answer(provider, request(provider, *asked, tools=(CLOCK,)))
    [made] = folded.calls.values()
    assert (made.name, json.loads(made.arguments), made.closed) == ("get_time", {"timezone": "Asia/Tokyo"}, True)
    assert folded.stopped
    assert folded.stopped.reason is FinishReason.TOOL_CALLS
    told = await answer(
        provider, request(provider, *asked, call("c1", "Asia/Tokyo"), result("c1", "17:48"), tools=(CLOCK,))
    )
    assert "17:48" in told.text


@pytest.mark.requirement("RESP-26", "RESP-29")
async def test_llama_cpp_gives_structured_output(provider: HttpProvider) -> None:
    asked = request(provider, said(Role.USER, Text("Name a color.")))
    form = {"type": "json_schema", "json_schema": {"name": "color", "schema": SCHEMA}}
    asked = ModelRequest(
        asked.model,
        asked.messages,
        system=asked.system,
        max_output_tokens=60,
        output_format=OutputFormat(json.dumps(SCHEMA)),
        provider_options={"response_format": form},
        limits=asked.limits,
    )
    assert json.loads((await answer(provider, asked)).text)["color"] in {"red", "green"}
