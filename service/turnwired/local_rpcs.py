"""RPCs of this process for a transport that is not gRPC: what ``rpc`` offers and ``http`` serves.

Messages are bytes of the contract on both sides, so that whoever serves them needs to know neither gRPC nor protobuf.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Metadata = Sequence[tuple[str, str]]
"""Keys in lower case, and values, in the order in which they came."""


@dataclass(frozen=True, slots=True)
class LocalMethod:
    """One RPC: a request, and one response or a stream of them.

    ``from_json`` and ``to_json`` turn a request and a response from and to proto3 JSON; the first raises RpcFailed.
    """

    service: str
    name: str
    streams: bool
    safe: bool
    """Without effects: whoever asks may ask again."""
    from_json: Callable[[bytes], bytes]
    to_json: Callable[[bytes], bytes]

    @property
    def path(self) -> str:
        """As it stands in a URL."""
        return f"/{self.service}/{self.name}"


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """One detail of an error: the full name of its message, that message's bytes, and the same as a JSON object."""

    kind: str
    data: bytes
    json: str


class RpcFailed(Exception):
    """An RPC ended with a status other than OK. ``code`` is a number of google.rpc.Code."""

    def __init__(self, code: int, message: str, details: tuple[ErrorPart, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class LocalRpcs(Protocol):
    """All RPCs that are served, with everything that stands in front of them: callers, roles, telemetry."""

    @property
    def methods(self) -> Sequence[LocalMethod]:
        """What can be called."""
        ...

    def admit(self, method: LocalMethod, metadata: Metadata) -> None:
        """Refuse whom a call would refuse for its metadata alone, before a request is read. Raises RpcFailed."""
        ...

    async def unary(self, method: LocalMethod, request: bytes, metadata: Metadata, seconds: float | None) -> bytes:
        """The response of a call that has ``seconds``; whoever calls ends it when they are over. Raises RpcFailed."""
        ...

    def stream(
        self, method: LocalMethod, request: bytes, metadata: Metadata, seconds: float | None
    ) -> AsyncGenerator[bytes]:
        """The responses, as fast as they are taken. Close it, or cancel who reads it, to cut the stream."""
        ...
