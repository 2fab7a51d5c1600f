"""The links of every page of the repository lead somewhere, and every page of docs/ can be found from the README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.pages import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"] + [
    page
    for folder in ("docs", "deploy", "clients", "examples", "tests", "bench")
    for page in sorted((ROOT / folder).rglob("*.md"))
    if "node_modules" not in page.parts
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def text_of(page: Path) -> str:
    """The page without its code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Each link to something of the repository: as written, the file, and the heading."""
    for written in LINK.findall(text_of(page)):
        if "://" not in written and not written.startswith("mailto:"):
            target, _, heading = written.partition("#")
            yield written, (page.parent / target).resolve() if target else page, heading


def anchors(page: Path) -> set[str]:
    """The headings of a page as a forge links to them."""
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text_of(page)))
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.requirement("PAGE-4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_of_the_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = [
        written
        for written, target, heading in links(page)
        if not target.exists() or (heading and heading not in anchors(target))
    ]
    assert broken == []


@pytest.mark.requirement("PAGE-5")
def test_each_page_of_the_documents_can_be_reached_from_the_readme() -> None:
    reached, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            left += [target for _, target, _ in links(page)]
    docs = set((ROOT / "docs").glob("*.md"))
    assert docs
    assert sorted(page.name for page in docs - reached) == []


@pytest.mark.requirement("PAGE-6")
def test_design_notes_are_numbered_without_a_gap_and_titled_by_their_number() -> None:
    notes = sorted((ROOT / "docs" / "design").glob("*.md"))
    assert [note.name[:4] for note in notes] == [f"{number:04}" for number in range(1, len(notes) + 1)]
    titles = [note.read_text(encoding="utf-8").partition("\n")[0] for note in notes]
    assert [
        title for title, note in zip(titles, notes, strict=True) if not title.startswith(f"# {note.name[:4]}: ")
    ] == []
