"""A gRPC service as a ``Toolset``: its tools, and what becomes of a call that is answered, refused or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import anyio

from turnwired.apart import Nursery
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Data, Part, Text
from turnwired.domain.tool import Tool
from turnwired.tools.grpc.calls import Answer, Limits, Lost, Received, Stream, TooLong, call_unary, sent
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.connection import Connection
from turnwired.tools.grpc.listing import Listing, Method
from turnwired.tools.grpc.messages import NotRead, NotTaken, content_of, request_of
from turnwired.tools.grpc.status import answered
from turnwired.tools.hiding import told
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.result import json_of

_STREAM_SHARE: Final = 0.9
"""Of the time for a call: a stream that does not end still gives what came."""
_LARGE: Final = 256 * 1024
"""Bytes from which an answer is made JSON in a thread."""


class GrpcToolset:
    """A ``Toolset`` over the service at one address."""

    def __init__(self, set_id: str, config: GrpcService) -> None:
        self._set_id = set_id
        self._config = config
        self._connection = Connection(set_id, config)
        self._peer = self._connection.peer
        self._calls = Nursery()

    @property
    def set_id(self) -> str:
        """The service's id."""
        return self._set_id

    @property
    def failure(self) -> Failure | None:
        """Why the service cannot be used now, or was not the last time it was asked what it has."""
        return self._peer.failure

    @property
    def left_out(self) -> Sequence[Failure]:
        """Services and methods that cannot be offered."""
        listing = self._connection.listing
        return () if listing is None else listing.left_out

    async def start(self) -> None:
        """Connect in the background."""
        self._peer.begin()

    @property
    def discovering(self) -> bool:
        """Whether it is being asked for the first time."""
        return self._peer.trying

    async def tools(self) -> Sequence[Tool]:
        """The tools that are known. Only the first attempt to learn them is waited for, later ones are not."""
        if self._connection.listing is None:
            await self._peer.first_try()
        self._peer.begin()
        listing = self._connection.listing
        return () if listing is None else listing.tools

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Call a method. A call whose connection was lost is made once more if the method may be repeated, else not."""
        listing = self._connection.listing
        if listing is None or self._peer.closed:
            failure = self._peer.failure
            words = "is closed" if self._peer.closed else "what it has is not known"
            raise ToolError(failure or self._peer.unavailable(words))
        method = listing.methods.get(invocation.native_name)
        if method is None:
            raise ToolError(self._failure(Reason.TOOL_NOT_FOUND, f"has no tool {invocation.native_name!r}"))
        request = self._request(invocation, method, listing)
        deadline = None if invocation.timeout is None else anyio.current_time() + invocation.timeout
        answer: Answer = await sent(
            lambda _: self._send(invocation, method, request, deadline), again=method.repeatable
        )
        match answer:
            case Received(error=None):
                return await self._output(answer, method, listing)
            case Received():
                return await self._refused(answer, method, listing)
            case TooLong():
                raise ToolError(self._too_long(method))
            case Lost():
                words = "the connection was lost during the call; it may have been executed"
                raise ToolError(self._failure(Reason.TOOL_OUTCOME_UNKNOWN, words))

    async def aclose(self) -> None:
        """End the connection and every call on it."""
        await self._peer.aclose()
        await self._calls.aclose()

    def _request(self, invocation: ToolInvocation, method: Method, listing: Listing) -> bytes:
        try:
            request = request_of(invocation.arguments, method.descriptor.input_type, listing.pool)
        except NotTaken as error:
            words = f"The arguments are not taken: {error}. The call was not sent."
            raise ToolError(self._failure(Reason.TOOL_ARGUMENTS_INVALID, words)) from None
        if len(request) > self._config.max_message_bytes:
            words = f"The arguments are {len(request)} bytes, {self._config.max_message_bytes} are the most."
            raise ToolError(self._failure(Reason.TOOL_ARGUMENTS_INVALID, words))
        return request

    async def _send(self, invocation: ToolInvocation, method: Method, request: bytes, deadline: float | None) -> Answer:
        line, metadata = await self._peer.for_call(invocation, deadline)
        left = None if deadline is None else max(0.0, deadline - anyio.current_time())
        seconds = (
            self._config.stream_timeout if left is None else min(self._config.stream_timeout, left * _STREAM_SHARE)
        )
        limits = Limits(left, self._config.max_streamed, self._config.max_message_bytes, seconds)
        if not method.streams:
            work = call_unary(line, method.path, request, metadata, limits)
            return cast("Answer", await self._calls.run(work, f"grpc-call-{self._set_id}"))
        stream = Stream(line, method.path, limits)
        with anyio.move_on_after(limits.seconds):
            work = stream.collect(request, metadata)
            return cast("Answer", await self._calls.run(work, f"grpc-stream-{self._set_id}"))
        return stream.cut(f"{limits.seconds:g} s are the most")

    async def _output(self, answer: Received, method: Method, listing: Listing) -> ToolOutput:
        if sum(map(len, answer.messages)) < _LARGE:
            content = self._content(answer, method, listing)
        else:
            content = await anyio.to_thread.run_sync(self._content, answer, method, listing, abandon_on_cancel=True)
        structured = content.json if isinstance(content, Data) else None
        return ToolOutput((Part("", content),), structured_json=structured)

    def _content(self, answer: Received, method: Method, listing: Listing) -> Data | Text:
        """The answer, or the messages of a stream and whether they are all. Raises ToolError."""
        try:
            items = [content_of(data, method.descriptor.output_type, listing.pool) for data in answer.messages]
        except NotRead:
            words = f"{method.path} answered with what is no {method.descriptor.output_type.full_name}"
            raise ToolError(self._failure(Reason.TOOL_RESULT_INVALID, f"{words}; it may have taken effect")) from None
        if not method.streams:
            return items[0]
        listed = ",".join(item.json if isinstance(item, Data) else json_of(item.text) for item in items)
        more = f',"cut":{json_of(answer.cut)}' if answer.cut else ""
        complete = "false" if answer.cut or answer.error is not None else "true"
        return Data(f'{{"messages":[{listed}],"complete":{complete}{more}}}')

    async def _refused(self, answer: Received, method: Method, listing: Listing) -> ToolOutput:
        assert answer.error is not None
        output = answered(
            f"gRPC service {self._set_id!r}",
            self._set_id,
            method.path,
            answer.error,
            repeatable=method.repeatable,
            hide=self._peer.secrets_hidden,
        )
        if output.failure is not None and output.failure.reason is Reason.TOOL_NOT_FOUND:
            self._peer.ask_again()
        if not answer.messages:
            return output
        before = await self._output(answer, method, listing)
        both = ToolOutput((*output.content, *before.content), is_error=True, failure=output.failure)
        return told(both, self._peer.secrets_hidden)

    def _too_long(self, method: Method) -> Failure:
        words = f"the answer of {method.path} is longer than max_message_bytes, {self._config.max_message_bytes}"
        done = "" if method.repeatable else "; it may have taken effect"
        return self._failure(Reason.TOOL_FAILED, words + done)

    def _failure(self, reason: Reason, words: str) -> Failure:
        return Failure(
            phase=FailurePhase.TOOL,
            reason=reason,
            message=f"gRPC service {self._set_id!r}: {words}",
            origin=self._set_id,
        )
