"""CPU of the ways to call a provider, per request and per delta, in one interleaved run. Not a test.

    PYTHONPATH=service TURNWIRE_SHARED=../shared python tests/providers/bench_transport.py [rounds]

Needs the scripted provider of the shared benchmark harness. ``request``: microseconds of CPU for a whole call that
gives one delta; ``delta``: the same per delta for calls that give 2,000, one network write each; ``1 MB``: milliseconds
of CPU for a call with a history of 1 MB that gives one delta.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import msgspec
import openai
import orjson
import uvloop

from turnwired.domain.generation import TextChunk
from turnwired.providers.build import provider_for
from turnwired.providers.openai_chat_fields import USUAL_FORM
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.openai_chat_usual import usual_decoders
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import shipped, with_overrides

Call = Callable[[bytes], Awaitable[int]]


def count(events: list[bytes]) -> int:
    """Decode events the plain way and count deltas."""
    n = 0
    for event in events:
        if event.startswith(b"data: {"):
            for choice in msgspec.json.decode(event[6:])["choices"]:
                n += bool(choice["delta"].get("content"))
    return n


class Reader:
    """The plainest splitter."""

    def __init__(self) -> None:
        self.rest, self.n = b"", 0

    def feed(self, data: bytes) -> None:
        """Count the deltas of a read."""
        *events, self.rest = (self.rest + data).split(b"\n\n")
        self.n += count(events)


def floor_aiohttp(base: str) -> tuple[Call, Callable[[], Awaitable[None]]]:
    """A bare aiohttp session."""
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def call(body: bytes) -> int:
        reader = Reader()
        headers = {"content-type": "application/json", "authorization": "Bearer x"}
        async with session.post(base + "/chat/completions", data=body, headers=headers) as response:
            async for data in response.content.iter_any():
                reader.feed(data)
        return reader.n

    return call, session.close


def floor_httpx2(base: str) -> tuple[Call, Callable[[], Awaitable[None]]]:
    """A bare httpx2 client."""
    client = httpx2.AsyncClient(timeout=60, trust_env=False)

    async def call(body: bytes) -> int:
        reader = Reader()
        headers = {"content-type": "application/json", "authorization": "Bearer x"}
        async with client.stream("POST", base + "/chat/completions", content=body, headers=headers) as response:
            async for data in response.aiter_raw():
                reader.feed(data)
        return reader.n

    return call, client.aclose


def _openai(base: str, http_client: httpx2.AsyncClient | None) -> tuple[Call, Callable[[], Awaitable[None]]]:
    client = openai.AsyncOpenAI(base_url=base, api_key="x", max_retries=0, http_client=http_client)

    async def call(body: bytes) -> int:
        reader = Reader()
        response: Any = await client.post(  # cast_to decides the type, whatever the signature says
            "/chat/completions",
            cast_to=httpx2.Response,
            content=body,
            options={"headers": {"content-type": "application/json"}},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        async for data in response.aiter_raw():
            reader.feed(data)
        await response.aclose()
        return reader.n

    return call, client.close


def openai_httpx2(base: str) -> tuple[Call, Callable[[], Awaitable[None]]]:
    """(a) The openai client with a body of raw bytes, its own transport."""
    return _openai(base, None)


def openai_aiohttp(base: str) -> tuple[Call, Callable[[], Awaitable[None]]]:
    """(a) The openai client with a body of raw bytes over its aiohttp transport."""
    return _openai(base, openai.DefaultAioHttpClient())


def request_of(body: bytes) -> ModelRequest:
    """The same request as kept pieces."""
    decoded = msgspec.json.decode(body)
    pieces = [msgspec.json.encode(message) for message in decoded["messages"]]
    return ModelRequest(decoded["model"], pieces, limits=CallLimits(total=600, first_event=60, idle=60))


def turnwire(base: str) -> tuple[Call, Callable[[], Awaitable[None]]]:
    """(b) This service's provider: items out of the same bytes, with limits."""
    profile = with_overrides(shipped(), {"openai-compatible": {"base_url": base, "base_url_env": ""}})
    provider = provider_for(profile["openai-compatible"], environ={"OPENAI_API_KEY": "x"})
    requests: dict[int, ModelRequest] = {}

    async def call(body: bytes) -> int:
        request = requests.get(len(body)) or requests.setdefault(len(body), request_of(body))
        spaces = 0
        async with aclosing(provider.generate(request)) as batches:
            async for items in batches:
                for item in items:
                    if isinstance(item, TextChunk):
                        spaces += item.text.count(" ")
        return spaces

    return call, provider.aclose


WAYS = {f.__name__: f for f in (floor_aiohttp, floor_httpx2, openai_httpx2, openai_aiohttp, turnwire)}


def body_of(model: str, size: int = 0) -> bytes:
    """A request body with about ``size`` bytes of history."""
    history = [
        {"role": "user" if i % 2 == 0 else "assistant", "content": "lorem ipsum " * 80} for i in range(size // 990)
    ]
    messages = [*history, {"role": "user", "content": "hello"}]
    options = {"include_usage": True}
    return msgspec.json.encode({"messages": messages, "model": model, "stream": True, "stream_options": options})


async def cost(call: Call, body: bytes, calls: int, deltas: int) -> float:
    """CPU seconds per call."""
    begin = time.process_time()
    for _ in range(calls):
        assert await call(body) == deltas
    return (time.process_time() - begin) / calls


async def run(base: str, rounds: int) -> None:
    """Measure and print."""
    ways = {name: make(base) for name, make in WAYS.items()}
    small, many, large = body_of("text-1"), body_of("text-2000"), body_of("text-1", 1_000_000)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for call, _ in ways.values():
        await cost(call, small, 20, 1)
    for _ in range(rounds):
        for name, (call, _) in ways.items():
            request = await cost(call, small, 100, 1)
            stream = await cost(call, many, 5, 2000)
            found[name].append((request * 1e6, (stream - request) / 2000 * 1e6, await cost(call, large, 5, 1) * 1e3))
    print(f"{'way':20} {'us/request':>12} {'us/delta':>10} {'1 MB ms':>9}")
    for name, values in found.items():
        request, delta, big = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"{name:20} {request:12.0f} {delta:10.2f} {big:9.2f}")
    for _, close in ways.values():
        await close()


def parsing() -> None:
    """What parsing costs alone: this parser by deltas per read, and the decoders it could use."""
    chunk = (
        b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m","service_tier":"default",'
        b'"choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}'
    )
    payloads = [chunk % i for i in range(2000)]
    events = [b"data: " + payload + b"\n\n" for payload in payloads]

    def parse(size: int) -> None:
        parser = ChatParser()
        for i in range(0, len(events), size):
            parser.feed(b"".join(events[i : i + size]))

    print("\nparsing, us per delta (the least of 15)")
    for size in (1, 4, 20, 200):
        print(f"  parser, {size} in a read: {least(lambda size=size: parse(size)):.2f}")  # type: ignore[misc]
    _, typed = usual_decoders(USUAL_FORM.reasoning_fields)
    for name, decode in (("msgspec, typed", typed), ("msgspec", msgspec.json.decode), ("orjson", orjson.loads)):
        print(f"  {name}: {least(lambda decode=decode: [decode(payload) for payload in payloads]):.2f}")  # type: ignore[misc]


def least(run: Callable[[], object]) -> float:
    """The least of 15 runs of 2,000 deltas, in microseconds per delta."""
    found = []
    for _ in range(15):
        begin = time.thread_time()
        run()
        found.append(time.thread_time() - begin)
    return min(found) / 2000 * 1e6


def main() -> None:
    """Start the scripted provider and measure."""
    shared = Path(os.environ.get("TURNWIRE_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    script = shared / "bench" / "fake_provider.py"
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as provider:
        assert provider.stdout
        port = int(provider.stdout.readline().split()[1])
        uvloop.run(run(f"http://127.0.0.1:{port}/v1", int(sys.argv[1]) if len(sys.argv) > 1 else 5))
        provider.terminate()
    parsing()


if __name__ == "__main__":
    main()
