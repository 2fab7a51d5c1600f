"""Telemetry stays cheap. ``cost.py`` prints the figures; here are only bounds that a slow machine keeps too."""

from __future__ import annotations

import pytest
from telemetry.cost import Unsent, costs

from turnwired.telemetry.null import NullTelemetry


@pytest.mark.requirement("TEL-19")
def test_an_iteration_with_a_tool_costs_less_than_a_millisecond_and_a_half() -> None:
    with_collector = costs(Unsent(), 200)
    assert with_collector["iteration with one tool"] < 1500
    assert with_collector["run without iterations"] < 600
    assert with_collector["MCP request"] < 400
    assert with_collector["RPC"] < 300


@pytest.mark.requirement("TEL-11", "TEL-19")
def test_without_a_collector_nothing_costs_more_than_a_few_microseconds() -> None:
    assert max(costs(NullTelemetry(), 200).values()) < 10
