"""One table of behaviours per service becomes gRPC handlers. Callers are let in and errors mapped here, for every RPC.

A method of the contract that has no behaviour answers UNIMPLEMENTED. Streaming behaviours write bytes that are
already encoded, so their handlers have no serializer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import descriptor as pb_descriptor
from google.protobuf import message, message_factory
from google.rpc import status_pb2

from turnwired.codec.parse import parse
from turnwired.domain.errors import CodecError, FieldViolation, InvalidRequest, RequestError, TurnwireError
from turnwired.domain.faults import where_raised
from turnwired.rpc.auth import Gate
from turnwired.rpc.errors import Context, abort, internal_status, status_of, unimplemented_status
from turnwired.stray import ANY_FAULT, require_stray

logger = logging.getLogger(__name__)

Unary = Callable[[Any, Context], Awaitable[message.Message]]
"""Takes the request message and the context, returns the response message."""
Streaming = Callable[[Any, Context], Awaitable[None]]
"""Takes the request message and the context, writes encoded responses to the context."""


@dataclass(frozen=True, slots=True)
class Behaviours:
    """What a service does, by method name."""

    unary: Mapping[str, Unary]
    streaming: Mapping[str, Streaming]


def service_handler(
    service: pb_descriptor.ServiceDescriptor, behaviours: Behaviours, gate: Gate
) -> grpc.GenericRpcHandler:
    """The handler of a service. Every method of the descriptor answers something, to those whom the gate lets in."""
    known = set(service.methods_by_name)
    unknown = (set(behaviours.unary) | set(behaviours.streaming)) - known
    if unknown:
        raise ValueError(f"{service.full_name} has no methods {sorted(unknown)}")
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in service.methods:
        kind = message_factory.GetMessageClass(method.input_type)
        name = f"{service.full_name}/{method.name}"
        # Parsed by the behaviour's wrapper: what gRPC's own deserializer raises becomes UNKNOWN, without details.
        if method.server_streaming:
            streaming = _streaming(name, kind, behaviours.streaming.get(method.name), gate)
            handlers[method.name] = grpc.unary_stream_rpc_method_handler(streaming, None, None)
        else:
            unary = _unary(name, kind, behaviours.unary.get(method.name), gate)
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(unary, None, _serialize)
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _parsed(kind: type[message.Message], request: bytes) -> message.Message:
    try:
        return parse(kind, request)
    except CodecError as error:
        raise InvalidRequest([FieldViolation("request", error.problem)]) from error


def _serialize(response: message.Message) -> bytes:
    return response.SerializeToString()


def _told(name: str, error: TurnwireError) -> status_pb2.Status:
    """The status of an error. What is no fault of the caller is not told in full: the log has it."""
    if not isinstance(error, RequestError):
        logger.error("%s failed: %s: %s", name, type(error).__name__, error)
    return status_of(error)


def _unary(name: str, kind: type[message.Message], behaviour: Unary | None, gate: Gate) -> Unary:
    async def call(request: bytes, context: Context) -> message.Message:
        try:
            gate.admit(context)
            if behaviour is not None:
                asked = _parsed(kind, request)
                gate.check(name, asked)
                return await behaviour(asked, context)
            status = unimplemented_status(name)
        except TurnwireError as error:
            status = _told(name, error)
        except ANY_FAULT as error:  # task boundary: the caller learns of it, the log how
            require_stray(error)
            logger.error("%s failed: %s", name, where_raised(error))  # noqa: TRY400 - never its text
            status = internal_status()
        return await abort(context, status)

    return call


def _streaming(name: str, kind: type[message.Message], behaviour: Streaming | None, gate: Gate) -> Streaming:
    async def call(request: bytes, context: Context) -> None:
        try:
            gate.admit(context)
            if behaviour is not None:
                asked = _parsed(kind, request)
                gate.check(name, asked)
                await behaviour(asked, context)
                return
            status = unimplemented_status(name)
        except TurnwireError as error:
            status = _told(name, error)
        except ANY_FAULT as error:  # task boundary: the caller learns of it, the log how
            require_stray(error)
            logger.error("%s failed: %s", name, where_raised(error))  # noqa: TRY400 - never its text
            status = internal_status()
        await abort(context, status)

    return call
