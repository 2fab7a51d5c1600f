"""McpServerService: the MCP servers of the deployment, for its operators. Translates; the pool of servers does."""

from __future__ import annotations

from turnwire.v1 import mcp_server_service_pb2
from turnwired.codec.mcp_server import server_to_pb
from turnwired.codec.values import seconds_from_pb
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.mcp import McpServers, NewMcpServer
from turnwired.rpc import request as read
from turnwired.rpc.errors import Context
from turnwired.rpc.handlers import Behaviours


class McpServerService:
    """Behaviours of all its RPCs."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    def behaviours(self) -> Behaviours:
        """By method name."""
        return Behaviours(
            unary={
                "ListMcpServers": self.list_mcp_servers,
                "EnableMcpServer": self.enable_mcp_server,
                "DisableMcpServer": self.disable_mcp_server,
                "ReconnectMcpServer": self.reconnect_mcp_server,
                "AddMcpServer": self.add_mcp_server,
                "RemoveMcpServer": self.remove_mcp_server,
            },
            streaming={},
        )

    async def list_mcp_servers(
        self, request: mcp_server_service_pb2.ListMcpServersRequest, context: Context
    ) -> mcp_server_service_pb2.ListMcpServersResponse:
        """Servers by id. A page's token is the id that it ends with: one that comes or goes shifts nothing."""
        size = read.page_size(request.page_size, 50, 500)
        after = _after(request.page_token)
        servers = [server for server in self._servers.listed() if server.server_id > after]
        shown = servers[:size]
        token = f"after/{shown[-1].server_id}" if len(servers) > size else ""
        response = mcp_server_service_pb2.ListMcpServersResponse(next_page_token=token)
        for server in shown:
            server_to_pb(server, response.mcp_servers.add())
        return response

    async def enable_mcp_server(
        self, request: mcp_server_service_pb2.EnableMcpServerRequest, context: Context
    ) -> mcp_server_service_pb2.EnableMcpServerResponse:
        """Use a server again."""
        read.require_id("server_id", request.server_id)
        response = mcp_server_service_pb2.EnableMcpServerResponse()
        server_to_pb(await self._servers.enable(request.server_id), response.mcp_server)
        return response

    async def disable_mcp_server(
        self, request: mcp_server_service_pb2.DisableMcpServerRequest, context: Context
    ) -> mcp_server_service_pb2.DisableMcpServerResponse:
        """Stop using a server."""
        read.require_id("server_id", request.server_id)
        response = mcp_server_service_pb2.DisableMcpServerResponse()
        server_to_pb(await self._servers.disable(request.server_id), response.mcp_server)
        return response

    async def reconnect_mcp_server(
        self, request: mcp_server_service_pb2.ReconnectMcpServerRequest, context: Context
    ) -> mcp_server_service_pb2.ReconnectMcpServerResponse:
        """Connect a server anew."""
        read.require_id("server_id", request.server_id)
        response = mcp_server_service_pb2.ReconnectMcpServerResponse()
        server_to_pb(await self._servers.reconnect(request.server_id), response.mcp_server)
        return response

    async def add_mcp_server(
        self, request: mcp_server_service_pb2.AddMcpServerRequest, context: Context
    ) -> mcp_server_service_pb2.AddMcpServerResponse:
        """Add a server."""
        response = mcp_server_service_pb2.AddMcpServerResponse()
        server_to_pb(await self._servers.add(_new_server(request)), response.mcp_server)
        return response

    async def remove_mcp_server(
        self, request: mcp_server_service_pb2.RemoveMcpServerRequest, context: Context
    ) -> mcp_server_service_pb2.RemoveMcpServerResponse:
        """Remove a server that was added."""
        read.require_id("server_id", request.server_id)
        await self._servers.remove(request.server_id)
        return mcp_server_service_pb2.RemoveMcpServerResponse()


def _after(page_token: str) -> str:
    prefix, _, server_id = page_token.partition("/")
    if page_token and (prefix != "after" or not server_id):
        words = "is no token of this list; ask for the first page again"
        raise InvalidRequest([FieldViolation("page_token", words)], Reason.PAGE_TOKEN_INVALID)
    return server_id


def _new_server(request: mcp_server_service_pb2.AddMcpServerRequest) -> NewMcpServer:
    timeout = seconds_from_pb(request.call_timeout) if request.HasField("call_timeout") else None
    kind = request.WhichOneof("connection")
    if kind is None:
        raise InvalidRequest([FieldViolation("connection", "takes stdio or streamable_http")])
    if kind == "streamable_http" and not request.streamable_http.url:
        raise InvalidRequest([FieldViolation("streamable_http.url", "is required")])
    return NewMcpServer(
        server_id=request.server_id,
        command=request.stdio.command,
        args=tuple(request.stdio.args),
        env=dict(request.stdio.env),
        working_directory=request.stdio.working_directory,
        url=request.streamable_http.url,
        headers=dict(request.streamable_http.headers),
        namespace=request.namespace,
        include=tuple(request.include),
        exclude=tuple(request.exclude),
        resources=request.resources,
        prompts=request.prompts,
        call_timeout=timeout,
    )
