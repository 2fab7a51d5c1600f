"""Makes a span current for libraries that look for one: the MCP SDK writes the current span into ``_meta``.

The span made current records nothing itself, so that such libraries can name it as a parent and do no more. May not
be used around a ``yield`` of a generator: leave in the task that entered.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import Token

from opentelemetry import context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from turnwired.telemetry.propagation import SpanReference

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NOT_SAMPLED = TraceFlags(TraceFlags.DEFAULT)


class Current:
    """Context manager in which a span is current."""

    __slots__ = ("_reference", "_token")

    def __init__(self, reference: SpanReference) -> None:
        self._reference = reference
        self._token: Token[context.Context] | None = None

    def __enter__(self) -> None:
        """Make it current."""
        reference = self._reference
        span = NonRecordingSpan(
            SpanContext(
                reference.trace_id,
                reference.span_id,
                is_remote=False,
                trace_flags=_SAMPLED if reference.sampled else _NOT_SAMPLED,
                trace_state=TraceState.from_header([reference.trace_state]) if reference.trace_state else None,
            )
        )
        self._token = context.attach(set_span_in_context(span))

    def __exit__(self, *_: object) -> None:
        """Make current what was before."""
        if self._token is not None:
            context.detach(self._token)
            self._token = None


def current_span() -> SpanReference | None:
    """The span that is current in this task, or None."""
    span = get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return SpanReference(span.trace_id, span.span_id, span.trace_flags.sampled, span.trace_state.to_header())


_NOTHING: AbstractContextManager[None] = nullcontext()


def nothing_current() -> AbstractContextManager[None]:
    """A context manager that changes nothing."""
    return _NOTHING
