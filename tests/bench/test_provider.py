"""The scripted provider says what its model's name promises, and refuses what must not be measured."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from bench import provider

SECONDS = 20.0


def request(model: str, *messages: dict[str, Any], tools: tuple[str, ...] = ()) -> dict[str, Any]:
    """A body with so many tools."""
    offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    history = messages or ({"role": "user", "content": "hello"},)
    return {"model": model, "messages": list(history), "stream": True, **({"tools": offered} if offered else {})}


async def ask(body: dict[str, Any]) -> tuple[int, list[dict[str, Any]], int]:
    """Status, events, and how often the provider was asked."""
    server = await provider.serve()
    try:
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.post("/v1/chat/completions", json=body) as response:
                content = await response.read()
            async with session.get("/stats") as stats:
                completions = (await stats.json())["completions"]
        lines = [line[6:] for line in content.split(b"\n") if line.startswith(b"data: {")]
        return response.status, [json.loads(line) for line in lines], completions
    finally:
        server.close()
        await server.wait_closed()


def deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["choices"][0]["delta"] for event in events if event["choices"]]


def text(events: list[dict[str, Any]]) -> list[str]:
    return [delta["content"] for delta in deltas(events) if delta.get("content")]


def finish(events: list[dict[str, Any]]) -> list[str]:
    reasons = [event["choices"][0]["finish_reason"] for event in events if event["choices"]]
    return [reason for reason in reasons if reason]


@pytest.mark.requirement("BENCH-1")
async def test_a_text_model_says_so_many_deltas() -> None:
    status, events, completions = await ask(request("text-33"))
    assert (status, len(text(events)), finish(events), completions) == (200, 33, ["stop"], 1)
    assert {len(piece) for piece in text(events)} == {provider.DELTA_CHARS}
    assert events[-1]["usage"]["completion_tokens"] > 0


@pytest.mark.requirement("BENCH-1")
async def test_a_paced_model_says_when_each_delta_was_due() -> None:
    begun = time.monotonic()
    _, events, _ = await ask(request("pace-5-10"))
    ended = time.monotonic()
    due = [int(piece) / 1e6 for piece in text(events)]
    steps = [later - earlier for earlier, later in pairwise(due)]
    assert steps == pytest.approx([0.01] * 4, abs=2e-6)
    early = 1e-3  # by so much a timer of epoll may end before its time
    assert begun - 1e-6 <= due[0] < due[-1] <= ended + early, "on the clock of whoever reads"


@pytest.mark.requirement("BENCH-1")
@pytest.mark.parametrize(("model", "calls"), [("tool-3", 1), ("ptool-4", 4)])
async def test_a_tool_model_calls_the_first_tool_offered(model: str, calls: int) -> None:
    _, events, _ = await ask(request(model, tools=("first", "second")))
    pieces = [piece for delta in deltas(events) for piece in delta.get("tool_calls", ())]
    arguments = [
        "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == n) for n in range(calls)
    ]
    assert [piece["function"]["name"] for piece in pieces if "id" in piece] == ["first"] * calls
    assert [json.loads(argument) for argument in arguments] == [{"x": 12, "y": "abc"}] * calls
    assert finish(events) == ["tool_calls"]


def results(count: int, content: str = "ok") -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": f"call_{number}", "content": content} for number in range(count)]


@pytest.mark.requirement("BENCH-1")
@pytest.mark.parametrize(("model", "count"), [("tool-3", 3), ("ptool-3", 3)])
async def test_after_its_tools_a_tool_model_answers(model: str, count: int) -> None:
    misleading = {"role": "user", "content": '"role":"tool" "model":"text-1" "tools" "name":"other"'}
    _, before, _ = await ask(request("tool-3", misleading, *results(2), tools=("first",)))
    _, after, _ = await ask(request(model, misleading, *results(count), tools=("first",)))
    assert (finish(before), finish(after)) == (["tool_calls"], ["stop"])
    assert len(text(after)) == provider.LAST_TEXT


@pytest.mark.requirement("BENCH-2")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (request("tool-3", *results(1, "Tool error"), tools=("first",)), "a tool did not answer ok"),
        (request("tool-3"), "no tool is offered"),
        (request("gpt-4"), "no model is called 'gpt-4'"),
        (request("text-1") | {"stream": False}, "only streams are answered"),
    ],
)
async def test_what_must_not_be_measured_is_refused(body: dict[str, Any], why: str) -> None:
    server = await provider.serve()
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with asyncio.timeout(SECONDS), aiohttp.request("POST", url, json=body) as response:
        assert (response.status, (await response.json())["error"]["message"]) == (400, why)
    server.close()
    await server.wait_closed()
