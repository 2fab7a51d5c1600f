"""Telemetry over OpenTelemetry: puts tracer, meter and exporter together. Nothing is registered globally.

Were our tracer the global one, the MCP SDK would send spans of its own through it, under names nobody expects. Instead
it finds our spans as the current context, and passes them on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource

from turnwired.telemetry.exporter import EXPORT_TIMEOUT, Exporter, ExportStats
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.mcp import OtelMcpTelemetry
from turnwired.telemetry.metrics import Meter
from turnwired.telemetry.port import McpTelemetry, RpcTelemetry, RunInfo, RunTelemetry
from turnwired.telemetry.rpc import OtelRpcTelemetry
from turnwired.telemetry.run import OtelRunTelemetry
from turnwired.telemetry.settings import TelemetrySettings
from turnwired.telemetry.spans import Tracer


class OtelTelemetry:
    """All telemetry of a process that has a collector. ``clock`` gives Unix time in nanoseconds."""

    def __init__(self, settings: TelemetrySettings, clock: Callable[[], int] = time.time_ns) -> None:
        resource = _resource(settings)
        meter = Meter(resource, settings.service_version, clock)
        self._instruments = Instruments(meter)
        headers = dict(settings.headers) or None
        self._exporter = Exporter(
            OTLPSpanExporter(endpoint=settings.endpoint, headers=headers, timeout=EXPORT_TIMEOUT),
            OTLPMetricExporter(endpoint=settings.endpoint, headers=headers, timeout=EXPORT_TIMEOUT),
            meter.collect,
            resource,
            scope_version=settings.service_version,
            metric_interval=settings.metric_interval,
            on_dropped=self._instruments.dropped,
        )
        self._tracer = Tracer(self._exporter.submit, clock, settings.sample_ratio)
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
        return self._exporter.stats

    def begin_run(self, info: RunInfo) -> RunTelemetry:
        """Open a run's span."""
        return OtelRunTelemetry(self._tracer, self._instruments, info)

    def aclose(self) -> None:
        """Send what waits and stop; blocks two seconds at the most."""
        self._exporter.stop()


def _resource(settings: TelemetrySettings) -> Resource:
    attributes: dict[str, str] = {
        "service.name": settings.service_name,
        "service.instance.id": str(uuid.uuid4()),
    }
    if settings.service_version:
        attributes["service.version"] = settings.service_version
    return Resource.create(attributes)
