"""From the exception tree to gRPC statuses. Every non-OK status carries google.rpc.ErrorInfo (AIP-193).

``domain`` is ``turnwire.v1`` and ``reason`` a name of the contract's Reason enum; BadRequest, RetryInfo and
ResourceInfo come beside it where they fit. No message holds a secret, prompt text or a traceback. Whatever the caller
sent, a status fits into the 8 KiB of metadata that every client takes: a larger one would reach it as another error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2, message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from turnwired.domain.errors import (
    ConfigError,
    Conflict,
    InvalidRequest,
    NotFound,
    OutOfRange,
    StoreError,
    TurnwireError,
    Unavailable,
)
from turnwired.domain.failure import Reason

Context = grpc.aio.ServicerContext[Any, Any]

ERROR_DOMAIN = "turnwire.v1"

MESSAGE_BYTES = 640
"""Most bytes of a message. It travels twice, once with up to three bytes for each."""
NAME_BYTES = 160
"""Most bytes of a field path, an id or another word of the caller's."""
VIOLATIONS_BYTES = 1800
"""Most bytes of all violations together."""

_CONFLICT_CODES: Mapping[Reason, int] = {
    Reason.REQUEST_ID_REUSED: code_pb2.ALREADY_EXISTS,
    Reason.ETAG_MISMATCH: code_pb2.ABORTED,
}
_RESOURCES: Mapping[Reason, tuple[str, str]] = {
    Reason.AGENT_NOT_FOUND: ("turnwire.v1.Agent", "agent_id"),
    Reason.SESSION_NOT_FOUND: ("turnwire.v1.Session", "session_id"),
    Reason.RUN_NOT_FOUND: ("turnwire.v1.Run", "run_id"),
    Reason.APPROVAL_NOT_FOUND: ("turnwire.v1.Approval", "approval_id"),
}


def status_of(error: TurnwireError) -> status_pb2.Status:
    """The whole status of an error, details included."""
    details: list[message.Message] = []
    match error:
        case InvalidRequest():
            code = code_pb2.UNIMPLEMENTED if error.reason is Reason.OPTION_NOT_SUPPORTED else code_pb2.INVALID_ARGUMENT
            details.append(_bad_request(error))
        case NotFound():
            code = code_pb2.NOT_FOUND
            kind, key = _RESOURCES.get(error.reason, ("", ""))
            details.append(
                error_details_pb2.ResourceInfo(
                    resource_type=kind, resource_name=clip(error.metadata.get(key, ""), NAME_BYTES)
                )
            )
        case Conflict():
            code = _CONFLICT_CODES.get(error.reason, code_pb2.FAILED_PRECONDITION)
        case OutOfRange():
            code = code_pb2.OUT_OF_RANGE
        case Unavailable():
            overloaded = error.reason is Reason.OVERLOADED
            code = code_pb2.RESOURCE_EXHAUSTED if overloaded else code_pb2.UNAVAILABLE
            if error.retry_after is not None:
                delay = duration_pb2.Duration()
                delay.FromMilliseconds(int(error.retry_after * 1000))
                details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        case StoreError():
            return _status(code_pb2.UNAVAILABLE, Reason.STORE_UNAVAILABLE, str(error), {}, details)
        case ConfigError() | _:
            return internal_status()
    return _status(code, error.reason, error.message, error.metadata, details)


def internal_status() -> status_pb2.Status:
    """A fault of the service: says no more than that."""
    text = "The service failed while it handled the call. This is a fault of the service; its log has the details."
    return _status(code_pb2.INTERNAL, Reason.INTERNAL, text, {}, [])


def unimplemented_status(method: str) -> status_pb2.Status:
    """An RPC of the contract that this release does not build."""
    text = f"{method} is part of the contract, but this release of the server does not implement it yet."
    return _status(code_pb2.UNIMPLEMENTED, Reason.RPC_NOT_SUPPORTED, text, {"method": method}, [])


async def abort(context: Context, status: status_pb2.Status) -> NoReturn:
    """End the call with the status and its details."""
    await context.abort_with_status(rpc_status.to_status(status))
    raise AssertionError("abort_with_status raises")


def _bad_request(error: InvalidRequest) -> error_details_pb2.BadRequest:
    detail = error_details_pb2.BadRequest()
    left = VIOLATIONS_BYTES
    for count, violation in enumerate(error.violations):
        field, description = clip(violation.field, NAME_BYTES), clip(violation.description, MESSAGE_BYTES)
        left -= len(field.encode()) + len(description.encode())
        if left < 0 and count:
            detail.field_violations.add(description=f"and {len(error.violations) - count} more")
            break
        detail.field_violations.add(field=field, description=description)
    return detail


def clip(text: str, most: int) -> str:
    """The text, or its beginning in ``most`` bytes of UTF-8."""
    if len(text) <= most // 4 or len(encoded := text[:most].encode()) <= most >= len(text):
        return text
    return encoded[: most - 3].decode(errors="ignore") + "..."


def _status(
    code: int, reason: Reason, text: str, metadata: Mapping[str, str], details: list[message.Message]
) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=clip(text, MESSAGE_BYTES))
    words = {name: clip(value, NAME_BYTES) for name, value in metadata.items()}
    info = error_details_pb2.ErrorInfo(reason=reason.value, domain=ERROR_DOMAIN, metadata=words)
    for detail in [info, *details]:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
