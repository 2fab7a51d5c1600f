"""Streams over Connect: frames as they happen, clients that leave, deadlines, slow readers, the end of the service."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest
from connect.kit import HELLO, SECONDS, TURNS, Web, envelope, events, frames, run_of, split, web

from turnwire.v1 import outcome_pb2, run_pb2
from turnwired.domain.generation import TextChunk
from turnwired.http.server import KEEPALIVE
from turnwired.testing.provider import Step, answer, stopped, usage

pytestmark = pytest.mark.anyio


async def until(condition: Callable[[], bool]) -> None:
    """Let others go on until it holds."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


def paced(*texts: str) -> tuple[list[Step], list[asyncio.Event]]:
    """An answer that waits for an event before each text but the first."""
    gates = [asyncio.Event() for _ in texts[1:]]
    steps: list[Step] = [[TextChunk(0, texts[0])]]
    for gate, text in zip(gates, texts[1:], strict=True):
        steps += [gate.wait, [TextChunk(0, text)]]
    return [*steps, [stopped(), usage()]], gates


def sequences(found: list[dict[str, Any]]) -> list[int]:
    """Every sequence that the events cover, in order."""
    covered: list[int] = []
    for event in found:
        last = int(event["sequence"])
        covered += range(int(event.get("firstSequence", last)), last + 1)
    return covered


async def stalled(w: Web) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that asks for a turn and takes next to nothing until its reader is read."""
    host, _, port = w.url.removeprefix("http://").partition(":")
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=own, limit=4096)
    body = envelope(json.dumps(HELLO).encode())
    head = f"POST /{TURNS}/RunTurn HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/connect+json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return reader, writer


@pytest.mark.requirement("WEB-2")
async def test_a_delta_is_there_while_the_model_still_thinks_about_the_next() -> None:
    script, gates = paced("one ", "two ", "three")
    async with web(script) as w, w.stream(f"{TURNS}/RunTurn", HELLO) as response, asyncio.timeout(SECONDS):
        assert response.headers["content-type"] == "application/connect+json"
        seen, told = "", []
        async for frame in frames(response):
            told.append(frame)
            seen += "".join(e["textDelta"]["text"] for e in events([frame]) if "textDelta" in e)
            waiting = [gate for gate in gates if not gate.is_set()]
            if waiting and seen == "".join(("one ", "two ")[: 3 - len(waiting)]):
                waiting[0].set()
        assert seen == "one two three"
        assert (told[-1].flags, told[-1].json) == (2, {})


@pytest.mark.requirement("WEB-2")
async def test_thousands_of_deltas_arrive_whole_and_dense() -> None:
    async with web(answer(*(f"{number} " for number in range(5000)))) as w:
        found = events(await w.run())
        assert sequences(found) == list(range(1, len(sequences(found)) + 1))
        text = "".join(event["textDelta"]["text"] for event in found if "textDelta" in event)
        assert text == "".join(f"{number} " for number in range(5000))
        assert "runFinished" in found[-1]


@pytest.mark.requirement("WEB-2", "WEB-3")
@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("ON_DISCONNECT_CANCEL", outcome_pb2.OUTCOME_KIND_ABORTED),
        ("ON_DISCONNECT_CONTINUE", outcome_pb2.OUTCOME_KIND_ANSWERED),
    ],
)
async def test_a_client_that_leaves_cuts_its_run_or_lets_it_go_on_and_may_attach_again(
    asked: str, kind: outcome_pb2.OutcomeKind.ValueType
) -> None:
    script, (gate,) = paced("one ", "two")
    async with web(script) as w, asyncio.timeout(SECONDS):
        before = asyncio.all_tasks()
        cursor: dict[str, str] = {}
        async with w.stream(f"{TURNS}/RunTurn", {**HELLO, "onDisconnect": asked}) as response:
            run_id = ""
            async for frame in frames(response):
                run_id = run_id or run_of(frame)
                cursor = {"epoch": frame.json["epoch"], "sequence": frame.json["throughSequence"]}
                if any("textDelta" in event for event in events([frame])):
                    break
        if kind == outcome_pb2.OUTCOME_KIND_ABORTED:
            await until(lambda: w.model.closed == 1)
        gate.set()
        async with w.stream(f"{TURNS}/WatchRun", {"runId": run_id, "after": cursor}) as response:
            rest = events(split(await response.aread()))
        assert sequences(rest)[0] == int(cursor["sequence"]) + 1
        assert "runFinished" in rest[-1]
        found = (await w.outcome(run_id)).run
        assert (found.state, found.outcome.kind) == (run_pb2.RUN_STATE_SETTLED, kind)
        await until(lambda: not [t for t in asyncio.all_tasks() - before if "RpcsHere" in repr(t)])


@pytest.mark.requirement("WEB-3")
async def test_a_unary_call_whose_client_leaves_is_cancelled() -> None:
    entered, left = asyncio.Event(), asyncio.Event()
    async with web() as w, asyncio.timeout(SECONDS):

        async def slow(*_: object) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

        w.service.engine.get_run = slow  # type: ignore[method-assign,assignment]
        call = asyncio.create_task(w.call(f"{TURNS}/GetRun", {"runId": "run_x"}))
        await entered.wait()
        call.cancel()
        await left.wait()


@pytest.mark.requirement("WEB-8")
async def test_a_stream_ends_at_its_deadline_and_its_run_with_it() -> None:
    script, _ = paced("one ", "two")
    async with web(script) as w, asyncio.timeout(SECONDS):
        told = await w.run(HELLO, {"connect-timeout-ms": "300"})
        assert told[-1].json["error"]["code"] == "deadline_exceeded"
        run_id = run_of(told[0])
        await until(lambda: w.model.closed == 1)
        async with w.stream(f"{TURNS}/WatchRun", {"runId": run_id}) as response:
            last = events(split(await response.aread()))[-1]
        assert last["runFinished"]["outcome"]["failure"]["reason"] == "REASON_DEADLINE_EXCEEDED"


@pytest.mark.requirement("WEB-8")
@pytest.mark.parametrize("value", ["-1", "soon", "99999999999"])
async def test_a_deadline_that_is_none_is_refused(value: str) -> None:
    async with web() as w:
        response = await w.call(f"{TURNS}/GetRun", {"runId": "x"}, {"connect-timeout-ms": value})
        assert response.json()["code"] == "invalid_argument"


@pytest.mark.requirement("WEB-9")
async def test_a_reader_that_takes_nothing_holds_up_nobody_and_then_reads_it_all() -> None:
    count, piece = 44, "ü" * 65536
    async with web(answer(*([piece] * count))) as w, asyncio.timeout(60):
        assert w.service.http is not None
        reader, writer = await stalled(w)
        await until(lambda: len(w.model.requests) == 1)
        runs: list[dict[str, Any]] = []
        while not runs:
            found = (await w.call(f"{TURNS}/ListRuns", {"states": ["RUN_STATE_SETTLED"]})).json()
            runs = found.get("runs", [])
        assert runs[0]["outcome"]["kind"] == "OUTCOME_KIND_ANSWERED", runs
        assert [task for task in asyncio.all_tasks() if "RpcsHere" in repr(task)], "it is held up, and it alone"
        answered = await reader.read(-1)
        writer.transport.abort()
        told = split(answered.partition(b"\r\n\r\n")[2])
        found_events = events(told)
        assert sequences(found_events) == list(range(1, len(sequences(found_events)) + 1))
        assert sum(len(event["textDelta"]["text"]) for event in found_events if "textDelta" in event) == count * 65536
        assert told[-1].json == {}


@pytest.mark.requirement("WEB-14")
async def test_at_the_end_streams_end_with_their_runs_and_nothing_is_left() -> None:
    script, (gate,) = paced("one ", "two")
    before = asyncio.all_tasks()
    async with asyncio.timeout(SECONDS):
        async with web(script) as w, w.stream(f"{TURNS}/RunTurn", HELLO) as response:
            told = []
            drain: asyncio.Task[None] | None = None
            async for frame in frames(response):
                told.append(frame)
                if drain is None and any("textDelta" in event for event in events([frame])):
                    drain = asyncio.create_task(w.service.drain())
                    refused = await w.call(f"{TURNS}/StartTurn", HELLO)
                    assert refused.json()["code"] == "unavailable"
                    gate.set()
            assert "runFinished" in events(told)[-1]
            assert drain is not None
            await drain
        await until(lambda: not [task for task in asyncio.all_tasks() - before if not task.done()])


@pytest.mark.requirement("WEB-9", "WEB-14")
async def test_a_reader_that_takes_nothing_does_not_outlive_the_server() -> None:
    async with asyncio.timeout(60):
        async with web(answer(*(["x" * 65536] * 150)), server={"listen": "127.0.0.1:0", "grace_seconds": 1}) as w:
            reader, writer = await stalled(w)
            await until(lambda: len(w.model.requests) == 1)
            assert w.service.http is not None
            await w.service.drain()
            assert w.service.http._server.server_state.connections == set()
            left = await reader.read(-1)
            assert not left.endswith(envelope(b"{}", 2))
            writer.transport.abort()


@pytest.mark.requirement("WEB-16")
@pytest.mark.skipif(sys.platform != "linux", reason="the options have other names elsewhere")
async def test_connections_are_asked_for_signs_of_life() -> None:
    async with web() as w, w.stream("turnwire.v1.ServerService/GetServerInfo", b"", kind="application/proto"):
        assert w.service.http is not None
        (connection,) = w.service.http._server.server_state.connections
        own = connection.transport.get_extra_info("socket")
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for name, value in KEEPALIVE.items():
            assert own.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
