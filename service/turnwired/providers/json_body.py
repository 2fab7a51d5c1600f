"""A parser for answers that are one small JSON value and no model output, such as a token count. Knows no wire."""

from __future__ import annotations

import msgspec

from turnwired.domain.failure import Failure
from turnwired.domain.generation import ModelItem
from turnwired.providers.errors import WireError, protocol_error

MAX_BYTES = 64 * 1024


class JsonBody:
    """A WireParser that keeps the body. ``value`` is there after ``finish``, None when it is no JSON."""

    def __init__(self) -> None:
        self._body = bytearray()
        self.value: object = None
        self.error: WireError | None = None
        self.broken: Failure | None = None
        self.ended = False
        self.finish_seen = False
        self.content = False
        self.thinking = False

    def feed(self, data: bytes) -> list[ModelItem]:
        """Keep it, up to a bound."""
        self._body += data
        if len(self._body) > MAX_BYTES:
            self.ended = True
            self.broken = protocol_error(f"The provider sent a count of more than {MAX_BYTES} bytes.").failure
        return []

    def finish(self) -> list[ModelItem]:
        """Read the value."""
        self.ended = True
        try:
            self.value = msgspec.json.decode(self._body)
        except (msgspec.DecodeError, RecursionError):
            self.value = None
        return []
