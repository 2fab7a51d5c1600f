"""A chat-completions server that plays what a test tells it to. Knows the public wire and nothing of the service.

It runs in the test's event loop, so that a test opens gates with plain ``asyncio.Event``s and waits for requests. It
also holds gates for tools: a tool of the child process asks ``GET /gate/NAME`` and is answered when the test opens it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

LIMIT = 30.0
"""Seconds after which a gate that nobody opened has failed the test."""


@dataclass(frozen=True, slots=True)
class Say:
    """One delta of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """One whole tool call, its arguments in two fragments."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    call_id: str = "call_1"
    index: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """The finish reason, with usage."""

    reason: str = "stop"
    input_tokens: int = 20
    output_tokens: int = 5


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the answer until the event is set."""

    gate: asyncio.Event


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an HTTP error instead. Only as the first step."""

    status: int
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """Cut the connection in the middle of the answer."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more until the client goes away."""


Step = Say | Call | Finish | Wait | Refuse | Drop | Hang
Request = dict[str, Any]
Respond = Callable[[Request], Sequence[Step]]


def answer(*texts: str) -> Sequence[Step]:
    """Text deltas and a proper end."""
    return (*(Say(text) for text in texts), Finish())


def calls(*items: tuple[str, Mapping[str, object]]) -> Sequence[Step]:
    """Tool calls of one answer, with ids that are unique in it."""
    found = (Call(name, arguments, f"call_{index}", index) for index, (name, arguments) in enumerate(items))
    return (*found, Finish("tool_calls"))


def scripted(*answers: Sequence[Step]) -> Respond:
    """Answers in order; a request beyond them is an error that no test expects."""
    left = deque(answers)

    def respond(_: Request) -> Sequence[Step]:
        return left.popleft() if left else (Refuse(418, "script_exhausted"),)

    return respond


@dataclass
class Provider:
    """A server that is up. ``requests`` are the bodies so far, ``headers`` theirs; ``respond`` may be replaced."""

    respond: Respond
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    gone: int = 0
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    gates: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    at_gate: dict[str, int] = field(default_factory=dict[str, int])

    def script(self, *answers: Sequence[Step]) -> None:
        """Play these answers from now on, and forget the requests so far."""
        self.respond = scripted(*answers)
        self.requests.clear()
        self.headers.clear()

    def gate(self, name: str) -> asyncio.Event:
        """The gate of this name, for tools and tests alike."""
        return self.gates.setdefault(name, asyncio.Event())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that arrived makes the condition true."""
        async with asyncio.timeout(LIMIT), self.arrived:
            await self.arrived.wait_for(condition)

    async def until_requests(self, count: int) -> None:
        """Wait until that many requests have come."""
        await self.until(lambda: len(self.requests) >= count)

    async def until_at_gate(self, name: str, count: int = 1) -> None:
        """Wait until that many tools have come to a gate."""
        await self.until(lambda: self.at_gate.get(name, 0) >= count)

    async def _notify(self) -> None:
        async with self.arrived:
            self.arrived.notify_all()

    async def hold(self, request: web.Request) -> web.Response:
        """A tool asks to pass a gate."""
        name = request.match_info["name"]
        self.at_gate[name] = self.at_gate.get(name, 0) + 1
        await self._notify()
        async with asyncio.timeout(LIMIT):
            await self.gate(name).wait()
        return web.Response(text="open")

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer one chat completion."""
        body: Request = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        await self._notify()
        steps = self.respond(body)
        if steps and isinstance(first := steps[0], Refuse):
            error = {"message": first.message, "type": "invalid_request_error", "code": first.code or None}
            return web.json_response({"error": error}, status=first.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._play(request, response, steps, str(body.get("model", "")))
        except ConnectionResetError:
            self.gone += 1
            await self._notify()
        except asyncio.CancelledError:
            self.gone += 1
            await self._notify()
            raise
        return response

    async def _play(
        self, request: web.Request, response: web.StreamResponse, steps: Sequence[Step], model: str
    ) -> None:
        for step in steps:
            match step:
                case Wait():
                    async with asyncio.timeout(LIMIT):
                        await step.gate.wait()
                case Drop():
                    assert request.transport is not None
                    request.transport.abort()
                    return
                case Hang():
                    async with asyncio.timeout(LIMIT):
                        await asyncio.Event().wait()
                case Refuse():
                    raise AssertionError("an error can only be the first step")
                case _:
                    for chunk in _chunks(step, model):
                        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")


def _chunks(step: Say | Call | Finish, model: str) -> Sequence[dict[str, object]]:
    match step:
        case Say():
            return [_chunk(model, {"content": step.text})]
        case Call():
            arguments = json.dumps(dict(step.arguments))
            half = len(arguments) // 2
            opened = {"index": step.index, "id": step.call_id, "type": "function"}
            return [
                _chunk(model, {"tool_calls": [{**opened, "function": {"name": step.name, "arguments": ""}}]}),
                _chunk(model, {"tool_calls": [{"index": step.index, "function": {"arguments": arguments[:half]}}]}),
                _chunk(model, {"tool_calls": [{"index": step.index, "function": {"arguments": arguments[half:]}}]}),
            ]
        case Finish():
            usage = {"prompt_tokens": step.input_tokens, "completion_tokens": step.output_tokens}
            usage["total_tokens"] = step.input_tokens + step.output_tokens
            return [
                _chunk(model, {}, finish_reason=step.reason),
                {**_chunk(model, {}), "choices": [], "usage": usage},
            ]


def _chunk(model: str, delta: Mapping[str, object], finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}


@asynccontextmanager
async def provider(*answers: Sequence[Step]) -> AsyncIterator[Provider]:
    """A provider on a free port of the loopback interface. ``url`` is its base URL."""
    made = Provider(scripted(*answers))
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", made.complete)
    app.router.add_get("/gate/{name}", made.hold)
    runner = web.AppRunner(app, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}"
    try:
        yield made
    finally:
        await runner.cleanup()
