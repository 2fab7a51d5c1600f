"""The embedded model itself, when its weights are on this machine; and what is said when they are not."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.providers.build import build_provider
from turnwired.providers.local.weights import EMBEDDED, MODEL_NAME, models_directory, problem_with
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest

ZONE = {"type": "string", "description": "IANA timezone name (e.g., 'America/New_York', 'Europe/London')."}
NOW = Tool(
    ToolRef("time__get_current_time", "get_current_time", ToolSource.MCP, "time"),
    "Get current time in a specific timezone",
    json.dumps({"type": "object", "properties": {"timezone": ZONE}, "required": ["timezone"]}),
)
RESULT = json.dumps({"timezone": "Asia/Tokyo", "datetime": "2026-12-01T17:48:02+09:00", "day_of_week": "Tuesday"})
PHRASINGS = [
    "What time is it in Tokyo?",
    "what time is it in tokyo",
    "What's the time in Tokyo right now?",
    "Tell me the current time in Tokyo.",
    "Could you tell me what time it is in Tokyo?",
    "Time in Tokyo?",
    "I need to call Tokyo. What time is it there?",
    "Current time in Tokyo, please.",
    "Do you know the local time in Tokyo?",
    "Check the clock in Tokyo for me.",
]


def user(text: str) -> Message:
    return Message(Role.USER, (Part("p", Text(text)),))


@pytest.fixture
async def provider() -> AsyncIterator[ModelProvider]:
    if problem := problem_with(EMBEDDED, models_directory()):
        pytest.skip(problem)
    built = build_provider("local", profile="local", environ=os.environ)
    yield built
    await built.aclose()


async def ask(provider: ModelProvider, *messages: Message, tools: tuple[Tool, ...] = (NOW,)) -> list[ModelItem]:
    request = ModelRequest(
        model=MODEL_NAME,
        messages=[provider.encode_system([], tools), *map(provider.encode_message, messages)],
        tools=provider.encode_tools(tools) if tools else b"",
        offered=tools,
        limits=CallLimits(total=120.0),
    )
    return [item async for batch in provider.generate(request) for item in batch]


def text_of(items: list[ModelItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextChunk))


def called_zone(items: list[ModelItem]) -> str:
    if not any(isinstance(item, ToolCallOpened) and item.name == NOW.ref.routed_name for item in items):
        return ""
    arguments = "".join(item.fragment for item in items if isinstance(item, ToolArgumentsChunk))
    return str(json.loads(arguments)["timezone"])


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.requirement("JSONTOOLS-8")
async def test_the_embedded_model_calls_the_tool_and_answers_from_its_result(provider: ModelProvider) -> None:
    zones: list[str] = []
    answers: list[str] = []
    for question in PHRASINGS:
        items = await ask(provider, user(question))
        zones.append(called_zone(items))
        if zones[-1] != "Asia/Tokyo":
            continue
        assert sum(isinstance(item, ToolCallClosed) for item in items) == 1
        assert any(isinstance(item, UsageReported) for item in items)
        assert isinstance(items[-1], GenerationStopped)
        call = Message(Role.ASSISTANT, (Part("c", ToolCall("1", NOW.ref, '{"timezone": "Asia/Tokyo"}')),))
        result = ToolResult("1", ToolResultStatus.OK, (Part("t", Text(RESULT)),))
        answers.append(text_of(await ask(provider, user(question), call, Message(Role.TOOL, (Part("r", result),)))))
    assert zones.count("Asia/Tokyo") >= 9, zones
    assert all("17:48" in answer for answer in answers), answers


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.requirement("JSONTOOLS-8")
async def test_the_embedded_model_answers_without_a_tool_what_needs_none(provider: ModelProvider) -> None:
    for question in ("Say hello in one short sentence.", "What is the capital of France?"):
        items = await ask(provider, user(question))
        assert text_of(items)
        assert not any(isinstance(item, ToolCallOpened) for item in items)
    assert text_of(await ask(provider, user("Say hello in one short sentence."), tools=()))


@pytest.mark.requirement("LOCAL-2")
async def test_without_weights_a_call_says_what_to_run(tmp_path: Path) -> None:
    provider = build_provider("local", profile="local", environ={"XDG_CACHE_HOME": str(tmp_path)})
    assert not provider.info.configured
    assert "make model" in provider.info.hint
    with pytest.raises(ProviderError, match="make model") as raised:
        await ask(provider, user("Hello"))
    assert raised.value.failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert not raised.value.failure.retryable
    await provider.aclose()


@pytest.mark.requirement("LOCAL-2")
async def test_without_its_runtime_a_call_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    provider = build_provider("local", profile="local", environ={"XDG_CACHE_HOME": str(tmp_path)})
    with pytest.raises(ProviderError, match=r"turnwired\[local\]"):
        await ask(provider, user("Hello"))
    await provider.aclose()
