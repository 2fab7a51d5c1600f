"""A link to a server over stdio: the SDK's session and dispatcher over our own pipes.

The only module that imports the SDK; it is itself imported late. The SDK negotiates the version, correlates requests,
sends cancellations and answers the server's own requests. Listings and results are taken before its validation, which
rejects a whole page for one bad tool and a result that the tool has already produced.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import turnwired
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import Tool
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.mcp.content import tool_of
from turnwired.tools.mcp.link import Answer, Answered, Listing, Lost, Refused
from turnwired.tools.mcp.process import Pipe, TooLong
from turnwired.tools.port import ProgressReporter
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

MAX_PAGES: Final = 200
MAX_TOOLS: Final = 10_000
_FIRST_ID: Final = 1001  # the SDK numbers its own requests, those of the handshake, from 1
_EXIT_GRACE: Final = 0.5  # seconds between the end of its output and its exit code
_TOO_LARGE: Final = -32099  # our own, for an answer that we did not read to its end
_ID_AT_START: Final = re.compile(rb'^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d+)')
_ID_AT_END: Final = re.compile(rb'"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
# The SDK's warnings quote what a server sent.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.ERROR)

_CLIENT: Final = types.Implementation(name="turnwire", version=turnwired.__version__)


class _Reader:
    """The SDK's read stream over a child's lines. Lines that are no messages are counted and passed over."""

    def __init__(self, process: Pipe) -> None:
        self._process = process
        self.noise = 0
        self.broken = ""
        self.closed = anyio.Event()

    async def receive(self) -> SessionMessage | Exception:
        while (line := await self._process.receive()) is not None:
            message = _cut_short(line) if isinstance(line, TooLong) else _message(line)
            if message is not None:
                return SessionMessage(message)
            if isinstance(line, TooLong) and line.head.lstrip().startswith(b"{"):
                # Whose answer it was cannot be told, so no call can be waited for any more.
                self.broken = "sent a message longer than max_message_bytes"
                break
            if line:
                self.noise += 1
                if self.noise == 1:
                    _LOG.warning("MCP server %s writes to stdout what is no JSON-RPC message", self._process.name)
        self.closed.set()
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        """The process is closed by whoever started it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None


class _Writer:
    """The SDK's write stream. Remembers which requests may have reached the server."""

    def __init__(self, process: Pipe) -> None:
        self._process = process
        self.last_request_id: str | int | None = None
        self.sent: set[str | int] = set()

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        try:
            # A request may wait for a full pipe, within its caller's deadline. A cancellation may not.
            await self._process.send(data, wait=isinstance(message, types.JSONRPCRequest))
        except BrokenPipeError as error:
            raise anyio.BrokenResourceError from error
        if isinstance(message, types.JSONRPCRequest):
            self.last_request_id = message.id
            self.sent.add(message.id)

    async def aclose(self) -> None:
        """The process is closed by whoever started it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None


def _message(line: bytes) -> types.JSONRPCMessage | None:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        # Invalid UTF-8 and lone surrogates are no reason to leave a call without its answer.
        return types.jsonrpc_message_adapter.validate_python(json.loads(line.decode("utf-8", "replace")), by_name=False)
    except (ValidationError, ValueError, RecursionError):
        return None


def _cut_short(line: TooLong) -> types.JSONRPCMessage | None:
    """An error in place of an answer that is too long, if it can be told whose answer it is."""
    found = _ID_AT_START.match(line.head) or _ID_AT_END.search(line.tail)
    if found is None:
        return None
    error = types.ErrorData(code=_TOO_LARGE, message="the answer is longer than max_message_bytes")
    return types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)


class StdioLink:
    """A ``Link``. Made by ``open_link``."""

    def __init__(self, server_id: str, process: Pipe, telemetry: McpTelemetry) -> None:
        self._server_id = server_id
        self._process = process
        self._telemetry = telemetry
        self._reader = _Reader(process)
        self._writer = _Writer(process)
        self._dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(self._reader, self._writer)
        self._ids = itertools.count(_FIRST_ID)
        self._meta: dict[str, object] = {}
        self.session = ClientSession(dispatcher=self._dispatcher, client_info=_CLIENT)

    @property
    def end_reason(self) -> str:
        """Why it ended: its exit code and its last words on stderr."""
        if self._reader.broken:
            return self._reader.broken
        return ended(self._process) if self._gone else ""

    @property
    def _gone(self) -> bool:
        return self._process.ended.is_set() or self._reader.closed.is_set()

    def abandon(self) -> None:
        """We end the connection."""
        if not self._gone:
            self._reader.broken = "was stopped"
            self._reader.closed.set()

    async def wait_closed(self) -> None:
        """Return when the server has gone, or has sent what cannot be read."""
        await self._reader.closed.wait()

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

    async def list_tools(self) -> Listing:
        """All pages, at most 200 of them and 10,000 tools. Raises ToolError when there is no first page."""
        tools: list[Tool] = []
        left_out: list[Failure] = []
        cursors: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._page(cursor)
            entries = page.get("tools")
            for entry in entries if isinstance(entries, list) else ():
                tool = tool_of(self._server_id, entry)
                left_out.append(tool) if isinstance(tool, Failure) else tools.append(tool)
            following = page.get("nextCursor")
            if not isinstance(following, str):
                return Listing(tuple(tools), tuple(left_out))
            if following in cursors or len(tools) > MAX_TOOLS:
                break
            cursors.add(following)
            cursor = following
        words = f"the tool list of {self._server_id!r} does not end (repeated cursor, or too many pages or tools)"
        left_out.append(self._discovery_failure(f"{words}; {len(tools)} tools of it are used"))
        return Listing(tuple(tools[:MAX_TOOLS]), tuple(left_out))

    async def call_tool(
        self, name: str, arguments: Mapping[str, object], meta: Mapping[str, str], on_progress: ProgressReporter | None
    ) -> Answer:
        """``tools/call``, without the SDK's checks of the result."""
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
        with self._telemetry.operation(
            "tools/call", tool=name, protocol_version=self.session.protocol_version, transport="pipe"
        ) as operation:
            answer, request_id = await self._request("tools/call", params, meta, on_progress)
            operation.request_id(request_id)
            match answer:
                case Answered(result):
                    if result.get("isError") is True:
                        operation.failed("tool_error")
                case Refused(code):
                    operation.failed(str(code))
                case Lost():
                    operation.failed("connection_closed")
        return answer

    async def _discover(self, within: float) -> bool:
        """Whether the server speaks an era that needs no handshake; its version is adopted if so."""
        with self._telemetry.operation(
            "server/discover", tool=None, protocol_version=LATEST_MODERN_VERSION, transport="pipe"
        ) as operation:
            raw: dict[str, Any] | None = None
            try:
                with anyio.move_on_after(within):
                    raw = await self.session.send_discover(LATEST_MODERN_VERSION)
                if raw is None:
                    operation.failed("timeout")
            except MCPError as error:
                operation.failed(str(error.code))
                if error.code == types.CONNECTION_CLOSED and self._gone:
                    raise
                supported = error.data.get("supported") if isinstance(error.data, dict) else None
                if isinstance(supported, list) and not any(item in HANDSHAKE_PROTOCOL_VERSIONS for item in supported):
                    raise
            finally:
                if self._writer.last_request_id is not None:
                    operation.request_id(str(self._writer.last_request_id))
        if raw is None:
            return False
        try:
            result = types.DiscoverResult.model_validate(raw)
        except ValidationError:
            return False
        if not any(version in result.supported_versions for version in MODERN_PROTOCOL_VERSIONS):
            return False
        self.session.adopt(result)
        self._meta = {
            types.PROTOCOL_VERSION_META_KEY: self.session.protocol_version,
            types.CLIENT_INFO_META_KEY: _CLIENT.model_dump(by_alias=True, mode="json", exclude_none=True),
            types.CLIENT_CAPABILITIES_META_KEY: {},
        }
        return True

    async def _initialize(self) -> None:
        with self._telemetry.operation("initialize", tool=None, protocol_version=None, transport="pipe") as operation:
            try:
                await self.session.initialize()
            except MCPError as error:
                operation.failed(str(error.code))
                raise
            finally:
                if self._writer.last_request_id is not None:
                    operation.request_id(str(self._writer.last_request_id))

    async def _page(self, cursor: str | None) -> Mapping[str, object]:
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        with self._telemetry.operation(
            "tools/list", tool=None, protocol_version=self.session.protocol_version, transport="pipe"
        ) as operation:
            answer, request_id = await self._request("tools/list", params, {}, None)
            operation.request_id(request_id)
            match answer:
                case Answered(result):
                    return result
                case Refused(code, message):
                    operation.failed(str(code))
                    if code == types.METHOD_NOT_FOUND and cursor is None:
                        return {}  # a server of resources or prompts only
                    words = f"{self._server_id!r} refuses to list its tools: {redact(message, 300)}"
                    raise ToolError(self._discovery_failure(words, str(code)))
                case Lost(why=why):
                    operation.failed("connection_closed")
                    words = f"{self._server_id!r} {why} while it listed its tools"
                    raise ToolError(self._discovery_failure(words))

    async def _request(
        self, method: str, params: dict[str, Any], meta: Mapping[str, str], on_progress: ProgressReporter | None
    ) -> tuple[Answer, str]:
        # Ids are ours, so that telemetry and the question "was it sent?" can name the request.
        request_id = next(self._ids)
        options: CallOptions = {"request_id": request_id}
        if self._meta or meta:
            params["_meta"] = {**meta, **self._meta}
        waiting = True
        if on_progress is not None:

            async def report(progress: float, total: float | None, message: str | None) -> None:
                if waiting:
                    on_progress(progress, total, message or "")

            options["on_progress"] = report
        try:
            result = await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED and self._gone:
                why = self.end_reason or "went away"
                return Lost(sent=request_id in self._writer.sent, why=why), str(request_id)
            return Refused(error.code, error.message), str(request_id)
        finally:
            waiting = False
            self._writer.sent.discard(request_id)
        return Answered(result), str(request_id)

    def _discovery_failure(self, words: str, code: str = "") -> Failure:
        return Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.MCP_DISCOVERY_FAILED,
            message=words,
            retryable=True,
            origin=self._server_id,
            origin_code=code,
        )


def ended(process: Pipe) -> str:
    """How a child ended, in words that follow its name."""
    code = process.returncode
    if code is None:
        how = "closed its output"
    else:
        how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
    words = redact(process.last_words, 300)
    return f"{how} ({words})" if words else how


@asynccontextmanager
async def open_link(
    server_id: str, process: Pipe, telemetry: McpTelemetry, discover_timeout: float
) -> AsyncIterator[StdioLink]:
    """A link over a started child. Raises ToolError, and MCPError, ValidationError and RuntimeError of the SDK."""
    link = StdioLink(server_id, process, telemetry)
    async with link.session:
        try:
            await link.negotiate(discover_timeout)
        except MCPError as error:
            if not process.ended.is_set():
                raise
            await process.exits(_EXIT_GRACE)
            words = f"MCP server {server_id!r} {ended(process)} before it answered"
            failure = Failure(FailurePhase.ROUTING, Reason.MCP_UNAVAILABLE, words, retryable=True, origin=server_id)
            raise ToolError(failure) from error
        try:
            yield link
        finally:
            link.abandon()  # calls in flight are lost from here on, whatever the process does
