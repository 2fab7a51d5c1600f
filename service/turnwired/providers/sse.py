"""Server-sent events out of raw bytes, incrementally. Knows nothing of HTTP, of JSON or of any provider.

Lines end with LF, CRLF or CR and with nothing else: text libraries also split at U+2028, U+2029 and U+0085, which are
legal inside JSON strings. Source: WHATWG HTML, 9.2.6 "Interpreting an event stream".
"""

from __future__ import annotations

from turnwired.providers.errors import protocol_error

MAX_EVENT_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"

Event = tuple[bytes, bytes]
"""(name, data): the ``event:`` field, empty when there was none, and the ``data:`` lines joined by LF."""


class SSESplitter:
    """Turns reads of any size into whole events. Comments, ``id:``, ``retry:`` and events without data are dropped."""

    __slots__ = ("_after_cr", "_buffer", "_limit", "_scanned")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        """``limit``: the most bytes that may be held while waiting for the end of an event."""
        self._buffer = bytearray()
        self._scanned = 0
        self._after_cr = False
        self._limit = limit

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completes. Raises ProviderError (protocol) for an event beyond the limit."""
        if self._after_cr or b"\r" in data:
            data = self._with_line_feeds(data)
        if self._buffer:
            self._buffer += data
            # Look only where it was not looked before: reads of one byte must not make this quadratic.
            if self._buffer.find(b"\n\n", max(0, self._scanned - 1)) < 0:
                self._scanned = len(self._buffer)
                if self._scanned > self._limit:
                    self._buffer.clear()
                    raise protocol_error(f"The provider sent an event of more than {self._limit} bytes.")
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        if data.startswith(b"data: ") and data.endswith(b"\n\n"):
            # Nearly every read of every provider: whole events of one unnamed data line each.
            payloads = data[6:-2].split(b"\n\ndata: ")
            if data.count(b"\n") == 2 * len(payloads):
                return [(b"", payload) for payload in payloads]
        elif data.startswith(b"event: ") and data.endswith(b"\n\n") and (events := _alike(data)):
            return events
        blocks = data.split(b"\n\n")
        tail = blocks.pop()
        if tail:
            self._buffer += tail
            self._scanned = len(tail)
        return [event for block in blocks if (event := _parse(block)) is not None]

    def flush(self) -> list[Event]:
        """The event that the end of the body completes: servers in use leave out the last blank line."""
        event = _parse(bytes(self._buffer))
        self._buffer.clear()
        return [] if event is None else [event]

    def _with_line_feeds(self, data: bytes) -> bytes:
        """The same lines, each ended by LF. A CR at the end of a read may be half of a CRLF."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _alike(data: bytes) -> list[Event] | None:
    """Whole events that all have the name of the first one and one data line each; None for any others."""
    at = data.find(b"\ndata: ")
    name = data[7:at]
    if at < 0 or b"\n" in name:
        return None
    head = data[: at + 7]
    payloads = data[len(head) : -2].split(b"\n\n" + head)
    return [(name, payload) for payload in payloads] if data.count(b"\n") == 3 * len(payloads) else None


def _parse(block: bytes) -> Event | None:
    if block.startswith(b"event: "):
        # Nearly every event that has a name: the name and one data line.
        name, found, data = block[7:].partition(b"\ndata: ")
        if found and b"\n" not in name and b"\n" not in data:
            return name, data
    name = b""
    lines: list[bytes] = []
    for line in block.removeprefix(_BOM).split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    return (name, b"\n".join(lines)) if lines else None
