"""Connections to one server, one per caller and credential, where callers have their own.

A session must not change whose it is: the key holds a digest of the headers, so a renewed token gets a new connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.run import Caller
from turnwired.tools.mcp.connection import Connection

MAX_CONNECTIONS: Final = 200
_IDLE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Key:
    tenant: str
    principal: str
    digest: bytes


class CallerPool:
    """Keeps the connections of callers. Idle ones are closed after five minutes, or earlier for want of room."""

    def __init__(self, server_id: str, make: Callable[[Caller], Connection], most: int = MAX_CONNECTIONS) -> None:
        self._server_id = server_id
        self._make = make
        self._most = most
        self._connections: dict[_Key, Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def connection(self, caller: Caller, headers: Mapping[str, str]) -> Connection:
        """The caller's connection, connected or not. Raises ToolError when all are in use, or closed."""
        if self._closed:  # a run may go on for a while behind the end of a source, and would leave one open
            words = f"MCP server {self._server_id!r}: is being stopped; not executed"
            raise ToolError(
                Failure(FailurePhase.TOOL, Reason.MCP_UNAVAILABLE, words, retryable=True, origin=self._server_id)
            )
        digest = hashlib.sha256(json.dumps(sorted(headers.items())).encode()).digest()
        key = _Key(caller.tenant, caller.principal, digest)
        found = self._connections.get(key)
        if found is None:
            self._make_room()
            found = self._connections[key] = self._make(caller)
        found.used_at = asyncio.get_running_loop().time()
        return found

    async def aclose(self) -> None:
        """Close all, side by side, for good."""
        self._closed = True
        for key in list(self._connections):
            self._close(key)
        if self._closing:
            await asyncio.wait(self._closing)

    def _make_room(self) -> None:
        now = asyncio.get_running_loop().time()
        idle = [(key, item.used_at) for key, item in self._connections.items() if not item.in_use]
        for key, used_at in sorted(idle, key=lambda pair: pair[1]):
            if now - used_at > _IDLE_SECONDS or len(self._connections) >= self._most:
                self._close(key)
        if len(self._connections) >= self._most:
            words = f"MCP server {self._server_id!r}: {self._most} callers are connected; try again later"
            raise ToolError(
                Failure(FailurePhase.TOOL, Reason.OVERLOADED, words, retryable=True, origin=self._server_id)
            )

    def _close(self, key: _Key) -> None:
        task = asyncio.create_task(self._connections.pop(key).aclose(), name=f"mcp-close-{self._server_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
