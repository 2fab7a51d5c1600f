"""The MCP servers of a deployment, to be operated at runtime: listed, disabled, connected anew, added and removed.

Knows the registry by the two things that it asks of it. What the model sees of a change is the registry's affair.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from turnwired.domain.errors import Conflict, FieldViolation, InvalidRequest, NotFound, PermissionDenied
from turnwired.domain.failure import Reason
from turnwired.domain.mcp import McpServerState, McpServerStatus, McpTransport, NewMcpServer
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.mcp.config import HttpServer, McpServer, StdioServer
from turnwired.tools.mcp.secrets import literal
from turnwired.tools.mcp.toolset import McpToolset

MAX_ADDED: Final = 100
_ID: Final = re.compile(r"^[A-Za-z0-9_-]{1,32}$")


@dataclass(frozen=True, slots=True)
class Member:
    """A server, and how the registry uses it. ``added``: at runtime."""

    toolset: McpToolset
    priority: int = 0
    added: bool = False

    @property
    def config(self) -> McpServer:
        """Its configuration."""
        return self.toolset.config


Enter = Callable[[McpToolset], Awaitable[None]]
"""Gives a new server to the registry, and starts it."""
Leave = Callable[[str], Awaitable[object]]
"""Closes the server of this id and takes it out of the registry."""


class McpServerPool:
    """All servers. ``allow_add``: the kinds that may be added. ``taken``: ids of all sources now. One change of a
    server at a time.
    """

    def __init__(
        self,
        members: Sequence[Member],
        telemetry: McpTelemetry,
        allow_add: Collection[McpTransport],
        taken: Callable[[], Collection[str]],
        enter: Enter,
        leave: Leave,
    ) -> None:
        self._members = {member.toolset.set_id: member for member in members}
        self._telemetry = telemetry
        self._allow_add = allow_add
        self._taken = taken
        self._enter = enter
        self._leave = leave
        self._changing = asyncio.Lock()

    def listed(self) -> Sequence[McpServerStatus]:
        """All, by id."""
        return [_status(self._members[server_id]) for server_id in sorted(self._members)]

    async def enable(self, server_id: str) -> McpServerStatus:
        """Use it again, and connect. Raises NotFound."""
        async with self._changing:
            member = self._member(server_id)
            await member.toolset.enable()
        return _status(member)

    async def disable(self, server_id: str) -> McpServerStatus:
        """Stop using it, and end its connections. Raises NotFound."""
        async with self._changing:
            member = self._member(server_id)
            await member.toolset.disable()
        return _status(member)

    async def reconnect(self, server_id: str) -> McpServerStatus:
        """Drop its connections and what is known of its tools, and connect. Raises NotFound."""
        async with self._changing:
            member = self._member(server_id)
            await member.toolset.reconnect()
        return _status(member)

    async def add(self, server: NewMcpServer) -> McpServerStatus:
        """Add one until the service ends. Raises PermissionDenied, InvalidRequest and Conflict."""
        transport = McpTransport.STREAMABLE_HTTP if server.url else McpTransport.STDIO
        if transport not in self._allow_add:
            words = f"The configuration allows no MCP server over {transport.value} to be added (mcp.allow_add)."
            raise PermissionDenied(words, {"transport": transport.value})
        config, environ = _config_of(server)
        async with self._changing:
            if server.server_id in self._members or server.server_id in self._taken():
                words = f"There is a tool source {server.server_id!r} already."
                raise Conflict(Reason.MCP_SERVER_EXISTS, words, {"server_id": server.server_id})
            if sum(member.added for member in self._members.values()) >= MAX_ADDED:
                words = f"{MAX_ADDED} MCP servers have been added; remove one first."
                raise Conflict(Reason.LIMIT_REACHED, words, {"limit": str(MAX_ADDED)})
            member = Member(McpToolset(server.server_id, config, self._telemetry, environ=environ), added=True)
            self._members[server.server_id] = member
            await self._enter(member.toolset)
        return _status(member)

    async def remove(self, server_id: str) -> None:
        """Forget one that was added. Raises NotFound, and Conflict for one of the configuration."""
        async with self._changing:
            if not self._member(server_id).added:
                words = f"MCP server {server_id!r} is of the configuration: disable it instead."
                raise Conflict(Reason.INVALID_REQUEST, words, {"server_id": server_id})
            try:
                await self._leave(server_id)
            finally:  # also when whoever asked is gone by then: the registry has let go of it
                del self._members[server_id]

    @property
    def needed(self) -> bool:
        """Whether there is no run without some of them."""
        return any(member.config.required for member in self._members.values())

    def _member(self, server_id: str) -> Member:
        member = self._members.get(server_id)
        if member is None:
            words = f"There is no MCP server {server_id!r}."
            raise NotFound(Reason.MCP_SERVER_NOT_FOUND, words, {"server_id": server_id})
        return member


def _status(member: Member) -> McpServerStatus:
    toolset, config = member.toolset, member.config
    connection, history = toolset.connection, toolset.history
    waits, state = connection.backing_off, _state(toolset)
    known = connection.listing
    return McpServerStatus(
        server_id=toolset.set_id,
        transport=McpTransport.STREAMABLE_HTTP if isinstance(config, HttpServer) else McpTransport.STDIO,
        endpoint=config.endpoint,
        state=state,
        namespace=config.namespace or toolset.set_id,
        enabled=toolset.enabled,
        required=config.required,
        lazy=config.lazy,
        added=member.added,
        priority=member.priority,
        protocol_version=connection.protocol_version,
        tool_count=0 if known is None or not toolset.enabled else len(known.tools),
        connect_time_ns=0 if history.connected_at is None else int(history.connected_at.timestamp() * 1e9),
        reconnect_count=max(0, history.connected - 1),
        next_attempt_time_ns=time.time_ns() + int(waits * 1e9) if state is McpServerState.BACKING_OFF else 0,
        last_failure=history.last_failure,
    )


def _state(toolset: McpToolset) -> McpServerState:
    connection = toolset.connection
    if not toolset.enabled:
        return McpServerState.DISABLED
    if connection.backing_off:
        return McpServerState.BACKING_OFF
    if connection.protocol_version:
        return McpServerState.READY
    if connection.connecting:
        return McpServerState.CONNECTING
    return McpServerState.IDLE if connection.failure is None else McpServerState.BACKING_OFF


def _config_of(server: NewMcpServer) -> tuple[McpServer, Mapping[str, str]]:
    """The configuration, and the environment that its references lead to: secrets that were handed over stand there,
    and nothing of ours. Raises InvalidRequest, which repeats no value.
    """
    common: dict[str, object] = {
        "namespace": server.namespace or None,
        "include": tuple(server.include),
        "exclude": tuple(server.exclude),
        "resources": server.resources,
        "prompts": server.prompts,
        "call_timeout": server.call_timeout,
    }
    if not _ID.fullmatch(server.server_id):
        raise InvalidRequest([FieldViolation("server_id", "takes letters, digits, - and _, at most 32 of them")])
    try:
        if server.url:
            names = {f"HEADER_{number}": name for number, name in enumerate(server.headers)}
            headers = {name: f"${{{reference}}}" for reference, name in names.items()}
            http = HttpServer.model_validate({**common, "url": literal(server.url), "headers": headers})
            return http, {reference: server.headers[name] for reference, name in names.items()}
        env = {name: literal(value) for name, value in server.env.items()}
        directory = server.working_directory or None
        stdio = StdioServer.model_validate(
            {**common, "command": server.command, "args": tuple(server.args), "env": env, "cwd": directory}
        )
        return stdio, os.environ
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or ("streamable_http" if server.url else "stdio")
        raise InvalidRequest([FieldViolation(field, first["msg"].removeprefix("Value error, "))]) from None
