"""The services for a transport in the same process: the very handlers that gRPC calls, with a context of our own.

So what is served there has the same callers, roles, statuses and telemetry, and no second translation. It may not know
which transport that is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import anyio
import grpc
import orjson
from google.protobuf import any_pb2, descriptor, json_format, message_factory
from google.protobuf.message import Message
from google.rpc import status_pb2

from turnwired.codec.parse import parse
from turnwired.domain.errors import FieldViolation, InvalidRequest, Unauthenticated
from turnwired.local_rpcs import ErrorPart, LocalMethod, Metadata, RpcFailed
from turnwired.rpc.auth import Gate
from turnwired.rpc.errors import Context, internal_status, status_of, unimplemented_status

AHEAD: Final = 16
"""Responses that a handler may be ahead of who takes them; waiting for each would cost three times as much."""
_DETAILS: Final = "grpc-status-details-bin"
_ANY: Final = "type.googleapis.com/"
_NO_SIDE_EFFECTS: Final = 1  # of MethodOptions.IdempotencyLevel
_DEEPEST: Final = 100
"""Messages within messages that JSON may hold: as many as protobuf reads from bytes."""


@dataclass(frozen=True, slots=True)
class _Details(grpc.HandlerCallDetails):
    """What interceptors are told of a call."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


class _LocalContext:
    """What our handlers and interceptors use of gRPC's context; they use nothing else of it."""

    def __init__(self, metadata: Metadata, seconds: float | None, send: Callable[[bytes], Any] | None = None) -> None:
        self._metadata = metadata
        self._end = None if seconds is None else time.monotonic() + seconds
        self._send = send
        self._code: grpc.StatusCode | None = None
        self.status: status_pb2.Status | None = None

    def invocation_metadata(self) -> Metadata:
        """What came with the call."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Seconds until the deadline, if there is one."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def code(self) -> grpc.StatusCode | None:
        """What the call was aborted with."""
        return self._code

    async def write(self, response: bytes) -> None:
        """Send one response of a stream; returns when it was taken."""
        assert self._send is not None, "a stream"
        await self._send(response)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with a status."""
        self._code = code
        self.status = status_pb2.Status(code=code.value[0], message=details)
        raise grpc.aio.AbortError

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status and its details."""
        self._code = status.code
        raw = dict(status.trailing_metadata or ()).get(_DETAILS, b"")
        self.status = status_pb2.Status.FromString(cast("bytes", raw))
        raise grpc.aio.AbortError


class RpcsHere:
    """The services of a server, called in its process. ``handlers`` and ``interceptors`` are those of the server."""

    def __init__(
        self,
        services: Sequence[descriptor.ServiceDescriptor],
        handlers: Sequence[grpc.GenericRpcHandler],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        gate: Gate,
    ) -> None:
        self._handlers = tuple(handlers)
        self._interceptors = tuple(interceptors)
        self._gate = gate
        self._own = {service.full_name for service in services if service.file.package.startswith("turnwire.")}
        self.methods: Sequence[LocalMethod] = [_described(m) for service in services for m in service.methods]

    def admit(self, method: LocalMethod, metadata: Metadata) -> None:
        """As in LocalRpcs."""
        if method.service not in self._own:
            return
        try:
            self._gate.admit(cast("Context", _LocalContext(metadata, None)))
        except Unauthenticated as error:
            raise _failed(status_of(error)) from None

    async def unary(self, method: LocalMethod, request: bytes, metadata: Metadata, seconds: float | None) -> bytes:
        """As in LocalRpcs."""
        context = _LocalContext(metadata, seconds)
        handler = await self._handler(method, metadata)
        answer = await _called(handler.unary_unary, handler.request_deserializer, request, context)
        encode = handler.response_serializer
        return cast("bytes", answer if encode is None else encode(answer))

    async def stream(
        self, method: LocalMethod, request: bytes, metadata: Metadata, seconds: float | None
    ) -> AsyncGenerator[bytes]:
        """As in LocalRpcs. The handler has a task of its own, which is over when this generator is."""
        handler = await self._handler(method, metadata)
        send, receive = anyio.create_memory_object_stream[bytes](AHEAD)
        context = _LocalContext(metadata, seconds, send.send)

        async def run() -> None:
            with send:
                await _called(handler.unary_stream, handler.request_deserializer, request, context)

        task = asyncio.create_task(run())
        try:
            async with aclosing(receive):
                async for response in receive:
                    yield response
                await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # whoever left does not want to know

    async def _handler(self, method: LocalMethod, metadata: Metadata) -> grpc.RpcMethodHandler[Any, Any]:
        details = _Details(method.path, tuple(metadata))

        async def found(asked: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
            return next((h for handler in self._handlers if (h := handler.service(asked)) is not None), None)

        continuation: _Continuation = found
        for interceptor in reversed(self._interceptors):
            continuation = _through(interceptor, continuation)
        handler: grpc.RpcMethodHandler[Any, Any] | None = await continuation(details)
        if handler is None:
            raise _failed(unimplemented_status(method.path[1:]))
        return handler


_Continuation = Callable[[grpc.HandlerCallDetails], Any]


def _through(interceptor: grpc.aio.ServerInterceptor, continuation: _Continuation) -> _Continuation:
    async def intercepted(details: grpc.HandlerCallDetails) -> Any:
        return await interceptor.intercept_service(continuation, details)

    return intercepted


async def _called(behaviour: Any, decode: Callable[[bytes], Any] | None, request: bytes, context: _LocalContext) -> Any:
    try:
        return await behaviour(request if decode is None else decode(request), context)
    except grpc.aio.AbortError:
        raise _failed(context.status or internal_status()) from None


def _failed(status: status_pb2.Status) -> RpcFailed:
    return RpcFailed(status.code, status.message, tuple(map(_part, status.details)))


def _part(detail: any_pb2.Any) -> ErrorPart:
    """All details are ours, so that their messages are known."""
    told = json_format.MessageToDict(detail)
    del told["@type"]
    return ErrorPart(detail.type_url.removeprefix(_ANY), detail.value, orjson.dumps(told).decode())


def _described(method: descriptor.MethodDescriptor) -> LocalMethod:
    asked = message_factory.GetMessageClass(method.input_type)
    answered = message_factory.GetMessageClass(method.output_type)
    return LocalMethod(
        method.containing_service.full_name,
        method.name,
        method.server_streaming,
        method.GetOptions().idempotency_level == _NO_SIDE_EFFECTS,
        lambda data: _from_json(asked, data),
        lambda data: _to_json(answered, data),
    )


def _from_json(kind: type[Message], data: bytes) -> bytes:
    """Fields that this release does not know are passed over, as in bytes: a newer caller may send them."""
    message = kind()
    try:
        given = orjson.loads(data)
        if isinstance(given, dict):
            json_format.ParseDict(given, message, ignore_unknown_fields=True, max_recursion_depth=_DEEPEST)
            return message.SerializeToString()
    except (json_format.ParseError, ValueError, RecursionError):
        pass  # their words quote what was sent
    problem = f"is no {kind.DESCRIPTOR.full_name} in JSON"
    raise _failed(status_of(InvalidRequest([FieldViolation("request", problem)])))


def _to_json(kind: type[Message], data: bytes) -> bytes:
    return orjson.dumps(json_format.MessageToDict(parse(kind, data)))
