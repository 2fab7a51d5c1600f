"""From the exception tree to gRPC statuses. Every non-OK status of ours carries google.rpc.ErrorInfo (AIP-193).

``domain`` is ``turnwire.v1`` and ``reason`` a name of the contract's Reason enum; BadRequest, RetryInfo and
ResourceInfo come beside it where they fit. No message holds a secret, prompt text or a traceback.
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
    PermissionDenied,
    StoreError,
    TurnwireError,
    Unauthenticated,
    Unavailable,
)
from turnwired.domain.failure import Reason

Context = grpc.aio.ServicerContext[Any, Any]

ERROR_DOMAIN = "turnwire.v1"
TEXT_BYTES = 1000
VIOLATIONS_BYTES = 2000
WORD_BYTES = 200
"""Room for the parts of a status. It travels as trailing metadata, twice and as base64; a peer may drop what is over
8 KiB of it and then tells of a broken stream instead of our error."""

_CONFLICT_CODES: Mapping[Reason, int] = {
    Reason.REQUEST_ID_REUSED: code_pb2.ALREADY_EXISTS,
    Reason.TOOL_HOST_TAKEN: code_pb2.ALREADY_EXISTS,
    Reason.MCP_SERVER_EXISTS: code_pb2.ALREADY_EXISTS,
    Reason.ETAG_MISMATCH: code_pb2.ABORTED,
}
_RESOURCES: Mapping[Reason, tuple[str, str]] = {
    Reason.AGENT_NOT_FOUND: ("turnwire.v1.Agent", "agent_id"),
    Reason.SESSION_NOT_FOUND: ("turnwire.v1.Session", "session_id"),
    Reason.RUN_NOT_FOUND: ("turnwire.v1.Run", "run_id"),
    Reason.APPROVAL_NOT_FOUND: ("turnwire.v1.Approval", "approval_id"),
    Reason.TOOL_HOST_NOT_FOUND: ("turnwire.v1.ToolHost", "host_id"),
    Reason.MCP_SERVER_NOT_FOUND: ("turnwire.v1.McpServer", "server_id"),
}


def status_of(error: TurnwireError) -> status_pb2.Status:
    """The whole status of an error, details included."""
    details: list[message.Message] = []
    match error:
        case InvalidRequest():
            details.append(_bad_request(error))
            if error.reason is Reason.OPTION_NOT_SUPPORTED:
                option = {"option": error.violations[0].field}
                return _status(code_pb2.UNIMPLEMENTED, error.reason, error.message, option, details)
            code = code_pb2.INVALID_ARGUMENT
        case Unauthenticated():
            code = code_pb2.UNAUTHENTICATED
        case PermissionDenied():
            code = code_pb2.PERMISSION_DENIED
        case NotFound():
            code = code_pb2.NOT_FOUND
            kind, key = _RESOURCES.get(error.reason, ("", ""))
            name = clip(error.metadata.get(key, ""), WORD_BYTES)
            details.append(error_details_pb2.ResourceInfo(resource_type=kind, resource_name=name))
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
            text = "The store cannot be used now. Try again; the server's log says what is wrong with it."
            return _status(code_pb2.UNAVAILABLE, Reason.STORE_UNAVAILABLE, text, {}, details)
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
    """The violations that fit, from the first; the status's text says as much and ends with an ellipsis."""
    detail = error_details_pb2.BadRequest()
    room = VIOLATIONS_BYTES
    for violation in error.violations:
        field, description = clip(violation.field, WORD_BYTES), clip(violation.description, 2 * WORD_BYTES)
        room -= len(field.encode()) + len(description.encode())
        if room < 0:
            break
        detail.field_violations.add(field=field, description=description)
    return detail


def clip(text: str, most: int) -> str:
    """The text in at most ``most`` bytes of UTF-8, with an ellipsis where it was longer."""
    data = text.encode()
    return text if len(data) <= most else f"{data[: most - 3].decode(errors='ignore')}…"


def _status(
    code: int, reason: Reason, text: str, metadata: Mapping[str, str], details: list[message.Message]
) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=clip(text, TEXT_BYTES))
    words = {key: clip(value, WORD_BYTES) for key, value in metadata.items()}
    info = error_details_pb2.ErrorInfo(reason=reason.value, domain=ERROR_DOMAIN, metadata=words)
    for detail in [info, *details]:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
