"""Servers of the three wires: first a tool call, after its result a text. Knows public APIs only.

Each answer carries what its provider wants back word for word: signed thinking (messages), an encrypted reasoning item
(responses), a thought signature beside the call (chat completions).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SIGNATURE = "c2lnbmF0dXJl+/8="
SECRET = "gAAAAB-encrypted_reasoning=="
THOUGHT = "dGhvdWdodA=="
TOOL = "add"
ARGUMENTS = '{"a": 1, "b": 2}'
PATHS = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}

Event = Mapping[str, Any]


@dataclass
class Wires:
    """The server. ``requests`` are the bodies by wire, in the order in which they came."""

    url: str = ""
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in PATHS})

    def answer(self, wire: str, body: dict[str, Any]) -> Sequence[Event]:
        """A call in the first answer of a turn, a text in the second."""
        self.requests[wire].append(body)
        calls = len(self.requests[wire]) % 2 == 1
        match wire:
            case "messages":
                return _messages(calls=calls)
            case "responses":
                return _responses(calls=calls)
            case _:
                return _chat(calls=calls)


def _messages(*, calls: bool) -> Sequence[Event]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[Event] = [{"type": "message_start", "message": {**message, "stop_reason": None}}]

    def block(index: int, start: Event, *deltas: Event) -> None:
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})

    if calls:
        thinking = {"type": "thinking_delta", "thinking": "One and two."}
        signature = {"type": "signature_delta", "signature": SIGNATURE}
        block(0, {"type": "thinking", "thinking": "", "signature": ""}, thinking, signature)
        tool = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
        block(1, tool, {"type": "input_json_delta", "partial_json": ARGUMENTS})
    else:
        block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Three, says messages."})
    reason = "tool_use" if calls else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}]


def _responses(*, calls: bool) -> Sequence[Event]:
    events: list[Event] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}]
    output: list[Event] = []

    def item(value: Event, *deltas: Event) -> None:
        place = {"output_index": len(output)}
        events.append({"type": "response.output_item.added", **place, "item": {**value, "status": "in_progress"}})
        events.extend({**delta, **place} for delta in deltas)
        events.append({"type": "response.output_item.done", **place, "item": value})
        output.append(value)

    if calls:
        item({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SECRET})
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": TOOL, "arguments": ARGUMENTS}
        item(call, {"type": "response.function_call_arguments.delta", "delta": ARGUMENTS})
    else:
        text = {"type": "output_text", "text": "Three, says responses.", "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        item(message, {"type": "response.output_text.delta", "content_index": 0, "delta": text["text"]})
    usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90}, "output_tokens": 7}
    response = {"id": "resp_1", "model": "m", "status": "completed", "output": output, "usage": usage}
    return [*events, {"type": "response.completed", "response": response}]


def _chat(*, calls: bool) -> Sequence[Event]:
    def chunk(delta: Event, finish: str | None = None) -> Event:
        return {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if calls:
        function = {"name": TOOL, "arguments": ARGUMENTS}
        extra = {"google": {"thought_signature": THOUGHT}}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function, "extra_content": extra}
        first, reason = chunk({"role": "assistant", "tool_calls": [call]}), "tool_calls"
    else:
        first, reason = chunk({"role": "assistant", "content": "Three, says chat."}), "stop"
    usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 90}, "completion_tokens": 7}
    return [first, chunk({}, reason), {"id": "c1", "model": "m", "choices": [], "usage": usage}]


@asynccontextmanager
async def wires() -> AsyncIterator[Wires]:
    """The server on a free port of the loopback interface."""
    made = Wires()
    app = web.Application()
    for wire, path in PATHS.items():
        app.router.add_post(path, _handler(made, wire))
    runner = web.AppRunner(app, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}"
    try:
        yield made
    finally:
        await runner.cleanup()


def _handler(made: Wires, wire: str) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        events = made.answer(wire, await request.json())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            await response.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if wire == "chat":
            await response.write(b"data: [DONE]\n\n")
        return response

    return handle
