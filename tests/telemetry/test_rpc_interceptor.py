"""Every RPC is reported once, with the status its caller sees."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from telemetry.collector import Collector

from turnwired.rpc.interceptor import TelemetryInterceptor, call_headers
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.port import RpcCall

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Context = grpc.aio.ServicerContext[Any, Any]
SECRET = "KEY-EXCEPTION"

# gRPC's stubs infer the types of messages from serializers, and bytes need none.
Messages = Any


class Recorded:
    """Telemetry that keeps what it is told."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Mapping[str, str]]] = []
        self.unknown: list[str] = []
        self.ended: asyncio.Queue[tuple[str, str]] = asyncio.Queue(100)

    def call_started(self, method: str, headers: Mapping[str, str]) -> RpcCall:
        self.started.append((method, headers))
        return _Call(self, method)

    def unknown_method(self, method: str) -> None:
        self.unknown.append(method)

    async def next_end(self) -> tuple[str, str]:
        """The next RPC that ended, and how."""
        async with asyncio.timeout(5):
            return await self.ended.get()


class _Call:
    def __init__(self, recorded: Recorded, method: str) -> None:
        self._recorded = recorded
        self._method = method

    @property
    def headers(self) -> Mapping[str, str]:
        return {"traceparent": f"of {self._method}"}

    def ended(self, code: str) -> None:
        self._recorded.ended.put_nowait((self._method, code))


async def _end_as_told(request: bytes, context: Context) -> None:
    match request:
        case b"abort":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no")
        case b"set":
            context.set_code(grpc.StatusCode.FAILED_PRECONDITION)
        case b"crash":
            raise ValueError(SECRET)
        case b"sleep":
            await asyncio.sleep(30)
        case _:
            pass


async def _unary(request: bytes, context: Context) -> bytes:
    await _end_as_told(request, context)
    return call_headers()["traceparent"].encode()


async def _writes(request: bytes, context: Context) -> None:
    await context.write(call_headers()["traceparent"].encode())
    await _end_as_told(request, context)


async def _yields(request: bytes, context: Context) -> AsyncIterator[bytes]:
    yield call_headers()["traceparent"].encode()
    await _end_as_told(request, context)
    yield b"last"


async def _collects(requests: AsyncIterator[bytes], context: Context) -> bytes:
    last = b""
    async for request in requests:
        last = request
    await _end_as_told(last, context)
    return last


async def _echoes(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
    async for request in requests:
        await _end_as_told(request, context)
        yield request


HANDLERS: dict[str, Any] = {
    "Unary": grpc.unary_unary_rpc_method_handler(_unary),
    "Writes": grpc.unary_stream_rpc_method_handler(_writes),
    "Yields": grpc.unary_stream_rpc_method_handler(_yields),
    "Collects": grpc.stream_unary_rpc_method_handler(_collects),
    "Echoes": grpc.stream_stream_rpc_method_handler(_echoes),
}


@asynccontextmanager
async def serving(
    interceptor: TelemetryInterceptor, handlers: Mapping[str, Any] = HANDLERS
) -> AsyncIterator[tuple[Messages, grpc.aio.Server]]:
    """A server with a service of all four shapes, and a channel to it."""
    server = grpc.aio.server(interceptors=[interceptor])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Shapes", dict(handlers)),))
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel, server
    finally:
        await server.stop(0)


async def call(channel: Messages, method: str, request: bytes, **options: Any) -> tuple[list[bytes], Any]:
    """Call a method of any shape; returns the responses and the status."""
    path, responses = f"/test.Shapes/{method}", list[bytes]()
    async with asyncio.timeout(10):
        try:
            match method:
                case "Unary":
                    responses.append(await channel.unary_unary(path)(request, **options))
                case "Collects":
                    responses.append(await channel.stream_unary(path)(iter([b"1", request]), **options))
                case "Echoes":
                    async for response in channel.stream_stream(path)(iter([b"1", request]), **options):
                        responses.append(response)
                case _:
                    async for response in channel.unary_stream(path)(request, **options):
                        responses.append(response)
        except grpc.aio.AioRpcError as error:
            return responses, (error.code().name, error.details())
    return responses, ("OK", "")


@pytest.mark.requirement("TEL-13", "TEL-14")
@pytest.mark.parametrize("method", HANDLERS)
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"fine", ("OK", "")),
        (b"abort", ("NOT_FOUND", "no")),
        (b"set", ("FAILED_PRECONDITION", "")),
        (b"crash", ("INTERNAL", "internal error")),
    ],
)
async def test_the_status_reported_is_the_one_the_caller_sees(
    method: str, request_: bytes, expected: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    recorded = Recorded()
    async with serving(TelemetryInterceptor(recorded)) as (channel, _):
        responses, status = await call(channel, method, request_)
        assert status == expected
        assert await recorded.next_end() == (f"test.Shapes/{method}", expected[0])
        if method in ("Writes", "Yields"):
            assert responses[0] == f"of test.Shapes/{method}".encode()
    assert recorded.ended.empty()
    assert "KEY" not in caplog.text
    if request_ == b"crash":
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert f"test.Shapes/{method} crashed with ValueError" in record.getMessage()
        assert "_end_as_told" in record.getMessage(), "the log says where"
    else:
        assert caplog.records == []


@pytest.mark.requirement("TEL-13")
@pytest.mark.parametrize("method", ["Writes", "Yields"])
async def test_a_callers_cancel_is_reported_as_cancelled(method: str) -> None:
    recorded = Recorded()
    async with serving(TelemetryInterceptor(recorded)) as (channel, _):
        stream = channel.unary_stream(f"/test.Shapes/{method}")(b"sleep", timeout=30)
        await stream.read()
        stream.cancel()
        assert await recorded.next_end() == (f"test.Shapes/{method}", "CANCELLED")


@pytest.mark.requirement("TEL-13")
@pytest.mark.parametrize("method", HANDLERS)
async def test_a_deadline_is_reported_as_a_deadline(method: str) -> None:
    recorded = Recorded()
    async with serving(TelemetryInterceptor(recorded)) as (channel, _):
        _, status = await call(channel, method, b"sleep", timeout=0.3)
        assert status[0] == "DEADLINE_EXCEEDED"
        assert await recorded.next_end() == (f"test.Shapes/{method}", "DEADLINE_EXCEEDED")


@pytest.mark.requirement("TEL-13")
async def test_a_stopping_server_reports_what_it_cuts() -> None:
    recorded = Recorded()
    async with serving(TelemetryInterceptor(recorded)) as (channel, server):
        stream = channel.unary_stream("/test.Shapes/Writes")(b"sleep")
        await stream.read()
        await server.stop(0)
        assert await recorded.next_end() == ("test.Shapes/Writes", "CANCELLED")


@pytest.mark.requirement("TEL-13")
async def test_an_unknown_method_is_reported_apart_and_health_checks_not_at_all() -> None:
    recorded = Recorded()
    async with serving(TelemetryInterceptor(recorded)) as (channel, _):
        _, status = await call(channel, "Nothing", b"")
        assert status[0] == "UNIMPLEMENTED"
        stub: Any = health_pb2_grpc.HealthStub(channel)
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert recorded.unknown == ["test.Shapes/Nothing"]
    assert recorded.started == []


@pytest.mark.requirement("TEL-13", "TEL-16")
async def test_only_the_trace_headers_of_the_caller_are_handed_on() -> None:
    recorded = Recorded()
    metadata = (("traceparent", CALLER), ("tracestate", "a=1"), ("authorization", "KEY"), ("x-bin", b"\x00"))
    async with serving(TelemetryInterceptor(recorded)) as (channel, _):
        await call(channel, "Unary", b"", metadata=metadata)
    assert recorded.started == [("test.Shapes/Unary", {"traceparent": CALLER, "tracestate": "a=1"})]


@pytest.mark.requirement("TEL-13")
async def test_calls_side_by_side_have_their_own_headers() -> None:
    recorded = Recorded()
    async with serving(TelemetryInterceptor(recorded)) as (channel, _):
        answers = await asyncio.gather(*(call(channel, method, b"") for method in ["Unary", "Writes", "Yields"] * 10))
    for (responses, status), method in zip(answers, ["Unary", "Writes", "Yields"] * 10, strict=True):
        assert (responses[0].decode(), status[0]) == (f"of test.Shapes/{method}", "OK")
    assert dict(call_headers()) == {}, "no headers outside an RPC"


@pytest.mark.requirement("TEL-1", "TEL-13")
async def test_over_opentelemetry_the_span_has_the_callers_parent_and_the_code(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    async with serving(TelemetryInterceptor(telemetry.rpc)) as (channel, _):
        metadata = (("traceparent", CALLER),)
        (answer, *_), _ = await call(channel, "Yields", b"fine", metadata=metadata)
        await call(channel, "Unary", b"crash")
        await call(channel, "Unary", b"abort")
        await call(channel, "Nothing", b"")
    await asyncio.to_thread(telemetry.aclose)
    fine = collector.span("test.Shapes/Yields")
    assert (fine.parent_id, fine.kind, fine.error) == ("b7ad6b7169203331", "SERVER", False)
    assert fine.attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": "test.Shapes/Yields",
        "rpc.status_code": "OK",
    }
    assert answer.decode() == f"00-{fine.trace_id}-{fine.span_id}-01"
    crash, abort = (span for span in collector.spans if span.name == "test.Shapes/Unary")
    assert (crash.attributes["rpc.status_code"], crash.error) == ("INTERNAL", True)
    assert (abort.attributes["rpc.status_code"], abort.error) == ("NOT_FOUND", False)
    unknown = collector.span("grpc")
    assert unknown.attributes["rpc.method_original"] == "test.Shapes/Nothing"
    assert unknown.attributes["error.type"] == "UNIMPLEMENTED"


@pytest.mark.requirement("TEL-15")
async def test_a_handler_that_writes_is_awaited_once_and_its_messages_are_not_touched() -> None:
    seen: list[Context] = []

    async def handler(request: bytes, context: Context) -> None:
        seen.append(context)
        for _ in range(1000):
            await context.write(b"x")

    recorded = Recorded()
    handlers: dict[str, Any] = {"Writes": grpc.unary_stream_rpc_method_handler(handler)}
    async with serving(TelemetryInterceptor(recorded), handlers) as (channel, _):
        responses, status = await call(channel, "Writes", b"")
        assert (len(responses), status[0]) == (1000, "OK")
    assert type(seen[0]).__module__.startswith("grpc._cython"), "gRPC's own context, not a wrapper around it"


class _Writes:
    """A context that takes messages and does nothing else."""

    async def write(self, message: bytes) -> None:
        """Take one."""

    def code(self) -> None:
        """No status was set."""


@pytest.mark.requirement("TEL-15")
async def test_no_code_of_the_interceptor_runs_per_message() -> None:
    async def handler(request: int, context: Any) -> None:
        for _ in range(request):
            await context.write(b"x")

    class Details:
        method = "/test.Shapes/Writes"
        invocation_metadata = ()

    async def continuation(_: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(handler)

    interceptor = TelemetryInterceptor(Recorded())
    wrapped = await interceptor.intercept_service(continuation, Details())  # type: ignore[arg-type]
    assert wrapped is not None
    behaviour: Callable[[int, Any], Awaitable[None]] = wrapped.unary_stream  # type: ignore[assignment]

    async def calls_into_the_interceptor(messages: int) -> int:
        calls = 0

        def count(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code.co_filename.endswith("/rpc/interceptor.py")

        sys.setprofile(count)
        try:
            await behaviour(messages, _Writes())
        finally:
            sys.setprofile(None)
        return calls

    assert await calls_into_the_interceptor(1000) == await calls_into_the_interceptor(1) > 0
