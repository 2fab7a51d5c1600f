"""Metrics: what is aggregated, and how it stays bounded."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.resources import Resource
from telemetry.collector import Collector, attributes_of
from telemetry.script import Driver, info, run_with_tools

from turnwired.domain.usage import Usage
from turnwired.telemetry import names
from turnwired.telemetry.instruments import ChatKey, Instruments
from turnwired.telemetry.metrics import Meter
from turnwired.telemetry.names import Instrument
from turnwired.telemetry.otel import OtelTelemetry


def meter() -> Meter:
    """A meter with a clock that stands at 5."""
    return Meter(Resource.get_empty(), "", lambda: 5)


def data_of(collected: MetricsData | None, instrument: Instrument) -> Any:
    """What was collected of one instrument."""
    assert collected is not None
    (resource,) = collected.resource_metrics
    (scope,) = resource.scope_metrics
    (metric,) = [metric for metric in scope.metrics if metric.name == instrument.value.name]
    return metric.data


@pytest.mark.requirement("TEL-2")
def test_a_value_on_a_bucket_limit_belongs_to_the_bucket_below_it() -> None:
    measured = meter()
    point = measured.point(Instrument.CHAT_DURATION, {"a": "b"})
    for value in (0.0, 0.01, 0.0100001, 81.92, 81.93):
        point.record(value)
    (histogram,) = data_of(measured.collect(), Instrument.CHAT_DURATION).data_points
    assert list(histogram.bucket_counts) == [2, 1, *[0] * 11, 1, 1]
    assert (histogram.min, histogram.max) == (0.0, 81.93)


@pytest.mark.requirement("TEL-2")
def test_gaps_between_chunks_are_their_mean_once_per_gap() -> None:
    measured = meter()
    instruments = Instruments(measured)
    key = ChatKey("openai", "gpt-x", "", 0, "")
    instruments.chat(key, 1.2, None, Usage(), first_chunk=0.2, output_chunks=11, streaming=1.0)
    instruments.chat(key, 1.2, None, Usage(), first_chunk=0.2, output_chunks=1, streaming=1.0)
    instruments.chat(key, 1.2, "PROVIDER_NETWORK", Usage(), first_chunk=None, output_chunks=0, streaming=0.0)
    (gaps,) = data_of(measured.collect(), Instrument.CHAT_OUTPUT_CHUNK).data_points
    assert gaps.count == 10
    assert gaps.sum == pytest.approx(1.0)


@pytest.mark.requirement("TEL-17")
def test_attribute_sets_beyond_the_bound_share_one_point() -> None:
    measured = meter()
    for number in range(2100):
        measured.point(Instrument.RETRIES, {"model": f"m{number}"}).add(1)
    points = data_of(measured.collect(), Instrument.RETRIES).data_points
    assert len(points) == 2001
    (overflow,) = [point for point in points if point.attributes == {names.METRIC_OVERFLOW: True}]
    assert overflow.value == 100


@pytest.mark.requirement("TEL-17")
def test_kept_look_ups_are_bounded_and_count_the_same() -> None:
    measured = meter()
    instruments = Instruments(measured)
    for _ in range(2):
        for number in range(600):
            instruments.chat(
                ChatKey("openai", f"m{number}", "", 0, ""),
                1.0,
                None,
                Usage(1),
                first_chunk=None,
                output_chunks=0,
                streaming=0.0,
            )
    points = data_of(measured.collect(), Instrument.CHAT_DURATION).data_points
    assert [point.count for point in points] == [2] * 600
    assert len(instruments._chats) == len(instruments._points) == 512


@pytest.mark.requirement("TEL-17")
def test_nothing_is_lost_when_threads_record_at_once() -> None:
    measured = meter()

    def record() -> None:
        for _ in range(5000):
            measured.point(Instrument.RUNS, {"a": "b"}).add(1)
            measured.point(Instrument.AGENT_DURATION, {"a": "b"}).record(0.5)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    collected = measured.collect()
    assert data_of(collected, Instrument.RUNS).data_points[0].value == 20_000
    assert data_of(collected, Instrument.AGENT_DURATION).data_points[0].count == 20_000


@pytest.mark.requirement("TEL-17")
def test_no_metric_carries_an_id(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    telemetry.aclose()
    values: set[object] = set()
    for metric in collector.metrics.values():
        points: list[Any] = [*metric.histogram.data_points, *metric.sum.data_points]
        for point in points:
            values |= {str(value) for value in attributes_of(point.attributes).values()}
    assert values.isdisjoint({"run-1", "session-1", "resp-1", "resp-2", "call-1", "call-2", "3"})
    assert {"gpt-x-2026", "helper", "clock", "TOOL_FAILED", "PROVIDER_RATE_LIMITED"} <= values


@pytest.mark.requirement("TEL-2")
def test_token_counters_say_zero_where_the_provider_said_nothing(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    run_with_tools(Driver(telemetry, info()))
    telemetry.aclose()
    totals = {
        name.removeprefix("gen_ai.client.inference.usage."): [
            (point.as_int, attributes_of(point.attributes)["gen_ai.token.modality"]) for point in metric.sum.data_points
        ]
        for name, metric in collector.metrics.items()
        if ".usage." in name
    }
    assert totals == {
        "input_tokens": [(250, "unknown")],
        "output_tokens": [(50, "unknown")],
        "cache_read.input_tokens": [(160, "unknown")],
        "cache_write.input_tokens": [(8, "unknown")],
        "reasoning.output_tokens": [(5, "unknown")],
    }
