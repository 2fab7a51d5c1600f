"""A scripted, very fast chat completions provider, so that a benchmark measures its callers and not a model.

The model's name says what it does; the text of the history is ignored:

    text-N      N small deltas as fast as they can be written
    pace-N-MS   N deltas, one each MS milliseconds; the text of each is the time it was due, CLOCK_MONOTONIC in us
    tool-K      K iterations with one call of the first tool offered, then 20 deltas
    ptool-P     one iteration with P calls of it, then 20 deltas

Every event is an HTTP chunk of its own, as real providers send them. What a caller does wrong (a tool that did not
answer ``ok``, no streaming, an unknown name) is refused with 400, so that no benchmark counts broken turns.
``GET /stats`` counts completions. Run as a process it prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

LAST_TEXT = 20
"""Deltas of the answer after tools."""
DELTA_CHARS = 7
"""Characters of each delta of ``text-N``."""
STAMP_CHARS = 17
"""Characters of each delta of ``pace-N-MS``: a space and 16 digits."""

_ARGUMENTS = ('{"x"', ": 12", ', "y": ', '"abc"}')
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_LAST_CHUNK = b"0\r\n\r\n"
_STAMP = b"0" * 16


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer written at once."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Paced:
    """An answer written delta by delta. The time goes between the two parts of the delta's chunk."""

    count: int
    seconds: float
    head: bytes
    before: bytes
    after: bytes
    tail: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """What is wrong with the request."""

    why: str


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class _Events:
    """Events of one answer, in the shape that the real API gives them."""

    def __init__(self, model: str, step: int) -> None:
        self._common = {
            "id": f"chatcmpl-{model}-{step}",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": model,
            "service_tier": "default",
            "system_fingerprint": "fp_0123456789",
        }
        self._count = 0

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        return _chunk(b"data: " + _json({**self._common, "choices": choices, "usage": usage}) + b"\n\n")

    def delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        """A chunk with one choice."""
        self._count += 1
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def opening(self) -> bytes:
        """The first chunk."""
        return self.delta({"role": "assistant", "content": "", "refusal": None})

    def ending(self, finish: str) -> bytes:
        """The finish reason, the usage and the end of the stream."""
        last = self.delta({}, finish)
        tokens = {"prompt_tokens": 11, "completion_tokens": self._count, "total_tokens": 11 + self._count}
        return last + self._event([], tokens) + _chunk(b"data: [DONE]\n\n") + _LAST_CHUNK

    def calls(self, name: str, step: int, count: int) -> bytes:
        """Tool calls, their arguments in pieces."""
        out: list[bytes] = []
        for index in range(count):
            function = {"name": name, "arguments": ""}
            opened = {"index": index, "id": f"call_{step}_{index}", "type": "function", "function": function}
            out.append(self.delta({"tool_calls": [opened]}))
            pieces = ({"index": index, "function": {"arguments": piece}} for piece in _ARGUMENTS)
            out.extend(self.delta({"tool_calls": [piece]}) for piece in pieces)
        return b"".join(out)


def _text(model: str, step: int, count: int) -> Whole:
    events = _Events(model, step)
    deltas = b"".join(events.delta({"content": f" w{number % 100_000:05d}"}) for number in range(count))
    return Whole(_HEAD + events.opening() + deltas + events.ending("stop"))


def _tools(model: str, step: int, count: int, name: str) -> Whole:
    events = _Events(model, step)
    return Whole(_HEAD + events.opening() + events.calls(name, step, count) + events.ending("tool_calls"))


def _paced(model: str, count: int, milliseconds: int) -> Paced:
    events = _Events(model, 0)
    head = _HEAD + events.opening()
    before, _, after = events.delta({"content": f" {_STAMP.decode()}"}).partition(_STAMP)
    return Paced(count, milliseconds / 1000, head, before, after, events.ending("stop"))


@lru_cache(maxsize=500)
def script(model: str, results: int, tool: str) -> Whole | Paced | Refused:
    """What the model answers after so many tool results. ``tool``: name of the first tool offered."""
    kind, *words = model.split("-")
    if not words or not all(word.isdecimal() for word in words):
        return Refused(f"no model is called {model!r}")
    numbers = [int(word) for word in words]
    match kind, numbers:
        case "text", [count]:
            return _text(model, 0, count)
        case "pace", [count, milliseconds] if count:
            return _paced(model, count, milliseconds)
        case (("tool" | "ptool"), [_]) if not tool:
            return Refused("no tool is offered")
        case "tool", [iterations]:
            return _tools(model, results, 1, tool) if results < iterations else _text(model, results, LAST_TEXT)
        case "ptool", [calls]:
            return _tools(model, 0, calls, tool) if results < calls else _text(model, 1, LAST_TEXT)
        case _:
            return Refused(f"no model is called {model!r}")


def _value_of(body: bytes, key: bytes, start: int = 0) -> str:
    """The text value of the first such key. Searched, not parsed: parsing a long history would cost milliseconds."""
    position = body.find(b'"%b"' % key, start)
    while position > 0 and body[position - 1] == ord("\\"):
        position = body.find(b'"%b"' % key, position + 1)
    quoted = body[position + len(key) + 2 : position + len(key) + 200].split(b'"', 2)
    return quoted[1].decode() if position >= 0 and len(quoted) > 1 else ""


def answer(body: bytes) -> Whole | Paced | Refused:
    """What to answer to a request."""
    if b'"stream":true' not in body and b'"stream": true' not in body:
        return Refused("only streams are answered")
    results = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
    if results and body.count(b'"ok"') != results:
        return Refused("a tool did not answer ok")
    tools = body.find(b'"tools"')
    return script(_value_of(body, b"model"), results, _value_of(body, b"name", tools) if tools >= 0 else "")


class Provider(asyncio.Protocol):
    """One connection. ``completions`` is shared by all: how many were asked for."""

    def __init__(self, completions: list[int]) -> None:
        self._completions = completions
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._body_at = 0
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Callers wait for an answer before they ask again: there is one request at a time."""
        self._received += data
        if not self._size:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            _, found, rest = bytes(self._received[:end]).lower().partition(b"\r\ncontent-length:")
            self._body_at = end + 4
            self._size = self._body_at + (int(rest.split(b"\r\n", 1)[0]) if found else 0)
        if len(self._received) >= self._size:
            request = bytes(self._received)
            self._received.clear()
            self._size = 0
            self._respond(request)

    def _respond(self, request: bytes) -> None:
        assert self._transport is not None
        if request.startswith(b"GET /stats"):
            self._plain(b"200 OK", {"completions": self._completions[0]})
            return
        self._completions[0] += 1
        match answer(request[self._body_at :]):
            case Whole(body):
                self._transport.write(body)
            case Paced() as paced:
                self._transport.write(paced.head)
                self._tick(paced, 0, time.monotonic())
            case Refused(why):
                self._plain(b"400 Bad Request", {"error": {"message": why, "type": "scripted"}})

    def _plain(self, status: bytes, content: object) -> None:
        assert self._transport is not None
        body = _json(content)
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)

    def _tick(self, paced: Paced, number: int, begun: float) -> None:
        if self._transport is None:
            return
        due = begun + number * paced.seconds
        chunk = paced.before + b"%016d" % int(due * 1e6) + paced.after
        if number + 1 == paced.count:
            self._transport.write(chunk + paced.tail)
            return
        self._transport.write(chunk)
        wait = begun + (number + 1) * paced.seconds - time.monotonic()
        asyncio.get_running_loop().call_later(max(wait, 0.0), self._tick, paced, number + 1, begun)


async def serve() -> asyncio.Server:
    """Listen on a free port of loopback."""
    completions = [0]
    return await asyncio.get_running_loop().create_server(lambda: Provider(completions), "127.0.0.1", 0, backlog=2048)


async def _main() -> None:
    from bench.child import announce, until_stdin_ends

    server = await serve()
    announce(server.sockets[0].getsockname()[1])
    await until_stdin_ends()
    server.close()


if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(_main()))
