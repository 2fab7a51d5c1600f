"""Samples, and the tables made of them: medians, and beside them how many times worse than each floor.

A ratio is taken within one repetition and its median over repetitions is shown, so that a busy minute does not
become a fast floor. Above 1 is worse than the floor, whichever way the figure itself is better.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from bench.measures import Sample
from bench.plan import AIOHTTP, FLOORS, HTTPX, RELAY


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a sample. ``higher``: more is better. ``ratio``: it is compared with the floors."""

    key: str
    title: str
    digits: int
    higher: bool = False
    ratio: bool = True


_ITERATION = (Column("iteration_ms", "ms/iteration", 2), Column("cpu_ms", "CPU ms/iteration", 2))
COLUMNS: dict[str, tuple[Column, ...]] = {
    "cold": (
        Column("ready_s", "ready s", 2),
        Column("first_turn_s", "first turn s", 3, ratio=False),
        Column("rss_mb", "RSS MB", 0),
    ),
    "short": (
        Column("first_ms", "first delta ms", 2),
        Column("turn_ms", "turn ms", 2),
        Column("cpu_ms", "CPU ms", 2),
    ),
    "deltas": (
        Column("per_s", "deltas/s", 0, higher=True),
        Column("per_core_s", "deltas/s/core", 0, higher=True),
        Column("cpu_us", "CPU us/delta", 2, ratio=False),
    ),
    "tool": _ITERATION,
    "mcp": _ITERATION,
    "parallel": (Column("over_ms", "ms over 50", 1), Column("cpu_ms", "CPU ms", 2)),
    "concurrent": (
        Column("total_s", "total s", 2),
        Column("late_p50_ms", "late p50 ms", 1, ratio=False),
        Column("late_p99_ms", "late p99 ms", 1),
        Column("first_p99_ms", "first p99 ms", 0, ratio=False),
        Column("cpu_s", "CPU s", 2),
        Column("caller_cpu_s", "caller CPU s", 2, ratio=False),
        Column("kb_per_turn", "KB/turn", 0, ratio=False),
    ),
    "history": (
        Column("turn_ms", "turn ms", 2),
        Column("turn_cpu_ms", "turn CPU ms", 2),
        Column("iteration_ms", "ms/iteration", 2),
        Column("iteration_cpu_ms", "CPU ms/iteration", 2),
    ),
}
_LETTERS = {HTTPX: "h", AIOHTTP: "a", RELAY: "r"}
LEGEND = (
    "Medians. In brackets how many times worse than the floors: "
    "h httpx2, a aiohttp, r gRPC relay (median of the ratios within one repetition)."
)


@dataclass(frozen=True, slots=True)
class Record:
    """One sample with its circumstances. ``completions``: how often the provider was asked for it."""

    title: str
    measure: str
    target: str
    repetition: int
    sample: Sample
    completions: int
    load: float
    error: str = ""


@dataclass(slots=True)
class Report:
    """Everything of one run. ``exported``: requests and bytes that the collector got."""

    records: list[Record] = field(default_factory=list[Record])
    exported: tuple[int, int] = (0, 0)
    micro: list[dict[str, float | str]] = field(default_factory=list[dict[str, float | str]])

    def add(self, record: Record) -> None:
        """One more sample."""
        self.records.append(record)

    @property
    def failures(self) -> Sequence[Record]:
        """Samples that could not be taken."""
        return [record for record in self.records if record.error]

    def measures(self) -> Mapping[str, str]:
        """Titles in the order in which they were first taken, each with its measure."""
        return {record.title: record.measure for record in self.records}

    def targets(self) -> Sequence[str]:
        """Targets, floors first."""
        seen = dict.fromkeys(record.target for record in self.records)
        return sorted(seen, key=lambda target: target not in FLOORS)

    def samples(self, title: str, target: str) -> dict[int, Sample]:
        """Good samples by repetition."""
        return {
            record.repetition: record.sample
            for record in self.records
            if record.title == title and record.target == target and not record.error
        }

    def as_json(self) -> dict[str, object]:
        """Every sample."""
        return {
            "records": [asdict(record) for record in self.records],
            "exported": {"requests": self.exported[0], "bytes": self.exported[1]},
            "micro": self.micro,
        }


def median_of(samples: Iterable[Sample], key: str) -> float | None:
    """Median of a figure, None where there is none."""
    values = [sample[key] for sample in samples if key in sample]
    return statistics.median(values) if values else None


def ratio(report: Report, title: str, target: str, floor: str, column: Column) -> float | None:
    """How many times worse than a floor; None where no repetition has both."""
    mine, floors = report.samples(title, target), report.samples(title, floor)
    found: list[float] = []
    for repetition in mine.keys() & floors.keys():
        ours, theirs = mine[repetition][column.key], floors[repetition][column.key]
        above, below = (theirs, ours) if column.higher else (ours, theirs)
        if above > 0 and below > 0:
            found.append(above / below)
    return statistics.median(found) if found else None


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _cell(report: Report, title: str, target: str, column: Column) -> str:
    value = median_of(report.samples(title, target).values(), column.key)
    if value is None:
        return "-"
    text = _number(value, column.digits)
    if target in FLOORS or not column.ratio:
        return text
    ratios = [
        f"{letter}{found:.3g}"
        for floor, letter in _LETTERS.items()
        if (found := ratio(report, title, target, floor, column)) is not None
    ]
    return f"{text} ({' '.join(ratios)})" if ratios else text


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that reads well in a terminal too: first column to the left, the others to the right."""
    widths = [max(3, *(len(row[index]) for row in (head, *rows))) for index in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width) if index == 0 else f"{'-' * (width - 1)}:" for index, width in enumerate(widths)]
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *(line(row) for row in rows)])


def tables(report: Report) -> str:
    """All measures as tables, one under the other."""
    parts = [LEGEND]
    for title, measure in report.measures().items():
        columns = COLUMNS[measure]
        rows = [
            [target, *(_cell(report, title, target, column) for column in columns), str(len(samples))]
            for target in report.targets()
            if (samples := report.samples(title, target))
        ]
        parts.append(f"### {title}\n\n" + markdown(["target", *(column.title for column in columns), "n"], rows))
    if report.micro:
        parts.append("### parts\n\n" + _micro(report.micro))
    if report.failures:
        lines = [f"- {record.target}, {record.title}: {record.error}" for record in report.failures]
        parts.append("### not measured\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _micro(rows: Sequence[dict[str, float | str]]) -> str:
    cells = [[str(row["name"]), f"{row['value']:,.2f}", str(row["unit"]), str(row.get("note", ""))] for row in rows]
    return markdown(["what", "value", "unit", "note"], cells)
