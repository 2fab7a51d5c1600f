"""W3C Trace Context (https://www.w3.org/TR/trace-context/): which span is whose parent, across processes.

Knows no OpenTelemetry. Baggage is not read and not passed on: it is the caller's, and model providers are strangers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
PROPAGATION_HEADERS = frozenset({TRACEPARENT, TRACESTATE})

# Version 00 has four fields; a later version may append more, which a reader of version 00 skips.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}", re.ASCII)


class SpanReference(NamedTuple):
    """A span as others name it. ``trace_id`` has 128 bits, ``span_id`` 64; neither is 0.

    ``sampled`` False: the trace is not recorded, and whoever continues it should not record it either.
    A named tuple, because one is made per span: 0.4 µs where a frozen dataclass takes 1.1.
    """

    trace_id: int
    span_id: int
    sampled: bool
    trace_state: str = ""

    @property
    def hex_trace_id(self) -> str:
        """32 lower-case digits."""
        return f"{self.trace_id:032x}"

    @property
    def hex_span_id(self) -> str:
        """16 lower-case digits."""
        return f"{self.span_id:016x}"

    def headers(self) -> dict[str, str]:
        """The headers that make whoever gets them a child of this span."""
        flags = "01" if self.sampled else "00"
        headers = {TRACEPARENT: f"00-{self.trace_id:032x}-{self.span_id:016x}-{flags}"}
        if self.trace_state:
            headers[TRACESTATE] = self.trace_state
        return headers


def extract(headers: Mapping[str, str]) -> SpanReference | None:
    """The span that sent these headers (lower-case names), or None when they name none or are malformed."""
    value = headers.get(TRACEPARENT)
    if value is None:
        return None
    match = _TRACEPARENT.fullmatch(value)
    if match is None:
        return None
    version, trace, span, flags, more = match.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    if version == "ff" or (version == "00" and more) or trace_id == 0 or span_id == 0:
        return None
    state = headers.get(TRACESTATE, "")
    if state and _TRACESTATE.fullmatch(state) is None:
        state = ""
    return SpanReference(trace_id, span_id, bool(int(flags, 16) & 1), state)
