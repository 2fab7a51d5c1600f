"""Stdio under an MCP session: the SDK's streams over the lines of a child process, and how such a link is opened.

Imports the SDK, so it is itself imported late. Knows the session as what runs over it, and nothing of tools.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.mcp.link import Lost, Refused
from turnwired.tools.mcp.process import ENDS_BYTES, Pipe, TooLong
from turnwired.tools.mcp.session import SessionLink
from turnwired.tools.mcp.wire import TOO_LARGE
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

_AT_ONCE: Final = 16
"""Lines between two turns of the event loop: a server may write thousands at once."""
_EXIT_GRACE: Final = 0.5  # seconds between the end of its output and its exit code
_ID_AT_START: Final = re.compile(rb'^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d+)')
_ID_AT_END: Final = re.compile(rb'"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class _Reader:
    """The SDK's read stream over a child's lines. Lines that are no messages are counted and passed over."""

    def __init__(self, process: Pipe) -> None:
        self._process = process
        self.noise = 0
        self._read = 0
        self.broken = ""
        self.closed = anyio.Event()

    async def receive(self) -> SessionMessage | Exception:
        while (line := await self._process.receive()) is not None:
            self._read += 1
            if self._read % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()  # what is read already is given without a turn of the loop
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
    except RecursionError:
        return _cut_short(TooLong(line[:ENDS_BYTES], line[-ENDS_BYTES:]), "the answer is nested too deeply")
    except (ValidationError, ValueError):
        return None


def _cut_short(line: TooLong, why: str = "the answer is longer than max_message_bytes") -> types.JSONRPCMessage | None:
    """An error in place of an answer that is not read, if it can be told whose answer it is."""
    found = _ID_AT_START.match(line.head) or _ID_AT_END.search(line.tail)
    if found is None:
        return None
    error = types.ErrorData(code=TOO_LARGE, message=why)
    return types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)


class StdioWire:
    """A ``Wire`` over a child's pipes."""

    transport = "pipe"

    def __init__(self, process: Pipe) -> None:
        self._process = process
        self._reader = _Reader(process)
        self._writer = _Writer(process)
        self.dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(self._reader, self._writer)

    @property
    def closed(self) -> anyio.Event:
        """Set when nothing more can be read."""
        return self._reader.closed

    @property
    def end_reason(self) -> str:
        """Why it ended: its exit code and its last words on stderr."""
        if self._reader.broken:
            return self._reader.broken
        return ended(self._process) if self.gone else ""

    @property
    def gone(self) -> bool:
        """Whether the server or its output has ended."""
        return self._process.ended.is_set() or self._reader.closed.is_set()

    @property
    def last_request_id(self) -> str | int | None:
        """Of the request written last."""
        return self._writer.last_request_id

    def close(self, why: str) -> None:
        """We end the connection."""
        if not self.gone:
            self._reader.broken = why
            self._reader.closed.set()

    def judge(self, error: MCPError, request_id: int) -> Lost | Refused:
        """Whether the server refused, or was lost."""
        if error.code == types.CONNECTION_CLOSED and self.gone:
            return Lost(sent=request_id in self._writer.sent, why=self.end_reason or "went away")
        return Refused(error.code, error.message)

    def settled(self, request_id: int) -> None:
        """Nobody will ask about this request any more."""
        self._writer.sent.discard(request_id)


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
) -> AsyncIterator[SessionLink]:
    """A link over a started child. Raises ToolError, and MCPError, ValidationError and RuntimeError of the SDK."""
    link = SessionLink(server_id, StdioWire(process), telemetry)
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
