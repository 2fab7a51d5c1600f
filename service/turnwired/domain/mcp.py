"""MCP servers of a deployment as an operator sees them. Names follow the enums of the contract's McpServerService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from turnwired.domain.failure import Failure


class McpTransport(StrEnum):
    """How a server is reached."""

    STDIO = "STDIO"
    STREAMABLE_HTTP = "STREAMABLE_HTTP"


class McpServerState(StrEnum):
    """Where a connection stands."""

    DISABLED = "DISABLED"
    IDLE = "IDLE"
    CONNECTING = "CONNECTING"
    READY = "READY"
    BACKING_OFF = "BACKING_OFF"


@dataclass(frozen=True, slots=True)
class McpServerStatus:
    """A server now. Times are Unix nanoseconds, 0 for never. ``endpoint`` holds no secrets."""

    server_id: str
    transport: McpTransport
    endpoint: str
    state: McpServerState
    namespace: str
    enabled: bool = True
    required: bool = False
    lazy: bool = False
    added: bool = False
    priority: int = 0
    protocol_version: str = ""
    tool_count: int = 0
    connect_time_ns: int = 0
    reconnect_count: int = 0
    next_attempt_time_ns: int = 0
    last_failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class NewMcpServer:
    """A server to be added: ``command`` or ``url``. Values of ``env`` and ``headers`` are what they are: nothing in
    them refers to the service's own environment or files. ``call_timeout`` is in seconds.
    """

    server_id: str
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    working_directory: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    namespace: str = ""
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    resources: bool = False
    prompts: bool = False
    call_timeout: float | None = None


class McpServers(Protocol):
    """The servers of a deployment, to be operated."""

    def listed(self) -> Sequence[McpServerStatus]:
        """All, by id."""
        ...

    async def enable(self, server_id: str) -> McpServerStatus:
        """Use it again, and connect. Raises NotFound."""
        ...

    async def disable(self, server_id: str) -> McpServerStatus:
        """Stop using it, and end its connections. Raises NotFound."""
        ...

    async def reconnect(self, server_id: str) -> McpServerStatus:
        """Drop its connections and what is known of its tools, and connect. Raises NotFound."""
        ...

    async def add(self, server: NewMcpServer) -> McpServerStatus:
        """Add one until the service ends. Raises PermissionDenied, InvalidRequest and Conflict."""
        ...

    async def remove(self, server_id: str) -> None:
        """Forget one that was added. Raises NotFound, and Conflict for one of the configuration."""
        ...
