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
from turnwired.tools.port import AskUser, ProgressReporter


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
    """The request ended without a JSON-RPC answer. ``sent``: it may have been executed.

    ``stale``: the server has forgotten the session. ``status`` is that of an HTTP answer, ``retry_after`` what it said,
    in seconds. ``unreachable``: no connection could be made.
    """

    sent: bool
    why: str
    stale: bool = False
    status: int | None = None
    retry_after: float | None = None
    unreachable: bool = False

    @property
    def worth_repeating(self) -> bool:
        """Whether asking again at once may help, as far as the connection is concerned."""
        return self.status is None or self.stale


Answer = Answered | Refused | Lost


@dataclass(frozen=True, slots=True)
class Asking:
    """Who may be asked about a call, when its server asks. ``run_id``: of the run that makes it."""

    server_id: str
    run_id: str
    ask: AskUser


@dataclass(frozen=True, slots=True)
class Listing:
    """All tools of a server, and those of its entries that are none.

    ``fresh_for``: seconds for which the server says that it holds; None where it does not say.
    """

    tools: Sequence[Tool]
    left_out: Sequence[Failure]
    fresh_for: float | None = None


class Link(Protocol):
    """A connection that is up, until ``wait_closed`` returns."""

    @property
    def end_reason(self) -> str:
        """Why it ended, in words for an operator; empty while it is up."""
        ...

    @property
    def protocol_version(self) -> str:
        """The version agreed on."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answers."""
        ...

    @property
    def lingers(self) -> bool:
        """Whether requests in flight may be answered after it is closed."""
        ...

    async def wait_closed(self) -> None:
        """Return when the other side has gone, or has forgotten us."""
        ...

    async def drained(self) -> None:
        """Return when no request is in flight."""
        ...

    async def list_tools(self) -> Listing:
        """All pages. Raises ToolError(MCP_DISCOVERY_FAILED)."""
        ...

    async def list_all(self, method: str, key: str) -> Sequence[Mapping[str, object]] | Lost | Refused:
        """All pages of another list (``resources/list`` and its ``resources``); empty where there is none."""
        ...

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        meta: Mapping[str, str],
        on_progress: ProgressReporter | None = None,
        asking: Asking | None = None,
    ) -> Answer:
        """One request. When cancelled, the server is told so. ``asking``: whom the server may ask meanwhile."""
        ...

    async def watch(self) -> None:
        """Have the server say when its tools change, where it can. Until cancelled."""
        ...

    async def changed(self) -> None:
        """Return when the server has said that its tools have changed, since this returned last."""
        ...

    async def keep_alive(self, every: float, within: float) -> None:
        """Ask the idle server for a sign of life, where the era has it; close the link without one. Until cancelled."""
        ...


class Opener(Protocol):
    """Opens links to one server."""

    @property
    def transport(self) -> str:
        """For telemetry: ``pipe`` or ``tcp``."""
        ...

    async def prepare(self) -> None:
        """What takes long and concerns no server: loading the SDK."""
        ...

    def open(self) -> AbstractAsyncContextManager[Link]:
        """Connect and agree on a protocol version. Raises ToolError; leaving it ends whatever was started, bounded."""
        ...
