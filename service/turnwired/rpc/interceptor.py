"""The outermost interceptor of the gRPC server: tells telemetry of every RPC, and lets no crash reach the caller.

Wraps the handler, not its messages: a stream of a million frames costs what one frame costs. Knows telemetry's port
only. What a handler raises on purpose must have become a status before it gets here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, cast

import grpc
import grpc.aio

from turnwired.domain.faults import where_raised
from turnwired.telemetry.port import RpcTelemetry

_logger = logging.getLogger(__name__)

_PROPAGATED = frozenset({"traceparent", "tracestate"})
_QUIET_SERVICES = ("grpc.health.v1.Health/",)
# A caller's deadline runs out a trip before ours, and its reset arrives as a cancel: seconds, and a share of the whole
# for callers whose clock began well before the request was here, such as browsers that ask first whether they may.
_DEADLINE_SLACK, _DEADLINE_SHARE = 0.05, 0.1

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_call_headers: ContextVar[Mapping[str, str]] = ContextVar("turnwire_call_headers", default=_NO_HEADERS)

Context = grpc.aio.ServicerContext[Any, Any]
_Behaviour = Callable[[Any, Context], Awaitable[Any]]


def call_headers() -> Mapping[str, str]:
    """Propagation headers of the RPC that this task handles, for runs it starts; empty without telemetry."""
    return _call_headers.get()


class TelemetryInterceptor(grpc.aio.ServerInterceptor):
    """Reports each RPC once, when its last message is sent, with the status that its caller sees.

    Handlers must be coroutine functions or asynchronous generator functions. Health checks are not reported: they
    would outnumber everything else.
    """

    def __init__(self, telemetry: RpcTelemetry) -> None:
        self._telemetry = telemetry

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Wrap the handler of the method called."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method.lstrip("/")
        if handler is None:
            self._telemetry.unknown_method(method)
            return None  # gRPC answers UNIMPLEMENTED
        if method.startswith(_QUIET_SERVICES):
            return handler
        headers = _propagated(handler_call_details)

        def wrap(behaviour: Callable[..., Any]) -> Any:
            return _Wrapped(self._telemetry, method, headers, _as_coroutine(behaviour)).handle

        serialization = (handler.request_deserializer, handler.response_serializer)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(wrap(handler.unary_unary), *serialization)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(wrap(handler.unary_stream), *serialization)
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(wrap(handler.stream_unary), *serialization)
        assert handler.stream_stream is not None
        return grpc.stream_stream_rpc_method_handler(wrap(handler.stream_stream), *serialization)


class _Wrapped:
    """One RPC's handler, watched. A coroutine, whatever the handler is."""

    __slots__ = ("_behaviour", "_headers", "_method", "_telemetry")

    def __init__(self, telemetry: RpcTelemetry, method: str, headers: Mapping[str, str], behaviour: _Behaviour) -> None:
        self._telemetry = telemetry
        self._method = method
        self._headers = headers
        self._behaviour = behaviour

    async def handle(self, request: Any, context: Context) -> Any:
        call = self._telemetry.call_started(self._method, self._headers)
        _call_headers.set(call.headers)  # the task is this RPC's alone: nothing to put back
        code = grpc.StatusCode.UNKNOWN.name
        try:
            response = await self._behaviour(request, context)
            code = _code_set(context)
            return response
        except asyncio.CancelledError:
            code = _code_of_cancel(context)
            raise
        except grpc.aio.AbortError:
            code = _code_set(context)
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of the RPC's task
            code = grpc.StatusCode.INTERNAL.name
            _log_crash(self._method, error)
            await context.abort(grpc.StatusCode.INTERNAL, "internal error")
        finally:
            call.ended(code)


def _as_coroutine(behaviour: Callable[..., Any]) -> _Behaviour:
    """A generator's messages are written by us instead of by gRPC: the same work, with nothing added per message."""
    if not inspect.isasyncgenfunction(behaviour):
        return behaviour

    async def write_all(request: Any, context: Context) -> None:
        messages: AsyncIterator[Any] = behaviour(request, context)
        async for message in messages:
            await context.write(message)

    return write_all


def _propagated(details: grpc.HandlerCallDetails) -> Mapping[str, str]:
    metadata = details.invocation_metadata
    if not metadata:
        return _NO_HEADERS
    return {key: value for key, value in metadata if key in _PROPAGATED and isinstance(value, str)}


def _code_set(context: Context) -> str:
    # gRPC says None for a status that nobody set, and an int where somebody set one.
    code = cast("grpc.StatusCode | int | None", context.code())
    if isinstance(code, grpc.StatusCode):
        return code.name
    return _CODE_NAMES.get(code or 0, grpc.StatusCode.UNKNOWN.name)


_CODE_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


def deadline_is_over(context: Context, limit: float = 0.0) -> bool:
    """Whether a call that was cancelled had run out of its time: its caller cancels when its own clock says so.

    ``limit``: the seconds that it had when it came, where that is known.
    """
    # None where the caller set no deadline, whatever the stubs say.
    remaining = cast("float | None", context.time_remaining())
    return remaining is not None and remaining <= max(_DEADLINE_SLACK, _DEADLINE_SHARE * limit)


def _code_of_cancel(context: Context) -> str:
    code = grpc.StatusCode.DEADLINE_EXCEEDED if deadline_is_over(context) else grpc.StatusCode.CANCELLED
    return code.name


def _log_crash(method: str, error: Exception) -> None:
    """Where it crashed, without what the exception says: that may quote a secret or a prompt."""
    _logger.error("%s crashed with %s", method, where_raised(error))
