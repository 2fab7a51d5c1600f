"""An app that serves tools as a ``Toolset``: what it has, and what becomes of a call that is answered or lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

import anyio
import grpc.aio

from turnwired.apart import Nursery
from turnwired.codec.tool_host import CALL_TOOL, LIST_TOOLS, decode_page, encode_call, encode_list_tools
from turnwired.domain.errors import CodecError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.text import clean_text
from turnwired.domain.tool import Tool
from turnwired.domain.tool_host import HostedCall, HostedPage, HostedResult, HostedTool, ToolHost, ToolHostState
from turnwired.tools.grpc.calls import Answer, Lost, Received, TooLong, sent
from turnwired.tools.grpc.peer import NotAnswered, Peer
from turnwired.tools.grpc.status import answered
from turnwired.tools.host.calls import HostCall, NoResult
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.watching import Watching
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.result import json_of

KIND: Final = "tool host"
MAX_PAGES: Final = 1000
MAX_TOOLS: Final = 10_000
MAX_NAME: Final = 256
MAX_VERSION: Final = 256
"""Characters. A longer version counts as none."""


@dataclass(frozen=True, slots=True)
class _Listing:
    tools: Sequence[Tool]
    left_out: Sequence[Failure]
    hosted: Mapping[str, HostedTool]


class HostToolset:
    """A ``Toolset`` over the app at one address. ``awaited``: its tools are waited for until it was asked once."""

    def __init__(self, set_id: str, config: ToolHostConfig, *, awaited: bool = True) -> None:
        self._awaited = awaited
        self._set_id = set_id
        self._config = config
        self._peer = Peer(set_id, KIND, config, self._ask)
        self._watching = Watching(self._peer, self._changed)
        self._calls = Nursery()
        self._listing: _Listing | None = None
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
                return ToolOutput(content, structured, is_error)
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
        pages = cast("list[HostedPage]", await self._calls.run(work, f"host-list-{self._set_id}"))
        if not pages[0].unchanged:
            listing = _listing_of(self._set_id, pages)
            if self._listing is None or (listing.hosted, listing.left_out) != (
                self._listing.hosted,
                self._listing.left_out,
            ):
                self._listing = listing  # else the same list stays: prompt caches live from it
            version = pages[0].version
            self._version, self._version_of = version if len(version) <= MAX_VERSION else "", lost
        self._watching.begin()

    async def _pages(self, channel: grpc.aio.Channel, known: str) -> list[HostedPage]:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(LIST_TOOLS)
        pages: list[HostedPage] = []
        tokens = {""}
        while True:
            last = pages[-1].next_page_token if pages else ""
            body = await method(encode_list_tools(known, last), metadata=self._peer.authorization())
            try:
                page = decode_page(body, self._set_id)
            except CodecError as error:
                raise NotAnswered(f"its list of tools cannot be read: {error}") from None
            if page.unchanged and not known:
                raise NotAnswered("it says that its tools are unchanged, and none are known")
            pages.append(page)
            if page.unchanged or not page.next_page_token:
                return pages
            if page.next_page_token in tokens or len(pages) == MAX_PAGES:
                raise NotAnswered("its list of tools does not end")
            tokens.add(page.next_page_token)

    def _open(self, words: str, hosted: HostedTool) -> str:
        return words if hosted.repeatable else f"{words}; it may have taken effect"

    def _failure(self, reason: Reason, words: str) -> Failure:
        message = f"{KIND} {self._set_id!r}: {words}"
        return Failure(phase=FailurePhase.TOOL, reason=reason, message=message, origin=self._set_id)


def _listing_of(set_id: str, pages: Sequence[HostedPage]) -> _Listing:
    hosted: dict[str, HostedTool] = {}
    left_out: list[Failure] = []
    for item in (tool for page in pages for tool in page.tools):
        name = item.tool.ref.native_name
        if not name:
            left_out.append(_left_out(set_id, name, "it has no name"))
        elif len(name) > MAX_NAME or not name.isprintable():
            why = f"its name has more than {MAX_NAME} characters, or some that cannot be printed"
            left_out.append(_left_out(set_id, name[:MAX_NAME], why))
        elif name in hosted:
            left_out.append(_left_out(set_id, name, "another tool has the same name"))
        elif len(hosted) == MAX_TOOLS:
            left_out.append(_left_out(set_id, name, f"{MAX_TOOLS} tools are the most"))
            break
        else:
            tool = item.tool
            words = replace(tool, description=clean_text(tool.description), title=clean_text(tool.title))
            hosted[name] = replace(item, tool=words)
    return _Listing(tuple(item.tool for item in hosted.values()), tuple(left_out), hosted)


def _left_out(set_id: str, name: str, why: str) -> Failure:
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.TOOL_QUARANTINED,
        message=f"tool {name!r} of {set_id!r} is left out: {why}",
        origin=f"{set_id}/{name}",
    )
