"""Tables: medians, and ratios that compare within a repetition."""

from __future__ import annotations

import pytest

from bench.plan import AIOHTTP, HTTPX, MEMORY, RELAY
from bench.report import COLUMNS, Column, Record, Report, ratio, tables

TITLE = "deltas"


def report(samples: dict[str, list[float]], key: str = "cpu_us") -> Report:
    """Samples of one figure by target, one a repetition."""
    found = Report()
    for target, values in samples.items():
        for repetition, value in enumerate(values):
            found.add(Record(TITLE, "deltas", target, repetition, {key: value}, 1, 0.0))
    return found


LESS = Column("cpu_us", "", 0)
MORE = Column("per_s", "", 0, higher=True)


@pytest.mark.requirement("BENCH-4")
def test_a_ratio_is_the_median_of_those_within_a_repetition() -> None:
    # The second repetition was slow for both; of the medians the ratio would be 3.
    found = report({HTTPX: [1.0, 10.0, 1.0], MEMORY: [2.0, 20.0, 3.0]})
    assert ratio(found, TITLE, MEMORY, HTTPX, LESS) == 2.0


@pytest.mark.requirement("BENCH-4")
def test_above_one_is_worse_also_where_more_is_better() -> None:
    assert ratio(report({HTTPX: [100.0], MEMORY: [50.0]}, "per_s"), TITLE, MEMORY, HTTPX, MORE) == 2.0


@pytest.mark.requirement("BENCH-4")
def test_without_a_common_repetition_there_is_no_ratio() -> None:
    assert ratio(report({MEMORY: [1.0]}), TITLE, MEMORY, HTTPX, LESS) is None


@pytest.mark.requirement("BENCH-6")
def test_a_failed_sample_is_shown_and_not_counted() -> None:
    found = Report()
    good = {column.key: 8.0 for column in COLUMNS["deltas"]}
    for target in (HTTPX, AIOHTTP, RELAY):
        found.add(Record(TITLE, "deltas", target, 0, {key: value / 4 for key, value in good.items()}, 1, 0.0))
    found.add(Record(TITLE, "deltas", MEMORY, 0, good, 1, 0.0))
    found.add(Record(TITLE, "deltas", MEMORY, 1, {}, 0, 0.0, "TurnFailure: it broke"))
    text = tables(found)
    assert "| turnwire memory" in text and "8 (h0.25 a0.25 r0.25) |" in text
    assert f"- turnwire memory, {TITLE}: TurnFailure: it broke" in text
