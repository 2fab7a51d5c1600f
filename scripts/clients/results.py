"""What came of the conformance set, and the table of it in the README. ``make clients`` writes both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.toolchains import ROOT

RESULTS = ROOT / "build" / "clients"
README = ROOT / "README.md"
BEGIN = "<!-- clients: made by make clients -->\n"
END = "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Table:
    """The table as it stands in the README: a row has the scenario's title and a cell for each language."""

    languages: list[str]
    rows: list[list[str]]


def results() -> dict[str, dict[str, Any]]:
    """What the last run of each scenario gave, by its name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The table: yes, no, or nothing where a language has not played."""
    languages = list(dict.fromkeys(language for result in found.values() for language in result["languages"]))
    lines = [f"| | {' | '.join(languages)} |", f"| --- |{' --- |' * len(languages)}"]
    for name in sorted(found):
        played = found[name]["languages"]
        cells = [{True: "yes", False: "**no**", None: ""}[played.get(language)] for language in languages]
        lines.append(f"| {found[name]['title']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write() -> bool:
    """Put the table of the last results in the README; whether that changed it."""
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the README has no place for the table of the clients")
    changed = "".join((before, begin, table(results()), end, after))
    README.write_text(changed, encoding="utf-8")
    return changed != text


def tabled() -> Table:
    """The table that the README has."""
    lines = README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return Table(cells[0][1:], cells[2:])
