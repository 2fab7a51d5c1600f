"""``AsyncClient`` and ``Client``: a connection, and turns whose questions and tool calls are answered by functions.

``AsyncClient.run`` follows a turn and answers what it waits for; ``Client`` is the same for blocking code. Rules of
resuming are in ``cursor``, the calls in ``following``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc

from turnwire.cursor import Resume, StreamLost, Update
from turnwire.errors import TurnwireError, error_of
from turnwire.following import Metadata, afollow
from turnwire.v1 import agent_service_pb2, mcp_server_service_pb2, server_service_pb2, session_service_pb2
from turnwire.v1 import tool_host_registry_service_pb2 as tool_host_registry_pb2
from turnwire.v1 import turn_service_pb2 as pb
from turnwire.v1.approval_pb2 import APPROVAL_DECISION_ALWAYS, APPROVAL_DECISION_ONCE, APPROVAL_DECISION_REJECT
from turnwire.v1.message_pb2 import TOOL_RESULT_STATUS_ERROR, TOOL_RESULT_STATUS_OK, ToolResult
from turnwire.v1.turn_service_pb2_grpc import TurnServiceStub
from turnwire.view import RunView

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor

    from turnwire.v1.approval_pb2 import Approval
    from turnwire.v1.event_pb2 import RunWaiting
    from turnwire.v1.message_pb2 import ToolCall
    from turnwire.v1.turn_service_pb2_grpc import TurnServiceAsyncStub

T = TypeVar("T")

MAX_MESSAGE_BYTES = 16 << 20
UNARY_SECONDS = 30.0
"""Deadline of calls that are no streams."""
_CANCEL_SECONDS = 5.0
_TRIES = 4
_LATE = frozenset({"RUN_SETTLED", "APPROVAL_ALREADY_RESOLVED", "APPROVAL_NOT_FOUND"})
"""Somebody or something else was first; the stream says so too."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to an approval: ``ONCE``, ``ALWAYS`` (for the session) or ``reject``, with a comment for the model.

    ``patterns``: those of the approval's that ALWAYS is for; none: all. ``input_json``: what a tool asked for, where
    the approval has a schema.
    """

    decision: int
    comment: str = ""
    patterns: Sequence[str] = ()
    input_json: str | None = None


ONCE = Decision(APPROVAL_DECISION_ONCE)
ALWAYS = Decision(APPROVAL_DECISION_ALWAYS)


def reject(comment: str = "") -> Decision:
    """Deny the call; the model is told why."""
    return Decision(APPROVAL_DECISION_REJECT, comment)


Tool = Callable[..., object]
"""A plain function, or an async one: the arguments that the model gave are its keyword arguments. Text that it returns
is sent as text, all else as JSON; what it raises is told to the model, which may try something else."""
Approve = Callable[["Approval"], "Decision | Awaitable[Decision]"]
OnUpdate = Callable[[Update, RunView], object]


class AsyncClient:
    """Calls a server at ``target``, such as ``127.0.0.1:7443``. An async context manager; lives in one event loop.

    ``token`` is shown with each call. ``credentials``: of the channel; without them it is in the clear, the token too:
    for this machine and for private networks. ``turns`` is the stub of TurnService, ``channel`` makes the others.
    """

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        resume: Resume | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self._metadata: Metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self.resume = resume or Resume()
        given = (
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.service_config", _SERVICE_CONFIG),
            ("grpc.per_rpc_retry_buffer_size", 2 * MAX_MESSAGE_BYTES),  # a request that does not fit is not sent again
            *options,
        )
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(target, options=given)
        else:
            self.channel = grpc.aio.secure_channel(target, credentials, options=given)
        self.turns: TurnServiceAsyncStub = TurnServiceStub(self.channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def follow(
        self,
        request: pb.RunTurnRequest | pb.WatchRunRequest,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the RPC, which the server is told of
    ) -> AsyncGenerator[Update, None]:
        """``afollow`` on this client's connection. Raises TurnwireError for an error that the server gave."""
        updates = afollow(self.turns, request, metadata=self._metadata, timeout=timeout, resume=self.resume)
        try:
            async with aclosing(updates):
                async for update in updates:
                    yield update
        except grpc.RpcError as error:
            told = error_of(error)
            if told is None:
                raise
            raise told from error

    async def call(self, method: Callable[..., Awaitable[T]], request: object) -> T:
        """One unary call of a stub's method, with token and deadline. Raises TurnwireError or grpc.RpcError."""
        try:
            return await method(request, metadata=self._metadata, timeout=UNARY_SECONDS)
        except grpc.RpcError as error:
            told = error_of(error)
            if told is None:
                raise
            raise told from error

    async def start_turn(self, request: pb.StartTurnRequest) -> pb.StartTurnResponse:
        """StartTurn; without a request_id it gets one, so that trying again is safe."""
        sent = pb.StartTurnRequest()
        sent.CopyFrom(request)
        sent.turn.request_id = sent.turn.request_id or str(uuid.uuid4())
        for attempt in range(1, _TRIES):
            try:
                return await self.call(self.turns.StartTurn, sent)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(self.resume.delay(attempt))
        return await self.call(self.turns.StartTurn, sent)

    async def run(
        self,
        request: pb.RunTurnRequest,
        *,
        tools: Mapping[str, Tool] | None = None,
        approve: Approve | None = None,
        on_update: OnUpdate | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the RPC, which the server is told of
    ) -> RunView:
        """Runs a turn to its end and answers what it waits for: calls of the request's client tools with ``tools``, by
        name, approvals with ``approve``. Functions that are not async run in threads, side by side.

        Returns early, with ``waiting`` set, when the run waits for nothing that these can answer; it goes on waiting.
        Cancelling ends the run too, unless the request's ``on_disconnect`` lets it go on. Raises TurnwireError,
        StreamLost, grpc.RpcError, and what ``approve`` raises.
        """
        run = _Run(self, tools or {}, approve, on_update)
        try:
            await run.to_its_end(request, timeout)
        finally:
            await run.aclose()
        return run.view


@dataclass
class _Run:
    """One run that is followed and answered."""

    client: AsyncClient
    tools: Mapping[str, Tool]
    approve: Approve | None
    on_update: OnUpdate | None
    view: RunView = field(default_factory=RunView)
    begun: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    failed: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    answering: bool = False
    waited: bool = False
    ended: bool = False
    """By the server or the network, and not by the caller: a refusal, or a stream that was lost."""

    async def to_its_end(self, request: pb.RunTurnRequest, limit: float | None) -> None:
        """By RunTurn until it waits, since leaving that stream would end it, and then by WatchRun."""
        deadline = None if limit is None else asyncio.get_running_loop().time() + limit
        try:
            await self._both(request, deadline)
        except BaseException:
            if not self.ended:
                await self._end(request)
            raise

    async def _both(self, request: pb.RunTurnRequest, deadline: float | None) -> None:
        turn = pb.RunTurnRequest()
        turn.CopyFrom(request)
        turn.on_wait = pb.ON_WAIT_CLOSE
        after = await self._read(turn, deadline, leave=False)
        if self.answering and after is not None:
            watch = pb.WatchRunRequest(run_id=self.view.run_id or "", stream_detail=request.stream_detail)
            watch.after.CopyFrom(after.cursor)
            await self._read(watch, deadline, leave=True)

    async def aclose(self) -> None:
        """End the functions that still run."""
        for task in self.begun.values():
            task.cancel()
        await asyncio.gather(*self.begun.values(), return_exceptions=True)
        self.failed.cancel()

    async def _read(
        self, request: pb.RunTurnRequest | pb.WatchRunRequest, deadline: float | None, *, leave: bool
    ) -> Update | None:
        """A stream to its end, or to where nothing can be answered if it may be left. The last update."""
        left = None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0.0)
        last: Update | None = None
        async with aclosing(self.client.follow(request, timeout=left)) as updates:
            while (update := await self._next(updates)) is not None:
                last = update
                self.view.apply(update)
                waiting = self.view.waiting
                self.waited = self.waited or waiting is not None
                if self.on_update is not None:
                    self.on_update(update, self.view)
                self.answering = waiting is not None and self._answer(waiting)
                if leave and waiting is not None and not self.answering:
                    break
        return last

    async def _next(self, updates: AsyncGenerator[Update, None]) -> Update | None:
        """The next update, None at the end. Raises what an answer failed with."""
        coming = asyncio.ensure_future(anext(updates, None))
        try:
            await asyncio.wait((coming, self.failed), return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                self.failed.result()
            return await coming
        except (StreamLost, TurnwireError, grpc.RpcError) as error:
            self.ended = not self.failed.done() and not _is_deadline(error)
            raise
        finally:
            if not coming.done():
                coming.cancel()
                with suppress(asyncio.CancelledError):
                    await coming

    def _answer(self, waiting: RunWaiting) -> bool:
        """Begin to answer what is new. False when there is something, and nothing of it can be answered."""
        run_id = self.view.run_id or ""
        known = [(call, self.tools.get(call.tool.routed_name)) for call in waiting.client_tool_calls]
        for call, tool in known:
            if tool is not None:
                self._once(call.call_id, self._call(run_id, call, tool))
        approve = self.approve
        if approve is not None:
            for approval in waiting.approvals:
                self._once(approval.approval_id, self._resolve(run_id, approval, approve))
        asked = len(waiting.approvals) > 0
        if not asked and not known:
            return True  # all of it has settled, and the run is about to go on
        return any(tool is not None for _, tool in known) or (approve is not None and asked)

    def _once(self, item_id: str, work: Coroutine[Any, Any, None]) -> None:
        if item_id in self.begun:
            work.close()
            return
        task = self.begun[item_id] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done() and getattr(error, "reason", "") not in _LATE:
            self.failed.set_exception(error)
            self.failed.exception()  # it is raised where the stream is read, if anybody still does

    async def _call(self, run_id: str, call: ToolCall, tool: Tool) -> None:
        result = ToolResult(call_id=call.call_id, status=TOOL_RESULT_STATUS_OK)
        part = result.content.add()
        try:
            value = await _called(tool, json.loads(call.arguments_json or "{}"))
            if isinstance(value, str):
                part.text = value
            else:
                part.data_json = json.dumps(value, ensure_ascii=False)
        except Exception as error:  # noqa: BLE001 - the boundary of somebody's function: the model is told
            result.status = TOOL_RESULT_STATUS_ERROR
            part.text = str(error) or type(error).__name__
        await self._sent(
            self.client.turns.SubmitToolResults, pb.SubmitToolResultsRequest(run_id=run_id, results=[result])
        )

    async def _resolve(self, run_id: str, approval: Approval, approve: Approve) -> None:
        decision = await _called(approve, approval)
        if not isinstance(decision, Decision):
            raise TypeError("approve returns a Decision: ONCE, ALWAYS or reject(...)")
        await self._sent(
            self.client.turns.ResolveApproval,
            pb.ResolveApprovalRequest(
                run_id=run_id,
                approval_id=approval.approval_id,
                decision=pb.ResolveApprovalRequest(decision=decision.decision).decision,  # type: ignore[arg-type]
                comment=decision.comment,
                always_patterns=decision.patterns,
                call_digest=approval.call_digest,
                input_json=decision.input_json,
            ),
        )

    async def _sent(self, method: Callable[..., Awaitable[Any]], request: object) -> None:
        """An answer is worth as many attempts as the stream: a server that starts again is away for seconds."""
        resume = self.client.resume
        for failures in count(1):
            try:
                await self.client.call(method, request)
            except (TurnwireError, grpc.aio.AioRpcError) as error:
                code = error.code if isinstance(error, TurnwireError) else error.code()
                if code is not grpc.StatusCode.UNAVAILABLE or failures > resume.attempts:
                    raise
                await asyncio.sleep(resume.delay(failures))
            else:
                return

    async def _end(self, request: pb.RunTurnRequest) -> None:
        """As the end of RunTurn's stream would have: best effort, since whoever called is gone."""
        keeps = request.on_disconnect == pb.ON_DISCONNECT_CONTINUE
        keeps = keeps or (request.on_disconnect == pb.ON_DISCONNECT_UNSPECIFIED and request.turn.session_id != "")
        if keeps or not self.waited or self.view.finished is not None:
            return  # it may go on, or the end of the stream has ended it, or it has ended
        cancel = pb.CancelRunRequest(run_id=self.view.run_id or "", comment="The caller has gone.")
        task = asyncio.ensure_future(self.client.call(self.client.turns.CancelRun, cancel))
        await asyncio.wait((task,), timeout=_CANCEL_SECONDS)
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()  # told to nobody: there is nobody any more


def _is_deadline(error: BaseException) -> bool:
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def _called(function: Callable[..., object], arguments: object) -> object:
    """An async function in this loop, another in a thread. An object's members are keyword arguments."""
    positional, named = ((), arguments) if isinstance(arguments, dict) else ((arguments,), {})
    if inspect.iscoroutinefunction(function):
        return await function(*positional, **named)
    value = await asyncio.to_thread(function, *positional, **named)
    return await value if inspect.isawaitable(value) else value


class Client:
    """``AsyncClient`` for blocking code: each call has an event loop and a connection of its own.

    To read a stream as it comes, use ``follow`` with a stub, or ``on_update``.
    """

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        resume: Resume | None = None,
    ) -> None:
        self._make = partial(AsyncClient, target, token=token, credentials=credentials, resume=resume)

    def run(
        self,
        request: pb.RunTurnRequest,
        *,
        tools: Mapping[str, Tool] | None = None,
        approve: Approve | None = None,
        on_update: OnUpdate | None = None,
        timeout: float | None = None,
    ) -> RunView:
        """``AsyncClient.run``. Ctrl-C ends the run, as cancelling does."""

        async def once() -> RunView:
            async with self._make() as client:
                return await client.run(request, tools=tools, approve=approve, on_update=on_update, timeout=timeout)

        return asyncio.run(once())

    def start_turn(self, request: pb.StartTurnRequest) -> pb.StartTurnResponse:
        """``AsyncClient.start_turn``."""

        async def once() -> pb.StartTurnResponse:
            async with self._make() as client:
                return await client.start_turn(request)

        return asyncio.run(once())


def _service_config(files: Sequence[FileDescriptor]) -> str:
    """Has gRPC itself repeat the unary methods of which the contract says that repeating is safe (gRFC A6)."""
    safe = [
        {"service": service.full_name, "method": method.name}
        for file in files
        for service in file.services_by_name.values()
        for method in service.methods
        if method.GetOptions().idempotency_level and not method.server_streaming
    ]
    policy = {
        "maxAttempts": _TRIES,
        "initialBackoff": "0.1s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return json.dumps({"methodConfig": [{"name": safe, "retryPolicy": policy}]})


_SERVICE_CONFIG = _service_config(
    [
        pb.DESCRIPTOR,
        agent_service_pb2.DESCRIPTOR,
        mcp_server_service_pb2.DESCRIPTOR,
        server_service_pb2.DESCRIPTOR,
        session_service_pb2.DESCRIPTOR,
        tool_host_registry_pb2.DESCRIPTOR,
    ]
)
