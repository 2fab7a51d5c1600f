"""SERVER spans and metrics of the RPCs served (OpenTelemetry RPC conventions). Imports no gRPC.

Only the codes that are the server's fault are errors; a caller that cancels, or asks for what does not exist, is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.trace import SpanKind, Tracer

from turnwired.telemetry import names
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.port import RpcCall
from turnwired.telemetry.spans import ROOT, Span, clip, parent_of


class _Call:
    """One RPC."""

    __slots__ = ("_instruments", "_method", "_span")

    def __init__(self, instruments: Instruments, method: str, span: Span) -> None:
        self._instruments = instruments
        self._method = method
        self._span = span

    @property
    def headers(self) -> Mapping[str, str]:
        """Propagation headers of the RPC's span."""
        return self._span.headers()

    def ended(self, code: str) -> None:
        """End the span with this code."""
        span = self._span
        if span.end_ns:
            return
        span.attributes[names.RPC_STATUS_CODE] = code
        if code in names.RPC_ERROR_CODES:
            span.attributes[names.ERROR_TYPE] = code
        span.end()
        self._instruments.rpc(self._method, code, span.seconds)


class OtelRpcTelemetry:
    """Telemetry of the RPCs served."""

    __slots__ = ("_instruments", "_tracer")

    def __init__(self, tracer: Tracer, instruments: Instruments) -> None:
        self._tracer = tracer
        self._instruments = instruments

    def call_started(self, method: str, headers: Mapping[str, str]) -> RpcCall:
        """Open the span of an RPC, a child of its caller's."""
        attributes = {names.RPC_SYSTEM_NAME: names.RPC_SYSTEM_GRPC, names.RPC_METHOD: method}
        span = Span(self._tracer, method, SpanKind.SERVER, attributes, parent_of(headers))
        return _Call(self._instruments, method, span)

    def unknown_method(self, method: str) -> None:
        """Record a call that nobody serves; its name is the caller's invention and stays out of metrics."""
        span = Span(
            self._tracer,
            names.RPC_SYSTEM_GRPC,
            SpanKind.SERVER,
            {
                names.RPC_SYSTEM_NAME: names.RPC_SYSTEM_GRPC,
                names.RPC_METHOD: names.METHOD_OTHER,
                names.RPC_METHOD_ORIGINAL: clip(method),
            },
            ROOT,
        )
        _Call(self._instruments, names.METHOD_OTHER, span).ended("UNIMPLEMENTED")
