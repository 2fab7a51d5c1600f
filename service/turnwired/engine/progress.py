"""What tools report of their progress: passed on no faster than anybody reads. Knows one call, and where facts go."""

from __future__ import annotations

import time
from collections.abc import Callable

from turnwired.tools.port import ProgressReporter
from turnwired.turn.facts import ToolProgress

PROGRESS_NS = 50_000_000
"""The least time between two reports of one call, in nanoseconds."""


def progress_reporter(call_id: str, feed: Callable[[ToolProgress], None]) -> ProgressReporter:
    """Feeds the reports of one call, but those that come too fast: a tool may flood with them."""
    due = 0

    def report(done: float, total: float | None, text: str) -> None:
        nonlocal due
        now = time.monotonic_ns()
        if now >= due:
            due = now + PROGRESS_NS
            feed(ToolProgress(call_id, done, total, text))

    return report
