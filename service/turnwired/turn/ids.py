"""Ids of what a run brings forth: tool calls, parts, messages. Counted, never random: the same facts give the same ids.

A provider's own ids repeat, are missing or change between chunks, so nothing is ever keyed by them.
"""

from __future__ import annotations


class Ids:
    """Hands out ids that are unique in one run; call and message ids also in its session, by the run id's tail."""

    def __init__(self, run_id: str, part_prefix: str = "part_") -> None:
        self._tail = run_id[-8:]
        self._part_prefix = part_prefix
        self._calls = 0
        self._parts = 0
        self._messages = 0
        self._approvals = 0

    def call(self) -> str:
        """The id of the next tool call: ``call_{tail}_{n}``."""
        self._calls += 1
        return f"call_{self._tail}_{self._calls}"

    def part(self) -> str:
        """The id of the next part: ``part_{n}``."""
        self._parts += 1
        return f"{self._part_prefix}{self._parts}"

    def approval(self) -> str:
        """The id of the next question: ``appr_{tail}_{n}``."""
        self._approvals += 1
        return f"appr_{self._tail}_{self._approvals}"

    def goes_on_after(self, calls: int, approvals: int) -> None:
        """So many calls and approvals have their ids already."""
        self._calls, self._approvals = calls, approvals

    def message(self) -> str:
        """The id of the next message: ``msg_{tail}_{n}``."""
        self._messages += 1
        return f"msg_{self._tail}_{self._messages}"
