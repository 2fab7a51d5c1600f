"""CLIENT spans and metrics of requests to MCP servers (OpenTelemetry MCP conventions). Imports no MCP.

Under an ``execute_tool`` span the request is a child that does not call itself a tool execution, so that backends
count a tool once. The session id of a transport is a bearer secret and is not recorded.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from opentelemetry.trace import SpanKind, Tracer

from turnwired.domain.errors import ProviderError, ToolError
from turnwired.telemetry import names
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.port import ClientOperation
from turnwired.telemetry.spans import Attributes, Span, clip


class _Operation:
    """One request: a span and a point in a histogram; the span is current inside."""

    __slots__ = ("_current", "_instruments", "_method", "_protocol_version", "_span", "_tool", "_transport")

    def __init__(
        self,
        tracer: Tracer,
        instruments: Instruments,
        method: str,
        tool: str | None,
        protocol_version: str | None,
        transport: str,
    ) -> None:
        self._instruments = instruments
        self._method = method
        self._tool = tool
        self._protocol_version = protocol_version
        self._transport = transport
        attributes: Attributes = {names.MCP_METHOD_NAME: method, names.NETWORK_TRANSPORT: transport}
        if tool:
            attributes[names.TOOL_NAME] = tool
        if protocol_version:
            attributes[names.MCP_PROTOCOL_VERSION] = protocol_version
        name = f"{method} {tool}" if tool else method
        self._span = Span(tracer, name, SpanKind.CLIENT, attributes, None)
        self._current = self._span.current()

    def failed(self, error_type: str) -> None:
        """Note why it failed; the first reason stays."""
        self._span.attributes.setdefault(names.ERROR_TYPE, error_type)

    def request_id(self, jsonrpc_id: str) -> None:
        """Note the JSON-RPC id."""
        self._span.attributes[names.JSONRPC_REQUEST_ID] = clip(jsonrpc_id)

    def __enter__(self) -> ClientOperation:
        """Make the span current."""
        self._current.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        """End the span. Cancelled is not failed: whoever timed out says so on the span around this one."""
        self._current.__exit__(None, None, None)
        if isinstance(exc, ToolError | ProviderError):
            self.failed(exc.failure.reason.value)
        elif isinstance(exc, Exception):
            self.failed(type(exc).__name__)
        elif exc_type is not None:
            self._span.attributes[names.CANCELLED] = True
        self._span.end()
        error = self._span.attributes.get(names.ERROR_TYPE)
        self._instruments.mcp(
            self._method,
            self._tool,
            self._protocol_version,
            self._transport,
            self._span.seconds,
            error if isinstance(error, str) else None,
        )


class OtelMcpTelemetry:
    """Telemetry of MCP client operations. A request is a child of the span current in its task, or begins a trace."""

    __slots__ = ("_instruments", "_tracer")

    def __init__(self, tracer: Tracer, instruments: Instruments) -> None:
        self._tracer = tracer
        self._instruments = instruments

    def operation(
        self, method: str, *, tool: str | None, protocol_version: str | None, transport: str
    ) -> AbstractContextManager[ClientOperation]:
        """Span and metric around one request."""
        return _Operation(
            self._tracer,
            self._instruments,
            clip(method),
            clip(tool) if tool else None,
            clip(protocol_version) if protocol_version else None,
            transport,
        )
