"""Sends spans and metrics over OTLP/gRPC from one thread of its own, and stops when told, whatever the collector does.

The SDK's batch processors are not used: they block 30 s and more on a collector that hangs, log what goes wrong, and
do not say what they dropped. Here the queue is bounded, a full queue drops the newest span and counts it, a batch that
fails is lost and counted, and nothing is ever logged. Knows nothing of runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags, TraceState

from turnwired.telemetry.names import ERROR_TYPE, SCHEMA_URL, SCOPE
from turnwired.telemetry.spans import Span

EXPORT_TIMEOUT = 2.0  # seconds for one request to the collector, its retries included
STOP_TIMEOUT = 1.6  # seconds that stopping waits for the last requests before it cuts the connection
_CUT_TIMEOUT = 0.3  # seconds for the thread to notice that

_QUEUE_SPANS = 4096  # about 6 MB of waiting spans at the worst
_BATCH_SPANS = 64  # encoding holds the interpreter 60 µs per span: 4 ms, less than one thread switch interval
_LINGER = 1.0  # seconds that a span may wait for company

_EXPORTER_LOGGER = "opentelemetry.exporter.otlp.proto.grpc.exporter"


class SpanExporter(Protocol):
    """What is used of OpenTelemetry's span exporter."""

    def export(self, spans: Sequence[ReadableSpan], /) -> SpanExportResult:
        """Send; blocks up to its timeout."""
        ...

    def shutdown(self) -> None:
        """Close the connection; requests in flight fail at once."""
        ...


class MetricExporter(Protocol):
    """What is used of OpenTelemetry's metric exporter."""

    def export(self, metrics_data: MetricsData, /) -> MetricExportResult:
        """Send; blocks up to its timeout."""
        ...

    def shutdown(self) -> None:
        """Close the connection; requests in flight fail at once."""
        ...


@dataclass(frozen=True, slots=True)
class ExportStats:
    """What became of the telemetry so far. ``spans_dropped`` never reached the collector, for whatever reason.

    ``metric_failures`` counts failed sends; metrics are cumulative, so that the next send makes up for them.
    """

    spans_sent: int
    spans_dropped: int
    spans_waiting: int
    metric_sends: int
    metric_failures: int


class Exporter:
    """A bounded queue of ended spans and the thread that empties it."""

    def __init__(
        self,
        spans: SpanExporter,
        metrics: MetricExporter,
        collect: Callable[[], MetricsData | None],
        resource: Resource,
        *,
        scope_version: str,
        metric_interval: float,
        on_dropped: Callable[[int], None],
        queue_spans: int = _QUEUE_SPANS,
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._collect = collect
        self._resource = resource
        self._scope = InstrumentationScope(SCOPE, scope_version, SCHEMA_URL)
        self._metric_interval = metric_interval
        self._on_dropped = on_dropped
        self._queue: deque[Span] = deque()
        self._queue_spans = queue_spans
        self._wake = threading.Event()
        self._stopping = False
        self._closed = False
        self._deadline = float("inf")
        self._drop_lock = threading.Lock()  # the loop refuses spans while the thread loses batches
        self._sent = self._dropped = self._metric_sends = self._metric_failures = 0
        _silence(_EXPORTER_LOGGER)
        self._thread = threading.Thread(target=self._work, name="turnwire-telemetry", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> ExportStats:
        """Counts since the start."""
        return ExportStats(self._sent, self._dropped, len(self._queue), self._metric_sends, self._metric_failures)

    def submit(self, span: Span) -> None:
        """Take an ended span. Returns at once; drops it when the queue is full or the exporter has stopped."""
        waiting = len(self._queue)
        if waiting >= self._queue_spans or self._stopping:
            self._drop(1)
            return
        self._queue.append(span)
        if waiting + 1 == _BATCH_SPANS:
            self._wake.set()

    def stop(self) -> None:
        """Send what waits, close the connections, end the thread. Takes two seconds at the most."""
        if self._stopping:
            return
        self._deadline = time.monotonic() + STOP_TIMEOUT
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_TIMEOUT)
        self._closed = True
        self._spans.shutdown()
        self._metrics.shutdown()
        self._thread.join(_CUT_TIMEOUT)
        self._drop(len(self._queue))
        self._queue.clear()

    def _work(self) -> None:
        next_metrics = time.monotonic() + self._metric_interval
        while not self._stopping:
            self._wake.wait(min(_LINGER, max(0.0, next_metrics - time.monotonic())))
            self._wake.clear()
            self._send_spans()
            if time.monotonic() >= next_metrics and not self._stopping:
                self._send_metrics()
                next_metrics = time.monotonic() + self._metric_interval
        self._send_spans()
        self._send_metrics()

    def _send_spans(self) -> None:
        while self._queue and time.monotonic() < self._deadline:
            batch = [self._queue.popleft() for _ in range(min(_BATCH_SPANS, len(self._queue)))]
            try:
                sent = self._spans.export([self._readable(span) for span in batch]) is SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001 - the boundary of this thread: a batch fails alone, and is counted
                sent = False
            if sent:
                self._sent += len(batch)
            else:
                self._drop(len(batch))

    def _send_metrics(self) -> None:
        if time.monotonic() >= self._deadline or self._closed:
            return
        try:
            data = self._collect()
            sent = data is None or self._metrics.export(data) is MetricExportResult.SUCCESS
        except Exception:  # noqa: BLE001 - the boundary of this thread: a failed send is counted, the next makes up
            sent = False
        if sent:
            self._metric_sends += 1
        else:
            self._metric_failures += 1

    def _drop(self, count: int) -> None:
        if count:
            with self._drop_lock:
                self._dropped += count
            self._on_dropped(count)

    def _readable(self, span: Span) -> ReadableSpan:
        reference = span.reference
        state = _trace_state(reference.trace_state)
        parent = None
        if span.parent_id is not None:
            parent = SpanContext(reference.trace_id, span.parent_id, span.parent_remote, _SAMPLED, state)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(reference.trace_id, reference.span_id, False, _SAMPLED, state),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(event.name, event.attributes, event.time_ns) for event in span.events],
            kind=span.kind,
            status=_ERROR if ERROR_TYPE in span.attributes else _UNSET,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_ERROR = Status(StatusCode.ERROR)
_UNSET = Status(StatusCode.UNSET)
_NO_STATE = TraceState()


@cache
def _silence(logger_name: str) -> None:
    """Keep OpenTelemetry's exporter quiet, unless somebody gave its logger a level on purpose."""
    logger = logging.getLogger(logger_name)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)


def _trace_state(value: str) -> TraceState:
    return TraceState.from_header([value]) if value else _NO_STATE
