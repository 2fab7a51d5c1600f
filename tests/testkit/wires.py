"""A server on the loopback that answers in each of our wires what a situation of the conformance suite asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from providers.server import Answer, Request
from providers.server import serve as listen

from turnwired.domain.errors import ConfigError
from turnwired.providers.build import provider_for, wire_of
from turnwired.providers.profiles import Profile, Wire, shipped, with_overrides
from turnwired.testing import Served, Situation
from turnwired.testing.provider_checks import CALLS, PRIVATE, RETRY_SECONDS, WORDS, Serve

SECRET = "conformance-key-0123456789"
Json = Mapping[str, Any]


def sse(*events: Json, named: bool = False) -> bytes:
    """Events of a stream; ``named``: each with its type as the event's name."""
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


@dataclass(frozen=True)
class Bodies:
    """How one wire says things. ``text`` and ``calls`` are the pieces of a stream, the end of which is ``end``."""

    wire: Wire
    begin: bytes
    text: Sequence[bytes]
    calls: Sequence[bytes]
    end: Callable[[str], bytes]
    words: Mapping[str, str]
    error: Callable[[str, str], Json]


# --- chat completions ------------------------------------------------------------------------------------------------


def chat(delta: Json, finish: str | None = None) -> bytes:
    """One chunk."""
    return sse({"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def chat_call(index: int, name: str, arguments: str) -> bytes:
    """One call, its arguments in two fragments."""
    opened = {"index": index, "id": f"c{index}", "type": "function", "function": {"name": name, "arguments": ""}}
    fragments = ({"index": index, "function": {"arguments": part}} for part in (arguments[:4], arguments[4:]))
    return b"".join(chat({"tool_calls": [part]}) for part in (opened, *fragments))


CHAT_USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
CHAT = Bodies(
    wire=Wire.OPENAI_CHAT,
    begin=chat({"role": "assistant", "content": ""}),
    text=[chat({"content": word}) for word in WORDS],
    calls=[chat_call(index, name, json.dumps(arguments)) for index, (name, arguments) in enumerate(CALLS)],
    end=lambda word: chat({}, word) + sse({"id": "r", "choices": [], "usage": CHAT_USAGE}) + b"data: [DONE]\n\n",
    words={"stop": "stop", "calls": "tool_calls", "limit": "length"},
    error=lambda code, message: {"error": {"message": message, "type": code, "code": code}},
)

# --- responses -------------------------------------------------------------------------------------------------------


def item_text(index: int) -> Sequence[bytes]:
    """A message item with the text of WORDS."""
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [], "status": "in_progress"}
    whole = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
    at = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    opened = (
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.content_part.added", **at, "part": {**whole, "text": ""}},
    )
    deltas = [sse({"type": "response.output_text.delta", **at, "delta": word}, named=True) for word in WORDS]
    closed = (
        {"type": "response.output_text.done", **at, "text": "".join(WORDS)},
        {"type": "response.content_part.done", **at, "part": whole},
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**item, "content": [whole], "status": "completed"},
        },
    )
    return [sse(*opened, named=True) + deltas[0], *deltas[1:-1], deltas[-1] + sse(*closed, named=True)]


def item_call(index: int, name: str, arguments: str) -> bytes:
    """A function call item, its arguments in two fragments."""
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index}", "name": name, "arguments": ""}
    at = {"item_id": f"fc_{index}", "output_index": index}
    delta = {"type": "response.function_call_arguments.delta", **at}
    done = {**item, "arguments": arguments, "status": "completed"}
    return sse(
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}},
        {**delta, "delta": arguments[:4]},
        {**delta, "delta": arguments[4:]},
        {"type": "response.function_call_arguments.done", **at, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": index, "item": done},
        named=True,
    )


def response_end(word: str) -> bytes:
    """The last event: completed, or incomplete with the reason."""
    usage = {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}
    response: dict[str, Any] = {"id": "r", "model": "m", "object": "response", "usage": usage, "status": "completed"}
    if word == "completed":
        return sse({"type": "response.completed", "response": response}, named=True)
    response |= {"status": "incomplete", "incomplete_details": {"reason": word}}
    return sse({"type": "response.incomplete", "response": response}, named=True)


RESPONSES = Bodies(
    wire=Wire.OPENAI_RESPONSES,
    begin=sse(
        {"type": "response.created", "response": {"id": "r", "model": "m", "object": "response", "status": "queued"}},
        named=True,
    ),
    text=item_text(0),
    calls=[item_call(index, name, json.dumps(arguments)) for index, (name, arguments) in enumerate(CALLS)],
    end=response_end,
    words={"stop": "completed", "calls": "completed", "limit": "max_output_tokens"},
    error=lambda code, message: {"error": {"message": message, "type": code, "code": code}},
)

# --- messages --------------------------------------------------------------------------------------------------------


def block(index: int, start: Json, deltas: Sequence[Json]) -> Sequence[bytes]:
    """A content block with its deltas, the start with the first of them and the end with the last."""
    opened = sse({"type": "content_block_start", "index": index, "content_block": start}, named=True)
    pieces = [sse({"type": "content_block_delta", "index": index, "delta": delta}, named=True) for delta in deltas]
    closed = sse({"type": "content_block_stop", "index": index}, named=True)
    return [opened + pieces[0], *pieces[1:-1], pieces[-1] + closed]


def block_call(index: int, name: str, arguments: str) -> bytes:
    """A tool use block, its input in two fragments."""
    start = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in (arguments[:4], arguments[4:])]
    return b"".join(block(index, start, deltas))


MESSAGES = Bodies(
    wire=Wire.ANTHROPIC_MESSAGES,
    begin=sse(
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": 12, "output_tokens": 1},
            },
        },
        named=True,
    ),
    text=block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in WORDS]),
    calls=[block_call(index, name, json.dumps(arguments)) for index, (name, arguments) in enumerate(CALLS)],
    end=lambda word: sse(
        {"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
        named=True,
    ),
    words={"stop": "end_turn", "calls": "tool_use", "limit": "max_tokens"},
    error=lambda code, message: {"type": "error", "error": {"type": code, "message": message}},
)

# --- the server ------------------------------------------------------------------------------------------------------


def profile_of(bodies: Bodies, url: str) -> Profile:
    """A generic profile of the wire, set to the server."""
    row: dict[str, Any] = {"extends": "openai-compatible", "wire": bodies.wire.value, "key_env": "KEY"}
    row |= {"base_url": url, "base_url_env": "", "done_marker": bodies.wire is Wire.OPENAI_CHAT}
    return with_overrides(shipped(), {"subject": row})["subject"]


def spoken() -> list[Bodies]:
    """The wires that this version speaks."""
    found: list[Bodies] = []
    for bodies in (CHAT, RESPONSES, MESSAGES):
        profile = profile_of(bodies, "http://127.0.0.1:1/v1")
        try:
            wire_of(profile)
        except ConfigError:  # this version has the name of the wire and no more
            continue
        found.append(bodies)
    assert found, "chat completions are always there"
    return found


async def respond(bodies: Bodies, situation: Situation, answer: Answer) -> None:
    """Answer one call."""
    match situation:
        case Situation.RATE_LIMITED:
            body = json.dumps(bodies.error("rate_limit_error", f"too many requests: {PRIVATE}")).encode()
            await answer.all(body, 429, retry_after=f"{RETRY_SECONDS:g}")
        case Situation.KEY_REJECTED:
            body = json.dumps(bodies.error("authentication_error", f"bad key {SECRET}: {PRIVATE}")).encode()
            await answer.all(body, 401)
        case Situation.NONSENSE:
            await answer.all(b"<html><body>It works!</body></html>")
        case Situation.HANG:
            await answer.start()
            await answer.send(bodies.begin)
            await answer.send(bodies.text[0])
            await answer.gone.wait()
        case _:
            words = {Situation.CALLS: "calls", Situation.TRUNCATED: "limit"}.get(situation, "stop")
            await answer.start()
            await answer.send(bodies.begin)
            for piece in bodies.calls if situation is Situation.CALLS else bodies.text:
                await answer.send(piece)
                await asyncio.sleep(0)
            if situation is not Situation.CUT:
                await answer.send(bodies.end(bodies.words[words]))
            await answer.end()


def served_by(bodies: Bodies) -> Serve:
    """The function that the suite asks for."""

    @asynccontextmanager
    async def serve(situation: Situation) -> AsyncIterator[Served]:
        gone = asyncio.Event()
        calls = 0

        async def handler(request: Request, answer: Answer) -> None:
            nonlocal calls
            if request.path.endswith(("/input_tokens", "/count_tokens")):
                await answer.all(b'{"input_tokens": 9}', content_type="application/json")
                return
            calls += 1
            await respond(bodies, situation, answer)
            if situation is Situation.HANG:
                gone.set()

        async with listen(handler) as server:
            provider = provider_for(profile_of(bodies, server.url), environ={"KEY": SECRET})
            try:
                yield Served(provider, "m", SECRET, lambda: calls, gone)
            finally:
                await provider.aclose()

    return serve
