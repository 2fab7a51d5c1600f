"""Answers of the three wires with many small text deltas, and a server that writes them: what a chunk costs.

The shapes are those of the public APIs. A request's path chooses the wire, its model how: ``joined-N`` writes the N
deltas in one go, ``single-N`` each event by itself, as a real provider does. Knows nothing of the service.
Run as a process it prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

WIRES = ("openai.chat", "openai.responses", "anthropic.messages")
PATHS = dict(zip(WIRES, ("/v1/chat/completions", "/v1/responses", "/v1/messages"), strict=True))
WORD = " w00000"


def _event(value: dict[str, Any], *, named: bool = True) -> bytes:
    name = f"event: {value['type']}\n" if named else ""
    return f"{name}data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def chat(deltas: int) -> Iterator[bytes]:
    """Chat completions."""
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "m"}

    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**common, "system_fingerprint": "fp_1", "choices": [choice], "usage": None}, named=False)

    yield chunk({"role": "assistant", "content": ""})
    for _ in range(deltas):
        yield chunk({"content": WORD})
    yield chunk({}, "stop")
    usage = {"prompt_tokens": 9, "completion_tokens": deltas, "total_tokens": 9 + deltas}
    yield _event({**common, "choices": [], "usage": usage}, named=False)
    yield b"data: [DONE]\n\n"


def responses(deltas: int) -> Iterator[bytes]:
    """Responses."""
    number = iter(range(deltas + 100))

    def event(kind: str, **fields: Any) -> bytes:
        return _event({"type": kind, "sequence_number": next(number), **fields})

    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": "in_progress",
        "output": [],
    }
    text = WORD * deltas
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    yield event("response.created", response=response)
    yield event("response.in_progress", response=response)
    yield event("response.output_item.added", output_index=0, item=item)
    yield event("response.content_part.added", **place, part=part)
    for _ in range(deltas):
        yield event("response.output_text.delta", **place, delta=WORD, logprobs=[], obfuscation="Xy3f")
    whole = {**item, "status": "completed", "content": [{**part, "text": text}]}
    yield event("response.output_text.done", **place, text=text, logprobs=[])
    yield event("response.content_part.done", **place, part={**part, "text": text})
    yield event("response.output_item.done", output_index=0, item=whole)
    usage = {"input_tokens": 9, "output_tokens": deltas, "total_tokens": 9 + deltas}
    yield event("response.completed", response={**response, "status": "completed", "output": [whole], "usage": usage})


def messages(deltas: int) -> Iterator[bytes]:
    """Messages."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield _event({"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}})
    yield _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    yield _event({"type": "ping"})
    for _ in range(deltas):
        yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}})
    yield _event({"type": "content_block_stop", "index": 0})
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": stop, "usage": {"output_tokens": deltas}})
    yield _event({"type": "message_stop"})


STREAMS: dict[str, Callable[[int], Iterator[bytes]]] = dict(zip(WIRES, (chat, responses, messages), strict=True))


class Answers:
    """Answers requests of all wires."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], list[bytes]] = {}

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application(client_max_size=64 << 20)
        for wire, path in PATHS.items():
            application.router.add_post(path, self._handler(wire))
        return application

    def _handler(self, wire: str) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            at = body.index(b'"model":"') + 9
            kind, _, count = body[at : body.index(b'"', at)].decode().partition("-")
            key = (wire, int(count))
            events = self._kept.get(key) or self._kept.setdefault(key, list(STREAMS[wire](int(count))))
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            if kind == "joined":
                await response.write(b"".join(events))
            else:
                for event in events:
                    await response.write(event)
                    await asyncio.sleep(0)  # the write goes out before the next one
            await response.write_eof()
            return response

        return handle


async def _main() -> None:
    from bench.child import announce, until_stdin_ends

    runner = web.AppRunner(Answers().application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    announce(runner.addresses[0][1])
    await until_stdin_ends()
    await runner.cleanup()


if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(_main()))
