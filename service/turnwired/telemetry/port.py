"""The port to telemetry. The engine tells what happens; what becomes of it is none of its business.

Everything here is synchronous, cheap and never raises: telemetry cannot harm a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from turnwired.domain.event import Event
from turnwired.domain.model import ModelSelection, TraceContext
from turnwired.domain.tool import Tool


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known when a run begins. ``parent_headers`` are the caller's, for ``traceparent``.

    ``structured``: the answer is to be JSON of a schema. ``stream_end``: what the provider ends an answer with, as its
    profile declares it, and the layer that says so.
    """

    run_id: str
    agent_id: str
    session_id: str | None
    model: ModelSelection
    provider_name: str
    server_address: str
    server_port: int
    tools: tuple[Tool, ...] = ()
    structured: bool = False
    stream_end: str = "strict"
    stream_end_layer: str = "RUNTIME_DEFAULT"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    parent_headers: Mapping[str, str] = field(default_factory=dict[str, str])


class RunTelemetry(Protocol):
    """Telemetry of one run."""

    @property
    def trace_context(self) -> TraceContext:
        """The run's span; empty strings when nothing is recorded."""
        ...

    def iteration_started(self, iteration: int, max_output_tokens: int | None) -> str:
        """Open the iteration's and the model call's spans; returns the model call's span id, or ''."""
        ...

    def tool_started(self, call_id: str, routed_name: str) -> str:
        """Open the span of a tool execution; returns its span id, or ''."""
        ...

    def tools_known(self, tools: Sequence[Tool]) -> None:
        """The tools of the run are these from now on."""
        ...

    def response_identified(self, iteration: int, response_id: str, model: str) -> None:
        """The provider named its response and the model that answers."""
        ...

    def output_began(self, iteration: int) -> None:
        """The first output of the model call came; told once per attempt, so that a cancelled call has its time too."""
        ...

    def output_chunks(self, iteration: int, count: int) -> None:
        """How many reads of the model call's answer brought output; told once, before its ``IterationFinished``."""
        ...

    def headers_for_model(self, iteration: int) -> Mapping[str, str]:
        """Propagation headers of the model call's span; empty when nothing is recorded."""
        ...

    def headers_for_tool(self, call_id: str) -> Mapping[str, str]:
        """Propagation headers of the tool's span; empty when nothing is recorded."""
        ...

    def in_tool(self, call_id: str) -> AbstractContextManager[object]:
        """Makes the tool's span current in this task, so that a source's own client spans become its children."""
        ...

    def event(self, iteration: int, time_ns: int, event: Event) -> None:
        """Every event of the run but deltas, in order; closes spans and records metrics."""
        ...

    def left(self) -> None:
        """The process ends while the run waits: its spans end here; the next process goes on in the trace."""
        ...


class ClientOperation(Protocol):
    """One request to an MCP server, being made."""

    def failed(self, error_type: str) -> None:
        """It failed, or its result says it did; ``error_type`` is of low cardinality, such as ``tool_error``."""
        ...

    def request_id(self, jsonrpc_id: str) -> None:
        """The JSON-RPC id of the request."""
        ...


class McpTelemetry(Protocol):
    """Telemetry of MCP client operations (OpenTelemetry MCP semantic conventions)."""

    def operation(
        self, method: str, *, tool: str | None, protocol_version: str | None, transport: str
    ) -> AbstractContextManager[ClientOperation]:
        """Span and metric around one request; ``transport`` is ``pipe`` or ``tcp``. Current while inside."""
        ...


class RpcCall(Protocol):
    """One RPC that the server is handling."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What a run that this RPC starts gets as ``RunInfo.parent_headers``; empty without telemetry."""
        ...

    def ended(self, code: str) -> None:
        """It ended, its response stream included. ``code`` is the gRPC status name, such as ``OK``; called once."""
        ...


class RpcTelemetry(Protocol):
    """Telemetry of the RPCs served (OpenTelemetry RPC semantic conventions)."""

    def call_started(self, method: str, headers: Mapping[str, str]) -> RpcCall:
        """An RPC arrived. ``method`` is ``package.Service/Method``; ``headers`` are the caller's (``traceparent``)."""
        ...

    def unknown_method(self, method: str) -> None:
        """An RPC arrived for a method that nobody serves, and was answered with UNIMPLEMENTED."""
        ...


class Telemetry(Protocol):
    """All telemetry of a process."""

    @property
    def rpc(self) -> RpcTelemetry:
        """For the RPC server."""
        ...

    @property
    def mcp(self) -> McpTelemetry:
        """For MCP adapters."""
        ...

    def begin_run(self, info: RunInfo) -> RunTelemetry:
        """Open a run's span."""
        ...

    def aclose(self) -> None:
        """Flush and stop. Returns within about two seconds whatever the collector does."""
        ...
