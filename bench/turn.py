"""What a benchmark asks of every target: one turn, its text told as it comes. Knows no target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

SYSTEM = "You are a helpful assistant."
PROMPT = "hello"
TOOLS = ("noop", "sleep50", "mcp")
"""Keys of the tools: a Python function that does nothing, one that takes 50 ms, an MCP tool that does nothing."""
MCP_TOOL = "mcp_noop"
"""Name of the tool ``mcp`` in bench/mcp_server.py."""

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn. ``history``: texts of earlier messages, the user's and the assistant's in turns."""

    model: str
    tools: tuple[str, ...] = ()
    history: tuple[str, ...] = ()


class Target(Protocol):
    """Something that can run turns."""

    async def turn(self, turn: Turn, on_text: OnText) -> None:
        """Run a turn to its end. Raises when it does not end well."""
        ...

    async def aclose(self) -> None:
        """Close connections and children."""
        ...


class TurnFailure(Exception):
    """A turn that did not end as it had to."""


def history_of(messages: int) -> tuple[str, ...]:
    """So many messages of two hundred characters, each different."""
    sentence = "Point %d of the agenda was discussed at length and then left for the next meeting. "
    return tuple((sentence * 3 % (number, number, number))[:200] for number in range(messages))
