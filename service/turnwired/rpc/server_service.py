"""ServerService: what this server is and can do. Never says a key, a path or an address of a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from turnwire.v1 import server_service_pb2
from turnwired import __version__
from turnwired.domain.model import ModelSelection
from turnwired.engine.service import Engine
from turnwired.rpc.errors import Context
from turnwired.rpc.handlers import Behaviours

CAPABILITIES = (
    server_service_pb2.SERVER_CAPABILITY_START_TURN,
    server_service_pb2.SERVER_CAPABILITY_LIST_RUNS,
    server_service_pb2.SERVER_CAPABILITY_MCP_TOOLS,
    server_service_pb2.SERVER_CAPABILITY_GRPC_TOOLS,
    server_service_pb2.SERVER_CAPABILITY_TOOL_HOSTS,
    server_service_pb2.SERVER_CAPABILITY_PUT_AGENT,
    server_service_pb2.SERVER_CAPABILITY_APPROVALS,
    server_service_pb2.SERVER_CAPABILITY_CLIENT_TOOLS,
    server_service_pb2.SERVER_CAPABILITY_RETURN_TOOLS,
    server_service_pb2.SERVER_CAPABILITY_APPEND_INPUT,
)
HasPrice = Callable[[ModelSelection], Awaitable[bool]]
"""Whether usage of a model can be priced. Blocks nobody, however long finding out takes."""

_WIRES = {
    "openai.chat": server_service_pb2.PROVIDER_WIRE_CHAT_COMPLETIONS,
    "openai.responses": server_service_pb2.PROVIDER_WIRE_RESPONSES,
    "anthropic.messages": server_service_pb2.PROVIDER_WIRE_MESSAGES,
}


class ServerService:
    """Answers GetServerInfo. ``durable``: sessions outlive a restart."""

    def __init__(
        self,
        engine: Engine,
        default_agent: str,
        default_model: ModelSelection,
        max_request_bytes: int,
        has_price: HasPrice,
        *,
        durable: bool,
    ) -> None:
        self._engine = engine
        self._default_agent = default_agent
        self._default_model = default_model
        self._max_request_bytes = max_request_bytes
        self._has_price = has_price
        self._durable = durable

    def behaviours(self) -> Behaviours:
        """By method name."""
        return Behaviours(unary={"GetServerInfo": self.get_server_info}, streaming={})

    async def get_server_info(
        self, request: server_service_pb2.GetServerInfoRequest, context: Context
    ) -> server_service_pb2.GetServerInfoResponse:
        """Version, capabilities, providers."""
        capabilities: Sequence[server_service_pb2.ServerCapability.ValueType] = CAPABILITIES
        if self._durable:
            capabilities = (*CAPABILITIES, server_service_pb2.SERVER_CAPABILITY_DURABLE_SESSIONS)
        response = server_service_pb2.GetServerInfoResponse(
            version=__version__,
            api_version="v1",
            capabilities=capabilities,
            default_agent_id=self._default_agent,
            default_model=f"{self._default_model.provider}/{self._default_model.model}",
            max_request_bytes=self._max_request_bytes,
        )
        for info in self._engine.providers():
            provider = response.providers.add(
                provider=info.name,
                wire=_WIRES.get(info.wire, server_service_pb2.PROVIDER_WIRE_UNSPECIFIED),
                configured=info.configured,
            )
            for model in info.models:
                priced = await self._has_price(ModelSelection(info.name, model))
                limits = self._engine.limits(info.name, model)
                provider.models.add(
                    model=model,
                    context_tokens=limits.context_tokens,
                    max_output_tokens=limits.output_tokens,
                    priced=priced,
                )
        return response
