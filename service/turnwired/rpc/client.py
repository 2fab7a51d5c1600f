"""The service as our own command line sees it: domain values in, domain values out, gRPC in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

import grpc
from google.rpc import status_pb2

from turnwire import StreamLost, afollow
from turnwire.v1 import (
    mcp_server_service_pb2,
    mcp_server_service_pb2_grpc,
    turn_service_pb2,
    turn_service_pb2_grpc,
)
from turnwired.codec.approval import approval_from_pb
from turnwired.codec.enums import APPROVAL_DECISION, APPROVAL_STATE, RUN_STATE
from turnwired.codec.event import event_from_pb
from turnwired.codec.mcp_server import server_from_pb
from turnwired.codec.policy import effective_policy_from_pb, policy_to_pb
from turnwired.codec.run import turn_to_pb
from turnwired.codec.values import failure_from_pb, tool_collision_from_pb, tool_from_pb
from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalState
from turnwired.domain.errors import TurnwireError
from turnwired.domain.event import Event
from turnwired.domain.failure import Failure
from turnwired.domain.mcp import McpServerStatus
from turnwired.domain.policy import EffectivePolicy, Policy
from turnwired.domain.run import TurnSpec
from turnwired.domain.tool import Tool, ToolCollision

CALL_SECONDS = 60.0
CONNECT_SECONDS = 10.0
DETAILS_KEY = "grpc-status-details-bin"
"""Trailing metadata that every error of a server of ours has."""


class CallFailed(TurnwireError):
    """The server answered with an error, or could not be reached. The message is for people."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """Another process took the run over: what was told after event ``sequence`` was not stored, and never happened."""

    sequence: int


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools of an agent by name, the sources and tools that are left out, and names that several tools claim."""

    tools: Sequence[Tool]
    failures: Sequence[Failure]
    collisions: Sequence[ToolCollision]


class McpServerChange(StrEnum):
    """What an operator does with an MCP server."""

    ENABLE = "enable"
    DISABLE = "disable"
    RECONNECT = "reconnect"


class Client:
    """A connection to a server. Use as an async context manager; entering it raises CallFailed when nobody answers.

    ``token``: who calls, for servers that ask.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self._address = address
        self._metadata = None if token is None else (("authorization", f"Bearer {token}"),)
        self._channel = grpc.aio.insecure_channel(
            address, options=[("grpc.max_receive_message_length", 64 << 20), ("grpc.enable_http_proxy", 0)]
        )
        self._turns: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(self._channel)
        self._mcp: mcp_server_service_pb2_grpc.McpServerServiceAsyncStub = (
            mcp_server_service_pb2_grpc.McpServerServiceStub(self._channel)
        )

    async def __aenter__(self) -> Self:
        try:
            await self._connect()
        except BaseException:
            await self._channel.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def _connect(self) -> None:
        """Say at once that nobody listens, rather than after all the attempts that following a run makes."""
        state = self._channel.get_state(try_to_connect=True)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while state is not grpc.ChannelConnectivity.READY:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        raise self._nobody()
                    await self._channel.wait_for_state_change(state)
                    state = self._channel.get_state()
        except TimeoutError:
            raise self._nobody() from None

    async def run_turn(self, spec: TurnSpec) -> AsyncIterator[Event | Rewound]:
        """Run a turn and yield its events to the end, across cut connections. Raises CallFailed."""
        request = turn_service_pb2.RunTurnRequest()
        turn_to_pb(spec, request.turn)
        try:
            async with aclosing(afollow(self._turns, request, metadata=self._metadata)) as updates:
                async for update in updates:
                    if update.rewind_to is not None:
                        yield Rewound(update.rewind_to)
                    for event in update.events:
                        yield event_from_pb(event).event
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error
        except StreamLost as lost:
            if lost.run_id is None:
                raise self._nobody() from lost
            raise CallFailed(
                f"the connection to {self._address} was lost and could not be made again; run {lost.run_id} may go on"
            ) from lost

    async def cancel_run(self, run_id: str) -> None:
        """Ask a run to stop. Raises CallFailed."""
        request = turn_service_pb2.CancelRunRequest(run_id=run_id, comment="interrupted at the command line")
        try:
            await self._turns.CancelRun(request, timeout=CALL_SECONDS, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def list_approvals(
        self, *, session_id: str | None = None, run_id: str | None = None, every: bool = False
    ) -> list[Approval]:
        """All questions, oldest first: the pending ones, or of ``every`` state. Raises CallFailed."""
        found: list[Approval] = []
        request = turn_service_pb2.ListApprovalsRequest(session_id=session_id, run_id=run_id)
        if every:
            request.states.extend(APPROVAL_STATE.to_wire[state] for state in ApprovalState)
        try:
            while True:
                page = await self._turns.ListApprovals(request, timeout=CALL_SECONDS, metadata=self._metadata)
                found += [approval_from_pb(item) for item in page.approvals]
                request.page_token = page.next_page_token
                if not page.next_page_token:
                    return found
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def resolve_approval(
        self,
        run_id: str,
        approval_id: str,
        decision: ApprovalDecision,
        comment: str = "",
        call_digest: str | None = None,
        input_json: str | None = None,
    ) -> str:
        """Answer a question; the state of the run after it. Raises CallFailed."""
        request = turn_service_pb2.ResolveApprovalRequest(
            run_id=run_id,
            approval_id=approval_id,
            decision=APPROVAL_DECISION.to_wire[decision],
            comment=comment,
            call_digest=call_digest,
            input_json=input_json,
        )
        try:
            response = await self._turns.ResolveApproval(request, timeout=CALL_SECONDS, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error
        return RUN_STATE.from_wire(response.run.state, "state").value

    async def list_tools(self, agent_id: str) -> ToolListing:
        """All tools of an agent, and what is left out. Raises CallFailed."""
        tools: list[Tool] = []
        failures: list[Failure] = []
        collisions: list[ToolCollision] = []
        token = ""
        try:
            while True:
                request = turn_service_pb2.ListToolsRequest(agent_id=agent_id, page_token=token)
                page = await self._turns.ListTools(request, timeout=CALL_SECONDS, metadata=self._metadata)
                tools += [tool_from_pb(tool) for tool in page.tools]
                failures += [failure_from_pb(failure) for failure in page.source_failures]
                collisions += [tool_collision_from_pb(collision) for collision in page.collisions]
                token = page.next_page_token
                if not token:
                    return ToolListing(tools, failures, collisions)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def list_mcp_servers(self) -> list[McpServerStatus]:
        """All MCP servers of the deployment. Raises CallFailed."""
        servers: list[McpServerStatus] = []
        token = ""
        try:
            while True:
                request = mcp_server_service_pb2.ListMcpServersRequest(page_token=token)
                page = await self._mcp.ListMcpServers(request, timeout=CALL_SECONDS, metadata=self._metadata)
                servers += [server_from_pb(server) for server in page.mcp_servers]
                token = page.next_page_token
                if not token:
                    return servers
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def change_mcp_server(self, change: McpServerChange, server_id: str) -> McpServerStatus:
        """Enable, disable or connect a server anew. Raises CallFailed."""
        try:
            match change:
                case McpServerChange.ENABLE:
                    enable = mcp_server_service_pb2.EnableMcpServerRequest(server_id=server_id)
                    enabled = await self._mcp.EnableMcpServer(enable, timeout=CALL_SECONDS, metadata=self._metadata)
                    return server_from_pb(enabled.mcp_server)
                case McpServerChange.DISABLE:
                    disable = mcp_server_service_pb2.DisableMcpServerRequest(server_id=server_id)
                    disabled = await self._mcp.DisableMcpServer(disable, timeout=CALL_SECONDS, metadata=self._metadata)
                    return server_from_pb(disabled.mcp_server)
                case McpServerChange.RECONNECT:
                    again = mcp_server_service_pb2.ReconnectMcpServerRequest(server_id=server_id)
                    renewed = await self._mcp.ReconnectMcpServer(again, timeout=CALL_SECONDS, metadata=self._metadata)
                    return server_from_pb(renewed.mcp_server)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def resolve_policy(self, agent_id: str, policy: Policy, session_id: str | None = None) -> EffectivePolicy:
        """The policy that a run would get, in a session. Raises CallFailed."""
        request = turn_service_pb2.ResolvePolicyRequest(agent_id=agent_id, session_id=session_id)
        policy_to_pb(policy, request.policy)
        try:
            response = await self._turns.ResolvePolicy(request, timeout=CALL_SECONDS, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error
        return effective_policy_from_pb(response.effective_policy)

    def _failed(self, error: grpc.aio.AioRpcError) -> CallFailed:
        if error.code() is grpc.StatusCode.UNAVAILABLE and _details(error) is None:
            return self._nobody()
        return CallFailed(f"{error.code().name}: {error.details()}")

    def _nobody(self) -> CallFailed:
        return CallFailed(f"no server answers at {self._address}; start one with `turnwire serve`")


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    metadata = error.trailing_metadata()
    for key, value in metadata or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    return None
