"""What one wire gives to the rest: how the canonical request becomes a call, and who reads the answer's bytes.

A wire does no I/O, knows no credential and no server by name: what differs between servers is in its profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnwired.domain.errors import FieldViolation
from turnwired.domain.failure import Failure
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers.errors import WireError
from turnwired.providers.port import ModelRequest


class WireParser(Protocol):
    """What the transport asks of the parser of any wire."""

    @property
    def error(self) -> WireError | None:
        """What the provider reported."""
        ...

    @property
    def broken(self) -> Failure | None:
        """Why the body cannot be understood."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the answer is over, whatever the body still holds."""
        ...

    @property
    def finish_seen(self) -> bool:
        """Whether the provider said why it stopped."""
        ...

    @property
    def content(self) -> bool:
        """Whether the last read brought something that the model produced, also when it is held back."""
        ...

    @property
    def thinking(self) -> bool:
        """Whether the model is reasoning, so that silence has the limit of its own."""
        ...

    def feed(self, data: bytes) -> list[ModelItem]:
        """Items that a read completes."""
        ...

    def finish(self) -> list[ModelItem]:
        """Items that the end of the body completes."""
        ...


@dataclass(frozen=True, slots=True)
class WireCall:
    """One call as the wire wants it. ``path`` is added to the base URL; ``headers`` are those of this call alone."""

    path: str
    body: bytes = field(repr=False)
    parser: Callable[[int], WireParser]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class CountCall:
    """A question for the number of input tokens. ``read`` finds it in the answer's JSON value, or gives None."""

    path: str
    body: bytes = field(repr=False)
    read: Callable[[object], int | None]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class WireFormat(Protocol):
    """One wire for one profile. Pure and deterministic: prompt caches live from equal bytes."""

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """System blocks, for ``ModelRequest.system``; b"" for none."""
        ...

    def encode_message(self, message: Message) -> bytes:
        """One message as JSON objects joined by commas. Raises InvalidRequest."""
        ...

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools in the given order, as this wire's JSON array."""
        ...

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of the request the profile's server has no place for. Messages and tools may be empty still."""
        ...

    def call(self, request: ModelRequest) -> WireCall:
        """The call, its body joined from the encoded pieces. Raises ProviderError for what cannot be asked."""
        ...

    def count(self, request: ModelRequest) -> CountCall | None:
        """The question to the provider's own token counter, or None when it has none."""
        ...
