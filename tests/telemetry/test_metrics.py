"""Metrics: what is recorded, and with which attributes."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from telemetry.collector import Collector, attributes_of
from telemetry.script import Driver, info, run_with_tools

from turnwired.domain.generation import FinishReason
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.usage import Usage
from turnwired.telemetry.instruments import ChatKey, Instruments
from turnwired.telemetry.names import Instrument
from turnwired.telemetry.otel import OtelTelemetry

KEY = ChatKey("openai", "gpt-x", "", 0, "")


def recorded(reader: InMemoryMetricReader, instrument: Instrument) -> list[Any]:
    """The data points of one instrument."""
    collected = reader.get_metrics_data()
    assert collected is not None
    metrics = [
        metric
        for resource in collected.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    return [point for metric in metrics if metric.name == instrument.value.name for point in metric.data.data_points]


@pytest.mark.requirement("TEL-2")
def test_gaps_between_chunks_are_recorded_as_their_mean_once_per_call() -> None:
    reader = InMemoryMetricReader()
    instruments = Instruments(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    instruments.chat(KEY, 1.2, None, Usage(), first_chunk=0.2, output_chunks=11, streaming=1.0)
    instruments.chat(KEY, 1.2, None, Usage(), first_chunk=0.2, output_chunks=1, streaming=1.0)
    instruments.chat(KEY, 1.2, "PROVIDER_NETWORK", Usage(), first_chunk=None, output_chunks=0, streaming=0.0)
    (gaps,) = recorded(reader, Instrument.CHAT_OUTPUT_CHUNK)
    assert (gaps.count, gaps.sum) == (1, pytest.approx(0.1))


@pytest.mark.requirement("TEL-17")
def test_attribute_sets_are_bounded() -> None:
    reader = InMemoryMetricReader()
    instruments = Instruments(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    for number in range(2100):
        instruments.tool(f"tool{number}", "function", "guide", 0.1, None)
    points = recorded(reader, Instrument.TOOL_DURATION)
    assert len(points) <= 2001
    (overflow,) = [point for point in points if "otel.metric.overflow" in point.attributes]
    assert overflow.count == 2100 - (len(points) - 1)


@pytest.mark.requirement("TEL-17")
def test_no_metric_carries_an_id(telemetry: OtelTelemetry, collector: Collector) -> None:
    run_with_tools(Driver(telemetry, info()))
    telemetry.aclose()
    values: set[str] = set()
    for metric in collector.metrics.values():
        points: list[Any] = [*metric.histogram.data_points, *metric.sum.data_points]
        for point in points:
            values |= {str(value) for value in attributes_of(point.attributes).values()}
    assert values.isdisjoint({"run-1", "session-1", "resp-1", "resp-2", "call-1", "call-2", "3"})
    assert {"gpt-x-2026", "guide", "clock", "TOOL_FAILED", "PROVIDER_RATE_LIMITED"} <= values


@pytest.mark.requirement("TEL-2")
def test_token_counters_say_zero_where_the_provider_said_nothing(
    telemetry: OtelTelemetry, collector: Collector
) -> None:
    driver = Driver(telemetry, info())
    driver.start_iteration(1)
    driver.finish_iteration(1, FinishReason.STOP, Usage(100, 20))
    driver.finish_run(OutcomeKind.ANSWERED)
    telemetry.aclose()
    totals = {
        name.removeprefix("gen_ai.client.inference.usage."): [
            (point.as_int, attributes_of(point.attributes)["gen_ai.token.modality"]) for point in metric.sum.data_points
        ]
        for name, metric in collector.metrics.items()
        if ".usage." in name
    }
    assert totals == {
        "input_tokens": [(100, "unknown")],
        "output_tokens": [(20, "unknown")],
        "cache_read.input_tokens": [(0, "unknown")],
        "cache_write.input_tokens": [(0, "unknown")],
        "reasoning.output_tokens": [(0, "unknown")],
    }
