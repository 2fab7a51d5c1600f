"""The wires beside bare httpx2 and orjson, in one run: CPU of a chunk from the socket to items, and a request of 1 MB.

Run as a process of its own it prints rows as JSON, like ``bench.micro``; the arguments are the size and a directory.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import httpx2
import orjson
import uvloop

from bench.child import Child, port_of
from bench.handloop import EventSplitter
from bench.micro import Row
from bench.wire_streams import PATHS, WIRES, WORD
from turnwired.domain.generation import TextChunk
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.providers.build import provider_for
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import Profile, Wire

Call = Callable[[], Awaitable[int]]
LIMITS = CallLimits(total=60, first_event=30, idle=30)
HISTORY_BYTES = 1 << 20
_MESSAGE = "lorem ipsum " * 80


@dataclass(frozen=True, slots=True)
class Size:
    """``deltas`` of an answer, ``rounds`` in which all take turns."""

    deltas: int
    rounds: int


SIZES = {"tiny": Size(20, 1), "quick": Size(500, 3), "full": Size(2000, 9)}


def provider_of(wire: str, base_url: str) -> HttpProvider:
    """The service's provider for a wire."""
    return provider_for(Profile(wire, Wire(wire), "bench", base_url=base_url, key_required=False), environ={})


def ours(provider: HttpProvider, request: ModelRequest) -> Call:
    """A call through the service's provider; gives the words of text that came."""

    async def call() -> int:
        size = 0
        async with aclosing(provider.generate(request)) as batches:
            async for items in batches:
                for item in items:
                    if isinstance(item, TextChunk):
                        size += len(item.text)
        return size // len(WORD)

    return call


def bare(client: httpx2.AsyncClient, url: str, body: bytes) -> Call:
    """The same call by hand: httpx2, events split at blank lines, each decoded by orjson."""

    async def call() -> int:
        splitter = EventSplitter()
        found = 0
        headers = {"content-type": "application/json"}
        async with client.stream("POST", url, content=body, headers=headers) as response:
            async for data in response.aiter_raw():
                for event in splitter.feed(data):
                    _, _, payload = event.rpartition(b"data: ")
                    if payload[:1] == b"{":
                        found += WORD in _text_of(orjson.loads(payload))
        return found

    return call


def _text_of(value: dict[str, object]) -> str:
    match value:
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text
        case {"type": "content_block_delta", "delta": {"text": str(text)}}:
            return text
        case _:
            return ""


async def _cost(call: Call, deltas: int) -> float:
    """Microseconds of CPU per chunk."""
    begun = time.process_time_ns()
    found = await call()
    assert found == deltas, f"{found} deltas came, not {deltas}"
    return (time.process_time_ns() - begun) / deltas / 1e3


async def chunks(base_url: str, size: Size) -> list[Row]:
    """CPU of a chunk on each wire, for streams written at once and event by event."""
    rows: list[Row] = []
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        for wire in WIRES:
            provider = provider_of(wire, base_url)
            for kind, words in (("single", "written one by one"), ("joined", "written at once")):
                model = f"{kind}-{size.deltas}"
                request = ModelRequest(model, [provider.encode_message(_user("hello"))], limits=LIMITS)
                body = orjson.dumps({"model": model, "stream": True})
                calls = ours(provider, request), bare(client, base_url.removesuffix("/v1") + PATHS[wire], body)
                found = [[await _cost(call, size.deltas) for call in calls] for _ in range(size.rounds + 1)]
                mine, floor = (statistics.median(column) for column in zip(*found[1:] or found, strict=True))
                note = f"{mine / floor:.2f} times bare httpx2 and orjson, {floor:.2f}"
                rows.append({"name": f"{wire}, a chunk, {words}", "value": mine, "unit": "us", "note": note})
            await provider.aclose()
    return rows


def _user(text: str) -> Message:
    return Message(Role.USER, (Part("p", Text(text)),))


async def large_requests(base_url: str, size: Size) -> list[Row]:
    """How long the loop is held by building and sending a request with 1 MB of history, whose pieces are kept."""
    rows: list[Row] = []
    for wire in WIRES:
        provider = provider_of(wire, base_url)
        user, assistant = (
            provider.encode_message(Message(role, (Part("p", Text(_MESSAGE)),))) for role in (Role.USER, Role.ASSISTANT)
        )
        pieces = [user, assistant] * (HISTORY_BYTES // len(user + assistant)) + [user]
        call = ours(provider, ModelRequest("joined-1", pieces, limits=LIMITS))
        found: list[tuple[float, float]] = []
        for _ in range(size.rounds + 1):
            begun = time.process_time_ns()
            held = await _longest_hold(call)
            found.append((held, (time.process_time_ns() - begun) / 1e6))
        held, cpu = (statistics.median(column) for column in zip(*found[1:] or found, strict=True))
        note = f"longest CPU in which nothing else could run; {cpu:.2f} ms in all"
        rows.append({"name": f"{wire}, a request of 1 MB", "value": held, "unit": "ms", "note": note})
        await provider.aclose()
    return rows


async def _longest_hold(call: Call) -> float:
    """Milliseconds of the loop's own CPU between two of its turns, at most, while a call is made.

    CPU and not the clock: on a busy machine the clock shows how long others ran.
    """
    longest = 0.0
    done = False

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while not done:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest = max(longest, now - before)
            before = now

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await call()
    done = True
    await watcher
    return longest * 1e3


async def measure(size: Size, directory: Path) -> list[Row]:
    """All of it, against a server in a process of its own."""
    server = Child(["-m", "bench.wire_streams"], directory / "wire_streams.log")
    try:
        base_url = f"http://127.0.0.1:{port_of(server)}/v1"
        return [*await chunks(base_url, size), *await large_requests(base_url, size)]
    finally:
        server.end()


def main(size: str, directory: str) -> None:
    """Print the rows."""
    sys.stdout.write(json.dumps(uvloop.run(measure(SIZES[size], Path(directory)))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
