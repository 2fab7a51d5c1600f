"""The body of an answer: a stream of events, or one whole JSON value. Tells which by its first bytes. Knows no wire."""

from __future__ import annotations

from turnwired.providers.errors import protocol_error
from turnwired.providers.sse import Event, SSESplitter

MAX_BODY_BYTES = 32 * 1024 * 1024
_WHOLE = (b"{", b"[", b"<")


class AnswerBody:
    """Takes the reads of one body. The content type does not tell: some servers send none, or the wrong one."""

    __slots__ = ("_kept", "_sse", "_started")

    def __init__(self, status: int) -> None:
        """``status``: the HTTP status; from 400 on the body is kept whole, whatever it holds."""
        self._kept: bytearray | None = bytearray() if status >= 400 else None
        self._started = status >= 400
        self._sse = SSESplitter()

    @property
    def whole(self) -> bool:
        """Whether it is one value and no stream."""
        return self._kept is not None

    def feed(self, data: bytes) -> list[Event]:
        """The events that a read completes; none of a whole body. Raises ProviderError (protocol) beyond the bounds."""
        if not self._started:
            data = data.lstrip()
            if not data:
                return []
            self._started = True
            if data[:1] in _WHOLE:
                self._kept = bytearray()
        if self._kept is None:
            return self._sse.feed(data)
        if len(self._kept) + len(data) > MAX_BODY_BYTES:
            raise protocol_error(f"The provider sent a body of more than {MAX_BODY_BYTES} bytes.")
        self._kept += data
        return []

    def end(self) -> bytes | list[Event]:
        """The whole body, or the events that its end completes."""
        return self._sse.flush() if self._kept is None else bytes(self._kept)
