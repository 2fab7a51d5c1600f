"""The agent loop as somebody would write it by hand, and nothing more: the least that any framework has to do.

Takes a function that posts a body and tells the events of each read, so that every HTTP client runs the same loop.
No policy, no validation, no store, no telemetry, no error handling worth the name.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.bench_tools import noop, sleep50
from bench.turn import MCP_TOOL, PROMPT, SYSTEM, OnText, Turn

OnEvents = Callable[[Sequence[bytes]], None]
Post = Callable[[bytes, OnEvents], Awaitable[None]]
"""Posts a body and calls back with the server-sent events of each read."""

MCP_COMMAND = (sys.executable, "-S", "-E", str(Path(__file__).with_name("mcp_server.py")))
_FUNCTIONS = {"noop": noop, "sleep50": sleep50}
_PARAMETERS = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "string"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}


class EventSplitter:
    """Whole server-sent events out of reads of any size, the plainest way."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that a read completes."""
        events = (self._rest + data if self._rest else data).split(b"\n\n")
        self._rest = events.pop()
        return events


class McpPipe:
    """An MCP client over pipes: JSON-RPC lines out, JSON-RPC lines in."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    async def _start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*MCP_COMMAND, stdin=pipe, stdout=pipe)
        self._reader = asyncio.create_task(self._read(self._process))
        client = {"name": "floor", "version": "1"}
        await self._request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            message = orjson.loads(line)
            self._waiting.pop(message["id"]).set_result(message["result"])

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(orjson.dumps(message) + b"\n")
        return await future

    async def call(self, arguments: dict[str, Any]) -> str:
        """Call the one tool."""
        if self._process is None:
            await self._start()
        result = await self._request("tools/call", {"name": MCP_TOOL, "arguments": arguments})
        text: str = result["content"][0]["text"]
        return text

    async def aclose(self) -> None:
        """End the server."""
        if self._process is not None and self._process.stdin is not None and self._reader is not None:
            self._process.stdin.close()
            await self._process.wait()
            await self._reader


def _tool(key: str) -> dict[str, Any]:
    name = MCP_TOOL if key == "mcp" else key
    return {
        "type": "function",
        "function": {"name": name, "description": f"The tool {name}.", "parameters": _PARAMETERS},
    }


class HandLoop:
    """Runs turns over one way to post."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._mcp = McpPipe()

    async def turn(self, turn: Turn, on_text: OnText) -> None:
        """Call the model and its tools until it answers."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        for number, text in enumerate((*turn.history, PROMPT)):
            messages.append({"role": "user" if number % 2 == 0 else "assistant", "content": text})
        body: dict[str, Any] = {"model": turn.model, "messages": messages, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if turn.tools:
            body["tools"] = [_tool(key) for key in turn.tools]
        while True:
            answer = _Answer(on_text)
            await self._post(orjson.dumps(body), answer.take)
            calls = list(answer.calls.values())
            if not calls:
                return
            messages.append({"role": "assistant", "content": None, "tool_calls": [call.message() for call in calls]})
            results = [await self._run(calls[0])] if len(calls) == 1 else await asyncio.gather(*map(self._run, calls))
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call.call_id, "content": result})

    async def _run(self, call: _Call) -> str:
        arguments = orjson.loads("".join(call.fragments))
        if call.name == MCP_TOOL:
            return await self._mcp.call(arguments)
        return await _FUNCTIONS[call.name](**arguments)

    async def aclose(self) -> None:
        """End the MCP server."""
        await self._mcp.aclose()


class _Call:
    __slots__ = ("call_id", "fragments", "name")

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.fragments: list[str] = []

    def message(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.fragments)}
        return {"id": self.call_id, "type": "function", "function": function}


class _Answer:
    """What one model call gives."""

    def __init__(self, on_text: OnText) -> None:
        self.calls: dict[int, _Call] = {}
        self._on_text = on_text

    def take(self, events: Sequence[bytes]) -> None:
        for event in events:
            if not event.startswith(b"data: {"):
                continue
            for choice in orjson.loads(event[6:])["choices"]:
                delta = choice["delta"]
                if text := delta.get("content"):
                    self._on_text(text)
                for piece in delta.get("tool_calls") or ():
                    call = self.calls.get(piece["index"])
                    if call is None:
                        call = self.calls[piece["index"]] = _Call(piece["id"], piece["function"]["name"])
                    call.fragments.append(piece["function"]["arguments"])
