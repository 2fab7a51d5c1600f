"""What is imported late is imported by one thread after the other."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from turnwired.loading import load

MEETING = """
import threading
inside = most = 0
together = threading.Event()
def enter():
    global inside, most
    inside += 1
    most = max(most, inside)
    if inside == 2:
        together.set()
    together.wait(0.3)
    inside -= 1
"""


@pytest.mark.anyio
@pytest.mark.requirement("MCPOUT-15")
async def test_two_that_load_at_once_do_not_see_modules_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "meeting_of_threads.py").write_text(MEETING)
    names = ("first_of_two", "second_of_two")
    for name in names:
        (tmp_path / f"{name}.py").write_text("import meeting_of_threads\nmeeting_of_threads.enter()\n")
    await load("meeting_of_threads")
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(load, name)
    assert all(name in sys.modules for name in names)
    assert sys.modules["meeting_of_threads"].most == 1
