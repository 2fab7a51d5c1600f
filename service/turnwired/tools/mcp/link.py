"""What the rest of this package knows of a connection to an MCP server, whatever it runs over.

Answers are values: a failing call is an everyday event here. Imports nothing of the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from turnwired.domain.failure import Failure
from turnwired.domain.tool import Tool
from turnwired.tools.port import ProgressReporter


@dataclass(frozen=True, slots=True)
class Answered:
    """The server's result object, as it came."""

    result: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Refused:
    """The server answered with a JSON-RPC error."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended before an answer. ``sent``: the request may have reached the server."""

    sent: bool
    why: str


Answer = Answered | Refused | Lost


@dataclass(frozen=True, slots=True)
class Listing:
    """All tools of a server, and those of its entries that are none."""

    tools: Sequence[Tool]
    left_out: Sequence[Failure]


class Link(Protocol):
    """A connection that is up, until ``wait_closed`` returns."""

    @property
    def end_reason(self) -> str:
        """Why it ended, in words for an operator; empty while it is up."""
        ...

    async def wait_closed(self) -> None:
        """Return when the other side has gone."""
        ...

    async def list_tools(self) -> Listing:
        """All pages. Raises ToolError(MCP_DISCOVERY_FAILED)."""
        ...

    async def call_tool(
        self, name: str, arguments: Mapping[str, object], meta: Mapping[str, str], on_progress: ProgressReporter | None
    ) -> Answer:
        """One request. When cancelled, the server is told so."""
        ...


class Opener(Protocol):
    """Opens links to one server."""

    async def prepare(self) -> None:
        """What takes long and concerns no server: loading the SDK."""
        ...

    def open(self) -> AbstractAsyncContextManager[Link]:
        """Connect and agree on a protocol version. Raises ToolError; leaving it ends whatever was started, bounded."""
        ...
