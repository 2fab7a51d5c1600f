"""A collector in the test's own process: OTLP over gRPC, everything it receives kept in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1 import trace_pb2

from turnwired.telemetry.port import Telemetry

REMOTE_PARENT = 0x200

# The generated code has no types.
_serve_traces: Callable[[Any, grpc.Server], None] = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
_serve_metrics: Callable[[Any, grpc.Server], None] = metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server

Value = str | bool | int | float | list[Any] | None


def _value(value: AnyValue) -> Value:
    match value.WhichOneof("value"):
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case None:
            return None
        case which:
            found: Value = getattr(value, which)
            return found


def attributes_of(pairs: Any) -> dict[str, Value]:
    """Attributes as Python values."""
    items: list[KeyValue] = list(pairs)
    return {pair.key: _value(pair.value) for pair in items}


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span as the collector sees it."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    parent_remote: bool
    start_ns: int
    end_ns: int
    error: bool
    status_message: str
    status_code: int
    attributes: dict[str, Value]
    events: tuple[tuple[str, dict[str, Value]], ...]


def _span(span: trace_pb2.Span) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        parent_remote=bool(span.flags & REMOTE_PARENT),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        error=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        status_message=span.status.message,
        status_code=span.status.code,
        attributes=attributes_of(span.attributes),
        events=tuple((event.name, attributes_of(event.attributes)) for event in span.events),
    )


class Collector:
    """What was received. Safe to read once the telemetry under test is closed."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.spans_came = threading.Event()
        self.traces: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.metric_requests: list[metrics_service_pb2.ExportMetricsServiceRequest] = []

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans, in the order in which they ended."""
        return [
            _span(span)
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def span(self, name: str) -> ReceivedSpan:
        """The one span of this name."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, f"{len(found)} spans named {name!r} among {[span.name for span in self.spans]}"
        return found[0]

    @property
    def metrics(self) -> dict[str, Metric]:
        """The last state of each metric, by name."""
        return {
            metric.name: metric
            for request in self.metric_requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def text(self) -> str:
        """Everything received, as text, to look for what must not be in it."""
        return "\n".join(str(request) for request in [*self.traces, *self.metric_requests])

    def dump(self, directory: Path) -> None:
        """Write one file per request: ``00001-traces.pb``."""
        requests = [("traces", request) for request in self.traces]
        metrics = [("metrics", request) for request in self.metric_requests]
        for number, (kind, request) in enumerate([*requests, *metrics], 1):
            (directory / f"{number:05d}-{kind}.pb").write_bytes(request.SerializeToString())


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        self._collector.traces.append(request)
        self._collector.spans_came.set()
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        self._collector.metric_requests.append(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector on a free port of the loopback interface."""
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    _serve_traces(_Traces(collector), server)
    _serve_metrics(_Metrics(collector), server)
    port = server.add_insecure_port("127.0.0.1:0")
    collector.endpoint = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        assert server.stop(None).wait(5)


@contextmanager
def hanging_collector() -> Iterator[tuple[str, threading.Event]]:
    """A collector that takes requests and never answers; the event is set when the first one has come."""
    came, release = threading.Event(), threading.Event()

    class Hanging(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
            came.set()
            release.wait(30)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    _serve_traces(Hanging(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", came
    finally:
        release.set()
        assert server.stop(None).wait(5)


def close(telemetry: Telemetry, collector: Collector) -> None:
    """Send everything, and check what holds for every span ever sent."""
    telemetry.aclose()
    for span in collector.spans:
        assert span.error == ("error.type" in span.attributes), span
        assert span.status_code != 1, f"status OK on {span.name}"
        assert span.status_message == ""
        assert 0 < span.start_ns <= span.end_ns
