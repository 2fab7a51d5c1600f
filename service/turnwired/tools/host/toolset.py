"""An app that serves tools as a ``Toolset``: what it has, and what becomes of a call that is answered or lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

import anyio
import grpc.aio

from turnwired.apart import Nursery
from turnwired.codec.tool_host import CALL_TOOL, LIST_TOOLS, encode_call, encode_list_tools
from turnwired.domain.errors import CodecError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import Tool
from turnwired.domain.tool_host import HostedCall, HostedResult, HostedTool, ToolHost, ToolHostState
from turnwired.tools.grpc.calls import Answer, Lost, Received, TooLong, sent
from turnwired.tools.grpc.peer import NotAnswered, Peer
from turnwired.tools.grpc.status import answered
from turnwired.tools.hiding import told
from turnwired.tools.host.calls import HostCall, NoResult
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.listing import Found, Listing
from turnwired.tools.host.watching import Watching
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.result import json_of

KIND: Final = "tool host"
_LARGE: Final = 64 * 1024
"""Bytes from which a page is read in a thread."""
MAX_VERSION: Final = 256
"""Characters. A longer version counts as none."""


class HostToolset:
    """A ``Toolset`` over the app at one address. ``awaited``: its tools are waited for until it was asked once."""

    def __init__(self, set_id: str, config: ToolHostConfig, *, awaited: bool = True) -> None:
        self._awaited = awaited
        self._set_id = set_id
        self._config = config
        self._peer = Peer(set_id, KIND, config, self._ask)
        self._watching = Watching(self._peer, self._changed)
        self._calls = Nursery()
        self._listing: Listing | None = None
        self._version = ""
        self._version_of = 0
        """Connections that had been lost when the version was told: another release may be there after each."""

    @property
    def set_id(self) -> str:
        """The host's id."""
        return self._set_id

    @property
    def failure(self) -> Failure | None:
        """Why the app cannot be used now, or was not the last time it was asked what it has."""
        if self._peer.failure is None and not self._watching.serving:
            return self._peer.unavailable("it says that it takes no calls now")
        return self._peer.failure

    @property
    def left_out(self) -> Sequence[Failure]:
        """Tools that cannot be offered."""
        return () if self._listing is None else self._listing.left_out

    @property
    def host(self) -> ToolHost:
        """Where it stands."""
        failure = self.failure
        if self._peer.failure is not None:
            state = ToolHostState.UNAVAILABLE
        elif self._listing is None:
            state = ToolHostState.CONNECTING
        else:
            state = ToolHostState.READY if failure is None else ToolHostState.NOT_SERVING
        count = 0 if self._listing is None else len(self._listing.tools)
        return ToolHost(self._set_id, self._config.address, state, count, self._version, failure=failure)

    async def first_try(self) -> None:
        """Return when the app was asked once, well or not. Bounded by ``discovery_timeout``."""
        await self._peer.first_try()

    async def start(self) -> None:
        """Connect in the background."""
        self._peer.begin()

    @property
    def discovering(self) -> bool:
        """Whether it is being asked for the first time."""
        return self._peer.trying

    async def tools(self) -> Sequence[Tool]:
        """The tools that are known. Only the first attempt to learn them is waited for, later ones are not."""
        if self._listing is None and self._awaited:
            await self.first_try()
        self._peer.begin()
        return () if self._listing is None else self._listing.tools

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Call a tool. A call whose connection was lost is sent once more if the tool may be called twice, else not."""
        hosted = self._hosted(invocation.native_name)
        deadline = None if invocation.timeout is None else anyio.current_time() + invocation.timeout
        send = partial(self._send, invocation, deadline)
        answer: HostedResult | NoResult | Answer = await sent(send, again=hosted.repeatable)
        match answer:
            case HostedResult(content, structured, is_error):
                return told(ToolOutput(content, structured, is_error), self._peer.secrets_hidden)
            case NoResult(why):
                words = f"{invocation.native_name} {why}"
                raise ToolError(self._failure(Reason.TOOL_RESULT_INVALID, self._open(words, hosted)))
            case Received(error=error):
                assert error is not None, "a call of a tool ends with a result or an error"
                return self._refused(error, hosted)
            case TooLong():
                words = f"the result is longer than max_message_bytes, {self._config.max_message_bytes}"
                raise ToolError(self._failure(Reason.TOOL_FAILED, self._open(words, hosted)))
            case Lost():
                words = "the connection was lost during the call; it may have been executed"
                raise ToolError(self._failure(Reason.TOOL_OUTCOME_UNKNOWN, words))

    async def aclose(self) -> None:
        """End the connection and every call on it."""
        await self._peer.aclose()
        await self._watching.aclose()
        await self._calls.aclose()

    def _hosted(self, name: str) -> HostedTool:
        """The tool, if it can be called now. Raises ToolError."""
        if self._listing is None or self._peer.closed:
            words = "is closed" if self._peer.closed else "what it has is not known"
            raise ToolError(self._peer.failure or self._peer.unavailable(words))
        hosted = self._listing.hosted.get(name)
        if hosted is None:
            raise ToolError(self._failure(Reason.TOOL_NOT_FOUND, f"has no tool {name!r}"))
        if not self._watching.serving:
            raise ToolError(self._peer.unavailable("it says that it takes no calls now; the call was not sent"))
        return hosted

    async def _send(
        self, invocation: ToolInvocation, deadline: float | None, attempt: int
    ) -> HostedResult | NoResult | Answer:
        request = encode_call(
            HostedCall(
                name=invocation.native_name,
                arguments_json=json_of(invocation.arguments),
                idempotency_key=f"{invocation.run_id}/{invocation.call_id}",
                run_id=invocation.run_id,
                call_id=invocation.call_id,
                session_id=invocation.session_id,
                caller=invocation.caller,
                attempt=invocation.attempt + attempt - 1,
            )
        )
        most = self._config.max_message_bytes
        if len(request) > most:
            words = f"The arguments are {len(request)} bytes, {most} are the most."
            raise ToolError(self._failure(Reason.TOOL_ARGUMENTS_INVALID, words))
        line, metadata = await self._peer.for_call(invocation, deadline)
        left = None if deadline is None else max(0.0, deadline - anyio.current_time())
        call = HostCall(line, request, metadata, left, most, invocation.on_progress)
        name = f"host-call-{self._set_id}"
        return cast("HostedResult | NoResult | Answer", await self._calls.run(call.result(), name))

    def _refused(self, error: grpc.aio.AioRpcError, hosted: HostedTool) -> ToolOutput:
        output = answered(
            f"{KIND} {self._set_id!r}",
            self._set_id,
            CALL_TOOL,
            error,
            repeatable=hosted.repeatable,
            hide=self._peer.secrets_hidden,
        )
        if output.failure is not None and output.failure.reason is Reason.TOOL_NOT_FOUND:
            self._peer.ask_again()
        return output

    def _changed(self, version: str) -> None:
        if not version or version != self._version:
            self._peer.ask_again()

    async def _ask(self, channel: grpc.aio.Channel) -> None:
        lost = self._peer.losses.count
        known = self._version if self._listing is not None and self._version_of == lost else ""
        work = self._pages(channel, known)
        found = cast("Found", await self._calls.run(work, f"host-list-{self._set_id}"))
        assert found.first is not None, "there is a page, or an error was raised"
        if not found.first.unchanged:
            listing = found.listing()
            if self._listing is None or (listing.hosted, listing.left_out) != (
                self._listing.hosted,
                self._listing.left_out,
            ):
                self._listing = listing  # else the same list stays: prompt caches live from it
            version = found.first.version
            self._version, self._version_of = version if len(version) <= MAX_VERSION else "", lost
        self._watching.begin()

    async def _pages(self, channel: grpc.aio.Channel, known: str) -> Found:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(LIST_TOOLS)
        found = Found(self._set_id)
        while True:
            request = encode_list_tools(known, found.next_page_token)
            body = await method(request, metadata=self._peer.authorization())
            try:
                if len(body) < _LARGE:
                    found.take(body)
                else:
                    await anyio.to_thread.run_sync(found.take, body, abandon_on_cancel=True)
            except CodecError as error:
                raise NotAnswered(f"its list of tools cannot be read: {error}") from None
            if found.unchanged and not known:
                raise NotAnswered("it says that its tools are unchanged, and none are known")
            if not found.next_page_token:
                return found

    def _open(self, words: str, hosted: HostedTool) -> str:
        return words if hosted.repeatable else f"{words}; it may have taken effect"

    def _failure(self, reason: Reason, words: str) -> Failure:
        message = f"{KIND} {self._set_id!r}: {words}"
        return Failure(phase=FailurePhase.TOOL, reason=reason, message=message, origin=self._set_id)
