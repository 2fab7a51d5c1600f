"""Streamable HTTP under an MCP session: the SDK's transport over a contained client, and how such a link is opened.

Imports the SDK, so it is itself imported late. Knows neither tools nor where credentials come from.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher, cancelled_request_id_from_params
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from pydantic import ValidationError

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.mcp.contained import BESIDE, FIRST, TAG, ContainedClient, HeaderSource
from turnwired.tools.mcp.link import Lost, Refused
from turnwired.tools.mcp.session import SessionLink
from turnwired.tools.result import redact

_GIVE_UP_SECONDS: Final = 5.0
"""How long a server has to answer a cancelled request before its connection is closed."""


class _Writer:
    """The SDK's write stream, which tells the client below it what each message is."""

    def __init__(self, inner: Any, client: ContainedClient, tasks: anyio.abc.TaskGroup) -> None:
        self._inner = inner
        self._client = client
        self._tasks = tasks
        self.last_request_id: str | int | None = None
        self.sent: set[str | int] = set()

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        metadata = item.metadata if isinstance(item.metadata, ClientMessageMetadata) else ClientMessageMetadata()
        if isinstance(message, types.JSONRPCRequest):
            tag = json.dumps(message.id)
            self.last_request_id = message.id
            if isinstance(message.id, int):
                self.sent.add(message.id)
        else:
            tag = BESIDE
            if isinstance(message, types.JSONRPCNotification):
                tag = FIRST if message.method == "notifications/initialized" else BESIDE
                if message.method == "notifications/cancelled":
                    self._tasks.start_soon(self._give_up, cancelled_request_id_from_params(message.params))
        metadata.headers = {**(metadata.headers or {}), TAG: tag}
        await self._inner.send(SessionMessage(message, metadata))

    async def _give_up(self, request_id: str | int | None) -> None:
        await anyio.sleep(_GIVE_UP_SECONDS)
        if request_id is not None:
            self._client.give_up(request_id)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class HttpWire:
    """A ``Wire`` over Streamable HTTP. Up until the server forgets the session, gives no sign of life, or we end it."""

    transport = "tcp"

    def __init__(self, read: Any, write: Any, client: ContainedClient, tasks: anyio.abc.TaskGroup) -> None:
        self._client = client
        self._writer = _Writer(write, client, tasks)
        self.dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(read, self._writer)
        self.closed = anyio.Event()
        self.end_reason = ""
        client.on_stale = lambda: self.close("does not know the session any more")

    @property
    def gone(self) -> bool:
        """Whether it is ended."""
        return self.closed.is_set()

    @property
    def last_request_id(self) -> str | int | None:
        """Of the request written last."""
        return self._writer.last_request_id

    def close(self, why: str) -> None:
        """Use it no more."""
        if not self.closed.is_set():
            self.end_reason = why
            self.closed.set()

    def judge(self, error: MCPError, request_id: int) -> Lost | Refused:
        """What became of the request: by what the client noted, else by what the SDK says where it has no answer."""
        asked = request_id or self._writer.last_request_id
        if asked is not None and (fault := self._client.faults.get(asked)) is not None:
            return fault
        sdk_says = error.message
        if error.code == types.CONNECTION_CLOSED and (self.gone or sdk_says == "Connection closed"):
            return Lost(sent=asked in self._writer.sent, why=self.end_reason or "was lost")
        if error.code == types.CONNECTION_CLOSED and sdk_says.startswith("SSE stream"):
            if "byte limit" in sdk_says:
                return Refused(error.code, "the answer is longer than max_message_bytes")
            return Lost(sent=True, why="ended its answer before it was complete")
        if error.code == types.PARSE_ERROR and sdk_says.startswith("Failed to parse"):
            return Lost(sent=True, why="answered with what is no JSON-RPC message")
        return Refused(error.code, error.message)

    def settled(self, request_id: int) -> None:
        """Nobody will ask about this request any more."""
        self._writer.sent.discard(request_id)
        self._client.faults.pop(request_id, None)


@asynccontextmanager
async def open_http_link(
    server_id: str,
    url: str,
    headers: HeaderSource,
    telemetry: McpTelemetry,
    *,
    discover_timeout: float,
    max_message_bytes: int,
    auth: httpx2.Auth | None = None,
) -> AsyncIterator[SessionLink]:
    """A link to the server at this address. Raises ToolError, ValidationError and RuntimeError."""
    async with anyio.create_task_group() as tasks:
        try:
            async with (
                ContainedClient(headers, max_message_bytes, tasks, auth) as client,
                streamable_http_client(url, http_client=client, max_sse_event_size=max_message_bytes) as (read, write),
            ):
                link = SessionLink(server_id, wire := HttpWire(read, write, client, tasks), telemetry)
                async with link.session:
                    await _negotiate(server_id, link, wire, discover_timeout)
                    try:
                        yield link
                    finally:
                        link.abandon()
        finally:
            tasks.cancel_scope.cancel()


async def _negotiate(server_id: str, link: SessionLink, wire: HttpWire, discover_timeout: float) -> None:
    try:
        await link.negotiate(discover_timeout)
    except MCPError as error:
        raise ToolError(_not_connected(server_id, wire.judge(error, 0))) from None
    except (ValidationError, RuntimeError) as error:
        words = f"MCP server {server_id!r} does not speak the protocol ({type(error).__name__})"
        raise ToolError(_failure(server_id, Reason.MCP_PROTOCOL_ERROR, words)) from None


def _not_connected(server_id: str, judged: Lost | Refused) -> Failure:
    prefix = f"MCP server {server_id!r}"
    match judged:
        case Lost(status=401 | 403):
            return _failure(server_id, Reason.MCP_AUTH_FAILED, f"{prefix} {judged.why}", str(judged.status))
        case Lost():
            code = "" if judged.status is None else str(judged.status)
            return _failure(server_id, Reason.MCP_UNAVAILABLE, f"{prefix} {judged.why}", code, judged.retry_after)
        case Refused(code, message):
            words = f"{prefix} refuses the connection: {redact(message, 300)}"
            return _failure(server_id, Reason.MCP_UNAVAILABLE, words, str(code))


def _failure(server_id: str, reason: Reason, words: str, code: str = "", retry_after: float | None = None) -> Failure:
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=reason,
        message=words,
        retryable=reason is not Reason.MCP_AUTH_FAILED,
        retry_after=retry_after,
        origin=server_id,
        origin_code=code,
    )
