"""A session with a server: the SDK's session and dispatcher over a wire, whichever it is.

Imports the SDK, so it is itself imported late. The SDK negotiates the version, correlates requests, sends cancellations
and answers the server's own requests. Listings and results are taken before its validation, which rejects a whole page
for one bad tool and a result that the tool has already produced.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, cast

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import turnwired
from turnwired.domain.failure import Failure
from turnwired.domain.tool import Tool
from turnwired.telemetry.port import ClientOperation, McpTelemetry
from turnwired.tools.mcp.asking import CURRENT, elicited
from turnwired.tools.mcp.content import left_out
from turnwired.tools.mcp.link import Answer, Answered, Asking, Listing, Lost, Refused
from turnwired.tools.mcp.listing import read_all, read_tools
from turnwired.tools.mcp.wire import Wire
from turnwired.tools.port import ProgressReporter
from turnwired.tools.result import redact

_FIRST_ID: Final = 1001  # the SDK numbers its own requests, those of the handshake, from 1
_LISTEN_AGAIN: Final = 5.0
_LISTEN_AGAIN_AT_MOST: Final = 300.0
# What the SDK logs quotes what a server sent, tracebacks included; the HTTP client logs whole addresses.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)

_CAN_ASK: Final[Mapping[str, object]] = {types.CLIENT_CAPABILITIES_META_KEY: {"elicitation": {"form": {}, "url": {}}}}
_CLIENT: Final = types.Implementation(name="turnwire", version=turnwired.__version__)


class SessionLink:
    """A ``Link``. ``session`` is entered, and ``negotiate`` awaited, by whoever opens it."""

    def __init__(self, server_id: str, wire: Wire, telemetry: McpTelemetry) -> None:
        self._server_id = server_id
        self._wire = wire
        self._telemetry = telemetry
        self._ids = itertools.count(_FIRST_ID)
        self._meta: dict[str, object] = {}
        self._modern = False
        self._mirrored: dict[str, dict[tuple[str, ...], str]] = {}
        self._changed = anyio.Event()
        self._open: dict[int, Asking | None] = {}
        self._idle = anyio.Event()
        self._last_answer = 0.0
        self.session = ClientSession(
            dispatcher=wire.dispatcher,
            client_info=_CLIENT,
            message_handler=self._on_notification,
            elicitation_callback=self._on_elicitation,
        )

    @property
    def end_reason(self) -> str:
        """Why it ended."""
        return self._wire.end_reason

    @property
    def protocol_version(self) -> str:
        """The version agreed on."""
        return self.session.protocol_version or ""

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answers."""
        return len(self._open)

    @property
    def lingers(self) -> bool:
        """Whether requests in flight may be answered after it is closed: each has a connection of its own over HTTP."""
        return self._wire.transport == "tcp"

    def abandon(self) -> None:
        """We end the connection."""
        self._wire.close("was stopped")

    async def wait_closed(self) -> None:
        """Return when the server has gone, or has sent what cannot be read."""
        await self._wire.closed.wait()

    async def drained(self) -> None:
        """Return when no request is in flight."""
        while self._open:
            self._idle = anyio.Event()
            await self._idle.wait()

    # --- agreeing on a version ---------------------------------------------------------------------------------------

    async def negotiate(self, discover_timeout: float) -> None:
        """Agree on a version: ``server/discover``, else ``initialize``. Raises MCPError or what validation raises."""
        if await self._discover(discover_timeout):
            return
        try:
            await self._initialize()
        except MCPError as error:
            # A server that was slow to start has by now read the probe, and speaks the new era only.
            if error.code != types.UNSUPPORTED_PROTOCOL_VERSION or not await self._discover(discover_timeout):
                raise

    async def _discover(self, within: float) -> bool:
        """Whether the server speaks an era that needs no handshake; its version is adopted if so."""
        try:
            raw = await self._probe(LATEST_MODERN_VERSION, within)
        except MCPError as error:
            offered = [version for version in _supported(error) if version in MODERN_PROTOCOL_VERSIONS]
            if not offered:
                if self._hopeless(error):
                    raise
                return False
            raw = await self._probe(max(offered), within)  # it names the versions that it speaks
        if raw is None:
            return False
        try:
            result = types.DiscoverResult.model_validate(raw)
        except ValidationError:
            return False
        if not any(version in result.supported_versions for version in MODERN_PROTOCOL_VERSIONS):
            return False
        self.session.adopt(result)
        self._modern = True
        self._meta = {
            types.PROTOCOL_VERSION_META_KEY: self.session.protocol_version,
            types.CLIENT_INFO_META_KEY: _CLIENT.model_dump(by_alias=True, mode="json", exclude_none=True),
            types.CLIENT_CAPABILITIES_META_KEY: {},
        }
        return True

    async def _probe(self, version: str, within: float) -> dict[str, Any] | None:
        """The answer to ``server/discover``; None when there is none in that time. Raises MCPError."""
        with self._operation("server/discover", None, version) as operation:
            raw: dict[str, Any] | None = None
            try:
                with anyio.move_on_after(within):
                    raw = await self.session.send_discover(version)
                if raw is None:
                    operation.failed("timeout")
            except MCPError as error:
                operation.failed(self._error_type(error))
                raise
            finally:
                self._note_id(operation)
        return raw

    def _hopeless(self, error: MCPError) -> bool:
        """Whether the handshake of the older era would fail as well."""
        judged = self._wire.judge(error, 0)
        if isinstance(judged, Lost):
            return judged.status is None or judged.status in (401, 403, 429)
        supported = _supported(error)
        return bool(supported) and not any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in supported)

    async def _initialize(self) -> None:
        with self._operation("initialize", None, None) as operation:
            try:
                await self.session.initialize()
            except MCPError as error:
                operation.failed(self._error_type(error))
                raise
            finally:
                self._note_id(operation)

    # --- lists -------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> Listing:
        """All pages. Raises ToolError when there is no first page."""
        return await read_tools(self._server_id, self._ask, self._mirroring)

    async def list_all(self, method: str, key: str) -> Sequence[Mapping[str, object]] | Lost | Refused:
        """All pages of another list."""
        return await read_all(self._ask, method, key)

    async def _ask(self, method: str, params: Mapping[str, object]) -> Answer:
        return await self.request(method, params, {})

    def _mirroring(self, tool: Tool, entry: object) -> Tool | Failure:
        """Which arguments are repeated in headers, so that proxies can route by them (HTTP, 2026-07-28)."""
        if not self._modern or self._wire.transport != "tcp":
            return tool
        name, schema = tool.ref.native_name, cast("dict[str, Any]", entry)["inputSchema"]
        if (wrong := find_invalid_x_mcp_header(schema)) is not None:
            return left_out(self._server_id, name, redact(wrong, 300))
        self._mirrored[name] = x_mcp_header_map(schema)
        return tool

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        meta: Mapping[str, str],
        on_progress: ProgressReporter | None = None,
        asking: Asking | None = None,
    ) -> Answer:
        """One request, told to telemetry, without the SDK's checks of the result."""
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        tool = name if method == "tools/call" and isinstance(name, str) else None
        with self._operation(method, tool, self.session.protocol_version) as operation:
            # Ids are ours, so that telemetry and the question "was it sent?" can name the request.
            request_id = next(self._ids)
            operation.request_id(str(request_id))
            answer = await self._send(request_id, method, dict(params), meta, on_progress, asking)
            match answer:
                case Answered(result):
                    if result.get("isError") is True:
                        operation.failed("tool_error")
                case Refused(code):
                    operation.failed(str(code))
                case Lost(status=status):
                    operation.failed("connection_closed" if status is None else str(status))
        return answer

    async def _send(
        self,
        request_id: int,
        method: str,
        params: dict[str, Any],
        meta: Mapping[str, str],
        on_progress: ProgressReporter | None,
        asking: Asking | None,
    ) -> Answer:
        options: CallOptions = {"request_id": request_id, "headers": self._headers(method, params)}
        if self._meta or meta:
            params["_meta"] = {**meta, **self._meta, **(_CAN_ASK if self._modern and asking is not None else {})}
        waiting = True
        if on_progress is not None:

            async def report(progress: float, total: float | None, message: str | None) -> None:
                if waiting:
                    on_progress(progress, total, message or "")

            options["on_progress"] = report
        self._open[request_id] = asking
        current = CURRENT.set(asking)
        try:
            result = await self._wire.dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            return self._wire.judge(error, request_id)
        finally:
            waiting = False
            CURRENT.reset(current)
            del self._open[request_id]
            if not self._open:
                self._idle.set()
            self._wire.settled(request_id)
        self._last_answer = anyio.current_time()
        return Answered(result)

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """What HTTP is told beside the message."""
        if self._wire.transport != "tcp":
            return {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.session.protocol_version or ""}
        if not self._modern:
            return headers
        headers[MCP_METHOD_HEADER] = method
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and (mirrored := self._mirrored.get(name)):
                headers.update(mcp_param_headers(mirrored, params.get("arguments") or {}))
        return headers

    # --- what the server says of its own accord, and whether it lives ------------------------------------------------

    async def changed(self) -> None:
        """Return when the tools have changed since this returned last."""
        await self._changed.wait()
        self._changed = anyio.Event()

    async def watch(self) -> None:
        """Subscribe to changes of the list: in the older eras servers tell without being asked."""
        found = self.session.discover_result
        tools = None if found is None else found.capabilities.tools
        if tools is None or not tools.list_changed:
            return
        pause = _LISTEN_AGAIN
        while True:
            since = anyio.current_time()
            try:
                async with listen(self.session, tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._changed.set()
            except SubscriptionLost:
                self._changed.set()  # what was missed meanwhile is seen in the list
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
            long_lived = anyio.current_time() - since > pause
            pause = _LISTEN_AGAIN if long_lived else min(_LISTEN_AGAIN_AT_MOST, pause * 2)
            await anyio.sleep(pause)

    async def keep_alive(self, every: float, within: float) -> None:
        """Ping a server of the older eras when nothing else is asked of it."""
        if self._modern:
            return
        while True:
            await anyio.sleep(every)
            if self._open or anyio.current_time() - self._last_answer < every:
                continue  # a server that works on a call may have no time for others
            answer: Answer | None = None
            with anyio.move_on_after(within):
                answer = await self.request("ping", {}, {})
            if answer is None:
                self._wire.close(f"gave no sign of life within {within:g} s")
            if isinstance(answer, Lost) and answer.stale:
                self._wire.close(answer.why)

    async def _on_elicitation(
        self,
        context: ClientRequestContext,  # noqa: ARG002  the SDK's signature
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        """A question of a server of the older eras."""
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        return types.ElicitResult.model_validate(await elicited(self._whom_to_ask(), asked))

    def _whom_to_ask(self) -> Asking | None:
        """Of the call in whose stream the question came; where all share a stream, of the one run that calls."""
        if (asking := CURRENT.get()) is not None:
            return asking
        calls = list(self._open.values())
        runs = {None if call is None else call.run_id for call in calls}
        return calls[0] if len(runs) == 1 else None

    async def _on_notification(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    # --- telemetry and words -----------------------------------------------------------------------------------------

    def _operation(self, method: str, tool: str | None, version: str | None) -> AbstractContextManager[ClientOperation]:
        return self._telemetry.operation(method, tool=tool, protocol_version=version, transport=self._wire.transport)

    def _note_id(self, operation: ClientOperation) -> None:
        if self._wire.last_request_id is not None:
            operation.request_id(str(self._wire.last_request_id))

    def _error_type(self, error: MCPError) -> str:
        judged = self._wire.judge(error, 0)
        if isinstance(judged, Lost) and judged.status is not None:
            return str(judged.status)
        return str(error.code)


def _supported(error: MCPError) -> Sequence[str]:
    """The versions that a server names which refuses ours."""
    found = error.data.get("supported") if isinstance(error.data, dict) else None
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else ()
