"""ToolHostRegistryService: apps make themselves known as sources of tools. Checks and translates; others keep them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from turnwire.v1 import tool_host_registry_service_pb2 as pb2
from turnwired.codec.tool_host import tool_host_to_pb
from turnwired.codec.values import seconds_from_pb, seconds_to_pb
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.run import Caller
from turnwired.domain.tool_host import ToolHost
from turnwired.rpc import request as read
from turnwired.rpc.auth import calling
from turnwired.rpc.errors import Context
from turnwired.rpc.handlers import Behaviours
from turnwired.rpc.paging import page

DEFAULT_LEASE: Final = 60.0
SHORTEST_LEASE: Final = 1.0
LONGEST_LEASE: Final = 600.0
MOST_ADDRESS: Final = 512
_HOST_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")


class ToolHosts(Protocol):
    """The apps that are known. Leases are in seconds."""

    async def register(self, caller: Caller, host_id: str, address: str, lease: float) -> ToolHost:
        """Register an app or renew its lease. Raises RequestError."""
        ...

    async def unregister(self, caller: Caller, host_id: str) -> None:
        """Forget an app. Raises NotFound."""
        ...

    def hosts(self, caller: Caller) -> Sequence[ToolHost]:
        """Those that the caller may see, by id."""
        ...


class ToolHostRegistryService:
    """Behaviours of all its RPCs."""

    def __init__(self, hosts: ToolHosts) -> None:
        self._hosts = hosts

    def behaviours(self) -> Behaviours:
        """By method name."""
        return Behaviours(
            unary={
                "RegisterToolHost": self.register_tool_host,
                "UnregisterToolHost": self.unregister_tool_host,
                "ListToolHosts": self.list_tool_hosts,
            },
            streaming={},
        )

    async def register_tool_host(
        self, request: pb2.RegisterToolHostRequest, context: Context
    ) -> pb2.RegisterToolHostResponse:
        """Register, or renew."""
        problems: list[FieldViolation] = []
        lease = seconds_from_pb(request.lease) if request.HasField("lease") else DEFAULT_LEASE
        if not _HOST_ID.fullmatch(request.host_id):
            problems.append(FieldViolation("host_id", "must be 1 to 32 characters of [A-Za-z0-9_-]"))
        if not 0 < len(request.address) <= MOST_ADDRESS:
            problems.append(FieldViolation("address", f"must have 1 to {MOST_ADDRESS} characters"))
        if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
            words = f"must be between {SHORTEST_LEASE:g} and {LONGEST_LEASE:g} seconds"
            problems.append(FieldViolation("lease", words))
        if problems:
            raise InvalidRequest(problems)
        host = await self._hosts.register(calling(), request.host_id, request.address, lease)
        response = pb2.RegisterToolHostResponse()
        tool_host_to_pb(host, response.tool_host)
        seconds_to_pb(lease, response.lease)
        return response

    async def unregister_tool_host(
        self, request: pb2.UnregisterToolHostRequest, context: Context
    ) -> pb2.UnregisterToolHostResponse:
        """Forget."""
        read.require_id("host_id", request.host_id)
        await self._hosts.unregister(calling(), request.host_id)
        return pb2.UnregisterToolHostResponse()

    async def list_tool_hosts(self, request: pb2.ListToolHostsRequest, context: Context) -> pb2.ListToolHostsResponse:
        """Hosts by id. The page token is the last id of the page before."""
        size = read.page_size(request.page_size, 50, 500)
        rest = [host for host in self._hosts.hosts(calling()) if host.host_id > request.page_token]

        async def first(most: int) -> tuple[Sequence[ToolHost], str]:
            return rest[:most], rest[most - 1].host_id if len(rest) > most else ""

        found, token = await page(first, size, tool_host_to_pb, pb2.ToolHost)
        return pb2.ListToolHostsResponse(tool_hosts=found, next_page_token=token)
