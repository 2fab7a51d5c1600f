"""A span of OpenTelemetry's SDK, with the rules that hold for every span of ours.

Its status is ERROR if and only if it has ``error.type``; it never has a message, so that no text of an exception can
leak into it; ending it again changes nothing. Parents are given, never taken from whatever is current. May not know
what is measured, nor how spans are sent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from turnwired.domain.model import TraceContext
from turnwired.telemetry.names import ERROR_TYPE
from turnwired.telemetry.null import NO_TRACE

AttributeValue = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, AttributeValue]

ROOT = Context()
"""The parent of a trace that begins here, whatever is current."""

_MAX_TEXT = 256  # characters: with 64 spans to a request, far below gRPC's 4 MiB
_ERROR = Status(StatusCode.ERROR)
# Baggage is not read and not passed on: it is the caller's, and model providers are strangers.
_propagator = TraceContextTextMapPropagator()


class Span:
    """One span. ``attributes`` are set when it ends, at once: each one set earlier costs a lock and a copy.

    Times are Unix nanoseconds; ``end_ns`` is 0 until it ends.
    """

    __slots__ = ("_span", "attributes", "context", "end_ns", "start_ns")

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, AttributeValue],
        parent: Context | None,
    ) -> None:
        """Start now. ``parent`` None: the span that is current in this task."""
        self.start_ns = time.time_ns()
        self.end_ns = 0
        self._span = tracer.start_span(name, parent, kind, attributes, start_time=self.start_ns)
        self.attributes: Attributes = {}
        self.context = trace.set_span_in_context(self._span, ROOT)

    @property
    def seconds(self) -> float:
        """Duration, once it has ended."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def trace_context(self) -> TraceContext:
        """Where to find it; empty when its trace is not recorded."""
        context = self._span.get_span_context()
        if not context.trace_flags.sampled:
            return NO_TRACE
        return TraceContext(trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id))

    def rename(self, name: str) -> None:
        """Change the name."""
        if not self.end_ns:
            self._span.update_name(name)

    def headers(self) -> Mapping[str, str]:
        """The W3C headers that make whoever gets them a child of this span."""
        headers: dict[str, str] = {}
        _propagator.inject(headers, self.context)
        return headers

    def current(self) -> AbstractContextManager[object]:
        """Makes it current in this task, for libraries that look for a parent; leave in the task that entered."""
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def event(self, name: str, time_ns: int, attributes: Mapping[str, AttributeValue]) -> None:
        """Something happened."""
        if not self.end_ns:
            self._span.add_event(name, attributes, time_ns)

    def end(self, time_ns: int | None = None) -> None:
        """End now or at ``time_ns``, never before the start."""
        if self.end_ns:
            return
        self.end_ns = max(self.start_ns, time.time_ns() if time_ns is None else time_ns)
        self._span.set_attributes(self.attributes)
        if ERROR_TYPE in self.attributes:
            self._span.set_status(_ERROR)
        self._span.end(self.end_ns)


def parent_of(headers: Mapping[str, str]) -> Context:
    """The span that sent these headers, or ``ROOT`` when they name none or are malformed."""
    return _propagator.extract(headers, ROOT)


def clip(text: str) -> str:
    """A text from outside, safe to send: bounded, and without lone surrogates, which would cost the whole batch."""
    if len(text) > _MAX_TEXT:
        text = text[: _MAX_TEXT - 1] + "…"
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()
