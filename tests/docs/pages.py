"""Runs the code of a page of the documents, and knows what the page says that it prints.

All Python blocks of a page are one program, in order. What a block prints is in the ``text`` block right behind it; a
block without one prints nothing. Run as a program it writes what is printed into the pages named.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE_SECONDS = 60.0
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


async def printed_apart(page: Path, folder: Path, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """What each block says and what it prints, in a process of its own and in a folder.

    For pages with servers: gRPC's completion queue belongs to the event loop of whoever used it first.
    """
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "docs.pages", "--print", str(page)),
        cwd=folder,
        env={**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{ROOT / 'tests'}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PAGE_SECONDS):
        out, err = await child.communicate()
    assert child.returncode == 0, err.decode()
    return [(says, printed) for says, printed in json.loads(out)]


if __name__ == "__main__":
    if sys.argv[1] == "--print":
        sys.stdout.write(json.dumps([(block.says, printed) for block, printed in outputs(Path(sys.argv[2]))]))
    else:
        for argument in sys.argv[1:]:
            rewrite(Path(argument))
