"""Whole turns over each real wire: a server on the loopback that plays bodies in the words of the wire.

Knows how each wire says a text, a call and an end; not what a scenario does with it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from execution.served import Served, served
from providers.server import Answer, Request, serve
from testkit.wires import block_call, chat, chat_call, item_call, sse

from turnwired.domain.policy import Policy
from turnwired.providers.build import provider_for
from turnwired.providers.profiles import Wire, shipped, with_overrides
from turnwired.tools.registry import Source

KEY = "sk-scenario-key-0123456789"
Handler = Callable[[Request, Answer], Awaitable[None]]
Call = tuple[str, str]
"""Name and arguments."""


@dataclass(frozen=True)
class Words:
    """How one wire says things. ``stop``, ``calls``, ``limit``: its words for an end."""

    wire: Wire
    begin: bytes
    text: Callable[[int, str], bytes]
    call: Callable[[int, str, str], bytes]
    end: Callable[[str], bytes]
    stop: str
    calls: str
    limit: str

    def answer(self, *pieces: str | Call, word: str | None = None) -> bytes:
        """A whole answer of texts and calls; its end is what such an answer has, or ``word``."""
        called = any(not isinstance(piece, str) for piece in pieces)
        return self.open(*pieces) + self.end(word or (self.calls if called else self.stop))

    def open(self, *pieces: str | Call) -> bytes:
        """The same without its end."""
        body = self.begin
        for index, piece in enumerate(pieces):
            body += self.text(index, piece) if isinstance(piece, str) else self.call(index, *piece)
        return body


def chat_end(word: str) -> bytes:
    """The finish reason, the usage in a chunk of its own, and the marker."""
    counts = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    return chat({}, word) + sse({"id": "r", "choices": [], "usage": counts}) + b"data: [DONE]\n\n"


def responses_text(index: int, words: str) -> bytes:
    """A message item."""
    item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": [], "status": "in_progress"}
    whole = {"type": "output_text", "text": words, "annotations": []}
    at = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
    return sse(
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.content_part.added", **at, "part": {**whole, "text": ""}},
        {"type": "response.output_text.delta", **at, "delta": words},
        {"type": "response.output_text.done", **at, "text": words},
        {"type": "response.content_part.done", **at, "part": whole},
        {"type": "response.output_item.done", "output_index": index, "item": {**item, "content": [whole]}},
        named=True,
    )


def responses_end(word: str) -> bytes:
    """The last event: completed, or incomplete with the reason."""
    counts = {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}
    response: dict[str, Any] = {"id": "r", "model": "m", "object": "response", "usage": counts, "status": "completed"}
    if word != "completed":
        response |= {"status": "incomplete", "incomplete_details": {"reason": word}}
    return sse({"type": f"response.{response['status']}", "response": response}, named=True)


def messages_begin(**usage: int) -> bytes:
    """The head of a Messages answer."""
    counts = usage or {"input_tokens": 12, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": counts}
    return sse({"type": "message_start", "message": {**message, "stop_reason": None}}, named=True)


def messages_block(index: int, start: Mapping[str, object], *deltas: Mapping[str, object]) -> bytes:
    """A content block."""
    return sse(
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
        named=True,
    )


def messages_text(index: int, words: str) -> bytes:
    """A text block."""
    return messages_block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def messages_end(word: str, **usage: int) -> bytes:
    """The stop reason and the end."""
    counts = usage or {"output_tokens": 5}
    stopped = {"type": "message_delta", "delta": {"stop_reason": word}, "usage": counts}
    return sse(stopped, {"type": "message_stop"}, named=True)


def created() -> bytes:
    """The head of a Responses answer."""
    response = {"id": "r", "model": "m", "object": "response", "status": "queued"}
    return sse({"type": "response.created", "response": response}, named=True)


CHAT = Words(
    Wire.OPENAI_CHAT,
    chat({"role": "assistant", "content": ""}),
    lambda _, words: chat({"content": words}),
    chat_call,
    chat_end,
    "stop",
    "tool_calls",
    "length",
)
RESPONSES = Words(
    Wire.OPENAI_RESPONSES,
    created(),
    responses_text,
    item_call,
    responses_end,
    "completed",
    "completed",
    "max_output_tokens",
)
MESSAGES = Words(
    Wire.ANTHROPIC_MESSAGES,
    messages_begin(),
    messages_text,
    block_call,
    messages_end,
    "end_turn",
    "tool_use",
    "max_tokens",
)
WIRES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}


@dataclass
class Line:
    """A service whose model is behind a wire. ``requests`` are the bodies that it was sent, ``calls`` the same raw."""

    service: Served
    calls: list[Request] = field(default_factory=list[Request])

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Decoded."""
        return [json.loads(call.body) for call in self.calls]

    def pairs(self, call: int) -> list[tuple[str, str]]:
        """Ids and results of the calls in a request; fails unless each call is answered once, in order, behind it."""
        return _pairs(_turns(self.requests[call]))


def _turns(body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Calls and results of a request in their order: "call" or "result", the id, and what it says."""
    found: list[tuple[str, str, str]] = []
    for item in body.get("input", []):  # Responses
        match item.get("type"):
            case "function_call":
                found.append(("call", item["call_id"], item["arguments"]))
            case "function_call_output":
                found.append(("result", item["call_id"], json.dumps(item["output"])))
            case _:
                found.append(("other", "", ""))
    for message in body.get("messages", []):
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        uses = [("call", item["id"], json.dumps(item["input"])) for item in blocks if item["type"] == "tool_use"]
        uses += [
            ("result", item["tool_use_id"], json.dumps(item["content"]))
            for item in blocks
            if item["type"] == "tool_result"
        ]
        uses += [("call", item["id"], item["function"]["arguments"]) for item in message.get("tool_calls") or []]
        if message["role"] == "tool":
            uses.append(("result", message["tool_call_id"], json.dumps(message["content"])))
        found += uses or [("other", "", "")]
    return found


def _pairs(turns: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    waiting: list[str] = []
    for kind, call_id, words in turns:
        match kind:
            case "call":
                assert isinstance(json.loads(words), dict), "arguments go back as an object"
                waiting.append(call_id)
            case "result":
                assert waiting, "a result without a call"
                assert call_id == waiting.pop(0), "results stand in the order of their calls"
                found.append((call_id, words))
            case _:
                assert waiting == [], "a call without its result"
    assert waiting == [], "a call without its result"
    ids = [call_id for call_id, _ in found]
    assert all(ids)
    assert len(set(ids)) == len(ids), "an id is used twice"
    return found


@asynccontextmanager
async def over(
    wire: Words,
    bodies: Sequence[bytes | Handler],
    *functions: Callable[..., object],
    cut: int = 0,
    policy: Policy | None = None,
    sources: Sequence[Source] = (),
    row: Mapping[str, Any] | None = None,
) -> AsyncIterator[Line]:
    """A service over this wire; one body answers one request. ``cut``: bytes of each piece that is sent, 0 for all."""

    async def handler(request: Request, answer: Answer) -> None:
        number = len(server.requests) - 1
        assert number < len(bodies), "the model was asked more often than the scenario allows"
        body = bodies[number]
        if not isinstance(body, bytes):
            await body(request, answer)
            return
        await answer.start()
        step = cut or len(body)
        for begin in range(0, len(body), step):
            await answer.send(body[begin : begin + step])
        await answer.end()

    async with serve(handler) as server:
        settings: dict[str, Any] = {"extends": "openai-compatible", "wire": wire.wire.value, "key_env": "KEY"}
        settings |= {"base_url": server.url, "base_url_env": "", "done_marker": wire.wire is Wire.OPENAI_CHAT}
        settings |= row or {}
        profile = with_overrides(shipped(), {"scripted": settings})["scripted"]
        model = provider_for(profile, environ={"KEY": KEY})
        try:
            async with served([], *functions, model=model, policy=policy, sources=sources) as s:
                yield Line(s, server.requests)
        finally:
            await model.aclose()


def breaking(*pieces: bytes) -> Handler:
    """An answer whose connection breaks behind these pieces."""

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        for piece in pieces:
            await answer.send(piece)
        answer.writer.transport.abort()
        raise ConnectionResetError

    return handler


def hanging(*pieces: bytes) -> Handler:
    """An answer that goes no further behind these pieces."""

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        for piece in pieces:
            await answer.send(piece)
        await answer.gone.wait()

    return handler


def failing(status: int, body: Mapping[str, object], **headers: str) -> Handler:
    """A plain error answer."""

    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(json.dumps(body).encode(), status, **headers)

    return handler


def plain(wire: Words, *pieces: str | Call) -> Handler:
    """The answer as one body of JSON, as servers give it that do not stream."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    called = [(f"c{index}", *piece) for index, piece in enumerate(pieces) if not isinstance(piece, str)]
    counts = {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}
    body: dict[str, Any] = {"id": "r", "model": "m", "usage": counts}
    match wire.wire:
        case Wire.OPENAI_CHAT:
            functions = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call_id, name, arguments in called
            ]
            message = {"role": "assistant", "content": "".join(texts)} | ({"tool_calls": functions} if called else {})
            word = wire.calls if called else wire.stop
            body["choices"] = [{"index": 0, "message": message, "finish_reason": word}]
            body["usage"] = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
        case Wire.OPENAI_RESPONSES:
            content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
            output: list[dict[str, Any]] = [{"type": "message", "id": "msg", "role": "assistant", "content": content}]
            output += [
                {"type": "function_call", "id": f"f{call_id}", "call_id": call_id, "name": name, "arguments": arguments}
                for call_id, name, arguments in called
            ]
            body |= {"object": "response", "status": "completed", "output": output}
        case Wire.ANTHROPIC_MESSAGES:
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
            blocks += [
                {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}
                for call_id, name, arguments in called
            ]
            word = wire.calls if called else wire.stop
            body |= {"type": "message", "role": "assistant", "content": blocks, "stop_reason": word}
    return failing(200, body, content_type="application/json")


def first_events(body: bytes, count: int) -> bytes:
    """The first events of a stream."""
    return b"".join(event + b"\n\n" for event in body.split(b"\n\n")[:count])
