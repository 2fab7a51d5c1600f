"""A collector and telemetry that sends to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from telemetry.collector import Collector, running_collector

from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.settings import TelemetrySettings


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture
def telemetry(collector: Collector) -> Iterator[OtelTelemetry]:
    opened = OtelTelemetry(TelemetrySettings(endpoint=collector.endpoint, service_version="1.2.3"))
    yield opened
    opened.aclose()
