"""A whole run with tiny sizes: processes, floors, service, collector, every measure. Asserts counts, never times."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.child import ROOT
from bench.micro import SIZES, measure
from bench.plan import HTTPX, TELEMETRY, TINY, Step
from bench.report import COLUMNS, Report, tables
from bench.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TURNS = {"cold start": 1, "short turn": 3, "deltas": 1, "concurrent turns": 5}
ITERATIONS = {"tool iteration": 3, "MCP iteration": 3, "parallel tools": 2, "history": 3 + 2}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The one run that all tests look at."""
    return Session(TINY, tmp_path_factory.mktemp("bench"), lambda _: None).run()


@pytest.mark.requirement("BENCH-3")
def test_every_target_gives_a_sample_of_every_measure(report: Report) -> None:
    assert [record.error for record in report.records if record.error] == []
    for title, measured in report.measures().items():
        for target in TINY.targets:
            samples = report.samples(title, target)
            assert list(samples) == [0], (title, target)
            assert {column.key for column in COLUMNS[measured]} <= samples[0].keys()
    assert set(report.measures()) == {"cold start", *(step.title for step in TINY.steps)}


@pytest.mark.requirement("BENCH-3")
def test_the_provider_was_asked_for_exactly_the_turns_and_iterations(report: Report) -> None:
    asked = {(record.title, record.target): record.completions for record in report.records}
    wanted = TURNS | ITERATIONS
    assert asked == {(title, target): wanted[title] for title in wanted for target in TINY.targets}


@pytest.mark.requirement("BENCH-3")
def test_the_service_exports_to_the_collector(report: Report) -> None:
    requests, size = report.exported
    assert requests > 0 and size > 1000


@pytest.mark.requirement("BENCH-3")
def test_the_tables_have_every_target_and_its_ratios(report: Report) -> None:
    text = tables(report)
    assert text.count(f"| {TELEMETRY} ") == len(report.measures())
    assert "not measured" not in text


@pytest.mark.requirement("BENCH-3")
def test_every_part_has_its_cost(tmp_path: Path) -> None:
    rows = measure(SIZES["tiny"], tmp_path)
    assert len(rows) == 10
    assert all(float(row["value"]) > 0 for row in rows)


@pytest.mark.requirement("BENCH-6")
def test_a_measure_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    impossible = Step("impossible", "tool", {"count": 1, "iterations": 2, "key": "unknown", "warm": 0})
    plan = replace(TINY, targets=(HTTPX,), colds=0, steps=(impossible, TINY.steps[0]))
    found = Session(plan, tmp_path, lambda _: None).run()
    assert [(record.title, bool(record.error)) for record in found.records] == [
        ("impossible", True),
        ("short turn", False),
    ]


@pytest.mark.requirement("BENCH-5")
def test_no_repetition_is_begun_that_would_end_too_late(tmp_path: Path) -> None:
    plan = replace(TINY, targets=(HTTPX,), colds=0, steps=TINY.steps[:1], repetitions=50, seconds=0.0)
    assert len(Session(plan, tmp_path, lambda _: None).run().records) == 1


@pytest.mark.requirement("BENCH-5")
def test_the_script_writes_every_sample(tmp_path: Path) -> None:
    options = ["--quick", "--targets", HTTPX, "--only", "parallel", "--parts", "tiny", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "scripts/bench.py", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert [record["measure"] for record in content["records"]] == ["parallel"]
    assert "parallel 50 ms tools" in done.stdout and len(content["micro"]) == 10 + 9 + 4
