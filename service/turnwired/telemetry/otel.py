"""Telemetry over OpenTelemetry: the port, put together from its parts."""

from __future__ import annotations

from turnwired.telemetry.export import ExportStats, Pipeline
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.mcp import OtelMcpTelemetry
from turnwired.telemetry.port import McpTelemetry, RpcTelemetry, RunInfo, RunTelemetry
from turnwired.telemetry.rpc import OtelRpcTelemetry
from turnwired.telemetry.run import OtelRunTelemetry
from turnwired.telemetry.settings import TelemetrySettings


class OtelTelemetry:
    """All telemetry of a process that has a collector."""

    def __init__(self, settings: TelemetrySettings) -> None:
        self._pipeline = Pipeline(settings)
        self._tracer = self._pipeline.tracer
        self._instruments = Instruments(self._pipeline.meter)
        self._rpc = OtelRpcTelemetry(self._tracer, self._instruments)
        self._mcp = OtelMcpTelemetry(self._tracer, self._instruments)

    @property
    def rpc(self) -> RpcTelemetry:
        """For the RPC server."""
        return self._rpc

    @property
    def mcp(self) -> McpTelemetry:
        """For MCP adapters."""
        return self._mcp

    @property
    def stats(self) -> ExportStats:
        """What was sent and what was dropped."""
        return self._pipeline.stats

    def begin_run(self, info: RunInfo) -> RunTelemetry:
        """Open a run's span."""
        return OtelRunTelemetry(self._tracer, self._instruments, info)

    def aclose(self) -> None:
        """Send what waits and stop; blocks two seconds at the most."""
        self._pipeline.stop()
