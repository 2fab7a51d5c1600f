"""Programs of clients in other languages, run to their end, or with one case of the conformance set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from e2e.service import Service
from tools.kit import eventually

from turnwire.v1 import run_pb2

SECONDS = 60.0
Case = dict[str, Any]


async def ended(*command: str, seconds: float = SECONDS) -> tuple[int | None, str, str]:
    """Run a command to its end: its status and what it wrote."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(seconds):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode, out.decode(), err.decode()


@asynccontextmanager
async def running(runner: list[str], case: Case) -> AsyncIterator[asyncio.Task[Case]]:
    """The runner of a language with one case, and its answer to come. It lives on until the block is left."""
    child = await asyncio.create_subprocess_exec(*runner, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps({"id": "case", **case}).encode() + b"\n")
    line = asyncio.create_task(child.stdout.readline())

    async def told() -> Case:
        async with asyncio.timeout(SECONDS):
            read: Case = json.loads(await line)
        return read

    answered = asyncio.create_task(told())
    try:
        yield answered
    finally:
        answered.cancel()
        line.cancel()
        child.kill()
        await child.wait()


def turn(*tools: str, session_id: str | None = None) -> Case:
    """A request with client tools, as JSON."""
    declared = [{"name": name, "inputSchemaJson": '{"type":"object"}'} for name in tools]
    turn: Case = {"input": [{"role": "ROLE_USER", "parts": [{"text": "Go"}]}], "tools": {"clientTools": declared}}
    return {"turn": turn | ({"sessionId": session_id} if session_id else {})}


async def settled(s: Service, run_id: str) -> run_pb2.Run:
    """The run, once it has ended."""
    async with asyncio.timeout(SECONDS):
        view = await s.watch(run_id)
    assert view.view.outcome is not None
    return (await s.get(run_id)).run


async def left_waiting(s: Service, run_id: str) -> None:
    """Until the server knows that the run waits, which may be a moment after it said so; it has not ended instead."""

    async def known() -> bool:
        state = (await s.get(run_id)).run.state
        assert state != run_pb2.RUN_STATE_SETTLED
        return state == run_pb2.RUN_STATE_WAITING

    await eventually(known)


class Way:
    """Connections to the service that can be cut."""

    def __init__(self, address: str) -> None:
        self.host, _, self.port = address.rpartition(":")
        self.address = ""
        self.connections = 0
        self.passed_text = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """End every connection without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes both ways."""
        self.connections += 1
        there, back = await asyncio.open_connection(self.host, int(self.port))
        self._writers += [writer, back]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, back))
                group.create_task(self._carry(there, writer))
        except* ConnectionError:
            self.cut()

    async def _carry(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            to.write(data)
            await to.drain()
            if b"Eins, " in data:
                self.passed_text.set()
        to.close()


@asynccontextmanager
async def cuttable(s: Service) -> AsyncIterator[Way]:
    """A way to the service that can be cut."""
    way = Way(s.address)
    server = await asyncio.start_server(way.connect, "127.0.0.1", 0)
    way.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield way
    finally:
        way.cut()
        server.close()
