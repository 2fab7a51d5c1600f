"""The tools of the deployment as a Streamable HTTP MCP server, for each caller those that are its own.

Both eras of the protocol, without sessions: every request stands for itself, so any replica answers it. Translates; the
engine lists, rules and calls.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final, Protocol

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from turnwired import __version__
from turnwired.domain.errors import NotFound, RequestError
from turnwired.domain.faults import where_raised
from turnwired.domain.message import ToolResult
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool
from turnwired.engine.outside import OutsideCall
from turnwired.http.guard import caller_in
from turnwired.http.mcp_content import result_to_mcp, tool_to_mcp
from turnwired.stray import ANY_FAULT, require_stray
from turnwired.tools.port import ProgressReporter

_LOG = logging.getLogger(__name__)

PAGE: Final = 500
"""Tools of one page of ``tools/list``."""
FRESH_MS: Final = 5_000
"""How long a client may take a list for current. There are no notifications of changes: nobody holds a session."""
MOST_PROGRESS: Final = 16
"""Reports of progress that wait to be sent; a tool that tells more than the client takes loses some."""
_TRACE: Final = ("traceparent", "tracestate")
MOST_LISTINGS: Final = 64
TOLD_SECONDS: Final = 1.0
"""How long the result of a call waits for reports that are still being sent."""
_TALKATIVE: Final = ("mcp.server.runner", "mcp.server.streamable_http", "mcp.shared.jsonrpc_dispatcher")
_Context = ServerRequestContext[Any, Any]


class Tools(Protocol):
    """What this module needs of the engine."""

    async def tools(self, caller: Caller) -> Sequence[Tool]:
        """What the caller may call, by routed name."""
        ...

    async def call(self, caller: Caller, call: OutsideCall) -> ToolResult:
        """Make a call."""
        ...


class McpEndpoint:
    """An ASGI app for one path. Serve it inside ``running``."""

    def __init__(self, tools: Tools, max_request_bytes: int) -> None:
        self._tools = tools
        self._listings: dict[int, _Listing] = {}
        server: Server[Any] = Server(
            "turnwire",
            version=__version__,
            instructions="The tools of a Turnwire deployment, as far as they are for you.",
            cache_hints={"tools/list": CacheHint(FRESH_MS, "private")},
            on_list_tools=self._list,
            on_call_tool=self._call,
            get_tool_input_schema=_schema_of,
        )
        # What is refused by host, origin and size is refused before; the SDK's own check would know fewer hosts.
        self._manager = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=max_request_bytes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While inside requests are answered; leaving it cancels those under way."""
        with _quiet_words():
            try:
                async with self._manager.run():
                    yield
            finally:
                _end_watchers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if Headers(scope=scope).get("mcp-method") == "tools/call":  # the SDK holds its other headers against the schema
            with suppress(RequestError):  # which the call itself runs into, and tells
                _LISTING.set(await self._listing(caller_in(scope)))
        await self._manager.handle_request(scope, receive, send)

    async def _list(self, context: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """A page of the caller's tools. The cursor is the last name of the page before."""
        try:
            listing = await self._listing(_caller(context))
        except RequestError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from None
        after = "" if params is None or params.cursor is None else params.cursor
        told = listing.told(modern=context.protocol_version in MODERN_PROTOCOL_VERSIONS)
        page = list(islice((tool for name, tool in told.items() if name > after), PAGE + 1))
        more = page[PAGE - 1].name if len(page) > PAGE else None
        return types.ListToolsResult(tools=page[:PAGE], next_cursor=more)

    async def _listing(self, caller: Caller) -> _Listing:
        """The caller's tools in MCP's words, made once for all callers with the same ones."""
        tools = await self._tools.tools(caller)
        kept = self._listings.get(id(tools))
        if kept is None or kept.tools is not tools:
            if len(self._listings) >= MOST_LISTINGS:
                self._listings.clear()
            kept = self._listings[id(tools)] = _Listing(tools)
        return kept

    async def _call(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Make a call. What is wrong with it is a result, so that a model can act on it; a tool that is not there is an
        error of the protocol.
        """
        wants = context.meta is not None and context.meta.get("progress_token") is not None
        try:
            async with _told(context) if wants else nullcontext() as report:
                call = OutsideCall(params.name, json.dumps(params.arguments or {}), _trace(context), report)
                result = await self._tools.call(_caller(context), call)
            listing = await self._listing(_caller(context))
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        except RequestError as error:
            return _failed(error.message)
        except ANY_FAULT as error:  # task boundary: one broken call ends no other
            require_stray(error)
            _LOG.error("a call of %s failed: %s", params.name[:64], where_raised(error))
            return _failed("The server failed while it handled the call. Its log has the details.")
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        tool = listing.told(modern=modern).get(params.name)
        promised = tool is not None and tool.output_schema is not None
        return result_to_mcp(result, promised=promised, modern=modern)


class _Listing:
    """The tools of some callers, by name, as each era is told them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self._told: dict[bool, dict[str, types.Tool]] = {}

    def told(self, *, modern: bool) -> Mapping[str, types.Tool]:
        """In MCP's words, in the order of names."""
        if modern not in self._told:
            self._told[modern] = {tool.ref.routed_name: tool_to_mcp(tool, modern=modern) for tool in self.tools}
        return self._told[modern]


_LISTING: ContextVar[_Listing | None] = ContextVar("turnwire_mcp_listing", default=None)
"""The listing of the caller whose request this task handles."""


def _schema_of(name: str) -> Mapping[str, Any] | None:
    listing = _LISTING.get()
    tool = None if listing is None else listing.told(modern=True).get(name)
    return None if tool is None else tool.input_schema


def _failed(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


def _request(context: _Context) -> Request:
    assert isinstance(context.request, Request), "it came over HTTP"
    return context.request


def _caller(context: _Context) -> Caller:
    return caller_in(_request(context).scope)


def _trace(context: _Context) -> Mapping[str, str]:
    headers = _request(context).headers
    return {name: headers[name] for name in _TRACE if name in headers}


@asynccontextmanager
async def _told(context: _Context) -> AsyncIterator[ProgressReporter]:
    """Takes reports of progress, and sends them while inside: as many as the client keeps up with."""
    send, receive = anyio.create_memory_object_stream[tuple[float, float | None, str]](MOST_PROGRESS)

    async def tell() -> None:
        async with receive:
            async for done, total, text in receive:
                await context.session.report_progress(done, total, text or None)

    def report(done: float, total: float | None, text: str) -> None:
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            send.send_nowait((done, total, text))

    task = asyncio.create_task(tell())
    try:
        yield report
        send.close()
        await asyncio.wait([task], timeout=TOLD_SECONDS)
    finally:
        send.close()
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (failure := task.exception()) is not None:
            _LOG.info("progress was not told: %s", where_raised(failure))


def _end_watchers() -> None:
    """The SDK's library for event streams starts a task that nobody owns, and that would wait for a signal for ever."""
    for task in asyncio.all_tasks():
        coroutine = task.get_coro()
        if getattr(coroutine, "__qualname__", "") == "_shutdown_watcher":
            task.cancel()


class _WithoutTracebacks(logging.Filter):
    """The SDK logs faults with their tracebacks, and pydantic's quote what was sent: their kind has to do."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            kind = record.exc_info[0]
            record.msg, record.args = f"{record.getMessage()} ({'' if kind is None else kind.__name__})", ()
            record.exc_info = record.exc_text = None
        return True


@contextmanager
def _quiet_words() -> Iterator[None]:
    kept = _WithoutTracebacks()
    for name in _TALKATIVE:
        logging.getLogger(name).addFilter(kept)
    try:
        yield
    finally:
        for name in _TALKATIVE:
            logging.getLogger(name).removeFilter(kept)
