"""Telemetry when no collector is configured: nothing is sent, logged, imported or kept.

May not import OpenTelemetry, nor anything that does: this is what a process without a collector pays for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from turnwired.domain.event import Event
from turnwired.domain.model import TraceContext
from turnwired.domain.tool import Tool
from turnwired.telemetry.port import ClientOperation, McpTelemetry, RpcCall, RpcTelemetry, RunInfo, RunTelemetry

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
"""What is propagated when nothing is recorded."""

NO_TRACE = TraceContext()
"""Where a run is traced when nothing is recorded."""


class NullRunTelemetry:
    """Telemetry of a run that records nothing; one serves all runs."""

    __slots__ = ()

    @property
    def trace_context(self) -> TraceContext:
        """No trace."""
        return NO_TRACE

    def iteration_started(self, iteration: int, max_output_tokens: int | None) -> str:  # noqa: ARG002 - the port's
        """No span."""
        return ""

    def tool_started(self, call_id: str, routed_name: str) -> str:  # noqa: ARG002 - the port's
        """No span."""
        return ""

    def tools_known(self, tools: Sequence[Tool]) -> None:
        """Ignored."""

    def response_identified(self, iteration: int, response_id: str, model: str) -> None:
        """Ignored."""

    def output_began(self, iteration: int) -> None:
        """Ignored."""

    def output_chunks(self, iteration: int, count: int) -> None:
        """Ignored."""

    def headers_for_model(self, iteration: int) -> Mapping[str, str]:  # noqa: ARG002 - the port's
        """Nothing to propagate."""
        return NO_HEADERS

    def headers_for_tool(self, call_id: str) -> Mapping[str, str]:  # noqa: ARG002 - the port's
        """Nothing to propagate."""
        return NO_HEADERS

    def in_tool(self, call_id: str) -> AbstractContextManager[object]:  # noqa: ARG002 - the port's
        """Does nothing."""
        return NO_CONTEXT

    def event(self, iteration: int, time_ns: int, event: Event) -> None:
        """Ignored."""

    def left(self) -> None:
        """Ignored."""


class _NullOperation:
    __slots__ = ()

    def failed(self, error_type: str) -> None:
        """Ignored."""

    def request_id(self, jsonrpc_id: str) -> None:
        """Ignored."""


class _NullMcp:
    __slots__ = ()

    def operation(
        self,
        method: str,  # noqa: ARG002 - the port's
        *,
        tool: str | None,  # noqa: ARG002 - the port's
        protocol_version: str | None,  # noqa: ARG002 - the port's
        transport: str,  # noqa: ARG002 - the port's
    ) -> AbstractContextManager[ClientOperation]:
        """Does nothing."""
        return _NO_OPERATION


class _NullCall:
    __slots__ = ()

    @property
    def headers(self) -> Mapping[str, str]:
        """Nothing to propagate."""
        return NO_HEADERS

    def ended(self, code: str) -> None:
        """Ignored."""


class _NullRpc:
    __slots__ = ()

    def call_started(self, method: str, headers: Mapping[str, str]) -> RpcCall:  # noqa: ARG002 - the port's
        """No span."""
        return _CALL

    def unknown_method(self, method: str) -> None:
        """Ignored."""


# nullcontext keeps no state between uses, so that one of each serves every caller.
NO_CONTEXT: AbstractContextManager[object] = nullcontext()
_NO_OPERATION: AbstractContextManager[ClientOperation] = nullcontext(_NullOperation())
_CALL = _NullCall()
_RUN = NullRunTelemetry()
_MCP = _NullMcp()
_RPC = _NullRpc()


class NullTelemetry:
    """Telemetry of a process without a collector."""

    __slots__ = ()

    @property
    def rpc(self) -> RpcTelemetry:
        """Records nothing."""
        return _RPC

    @property
    def mcp(self) -> McpTelemetry:
        """Records nothing."""
        return _MCP

    def begin_run(self, info: RunInfo) -> RunTelemetry:  # noqa: ARG002 - the port's
        """Records nothing."""
        return _RUN

    def aclose(self) -> None:
        """Nothing to stop."""
