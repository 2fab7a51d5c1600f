"""A stored conversation as callers read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnwired.domain.run import Run
from turnwired.domain.usage import Cost, Usage


@dataclass(frozen=True, slots=True)
class Session:
    """A session. ``agent_id`` is of its newest run, ``labels`` are of its first; usage and cost are of all its runs.

    ``title`` is the beginning of what it started with. Times are Unix nanoseconds.
    """

    session_id: str
    agent_id: str
    title: str
    create_time_ns: int
    update_time_ns: int
    active_run: Run | None = None
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    message_count: int = 0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
