"""Runs the code of a page of the documents, and knows what the page says that it prints.

All Python blocks of a page are one program, in order. What a block prints is in the ``text`` block right behind it; a
block without one prints nothing. Run as a program it writes what is printed into the pages named.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n^```text\n(?P<says>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of code of a page, the number of its first line, and what the page says that it prints."""

    code: str
    line: int
    says: str
    match: re.Match[str]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        yield Block(found["code"], text.count("\n", 0, found.start()) + 2, found["says"] or "", found)


def outputs(page: Path) -> Iterator[tuple[Block, str]]:
    """Run the page's blocks one after the other, and give what each prints."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        yield block, printed.getvalue()


def rewrite(page: Path) -> None:
    """Put what the blocks print into the page."""
    text, done, at = page.read_text(encoding="utf-8"), "", 0
    for block, printed in outputs(page):
        done += text[at : block.match.start()] + f"```python\n{block.code}```\n"
        done += f"\n```text\n{printed}```\n" if printed else ""
        at = block.match.end()
    page.write_text(done + text[at:], encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        rewrite(Path(argument))
