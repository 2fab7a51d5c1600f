"""An MCP server as a ``Toolset``: what its tools are, and what becomes of a call when the server dies under it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.domain.tool import Tool
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.mcp.config import StdioServer
from turnwired.tools.mcp.connection import Connection
from turnwired.tools.mcp.content import output_of
from turnwired.tools.mcp.link import Answered, Link, Lost, Opener, Refused
from turnwired.tools.mcp.process import ChildProcess
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.result import redact

_MAX_DISCOVER_TIMEOUT: Final = 10.0
_INVALID_PARAMS: Final = -32602  # of JSON-RPC; MCP's answer to an unknown tool
_RELIST_SECONDS: Final = 5.0
_NAMES_SHOWN: Final = 40


class StdioOpener:
    """Starts the server's process and opens a link over its pipes."""

    def __init__(self, server_id: str, config: StdioServer, telemetry: McpTelemetry) -> None:
        self._server_id = server_id
        self._config = config
        self._telemetry = telemetry

    async def prepare(self) -> None:
        """Load the SDK, in a thread: it takes about a second the first time."""
        await anyio.to_thread.run_sync(importlib.import_module, "turnwired.tools.mcp.session")

    def open(self) -> AbstractAsyncContextManager[Link]:
        """Connect. Raises ConfigError, OSError or ToolError."""
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Link]:
        from turnwired.tools.mcp import session  # loaded by prepare

        config = self._config
        process = await ChildProcess.start(
            f"MCP server {self._server_id!r}",
            config.command,
            config.args,
            config.environment(),
            config.cwd,
            config.max_message_bytes,
        )
        try:
            # Half of the time for servers that know the probe, half for the handshake with those that ignore it.
            discover_timeout = min(_MAX_DISCOVER_TIMEOUT, config.connect_timeout / 2)
            async with session.open_link(self._server_id, process, self._telemetry, discover_timeout) as link:
                yield link
        finally:
            with anyio.CancelScope(shield=True):
                await process.aclose(config.close_timeout / 2)


class McpToolset:
    """A ``Toolset`` over one server: the child process that the configuration names, or what ``opener`` opens."""

    def __init__(self, set_id: str, config: StdioServer, telemetry: McpTelemetry, opener: Opener | None = None) -> None:
        self._set_id = set_id
        self._config = config
        opener = opener or StdioOpener(set_id, config, telemetry)
        self._connection = Connection(set_id, opener, config.connect_timeout, config.close_timeout)

    @property
    def set_id(self) -> str:
        """The server's id."""
        return self._set_id

    @property
    def failure(self) -> Failure | None:
        """Why the server cannot be used now."""
        return self._connection.failure

    @property
    def left_out(self) -> Sequence[Failure]:
        """Entries of its tool list that cannot be offered."""
        listing = self._connection.listing
        return () if listing is None else listing.left_out

    async def start(self) -> None:
        """Connect in the background."""
        self._connection.begin()

    async def tools(self) -> Sequence[Tool]:
        """The tools that are known. Only the first attempt to connect is waited for, later ones are not."""
        if self._connection.listing is None:
            await self._connection.first_try()
        self._connection.begin()
        listing = self._connection.listing
        return () if listing is None else listing.tools

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Call a tool, within the server's own ``call_timeout`` if it has one.

        A request that never reached the server is made once more on a new connection; one that may have reached it only
        if the configuration trusts the server and the server calls the tool idempotent or read-only.
        """
        with anyio.move_on_after(self._config.call_timeout):
            answer = await self._call(invocation)
            if isinstance(answer, Lost) and (not answer.sent or self._repeatable(invocation.native_name)):
                answer = await self._call(invocation)
            match answer:
                case Answered(result):
                    self._connection.proved()
                    return output_of(result)
                case Refused(code, message):
                    self._connection.proved()
                    if code == _INVALID_PARAMS and (gone := await self._gone(invocation.native_name)) is not None:
                        return gone
                    return self._refused(code, message)
                case Lost():
                    raise ToolError(self._lost(answer))
        words = f"{invocation.native_name} timed out after {self._config.call_timeout:g} s; it may have taken effect"
        raise ToolError(self._failure(Reason.TOOL_TIMEOUT, words))

    async def aclose(self) -> None:
        """End the server and all that it started."""
        await self._connection.aclose()

    async def _call(self, invocation: ToolInvocation) -> Answered | Refused | Lost:
        link = await self._connection.ready()
        return await link.call_tool(
            invocation.native_name, invocation.arguments, invocation.headers, invocation.on_progress
        )

    def _repeatable(self, name: str) -> bool:
        listing = self._connection.listing
        if not self._config.trust_annotations or listing is None:
            return False
        hints = [tool.annotations for tool in listing.tools if tool.ref.native_name == name]
        return any(hint.idempotent or hint.read_only for hint in hints)

    async def _gone(self, name: str) -> ToolOutput | None:
        """What to say when the server no longer has the tool: an unknown name is a hint that our list is old."""
        listing = await self._connection.relist(_RELIST_SECONDS)
        if listing is None or any(tool.ref.native_name == name for tool in listing.tools):
            return None
        names = [tool.ref.native_name for tool in listing.tools]
        shown = ", ".join(names[:_NAMES_SHOWN]) + (" and more" if len(names) > _NAMES_SHOWN else "")
        words = f"The server no longer has the tool {name}. Do not call it again."
        words += f" From your next step on its tools are: {shown}." if names else " It has no tools now."
        failure = self._failure(Reason.TOOL_NOT_FOUND, f"no longer has the tool {name!r}", str(_INVALID_PARAMS))
        return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)

    def _refused(self, code: int, message: str) -> ToolOutput:
        failure = self._failure(Reason.TOOL_FAILED, f"the server answered with error {code}", str(code))
        words = f"Error {code}: {redact(message)}"
        return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)

    def _lost(self, answer: Lost) -> Failure:
        if not answer.sent:
            return self._failure(Reason.MCP_UNAVAILABLE, f"{answer.why} before it was asked; not executed")
        return self._failure(Reason.TOOL_OUTCOME_UNKNOWN, f"{answer.why} during the call; it may have been executed")

    def _failure(self, reason: Reason, words: str, code: str = "") -> Failure:
        return Failure(
            phase=FailurePhase.TOOL,
            reason=reason,
            message=words if reason is Reason.TOOL_TIMEOUT else f"MCP server {self._set_id!r}: {words}",
            retryable=reason is Reason.MCP_UNAVAILABLE,
            origin=self._set_id,
            origin_code=code,
        )
