"""One call on a channel: bytes out, bytes in, and whether what went wrong may have been after the request was sent.

Knows no descriptors and no JSON. A call is begun on a connected channel only, so that one that was not sent is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import quote

import grpc
import grpc.aio

from turnwired.domain.errors import ToolError
from turnwired.tools.grpc.line import Line
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
_LOSS_SECONDS = 0.1
"""How much later than its call a channel may learn of the loss of its connection."""
_TOO_LONG: Final = ("CLIENT: Received message larger than max", "Decompressed message larger than max")
"""gRPC's words for an answer of ours. Requests are not compressed, so no server has the second of one."""


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
A = TypeVar("A")


async def sent(send: Callable[[int], Awaitable[A | Lost]], *, again: bool) -> A | Lost:
    """What became of a call, which ``send`` sends, given the number of the attempt; twice if it was lost and may be."""
    answer = await send(1)
    if not (again and isinstance(answer, Lost)):
        return answer
    try:
        return await send(2)
    except ToolError:
        return Lost()  # that the second was not sent says nothing about the first


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
    if roles := sorted(invocation.caller.roles):
        pairs.append(("x-turnwire-roles", ",".join(quote(role, safe="") for role in roles)))
    headers: Mapping[str, str] = invocation.headers
    pairs += [(name, _encoded(headers[name])) for name in _TRACE if headers.get(name)]
    if token:
        pairs.append(("authorization", f"Bearer {token}"))
    return tuple(pairs)


async def call_unary(
    line: Line, path: str, request: bytes, metadata: tuple[tuple[str, str], ...], limits: Limits
) -> Answer:
    """One request, one answer. Run it in a task of its own: gRPC answers a cancellation with another of its own."""
    before = line.losses.count
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = line.channel.unary_unary(path)
    try:
        message = await method(request, timeout=limits.timeout, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return await ended(line, before, error, ())
    except asyncio.CancelledError:
        return Lost()  # the channel was closed, or nobody hears this
    return Received((message,)) if len(message) <= limits.size else TooLong()


@dataclass(slots=True)
class Stream:
    """One request, and what comes until the stream ends or is long enough. Run ``collect`` in a task of its own."""

    line: Line
    path: str
    limits: Limits
    messages: list[bytes] = field(default_factory=list[bytes])

    async def collect(self, request: bytes, metadata: tuple[tuple[str, str], ...]) -> Answer:
        """Read it; a stream that goes on is cancelled."""
        before = self.line.losses.count
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.line.channel.unary_stream(self.path)
        call = method(request, timeout=self.limits.timeout, metadata=metadata)
        try:
            return await self._read(call)
        except grpc.aio.AioRpcError as error:
            answer = await ended(self.line, before, error, tuple(self.messages))
            return self.cut(_size_words(self.limits)) if isinstance(answer, TooLong) else answer
        except asyncio.CancelledError:
            return Lost()
        finally:
            call.cancel()

    def cut(self, why: str) -> Received:
        """What there is, when no more is wanted."""
        return Received(tuple(self.messages), why)

    async def _read(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> Received:
        size = 0
        while isinstance(message := await call.read(), bytes):
            size += len(message)
            if size > self.limits.size:
                return self.cut(_size_words(self.limits))
            if len(self.messages) == self.limits.messages:
                return self.cut(f"{self.limits.messages} messages are the most")
            self.messages.append(message)
        return self.cut("")


def _size_words(limits: Limits) -> str:
    return f"{limits.size} bytes are the most"


async def ended(line: Line, before: int, error: grpc.aio.AioRpcError, messages: tuple[bytes, ...]) -> Answer:
    """Whether the server said so or the connection was lost: gRPC has the same statuses for both.

    When in doubt it was lost, for that says less about what has been done. The channel learns of its connection a
    moment behind the call, and may have another by then. ``before``: losses when the call began.
    """
    words = error.details() or ""
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and any(phrase in words for phrase in _TOO_LONG):
        return TooLong()
    if error.code() in _OF_CONNECTIONS:
        plain = words.lower()
        if any(phrase in plain for phrase in _WORDS_OF_CONNECTIONS):
            return Lost()
        if await line.losses.more_than(before, _LOSS_SECONDS):
            return Lost()
    return Received(messages, error=error)


def _encoded(value: str) -> str:
    return quote(value, safe=_PRINTABLE, errors="replace")
