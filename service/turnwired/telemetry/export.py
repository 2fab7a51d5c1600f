"""OpenTelemetry's SDK set up for this service: private providers, bounded queue, quiet exporters, a stop that ends.

Nothing is registered globally: a tracer that was global would be found by the MCP SDK, which would send spans of its
own beside ours. Knows nothing of runs.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Tracer

from turnwired.telemetry.names import SCHEMA_URL, SCOPE, Instrument
from turnwired.telemetry.settings import TelemetrySettings

EXPORT_TIMEOUT = 2.0  # seconds for one request to the collector, its retries included
STOP_TIMEOUT = 1.6  # seconds that stopping waits for the last requests before it cuts the connections
_CUT_TIMEOUT = 0.3  # seconds for the SDK's threads to notice that

QUEUE_SPANS = 4096
_BATCH_SPANS = 64  # encoding holds the interpreter 60 µs per span: 4 ms, less than one thread switch interval
_LINGER_MS = 1000.0  # that a span may wait for company


@dataclass(frozen=True, slots=True)
class ExportStats:
    """What became of the spans so far: ``dropped`` ones never reached the collector, for whatever reason."""

    ended: int
    sent: int
    dropped: int


class CountingExporter(SpanExporter):
    """Counts what an exporter took and what it sent. Called from one thread."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.taken = 0
        self.sent = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; one that fails is lost."""
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is SpanExportResult.SUCCESS:
                self.sent += len(spans)
            else:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """Close the connection; a request in flight fails at once."""
        self._exporter.shutdown()


class BoundedProcessor(SpanProcessor):
    """Drops spans before the batch processor's queue is full, and counts them: the SDK would only log it.

    What the batch processor was given and the exporter has not taken is what waits, or a little less.
    """

    def __init__(self, exporter: CountingExporter, queue_spans: int) -> None:
        self._exporter = exporter
        self._limit = queue_spans
        self._batches = BatchSpanProcessor(
            exporter,
            max_queue_size=queue_spans,
            schedule_delay_millis=_LINGER_MS,
            max_export_batch_size=min(_BATCH_SPANS, queue_spans),
        )
        self._given = 0
        self._refused = 0
        self._stopped = False
        self._abandoned = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span, or drop it."""
        if self._stopped or self._given - self._exporter.taken >= self._limit:
            self._refused += 1
            return
        self._given += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        """Send what waits. Blocks as long as that takes."""
        self._stopped = True
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits. Blocks as long as that takes."""
        return self._batches.force_flush(timeout_millis)

    def abandon(self) -> None:
        """Nobody waits for what has not been sent by now: it counts as dropped."""
        self._abandoned = True

    @property
    def stats(self) -> ExportStats:
        """Counts since the start. What waits or is under way is neither sent nor dropped."""
        exporter = self._exporter
        lost = self._given - exporter.sent if self._abandoned else exporter.failed
        return ExportStats(self._given + self._refused, exporter.sent, self._refused + lost)


class Pipeline:
    """Tracer and meter of a process, and the way to the collector."""

    def __init__(self, settings: TelemetrySettings) -> None:
        logger = logging.getLogger("opentelemetry")
        if logger.level == logging.NOTSET:  # unless somebody wants to hear it
            logger.setLevel(logging.CRITICAL + 1)
        resource = _resource(settings)
        headers = dict(settings.headers) or None
        self._span_exporter = OTLPSpanExporter(settings.endpoint, headers=headers, timeout=EXPORT_TIMEOUT)
        self._metric_exporter = OTLPMetricExporter(settings.endpoint, headers=headers, timeout=EXPORT_TIMEOUT)
        self._processor = BoundedProcessor(CountingExporter(self._span_exporter), QUEUE_SPANS)
        self._meters = MeterProvider(
            [PeriodicExportingMetricReader(self._metric_exporter, settings.metric_interval * 1000)],
            resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
            views=[
                # The convention's buckets end at 10 s and a turn may take an hour; these adapt, 160 of them.
                View(
                    instrument_name=Instrument.RPC_DURATION.value.name,
                    aggregation=ExponentialBucketHistogramAggregation(),
                )
            ],
        )
        self._tracers = TracerProvider(
            ParentBased(TraceIdRatioBased(settings.sample_ratio)), resource, shutdown_on_exit=False
        )
        self._tracers.add_span_processor(self._processor)
        self.tracer: Tracer = self._tracers.get_tracer(SCOPE, settings.service_version, schema_url=SCHEMA_URL)
        self.meter: Meter = self._meters.get_meter(SCOPE, settings.service_version, SCHEMA_URL)
        dropped = Instrument.SPANS_DROPPED.value
        self.meter.create_observable_counter(dropped.name, [self._observe_dropped], dropped.unit, dropped.description)
        self._stopped = False

    @property
    def stats(self) -> ExportStats:
        """What became of the spans."""
        return self._processor.stats

    def stop(self) -> None:
        """Send what waits and stop, in two seconds at the most.

        The SDK's own shutdown may block for thirty seconds on a collector that hangs. So it runs in threads that may
        be left behind; closing the connections under it makes it give up.
        """
        if self._stopped:
            return
        self._stopped = True
        threads = [_in_thread(self._tracers.shutdown), _in_thread(self._meters.shutdown)]
        _join(threads, STOP_TIMEOUT)
        self._span_exporter.shutdown()
        self._metric_exporter.shutdown()
        _join(threads, _CUT_TIMEOUT)
        self._processor.abandon()

    def _observe_dropped(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._processor.stats.dropped)]


def _in_thread(work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except Exception:  # noqa: BLE001 - the boundary of this thread
            return  # what was not sent is counted as dropped; there is nobody else to tell

    thread = threading.Thread(target=run, name="turnwire-telemetry-stop", daemon=True)
    thread.start()
    return thread


def _join(threads: Iterable[threading.Thread], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _resource(settings: TelemetrySettings) -> Resource:
    attributes: dict[str, str] = {
        "service.name": settings.service_name,
        "service.instance.id": str(uuid.uuid4()),
    }
    if settings.service_version:
        attributes["service.version"] = settings.service_version
    return Resource.create(attributes)
