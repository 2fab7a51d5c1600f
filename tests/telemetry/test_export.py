"""Sending and stopping, with collectors that answer, hang, refuse or are not there."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from telemetry.collector import Collector, hanging_collector
from telemetry.script import Driver, info, run_with_tools

from turnwired.telemetry.export import BoundedProcessor, CountingExporter, ExportStats
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.settings import TelemetrySettings

HUNG = 15.0
"""Seconds: far more than the two that are promised, on any machine, and half of what the SDK may take by itself."""


@contextmanager
def silent_listener() -> Iterator[str]:
    """Something that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def refusing_endpoint() -> str:
    """An address where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def spans_of_runs(telemetry: OtelTelemetry, runs: int) -> int:
    """Run something; returns how many spans that makes."""
    for _ in range(runs):
        run_with_tools(Driver(telemetry, info()))
    return runs * 8


def closing_takes(telemetry: OtelTelemetry) -> float:
    """Seconds that stopping takes."""
    started = time.perf_counter()
    telemetry.aclose()
    return time.perf_counter() - started


@pytest.mark.requirement("TEL-9")
def test_stopping_sends_what_waits(telemetry: OtelTelemetry, collector: Collector) -> None:
    made = spans_of_runs(telemetry, 100)
    assert closing_takes(telemetry) < HUNG
    assert telemetry.stats == ExportStats(made, made, 0)
    assert len(collector.spans) == made
    assert max(sum(len(s.spans) for r in t.resource_spans for s in r.scope_spans) for t in collector.traces) <= 64


@pytest.mark.requirement("TEL-9", "TEL-10")
def test_stopping_is_bounded_when_nobody_listens_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    telemetry = OtelTelemetry(TelemetrySettings(endpoint=refusing_endpoint()))
    made = spans_of_runs(telemetry, 50)
    assert closing_takes(telemetry) < HUNG
    assert telemetry.stats == ExportStats(made, 0, made)
    assert [record for record in caplog.records if "opentelemetry" in record.name] == []
    assert caplog.records == []
    assert capfd.readouterr().err == ""


@pytest.mark.requirement("TEL-9", "TEL-10")
def test_stopping_is_bounded_when_the_connection_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with silent_listener() as endpoint:
        telemetry = OtelTelemetry(TelemetrySettings(endpoint=endpoint))
        made = spans_of_runs(telemetry, 20)
        assert closing_takes(telemetry) < HUNG
        assert telemetry.stats == ExportStats(made, 0, made)
    assert caplog.records == []


@pytest.mark.requirement("TEL-9", "TEL-10")
def test_stopping_is_bounded_while_a_request_hangs(caplog: pytest.LogCaptureFixture) -> None:
    with hanging_collector() as (endpoint, came):
        telemetry = OtelTelemetry(TelemetrySettings(endpoint=endpoint))
        made = spans_of_runs(telemetry, 20)
        assert came.wait(5), "the batch of 64 is sent at once"
        assert closing_takes(telemetry) < HUNG
        assert telemetry.stats == ExportStats(made, 0, made)
    assert caplog.records == []


@pytest.mark.requirement("TEL-9")
def test_stopping_twice_and_working_on_afterwards_harms_nothing(telemetry: OtelTelemetry, collector: Collector) -> None:
    telemetry.aclose()
    telemetry.aclose()
    made = spans_of_runs(telemetry, 1)
    assert telemetry.stats == ExportStats(made, 0, made)
    assert collector.spans == []


@pytest.mark.requirement("TEL-9", "TEL-10")
def test_a_process_whose_collector_is_down_exits_at_once_and_says_nothing() -> None:
    script = """
from telemetry.script import Driver, info, run_with_tools
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.settings import TelemetrySettings
import sys, time
telemetry = OtelTelemetry(TelemetrySettings(endpoint=sys.argv[1]))
run_with_tools(Driver(telemetry, info()))
started = time.monotonic()
telemetry.aclose()
import atexit
atexit.register(lambda: print(time.monotonic() - started))
"""
    with silent_listener() as endpoint:
        done = subprocess.run(
            [sys.executable, "-c", script, endpoint],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert float(done.stdout) < HUNG
    assert done.stderr == ""


class _Blocked(SpanExporter):
    """An exporter that waits until it is allowed to go on, whoever shuts it down."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.allowed = threading.Event()
        self.batches: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.allowed.wait(30)
        self.batches.append(len(spans))
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


@pytest.mark.requirement("TEL-10")
def test_a_full_queue_drops_the_newest_span_and_counts_it(caplog: pytest.LogCaptureFixture) -> None:
    blocked = _Blocked()
    processor = BoundedProcessor(CountingExporter(blocked), 100)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("test")
    for _ in range(64):
        tracer.start_span("name").end()
    assert blocked.entered.wait(5)
    for _ in range(150):
        tracer.start_span("name").end()
    assert processor.stats == ExportStats(ended=214, sent=0, dropped=50)
    blocked.allowed.set()
    provider.shutdown()
    assert blocked.batches == [64, 64, 36]
    assert processor.stats == ExportStats(ended=214, sent=164, dropped=50)
    tracer.start_span("late").end()
    assert processor.stats == ExportStats(ended=215, sent=164, dropped=51)
    assert caplog.records == []


class _Failing(SpanExporter):
    """An exporter that cannot send: it says so, or raises."""

    def __init__(self, *, raises: bool) -> None:
        self._raises = raises

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._raises:
            raise RuntimeError("no")
        return SpanExportResult.FAILURE


@pytest.mark.requirement("TEL-10")
@pytest.mark.parametrize("raises", [False, True])
def test_a_batch_that_fails_is_counted_as_dropped(*, raises: bool, telemetry: OtelTelemetry) -> None:
    processor = BoundedProcessor(CountingExporter(_Failing(raises=raises)), 100)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    provider.get_tracer("test").start_span("name").end()
    processor.force_flush()
    assert processor.stats == ExportStats(ended=1, sent=0, dropped=1)
    provider.shutdown()


@pytest.mark.requirement("TEL-9")
def test_stopping_does_not_wait_for_an_exporter_that_ignores_everything(
    telemetry: OtelTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = _Blocked()
    monkeypatch.setattr(telemetry._pipeline._span_exporter, "export", blocked.export)
    made = spans_of_runs(telemetry, 20)
    assert blocked.entered.wait(5)
    try:
        assert closing_takes(telemetry) < HUNG
        assert telemetry.stats == ExportStats(made, 0, made)
    finally:
        blocked.allowed.set()


@pytest.mark.requirement("TEL-10")
def test_dropped_spans_are_counted_in_a_metric_too(telemetry: OtelTelemetry, collector: Collector) -> None:
    telemetry._pipeline._processor._refused = 7
    telemetry.aclose()
    (point,) = collector.metrics["turnwire.telemetry.spans_dropped"].sum.data_points
    assert point.as_int == 7


@pytest.mark.requirement("TEL-10")
def test_spans_reach_the_collector_without_stopping(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    assert collector.spans_came.wait(10)
    assert len(collector.spans) == 8
