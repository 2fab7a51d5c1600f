"""One call on a channel: bytes out, bytes in, and whether what went wrong may have been after the request was sent.

Knows no descriptors and no JSON. A call is begun on a connected channel only, so that one that was not sent is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import anyio
import grpc
import grpc.aio

from turnwired.tools.port import ToolInvocation

_PRINTABLE: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")
_TRACE: Final = ("traceparent", "tracestate")
_OF_CONNECTIONS: Final = frozenset(
    (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.CANCELLED,
    )
)
_WORDS_OF_CONNECTIONS: Final = (
    *("socket closed", "connection reset", "goaway", "cancelling all calls", "broken pipe", "rst_stream"),
    *("keepalive", "ping timeout", "transport", "stream removed", "connection closed", "recvmsg", "end of tcp stream"),
)
_TOO_LONG: Final = "CLIENT: Received message larger than max"


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one answer: seconds for the call (None: none) and bytes; for a stream also messages and seconds."""

    timeout: float | None
    messages: int
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Received:
    """Messages that came, one or, of a stream, any number. ``cut``: why there are no more, empty when it ended.

    ``error``: the status that the server ended with instead.
    """

    messages: tuple[bytes, ...]
    cut: str = ""
    error: grpc.aio.AioRpcError | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection went away under the call, which may have been executed."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """The answer was longer than what is read; the call was executed."""


Answer = Received | Lost | TooLong


def metadata_of(invocation: ToolInvocation, token: str) -> tuple[tuple[str, str], ...]:
    """Who calls, on whose behalf, and as part of which trace.

    Values are percent-encoded outside visible ASCII. The idempotency key is the same
    for every attempt of one call and another for every other call.
    """
    pairs = [
        ("x-turnwire-tenant", _encoded(invocation.caller.tenant)),
        ("x-turnwire-principal", _encoded(invocation.caller.principal)),
        ("x-turnwire-run-id", _encoded(invocation.run_id)),
        ("idempotency-key", _encoded(f"{invocation.run_id}/{invocation.call_id}")),
    ]
    headers: Mapping[str, str] = invocation.headers
    pairs += [(name, _encoded(headers[name])) for name in _TRACE if headers.get(name)]
    if token:
        pairs.append(("authorization", f"Bearer {token}"))
    return tuple(pairs)


async def call_unary(
    channel: grpc.aio.Channel, path: str, request: bytes, metadata: tuple[tuple[str, str], ...], limits: Limits
) -> Answer:
    """One request, one answer. Cancelling the caller cancels the call."""
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    call = method(request, timeout=limits.timeout, metadata=metadata)
    try:
        message = await call
        return Received((message,)) if len(message) <= limits.size else TooLong()
    except grpc.aio.AioRpcError as error:
        return _ended(channel, error, ())
    except asyncio.CancelledError:
        if _being_cancelled():
            raise
        return Lost()


async def call_stream(
    channel: grpc.aio.Channel, path: str, request: bytes, metadata: tuple[tuple[str, str], ...], limits: Limits
) -> Answer:
    """One request, and what comes until the stream ends or is long enough, which then is cancelled."""
    method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
    call = method(request, timeout=limits.timeout, metadata=metadata)
    messages: list[bytes] = []
    size = 0
    try:
        with anyio.move_on_after(limits.seconds):
            while True:
                message = await call.read()
                if not isinstance(message, bytes):
                    return Received(tuple(messages))
                size += len(message)
                if size > limits.size:
                    return Received(tuple(messages), _size_words(limits))
                messages.append(message)
                if len(messages) == limits.messages:
                    return await _whether_more(call, messages)
        return Received(tuple(messages), f"{limits.seconds:g} s are the most")
    except grpc.aio.AioRpcError as error:
        ended = _ended(channel, error, tuple(messages))
        return Received(tuple(messages), _size_words(limits)) if isinstance(ended, TooLong) else ended
    except asyncio.CancelledError:
        if _being_cancelled():
            raise
        return Lost()
    finally:
        call.cancel()


def _size_words(limits: Limits) -> str:
    return f"{limits.size} bytes are the most"


async def _whether_more(call: grpc.aio.UnaryStreamCall[bytes, bytes], messages: list[bytes]) -> Received:
    """A stream of exactly as many messages as are read is whole."""
    more = isinstance(await call.read(), bytes)
    return Received(tuple(messages), f"{len(messages)} messages are the most" if more else "")


def _ended(channel: grpc.aio.Channel, error: grpc.aio.AioRpcError, messages: tuple[bytes, ...]) -> Answer:
    """Whether the server said so or the connection was lost: gRPC has the same statuses for both.

    When in doubt it was lost, for that says less about what has been done.
    """
    words = error.details() or ""
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG in words:
        return TooLong()
    if error.code() in _OF_CONNECTIONS:
        plain = words.lower()
        gone = channel.get_state() is not grpc.ChannelConnectivity.READY
        if gone or any(phrase in plain for phrase in _WORDS_OF_CONNECTIONS):
            return Lost()
    return Received(messages, error=error)


def _encoded(value: str) -> str:
    return quote(value, safe=_PRINTABLE, errors="replace")


def _being_cancelled() -> bool:
    """Whether somebody cancels this task, as against a call that ended with its channel."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
