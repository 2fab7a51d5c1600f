"""What a session with a server runs over, as the session sees it. Knows of the SDK its dispatcher and its error."""

from __future__ import annotations

from typing import Any, Final, Protocol

import anyio
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from turnwired.tools.mcp.link import Lost, Refused

TOO_LARGE: Final = -32099
"""JSON-RPC code of our own, for an answer that we did not read to its end."""


class Wire(Protocol):
    """What a session runs over. Made and ended by whoever opens the link."""

    @property
    def transport(self) -> str:
        """For telemetry: ``pipe`` or ``tcp``."""
        ...

    @property
    def dispatcher(self) -> JSONRPCDispatcher[Any]:
        """The SDK's, over this wire's streams."""
        ...

    @property
    def closed(self) -> anyio.Event:
        """Set when it can be used no more."""
        ...

    @property
    def gone(self) -> bool:
        """Whether the other side has ended."""
        ...

    @property
    def end_reason(self) -> str:
        """Why it ended; empty while it is up."""
        ...

    @property
    def last_request_id(self) -> str | int | None:
        """Of the request that was written last."""
        ...

    def close(self, why: str) -> None:
        """Use it no more."""
        ...

    def judge(self, error: MCPError, request_id: int) -> Lost | Refused:
        """What an error that the SDK raised means."""
        ...

    def settled(self, request_id: int) -> None:
        """Nobody will ask about this request any more."""
        ...
