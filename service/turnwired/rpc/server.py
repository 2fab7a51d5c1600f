"""The gRPC server: services of the contract, health and reflection, limits and interceptors, start and stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from google.protobuf import descriptor as pb_descriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from turnwire.v1 import (
    agent_service_pb2,
    mcp_server_service_pb2,
    server_service_pb2,
    session_service_pb2,
    tool_host_registry_service_pb2,
    turn_service_pb2,
)
from turnwired.domain.errors import ConfigError
from turnwired.rpc.agent_service import AgentService
from turnwired.rpc.auth import Gate
from turnwired.rpc.handlers import Behaviours, service_handler
from turnwired.rpc.local import RpcsHere
from turnwired.rpc.mcp_server_service import McpServerService
from turnwired.rpc.server_service import ServerService
from turnwired.rpc.session_service import SessionService
from turnwired.rpc.tool_host_service import ToolHostRegistryService
from turnwired.rpc.turn_service import TurnService

NOTHING = Behaviours(unary={}, streaming={})
# Its stubs call it by the C class that it is.
HEALTH: pb_descriptor.ServiceDescriptor = health_pb2.DESCRIPTOR.services_by_name["Health"]  # type: ignore[assignment]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True, slots=True)
class Listen:
    """Where and how to listen. ``address`` is host:port; port 0 picks a free one.

    A connection that is silent for ``keepalive_seconds`` is asked for a sign of life, which has to come within
    ``keepalive_timeout_seconds``.
    """

    address: str
    max_request_bytes: int = 16 << 20
    reflection: bool = True
    keepalive_seconds: float = 30.0
    keepalive_timeout_seconds: float = 10.0


class RpcServer:
    """A started server. Keep a reference: grpc.aio stops serving when the object is collected."""

    def __init__(
        self,
        listen: Listen,
        turns: TurnService,
        server: ServerService,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        *,
        sessions: SessionService | None = None,
        agents: AgentService | None = None,
        tool_hosts: ToolHostRegistryService | None = None,
        mcp_servers: McpServerService | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._listen = listen
        self._server = grpc.aio.server(
            interceptors=tuple(interceptors),
            options=[
                ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share it
                ("grpc.max_receive_message_length", listen.max_request_bytes),
                ("grpc.max_concurrent_streams", 10_000),
                # A machine that lost its power or its network resets nothing: without asking for a sign of life, its
                # streams and the runs that end with them would stay for as long as the kernel keeps the connection.
                # keepalive_timeout_ms alone is for what the other kernel does not confirm; a ping that it took and
                # nobody answers has a timeout of its own, a minute if it is not set (measured with grpcio 1.85).
                ("grpc.keepalive_time_ms", round(listen.keepalive_seconds * 1000)),
                ("grpc.keepalive_timeout_ms", round(listen.keepalive_timeout_seconds * 1000)),
                ("grpc.http2.ping_timeout_ms", round(listen.keepalive_timeout_seconds * 1000)),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ],
        )
        services = {
            turn_service_pb2.DESCRIPTOR.services_by_name["TurnService"]: turns.behaviours(),
            server_service_pb2.DESCRIPTOR.services_by_name["ServerService"]: server.behaviours(),
            session_service_pb2.DESCRIPTOR.services_by_name["SessionService"]: (
                NOTHING if sessions is None else sessions.behaviours()
            ),
            agent_service_pb2.DESCRIPTOR.services_by_name["AgentService"]: (
                NOTHING if agents is None else agents.behaviours()
            ),
            tool_host_registry_service_pb2.DESCRIPTOR.services_by_name["ToolHostRegistryService"]: (
                NOTHING if tool_hosts is None else tool_hosts.behaviours()
            ),
            mcp_server_service_pb2.DESCRIPTOR.services_by_name["McpServerService"]: (
                NOTHING if mcp_servers is None else mcp_servers.behaviours()
            ),
        }
        gate = gate or Gate()
        handlers = [service_handler(descriptor, known, gate) for descriptor, known in services.items()]
        self._server.add_generic_rpc_handlers(tuple(handlers))
        self._names = ["", *(descriptor.full_name for descriptor in services)]
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.here = RpcsHere([*services, HEALTH], [*handlers, _health_check(self._health)], interceptors, gate)
        """The same services for a transport in this process."""
        if listen.reflection:
            names = (*self._names[1:], health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        self.port = 0
        self._refusing = False

    async def start(self, *, ready: bool = True) -> None:
        """Listen. ``ready``: for health watchers. Raises ConfigError when the address cannot be had."""
        address = self._listen.address
        try:
            await _probe(address)
            self.port = self._server.add_insecure_port(address)
        except (OSError, RuntimeError) as error:
            reason = (error.strerror or "no such address") if isinstance(error, OSError) else "it cannot be bound"
            raise ConfigError(
                f"server.listen: cannot listen on {address}: {reason.lower()}; choose another with --listen or "
                "server.listen"
            ) from error
        await self._server.start()
        await self.serving(works=ready)

    async def serving(self, *, works: bool) -> None:
        """Tell health watchers whether this server takes work; after ``refuse`` it never does again."""
        if not self._refusing:
            for name in self._names:
                await self._health.set(name, SERVING if works else NOT_SERVING)

    async def refuse(self) -> None:
        """Tell health watchers that this server takes no new work."""
        await self.serving(works=False)
        self._refusing = True

    async def stop(self, grace: float) -> None:
        """Take no new calls, let those in flight end for ``grace`` seconds, then cut them."""
        await self._server.stop(grace)


def _health_check(servicer: health.aio.HealthServicer) -> grpc.GenericRpcHandler:
    """Health for other transports: what a probe asks. Who wants to watch it speaks gRPC."""
    check = grpc.unary_unary_rpc_method_handler(
        servicer.Check,
        health_pb2.HealthCheckRequest.FromString,
        health_pb2.HealthCheckResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(HEALTH.full_name, {"Check": check})


async def _probe(address: str) -> None:
    """Bind the address and let go of it again: unlike gRPC, a socket says in one word why it cannot. Raises OSError."""
    if address.startswith("unix:"):
        return
    host, _, port = address.rpartition(":")
    found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(place)
