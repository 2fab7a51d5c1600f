"""An MCP server as a ``Toolset``: what its tools are, and what becomes of a call when the server dies under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import anyio

from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.deadline import standing_still
from turnwired.tools.hiding import told
from turnwired.tools.mcp.asking import until_complete
from turnwired.tools.mcp.config import HttpServer, McpServer
from turnwired.tools.mcp.connection import Connection
from turnwired.tools.mcp.content import output_of
from turnwired.tools.mcp.extras import Extras
from turnwired.tools.mcp.link import Answer, Answered, Asking, Listing, Lost, Opener, Refused
from turnwired.tools.mcp.opening import opener_of
from turnwired.tools.mcp.pool import CallerPool
from turnwired.tools.mcp.standing import History, Timing
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.result import redact

_INVALID_PARAMS: Final = -32602  # of JSON-RPC; MCP's answer to an unknown tool
_RELIST_SECONDS: Final = 5.0
_REFRESH_SECONDS: Final = 5.0
"""A list is read again at most so often for being stale."""
_NAMES_SHOWN: Final = 40
_GATEWAYS_UNKNOWN: Final = (502, 504)  # somebody between us and the server does not know what became of the request


class McpToolset:
    """A ``Toolset`` over one server, wherever the configuration says it is, or over what ``opener`` opens."""

    def __init__(
        self,
        set_id: str,
        config: McpServer,
        telemetry: McpTelemetry,
        opener: Opener | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``environ``: what references of the configuration lead to; None: our own environment."""
        self._set_id = set_id
        self._environ = environ
        self._config = config
        self._telemetry = telemetry
        self._given_opener = opener
        self._extras = Extras(set_id, resources=config.resources, prompts=config.prompts)
        self.history = History()
        self.enabled = True
        self.connection = self._new_connection()
        self._callers = CallerPool(set_id, self._new_caller_connection)

    @property
    def set_id(self) -> str:
        """The server's id."""
        return self._set_id

    @property
    def config(self) -> McpServer:
        """What the server was configured with."""
        return self._config

    @property
    def failure(self) -> Failure | None:
        """Why the server cannot be used now."""
        if not self.enabled:
            return self._failure(Reason.MCP_UNAVAILABLE, "is disabled", phase=FailurePhase.ROUTING)
        if self.connection.failure is None and self.connection.trying:
            words = "has not answered yet; it goes on being tried"
            return self._failure(Reason.MCP_UNAVAILABLE, words, phase=FailurePhase.ROUTING)
        return self.connection.failure

    @property
    def left_out(self) -> Sequence[Failure]:
        """Entries of its tool list that cannot be offered."""
        listing = self._listing()
        return () if listing is None else listing.left_out

    @property
    def discovering(self) -> bool:
        """Whether the first attempt to connect goes on."""
        return self.enabled and self.connection.listing is None and self.connection.trying

    async def start(self) -> None:
        """Connect in the background, unless the server is to be connected when it is first needed."""
        if not self._config.lazy:
            self.connection.begin()

    async def tools(self) -> Sequence[Tool]:
        """The tools that are known. Only the first attempt to connect is waited for, and not for long."""
        if not self.enabled:
            return ()
        connection = self.connection
        if connection.listing is None:
            grace = self._config.connect_timeout if self._config.required else self._config.discovery_grace
            await connection.first_try(grace)
        connection.begin()
        connection.refresh(_REFRESH_SECONDS)
        listing = self._listing()
        return () if listing is None else listing.tools

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Call a tool, within the server's own ``call_timeout`` if it has one.

        A request that never reached the server is made once more, on a new connection where that is why; one that may
        have been executed only if the configuration trusts the server and it calls the tool idempotent or read-only.
        """
        if not self.enabled:
            raise ToolError(self._failure(Reason.MCP_UNAVAILABLE, "is disabled; not executed"))
        with anyio.move_on_after(self._config.call_timeout) as scope:
            connection = self._connection_for(invocation.caller)
            connection.in_use += 1
            asking = None
            if invocation.ask is not None:
                asking = Asking(self._set_id, invocation.run_id, standing_still(scope, invocation.ask))
            try:
                return await self._called(connection, invocation, asking)
            finally:
                connection.in_use -= 1
        words = f"{invocation.native_name} timed out after {self._config.call_timeout:g} s; it may have taken effect"
        raise ToolError(self._failure(Reason.TOOL_TIMEOUT, words))

    async def aclose(self) -> None:
        """End the server and all that it started."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.connection.aclose)
            group.start_soon(self._callers.aclose)

    # --- for operators -----------------------------------------------------------------------------------------------

    async def enable(self) -> None:
        """Use the server again, and connect."""
        if not self.enabled:
            self.enabled = True
            self.connection.begin()

    async def disable(self) -> None:
        """Stop using the server and end its connections; calls in flight are lost."""
        if self.enabled:
            self.enabled = False
            await self._renewed()

    async def reconnect(self) -> None:
        """Drop the connections, their sessions and what is known of the tools, and connect again."""
        await self._renewed()
        if self.enabled:
            self.connection.begin()

    async def _renewed(self) -> None:
        old, self.connection = self.connection, self._new_connection()
        callers, self._callers = self._callers, CallerPool(self._set_id, self._new_caller_connection)
        async with anyio.create_task_group() as group:
            group.start_soon(old.aclose)
            group.start_soon(callers.aclose)

    # --- connections -------------------------------------------------------------------------------------------------

    def _new_connection(self) -> Connection:
        opener = self._given_opener or opener_of(self._set_id, self._config, self._telemetry, environ=self._environ)
        return Connection(self._set_id, opener, self._timing(), self._telemetry, history=self.history, hide=self._hide)

    def _new_caller_connection(self, caller: Caller) -> Connection:
        opener = opener_of(self._set_id, self._config, self._telemetry, caller, environ=self._environ)
        return Connection(
            self._set_id, opener, self._timing(), self._telemetry, lists=False, hide=partial(self._hide, caller=caller)
        )

    def _hide(self, text: str, caller: Caller | None = None) -> str:
        return self._config.hide(text, caller, self._environ)

    def _timing(self) -> Timing:
        return Timing(self._config.connect_timeout, self._config.close_timeout, self._config.keepalive)

    def _connection_for(self, caller: Caller) -> Connection:
        """The deployment's connection, or the caller's own. Raises ToolError when it has no credentials."""
        config = self._config
        if not isinstance(config, HttpServer) or not config.caller_headers:
            return self.connection
        try:
            headers = config.request_headers(caller, self._environ)
        except ConfigError as error:
            raise ToolError(self._failure(Reason.MCP_AUTH_FAILED, f"{error}; not executed")) from None
        return self._callers.connection(caller, headers)

    def _listing(self) -> Listing | None:
        listing = self.connection.listing
        return None if listing is None else self._extras.added(listing)

    # --- calls -------------------------------------------------------------------------------------------------------

    async def _called(self, connection: Connection, invocation: ToolInvocation, asking: Asking | None) -> ToolOutput:
        name = invocation.native_name

        async def ask(more: Mapping[str, object]) -> Answer:
            answer = await self._ask(connection, invocation, asking, more)
            if isinstance(answer, Lost) and answer.worth_repeating and (not answer.sent or self._repeatable(name)):
                answer = await self._ask(connection, invocation, asking, more)
            return answer

        answer = await until_complete(ask, asking)
        match answer:
            case Answered(result):
                connection.proved()
                return self._output(result, invocation)
            case Refused(code, message):
                connection.proved()
                if code == _INVALID_PARAMS and (gone := await self._gone(name)) is not None:
                    return gone
                return self._refused(code, self._hide(message, invocation.caller))
            case Lost():
                connection.troubled(answer)
                raise ToolError(self._lost(answer))

    async def _ask(
        self,
        connection: Connection,
        invocation: ToolInvocation,
        asking: Asking | None,
        more: Mapping[str, object],
    ) -> Answer:
        link = await connection.ready()
        name, arguments = invocation.native_name, invocation.arguments
        if self._extras.has(name):
            return await self._extras.call(link, name, arguments, invocation.headers, asking, more)
        params = {"name": name, "arguments": dict(arguments), **more}
        return await link.request("tools/call", params, invocation.headers, invocation.on_progress, asking)

    def _repeatable(self, name: str) -> bool:
        listing = self._listing()
        if self._extras.has(name):
            return True
        if not self._config.trust_annotations or listing is None:
            return False
        hints = [tool.annotations for tool in listing.tools if tool.ref.native_name == name]
        return any(hint.idempotent or hint.read_only for hint in hints)

    async def _gone(self, name: str) -> ToolOutput | None:
        """What to say when the server no longer has the tool: an unknown name is a hint that our list is old."""
        if self._extras.has(name) or await self.connection.relist(_RELIST_SECONDS) is None:
            return None
        listing = self._listing()
        if listing is None or any(tool.ref.native_name == name for tool in listing.tools):
            return None
        names = [tool.ref.native_name for tool in listing.tools]
        shown = ", ".join(names[:_NAMES_SHOWN]) + (" and more" if len(names) > _NAMES_SHOWN else "")
        words = f"The server no longer has the tool {name}. Do not call it again."
        words += f" From your next step on its tools are: {shown}." if names else " It has no tools now."
        failure = self._failure(Reason.TOOL_NOT_FOUND, f"no longer has the tool {name!r}", str(_INVALID_PARAMS))
        return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)

    def _output(self, result: Mapping[str, object], invocation: ToolInvocation) -> ToolOutput:
        try:
            output = output_of(result)
        except RecursionError:
            words = f"{invocation.native_name} gave a result that is nested too deeply; it may have taken effect"
            raise ToolError(self._failure(Reason.TOOL_RESULT_INVALID, words)) from None
        return told(output, partial(self._hide, caller=invocation.caller))

    def _refused(self, code: int, message: str) -> ToolOutput:
        failure = self._failure(Reason.TOOL_FAILED, f"the server answered with error {code}", str(code))
        words = f"Error {code}: {redact(message)}"
        return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)

    def _lost(self, lost: Lost) -> Failure:
        code = "" if lost.status is None else str(lost.status)
        if lost.stale:
            return self._failure(Reason.MCP_SESSION_LOST, f"{lost.why}, twice in a row; not executed", code)
        if lost.status in (401, 403):
            return self._failure(Reason.MCP_AUTH_FAILED, f"{lost.why}; not executed", code)
        if lost.status in (429, 503):
            failure = self._failure(Reason.MCP_UNAVAILABLE, f"{lost.why}; not executed", code)
            return replace(failure, retry_after=lost.retry_after)
        if lost.status is not None and lost.status not in _GATEWAYS_UNKNOWN:
            return self._failure(Reason.TOOL_FAILED, lost.why, code)
        if not lost.sent:
            return self._failure(Reason.MCP_UNAVAILABLE, f"{lost.why} before it was asked; not executed", code)
        return self._failure(
            Reason.TOOL_OUTCOME_UNKNOWN, f"{lost.why} during the call; it may have been executed", code
        )

    def _failure(self, reason: Reason, words: str, code: str = "", phase: FailurePhase = FailurePhase.TOOL) -> Failure:
        return Failure(
            phase=phase,
            reason=reason,
            message=words if reason is Reason.TOOL_TIMEOUT else f"MCP server {self._set_id!r}: {words}",
            retryable=reason is Reason.MCP_UNAVAILABLE,
            origin=self._set_id,
            origin_code=code,
        )
