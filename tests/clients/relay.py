"""A relay between a client and the server in a scenario, over gRPC and over Connect: what it does to calls is a
``Between``.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from aiohttp import ClientSession, web

from turnwire.v1 import turn_service_pb2 as pb
from turnwire.v1.event_pb2 import Cursor, RunEvent

UNKNOWN_CASE = b"\xa2\x38\x02hi"
"""Field 900, two bytes of it: a case that no client knows."""
SERVICE = "turnwire.v1.TurnService"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
HOP = frozenset({"host", "content-length", "transfer-encoding", "connection", "keep-alive"})


class Between:
    """Passes all on as it is. ``forgets``: frames before a break may not be read, as a page forgets what a stream that
    fails has not handed out yet.
    """

    forgets = False

    def asked(self, method: str, request: bytes) -> bytes:
        """The request as the server is to have it."""
        del method
        return request

    def frame(self, frame: pb.RunTurnResponse) -> bool:
        """Change a frame; whether the stream goes on behind it, else it breaks."""
        del frame
        return True

    def refuses(self, method: str) -> bool:
        """Whether a unary call does not reach the server."""
        del method
        return False

    def loses(self, method: str) -> bool:
        """Whether the server's answer to a unary call does not reach the client."""
        del method
        return False


class LaterVersion(Between):
    """The second event of each run is of a case that nobody knows."""

    def frame(self, frame: pb.RunTurnResponse) -> bool:
        """One event more."""
        events = list(frame.events)
        del frame.events[:]
        for event in events:
            if event.sequence == 2:
                news = RunEvent.FromString(UNKNOWN_CASE)
                news.sequence = 2
                frame.events.append(news)
            if event.sequence >= 2:
                event.sequence += 1
            frame.events.append(event)
        frame.through_sequence += frame.through_sequence >= 2
        frame.last_sequence += frame.last_sequence >= 2
        return True


class LargeCounts(Between):
    """A run has read more tokens than a double can count."""

    def frame(self, frame: pb.RunTurnResponse) -> bool:
        """The last one."""
        for event in frame.events:
            if event.HasField("run_finished"):
                event.run_finished.usage.input_tokens = 2**53 + 1
        return True


class Repeating(Between):
    """Each frame begins with the events of the frame before: a reader drops what it has."""

    def __init__(self) -> None:
        self._before: list[RunEvent] = []

    def frame(self, frame: pb.RunTurnResponse) -> bool:
        """Twice each."""
        events = list(frame.events)
        del frame.events[:]
        frame.events.extend([*self._before, *events])
        self._before = events or self._before
        return True


class TakenOver(Between):
    """Behind the first text comes an event that the server never stores, and the stream breaks. Whoever comes back is
    told by the process that took the run over that it never happened.
    """

    def __init__(self, goes_on: asyncio.Event) -> None:
        self._goes_on = goes_on
        self._stored = Cursor()
        self._rewinds_to: int | None = None

    def asked(self, method: str, request: bytes) -> bytes:
        """A cursor at the event that never was stands at the one before it."""
        if not self._stored.sequence or method not in ("RunTurn", "WatchRun"):
            return request
        read = pb.RunTurnRequest if method == "RunTurn" else pb.WatchRunRequest
        again = read.FromString(request)
        missing = self._stored.sequence + 1 - again.after.sequence
        assert missing == 0 or (self.forgets and missing > 0), f"the reader misses {missing} events that it was sent"
        if not missing:
            again.after.CopyFrom(self._stored)
        self._rewinds_to = again.after.sequence
        self._goes_on.set()
        return again.SerializeToString()

    def frame(self, frame: pb.RunTurnResponse) -> bool:
        """Of the first process, or of the second."""
        if not self._stored.sequence:
            texts = [event for event in frame.events if event.HasField("text_delta")]
            if not texts:
                return True
            self._stored = Cursor(epoch=frame.epoch, sequence=frame.through_sequence)
            lost = frame.events.add()
            lost.CopyFrom(texts[-1])
            lost.sequence = frame.through_sequence + 1
            lost.text_delta.text = "never stored "
            frame.through_sequence += 1
            frame.last_sequence += 1
            return False
        frame.epoch += 1
        if self._rewinds_to is not None:
            frame.rewind_to_sequence = self._rewinds_to
            self._rewinds_to = None
        return True


class LosesAnswers(Between):
    """The first call of a method does not reach the server, and the answer to the second does not reach the client."""

    def __init__(self) -> None:
        self._calls = Counter[str]()

    def refuses(self, method: str) -> bool:
        """The first."""
        self._calls[method] += 1
        return self._calls[method] == 1

    def loses(self, method: str) -> bool:
        """The second."""
        return self._calls[method] == 2


class AwayForAnswers(Between):
    """Calls that hand in a result or an answer find nobody for longer than a single call is tried again."""

    def __init__(self) -> None:
        self._calls = Counter[str]()

    def refuses(self, method: str) -> bool:
        """The first six, of which four are one call."""
        self._calls[method] += 1
        return self._calls[method] <= 6


class SpoilsAnswers(Between):
    """Results are handed in for a run that is not there, which the server refuses."""

    def asked(self, method: str, request: bytes) -> bytes:
        """Of another run."""
        if method != "SubmitToolResults":
            return request
        spoiled = pb.SubmitToolResultsRequest.FromString(request)
        spoiled.run_id = "run_00000000000000000000000000000000"
        return spoiled.SerializeToString()


class Relay(grpc.GenericRpcHandler):
    """The server behind a ``Between``."""

    def __init__(self, channel: grpc.aio.Channel, between: Between) -> None:
        self._channel = channel
        self._between = between
        methods = pb.DESCRIPTOR.services_by_name["TurnService"].methods
        self._streams = {f"/{SERVICE}/{method.name}": method.server_streaming for method in methods}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """A relay of the bytes of the method."""
        path = handler_call_details.method
        if path not in self._streams:
            return None
        name, between = path.rpartition("/")[2], self._between

        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            made: Any = self._channel.unary_stream(path)
            call = made(between.asked(name, request), metadata=context.invocation_metadata())
            async for frame in call:
                changed = pb.RunTurnResponse.FromString(frame)
                goes_on = between.frame(changed)
                yield changed.SerializeToString()
                if not goes_on:
                    call.cancel()
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the line is broken")

        async def unary(request: bytes, context: Any) -> bytes:
            if between.refuses(name):
                await context.abort(grpc.StatusCode.UNAVAILABLE, "nobody is there")
            made: Any = self._channel.unary_unary(path)
            try:
                answer: bytes = await made(between.asked(name, request), metadata=context.invocation_metadata())
            except grpc.aio.AioRpcError as error:  # passed on as it is
                context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
                await context.abort(error.code(), error.details() or "")
                raise
            if between.loses(name):
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
            return answer

        if self._streams[path]:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


@asynccontextmanager
async def relayed(address: str, between: Between) -> AsyncIterator[str]:
    """The address of a relay in front of the server at ``address``."""
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers((Relay(channel, between),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(1.0)


@asynccontextmanager
async def relayed_http(url: str, between: Between) -> AsyncIterator[str]:
    """The same in front of the HTTP port, for calls over Connect; everything else is passed on as it is."""
    between.forgets = True

    async def handle(request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        posts = request.method == "POST"
        streams = posts and request.content_type == "application/connect+proto"
        if posts and not streams and between.refuses(name):
            return _unavailable(request)
        async with ClientSession(auto_decompress=False) as session:
            body = await request.read()
            if streams:
                body = body[:1] + _sized(between.asked(name, body[5:]))
            elif posts and request.content_type == "application/proto":
                body = between.asked(name, body)
            headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
            async with session.request(request.method, url + request.path, headers=headers, data=body) as answer:
                if posts and not streams and between.loses(name):
                    return _unavailable(request)
                kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                held = b""
                async for data in answer.content.iter_any():
                    out, goes_on = data, True
                    if streams and answer.content_type == "application/connect+proto":
                        held, out, goes_on = _envelopes(held + data, between.frame)
                    await response.write(out)
                    if not goes_on:
                        assert request.transport is not None
                        request.transport.close()  # in the middle of the body, but what was written arrives
                        break
                return response

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


def _unavailable(request: web.Request) -> web.Response:
    """What Connect says of a server that is not there, to a page of any origin."""
    headers = {"access-control-allow-origin": request.headers.get("origin", "*")}
    words = json.dumps({"code": "unavailable", "message": "nobody is there"})
    return web.Response(status=503, text=words, content_type="application/json", headers=headers)


def _sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _envelopes(data: bytes, change: Callable[[pb.RunTurnResponse], bool]) -> tuple[bytes, bytes, bool]:
    """What is not whole yet, the envelopes that are, with their frames changed, and whether the stream goes on."""
    out, goes_on = b"", True
    while goes_on and len(data) >= 5 and len(data) >= 5 + (size := int.from_bytes(data[1:5], "big")):
        flags, body, data = data[0], data[5 : 5 + size], data[5 + size :]
        if not flags:
            frame = pb.RunTurnResponse.FromString(body)
            goes_on = change(frame)
            body = frame.SerializeToString()
        out += bytes([flags]) + _sized(body)
    return data, out, goes_on
