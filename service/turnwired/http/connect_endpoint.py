"""The contract for browsers and curl: the Connect protocol, and gRPC-Web beside it, before the RPCs of this process.

``connectrpc`` speaks the protocols; messages pass through it as bytes. It knows no gRPC and none of the messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

from anyio import to_thread
from connectrpc.code import Code
from connectrpc.errors import ConnectError, ErrorDetail
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.request import RequestContext
from connectrpc.server import ConnectASGIApplication, Endpoint
from protobuf.wkt import Any as PackedAny
from protobuf.wkt import Struct
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from turnwired.local_rpcs import ErrorPart, LocalMethod, LocalRpcs, Metadata, RpcFailed

_CODES: Final = {
    1: Code.CANCELED,
    2: Code.UNKNOWN,
    3: Code.INVALID_ARGUMENT,
    4: Code.DEADLINE_EXCEEDED,
    5: Code.NOT_FOUND,
    6: Code.ALREADY_EXISTS,
    7: Code.PERMISSION_DENIED,
    8: Code.RESOURCE_EXHAUSTED,
    9: Code.FAILED_PRECONDITION,
    10: Code.ABORTED,
    11: Code.OUT_OF_RANGE,
    12: Code.UNIMPLEMENTED,
    13: Code.INTERNAL,
    14: Code.UNAVAILABLE,
    15: Code.DATA_LOSS,
    16: Code.UNAUTHENTICATED,
}
"""Of google.rpc.Code."""
LONG: Final = 32 << 10
"""Bytes of a message from which on it is turned to or from JSON in a thread."""
_GRPC: Final = "application/grpc"
_GRPC_WEB: Final = "application/grpc-web"
ASKED_HEADERS: Final = (
    "authorization",
    "connect-accept-encoding",
    "connect-content-encoding",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-encoding",
    "content-type",
    "grpc-timeout",
    "traceparent",
    "tracestate",
    "x-grpc-web",
    "x-user-agent",
)
"""What clients of the two protocols send beyond what every page may."""
TOLD_HEADERS: Final = (
    "connect-content-encoding",
    "grpc-encoding",
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
)
"""What clients of the two protocols have to read."""

_Context = RequestContext[Any, Any]


class ConnectEndpoint:
    """An ASGI app for the paths of every method. It asks callers who they are, and answers those it does not know."""

    def __init__(self, rpcs: LocalRpcs, max_request_bytes: int) -> None:
        self._rpcs = rpcs
        self._methods = {method.path: method for method in rpcs.methods}
        self._app = _Application(rpcs, max_request_bytes)

    @property
    def paths(self) -> frozenset[str]:
        """What it answers."""
        return frozenset(self._methods)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        kind = Headers(scope=scope).get("content-type", "")
        if kind.startswith(_GRPC) and not kind.startswith(_GRPC_WEB):
            words = "gRPC itself is served at server.listen; here are Connect and gRPC-Web.\n"
            await PlainTextResponse(words, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)(scope, receive, send)
            return
        await self._app(cast("Any", scope), cast("Any", receive), cast("Any", send))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as it came."""

    data: bytes
    is_json: bool


class _Codec:
    """One of the two forms of messages. It leaves them as they are: what is long is turned beside the event loop."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        """As in the type of a body."""
        return self._name

    def encode(self, message: bytes) -> bytes:
        """Of an answer, which is in that form already."""
        return message

    def decode(self, data: bytes | bytearray, message_class: object) -> _Asked:
        """Of a request."""
        del message_class
        return _Asked(bytes(data), is_json=self._name == "json")


class _Application(ConnectASGIApplication[LocalRpcs]):
    """Every method as an endpoint of the library."""

    def __init__(self, rpcs: LocalRpcs, max_request_bytes: int) -> None:
        super().__init__(
            service=rpcs,
            endpoints=_endpoints,
            interceptors=[_Door(rpcs)],
            read_max_bytes=max_request_bytes,
            codecs=[_Codec("proto"), _Codec("json")],
        )

    @property
    def path(self) -> str:
        """Of one service, for who mounts it: here the routes have the paths of all."""
        return "/"


class _Door:
    """Refuses callers before their request is read."""

    def __init__(self, rpcs: LocalRpcs) -> None:
        self._rpcs = rpcs

    async def on_start(self, ctx: _Context) -> None:
        """At the start of a call."""
        try:
            self._rpcs.admit(_method(ctx), _metadata(ctx))
        except RpcFailed as error:
            raise _told(error) from None

    async def on_end(self, token: None, ctx: _Context, error: Exception | None, /) -> None:
        """At its end: nothing is kept."""


def _endpoints(rpcs: LocalRpcs) -> Mapping[str, Any]:
    made: dict[str, Any] = {}
    for method in rpcs.methods:
        info: MethodInfo[Any, Any] = MethodInfo(
            name=method.name,
            service_name=method.service,
            input=cast("type[Any]", method),  # what the codecs get, which is all that it is for
            output=cast("type[Any]", method),
            idempotency_level=IdempotencyLevel.NO_SIDE_EFFECTS if method.safe else IdempotencyLevel.UNKNOWN,
            stream_type=StreamType.SERVER_STREAM if method.streams else StreamType.UNARY,
        )
        made[method.path] = (
            Endpoint.server_stream(info, cast("Callable[..., AsyncIterator[Any]]", partial(_stream, rpcs, method)))
            if method.streams
            else Endpoint.unary(info, partial(_unary, rpcs, method))
        )
    return made


async def _unary(rpcs: LocalRpcs, method: LocalMethod, asked: _Asked, ctx: _Context) -> bytes:
    try:
        request = await _turned(method.from_json, asked.data) if asked.is_json else asked.data
        data = await rpcs.unary(method, request, _metadata(ctx), _seconds(ctx))
    except RpcFailed as error:
        raise _told(error) from None
    return await _turned(method.to_json, data) if asked.is_json else data


async def _stream(rpcs: LocalRpcs, method: LocalMethod, asked: _Asked, ctx: _Context) -> AsyncIterator[bytes]:
    try:
        request = await _turned(method.from_json, asked.data) if asked.is_json else asked.data
        async with aclosing(rpcs.stream(method, request, _metadata(ctx), _seconds(ctx))) as responses:
            async for data in responses:
                yield await _turned(method.to_json, data) if asked.is_json else data
    except RpcFailed as error:
        raise _told(error) from None


async def _turned(turn: Callable[[bytes], bytes], data: bytes) -> bytes:
    """To or from JSON: microseconds for a delta, seconds for megabytes of small things."""
    return turn(data) if len(data) <= LONG else await to_thread.run_sync(turn, data)


def _method(ctx: _Context) -> LocalMethod:
    return cast("LocalMethod", ctx.method.input)


def _metadata(ctx: _Context) -> Metadata:
    return list(ctx.request_headers.allitems())


def _seconds(ctx: _Context) -> float | None:
    left = ctx.timeout_ms
    return None if left is None else max(0.0, left / 1000)


class _Detail(ErrorDetail):
    """A detail that people can read too: the library knows none of the messages, so it gets each as an object."""

    def __init__(self, part: ErrorPart) -> None:
        super().__init__(PackedAny(type_url=f"type.googleapis.com/{part.kind}", value=part.data))
        self._readable = Struct.from_json(part.json)

    def value(self, desc_or_registry: object = None) -> Any:
        """What stands under ``debug`` in an error's JSON."""
        del desc_or_registry
        return self._readable


def _told(error: RpcFailed) -> ConnectError:
    return ConnectError(_CODES.get(error.code, Code.UNKNOWN), error.message, [_Detail(p) for p in error.details])
