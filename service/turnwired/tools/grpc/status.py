"""From a gRPC status to a failure and to words for the model. Pure; knows statuses, not calls.

Follows https://grpc.io/docs/guides/status-codes and google/rpc/error_details.proto. The server's own words are shown to
the model, without what looks like a credential, and stand in no failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.tools.hiding import Hide
from turnwired.tools.port import ToolOutput
from turnwired.tools.result import redact

_DETAILS: Final = "grpc-status-details-bin"
_SHOWN: Final = 20
_MAX_RETRY: Final = 3600.0
_RETRYABLE: Final = frozenset(
    (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.RESOURCE_EXHAUSTED)
)
_NOTHING_DONE: Final = frozenset(
    (
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    )
)
"""Codes with which a server says that it refused. The others leave open whether the call took effect."""


@dataclass(frozen=True, slots=True)
class Details:
    """What ``grpc-status-details-bin`` says: sentences for the model, the ErrorInfo's reason, seconds to wait."""

    words: tuple[str, ...] = ()
    reason: str = ""
    retry_after: float | None = None


def details_of(metadata: Sequence[tuple[str, str | bytes]]) -> Details:
    """Violations, reason and delay of the trailing metadata; what cannot be read is passed over."""
    data = next((value for key, value in metadata if key == _DETAILS), None)
    if not isinstance(data, bytes):
        return Details()
    try:
        status = status_pb2.Status.FromString(data)
    except DecodeError:
        return Details()
    words: list[str] = []
    reason, retry_after = "", None
    for item in list(status.details)[:_SHOWN]:
        try:
            match item.type_url.rpartition("/")[2]:
                case "google.rpc.BadRequest":
                    words += _violations(error_details_pb2.BadRequest.FromString(item.value))
                case "google.rpc.ErrorInfo":
                    info = error_details_pb2.ErrorInfo.FromString(item.value)
                    reason = info.reason
                    about = ", ".join(f"{key}={info.metadata[key]}" for key in sorted(info.metadata)[:_SHOWN])
                    words.append(f"{info.reason} ({info.domain})" + (f": {about}" if about else ""))
                case "google.rpc.RetryInfo":
                    delay = error_details_pb2.RetryInfo.FromString(item.value).retry_delay
                    retry_after = min(_MAX_RETRY, max(0.0, delay.seconds + delay.nanos / 1e9))
                case _:
                    pass
        except DecodeError:
            continue
    return Details(tuple(words), reason, retry_after)


def answered(
    source: str, set_id: str, method: str, error: grpc.aio.AioRpcError, *, repeatable: bool, hide: Hide
) -> ToolOutput:
    """The result of a call that the server ended with an error. ``source`` is what messages call it."""
    code = error.code()
    details = details_of([(str(key), value) for key, value in error.trailing_metadata() or ()])
    said = [f"{code.name}: {error.details()}" if error.details() else code.name, *details.words]
    open_ = code not in _NOTHING_DONE and not repeatable
    if open_:
        said.append("It may have taken effect.")
    failure = Failure(
        phase=FailurePhase.TOOL,
        reason=_reason(code),
        message=f"{source}: {method} ended with {code.name}" + ("; it may have taken effect" if open_ else ""),
        retryable=code in _RETRYABLE,
        retry_after=details.retry_after,
        origin=set_id,
        origin_code=code.name,
        metadata={"error_info_reason": redact(hide(details.reason), 100)} if details.reason else {},
    )
    words = redact(hide("\n".join(said)))
    return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)


def _reason(code: grpc.StatusCode) -> Reason:
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return Reason.TOOL_SOURCE_UNAVAILABLE
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return Reason.TOOL_TIMEOUT
        case grpc.StatusCode.UNIMPLEMENTED:
            return Reason.TOOL_NOT_FOUND
        case _:
            return Reason.TOOL_FAILED


def _violations(request: error_details_pb2.BadRequest) -> Iterator[str]:
    for violation in list(request.field_violations)[:_SHOWN]:
        yield f"{violation.field}: {violation.description}"
