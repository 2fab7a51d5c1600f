"""The chat wire against the real server of llama.cpp, when its weights are here: text, a tool call, a schema."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from providers.folding import Folded, add_all

from turnwired.domain.generation import FinishReason
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import GenerationOptions, OutputFormat
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode, ToolRef, ToolSource
from turnwired.providers.build import build_provider
from turnwired.providers.local.weights import EMBEDDED, MODEL_NAME, models_directory, problem_with
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest

PROBLEM = problem_with(EMBEDDED, models_directory())
ZONE = {"type": "object", "properties": {"timezone": {"type": "string"}}, "required": ["timezone"]}
NOW = Tool(ToolRef("now", "now", ToolSource.LOCAL), "Get current time in a specific timezone", json.dumps(ZONE))
CITY = OutputFormat(
    json.dumps(
        {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "size": {"enum": ["small", "large"]}},
            "required": ["city", "size"],
            "additionalProperties": False,
        }
    ),
    "city",
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(200),
    pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM),
]


@asynccontextmanager
async def running(tool_calling: str) -> AsyncIterator[ModelProvider]:
    """The embedded model for the duration of the block."""
    provider = build_provider("local", profile="local", environ=os.environ, tool_calling=tool_calling)
    try:
        yield provider
    finally:
        await provider.aclose()


async def ask(provider: ModelProvider, question: str, tools: tuple[Tool, ...] = (), **fields: Any) -> Folded:
    """The folded answer."""
    request = ModelRequest(
        MODEL_NAME,
        [provider.encode_message(Message(Role.USER, (Part("p", Text(question)),)))],
        system=provider.encode_system(["Be brief."], tools),
        tools=provider.encode_tools(tools) if tools else b"",
        offered=tools,
        max_output_tokens=64,
        limits=CallLimits(total=120.0),
        **fields,
    )
    assert provider.check(request) == []
    folded = Folded()
    async for batch in provider.generate(request):
        add_all(folded, batch)
    return folded


@pytest.mark.requirement("CHAT-14", "CHAT-21", "CHAT-12")
@pytest.mark.parametrize("tool_calling", ["native", "json_schema"])
async def test_three_turns_against_the_real_server(tool_calling: str) -> None:
    async with running(tool_calling) as provider:
        options = GenerationOptions(temperature=0.1, seed=7, stop_sequences=("\n\n\n",))
        plain = await ask(provider, "Say hello in one short sentence.", options=options)
        assert plain.text
        assert plain.usage
        assert plain.stopped
        structured = await ask(provider, "Describe the city of Tokyo.", output_format=CITY)
        assert structured.stopped
        assert structured.stopped.reason is FinishReason.STOP
        found = json.loads(structured.text)
        assert found.keys() == {"city", "size"}
        assert found["size"] in {"small", "large"}
        if tool_calling == "json_schema":  # the embedded model knows no calls of its own
            required = ToolChoice(ToolChoiceMode.REQUIRED)
            called = await ask(provider, "What time is it in Tokyo?", (NOW,), tool_choice=required)
            [call] = called.calls.values()
            assert call.closed
            assert json.loads(call.arguments)["timezone"]
