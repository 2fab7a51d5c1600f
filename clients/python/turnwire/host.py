"""Functions of this program as tools of Turnwire: ``ToolHost`` serves them, ``registered`` makes them known.

It implements ToolHostService and the standard health service on grpc.aio, checks nothing that the server has checked
already, and keeps no state of calls.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration

from turnwire.host_schema import Schema, schema_of
from turnwire.v1 import tool_host_registry_service_pb2 as registry_pb2
from turnwire.v1 import tool_host_registry_service_pb2_grpc as registry_stubs
from turnwire.v1 import tool_host_service_pb2 as pb2
from turnwire.v1 import tool_host_service_pb2_grpc as stubs
from turnwire.v1.message_pb2 import Part
from turnwire.v1.tool_pb2 import ToolAnnotations

_LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 5.0
_RENEW_SHARE = 3
"""A lease is renewed so many times in its length: two renewals may fail."""
_RETRY_SECONDS = 1.0
_RPC_SECONDS = 10.0
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # grpc.health.v1.HealthCheckResponse, whose package is not needed

Context = grpc.aio.ServicerContext[Any, Any]
Result = str | Part | Sequence[Part] | pb2.HostedToolResult | Mapping[str, object] | object
Function = TypeVar("Function", bound=Callable[..., object])


class ToolFailed(Exception):
    """Raised by a tool: the words are what the model reads. Those of other exceptions are not told to it."""


@dataclass(frozen=True, slots=True)
class Call:
    """The call that a tool runs in. A parameter with this type gets it, unseen by the model.

    ``idempotency_key`` is the same for every attempt of one call and different for every other call.
    """

    idempotency_key: str
    run_id: str
    call_id: str
    session_id: str | None
    tenant: str
    principal: str
    attempt: int
    metadata: Mapping[str, str | bytes]
    _context: Context = field(repr=False)

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the tool is, in units of its own."""
        progress = pb2.ToolProgress(done=done, total=total, message=message)
        await self._context.write(pb2.CallToolResponse(progress=progress))


@dataclass(frozen=True, slots=True)
class _Tool:
    listed: pb2.HostedTool
    function: Callable[..., object]
    call_parameter: str | None


class ToolHost:
    """The tools of a program. ``serving`` False: calls in progress go on, and no new ones come."""

    def __init__(self) -> None:
        self._tools: dict[str, _Tool] = {}
        self._serving = True
        self._changed = asyncio.Event()

    @property
    def serving(self) -> bool:
        """Whether this program takes calls."""
        return self._serving

    @serving.setter
    def serving(self, works: bool) -> None:
        self._serving = works
        self._tell()

    @property
    def version(self) -> str:
        """A digest of the tools."""
        digest = hashlib.sha256()
        for name in sorted(self._tools):
            digest.update(self._tools[name].listed.SerializeToString(deterministic=True))
        return digest.hexdigest()[:16]

    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        title: str = "",
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        deduplicated: bool = False,
        input_schema: Schema | None = None,
        output_schema: Schema | None = None,
    ) -> Callable[[Function], Function]:
        """A decorator that makes a tool of a function, under its name and with its docstring unless told otherwise.

        The function takes its arguments by name, and gives text, one Part or several, a HostedToolResult, or JSON.
        One that is not ``async`` runs in a thread. ``deduplicated``: it does nothing for an idempotency key that it
        knows. Without ``input_schema`` its type hints say what it takes; raises TypeError when they do not.
        """

        def decorate(function: Function) -> Function:
            if input_schema is None:
                schema, parameter = schema_of(function, Call)
            else:
                schema, parameter = input_schema, _call_parameter(function)
            listed = pb2.HostedTool(
                name=name or function.__name__,
                title=title,
                description=description if description is not None else inspect.getdoc(function) or "",
                input_schema_json=json.dumps(schema),
                output_schema_json=None if output_schema is None else json.dumps(output_schema),
                annotations=ToolAnnotations(
                    read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world
                ),
                deduplicated=deduplicated,
            )
            self._tools[listed.name] = _Tool(listed, function, parameter)
            self._tell()
            return function

        return decorate

    def remove(self, name: str) -> None:
        """Offer a tool no longer. Raises KeyError."""
        del self._tools[name]
        self._tell()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve the tools on a server of the program's own, which has no health service yet."""
        stubs.add_ToolHostServiceServicer_to_server(_Servicer(self), server)
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Check": grpc.unary_unary_rpc_method_handler(cast("Any", self._check)),
            "Watch": grpc.unary_stream_rpc_method_handler(cast("Any", self._watch)),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", methods),))

    @asynccontextmanager
    async def serve(self, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
        """Listen, without TLS, and give the address; port 0 takes a free one. Ends calls in progress on leaving.

        Raises RuntimeError when the address cannot be had.
        """
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self.add_to(server)
        port = server.add_insecure_port(address)
        await server.start()
        try:
            yield address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"
        finally:
            self.serving = False
            await server.stop(_GRACE_SECONDS)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _states(self, state: Callable[[], object]) -> AsyncIterator[object]:
        """What ``state`` gives, at once and after each change of it."""
        last: object = None
        while True:
            changed = self._changed
            if (now := state()) != last:
                last = now
                yield now
            await changed.wait()

    async def _check(self, request: bytes, context: Context) -> bytes:
        return _SERVING if self.serving else _NOT_SERVING

    async def _watch(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        async for serving in self._states(lambda: self.serving):
            yield _SERVING if serving else _NOT_SERVING

    def _find(self, name: str) -> _Tool | None:
        return self._tools.get(name)

    def _listed(self) -> list[pb2.HostedTool]:
        return [tool.listed for tool in self._tools.values()]


class _Servicer(stubs.ToolHostServiceServicer):
    """The contract's side of a host."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    async def ListTools(  # noqa: N802 - the contract's name
        self, request: pb2.ToolHostServiceListToolsRequest, context: Any
    ) -> pb2.ToolHostServiceListToolsResponse:
        version = self._host.version
        if request.known_version == version:
            return pb2.ToolHostServiceListToolsResponse(version=version, unchanged=True)
        return pb2.ToolHostServiceListToolsResponse(tools=self._host._listed(), version=version)  # noqa: SLF001

    async def WatchTools(  # noqa: N802 - the contract's name
        self, request: pb2.WatchToolsRequest, context: Any
    ) -> AsyncIterator[pb2.WatchToolsResponse]:
        async for version in self._host._states(lambda: self._host.version):  # noqa: SLF001
            yield pb2.WatchToolsResponse(version=str(version))

    async def CallTool(  # type: ignore[override]  # noqa: N802 - a coroutine that writes serves as well
        self, request: pb2.CallToolRequest, context: Any
    ) -> None:
        tool = self._host._find(request.name)  # noqa: SLF001
        if tool is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"there is no tool {request.name}")
            return
        try:
            result = _result_of(await _run(tool, request, context))
        except ToolFailed as error:
            result = pb2.HostedToolResult(content=[Part(text=str(error))], is_error=True)
        except Exception as error:  # noqa: BLE001  task boundary: a tool's fault is a result, and the log has it
            _LOG.exception("tool %s failed", request.name)
            result = pb2.HostedToolResult(content=[Part(text=type(error).__name__)], is_error=True)
        await context.write(pb2.CallToolResponse(result=result))


async def _run(tool: _Tool, request: pb2.CallToolRequest, context: Context) -> object:
    arguments = cast("dict[str, object]", json.loads(request.arguments_json))
    if tool.call_parameter is not None:
        arguments[tool.call_parameter] = Call(
            idempotency_key=request.idempotency_key,
            run_id=request.run_id,
            call_id=request.call_id,
            session_id=request.session_id if request.HasField("session_id") else None,
            tenant=request.caller.tenant,
            principal=request.caller.principal,
            attempt=request.attempt,
            metadata={str(key): value for key, value in context.invocation_metadata() or ()},
            _context=context,
        )
    if inspect.iscoroutinefunction(tool.function):
        return await tool.function(**arguments)
    return await asyncio.to_thread(functools.partial(tool.function, **arguments))


def _result_of(value: Result) -> pb2.HostedToolResult:
    match value:
        case None:
            return pb2.HostedToolResult()
        case pb2.HostedToolResult():
            return value
        case str():
            return pb2.HostedToolResult(content=[Part(text=value)])
        case Part():
            return pb2.HostedToolResult(content=[value])
        case list() | tuple() if value and all(isinstance(item, Part) for item in value):
            return pb2.HostedToolResult(content=cast("list[Part]", value))
        case _:
            return pb2.HostedToolResult(structured_json=json.dumps(value, allow_nan=False))


def _call_parameter(function: Callable[..., object]) -> str | None:
    return next((name for name, hint in inspect.get_annotations(function, eval_str=True).items() if hint is Call), None)


@asynccontextmanager
async def registered(
    channel: grpc.aio.Channel,
    host_id: str,
    address: str,
    *,
    lease: float = 60.0,
    metadata: Sequence[tuple[str, str]] = (),
) -> AsyncIterator[registry_pb2.ToolHost]:
    """Register the tools at ``address`` with the server behind the channel, and keep them registered until left.

    The lease, in seconds, is renewed in time, also by a server that was restarted. Raises AioRpcError when the server
    refuses. Leaving ends the registration, or else the lease does.
    """
    stub: registry_stubs.ToolHostRegistryServiceAsyncStub = registry_stubs.ToolHostRegistryServiceStub(channel)
    length = Duration()
    length.FromNanoseconds(round(lease * 1e9))
    request = registry_pb2.RegisterToolHostRequest(host_id=host_id, address=address, lease=length)
    response = await stub.RegisterToolHost(request, timeout=_RPC_SECONDS, metadata=tuple(metadata))

    async def renew() -> None:
        pause = lease / _RENEW_SHARE
        while True:
            await asyncio.sleep(pause)
            try:
                await stub.RegisterToolHost(request, timeout=_RPC_SECONDS, metadata=tuple(metadata))
                pause = lease / _RENEW_SHARE
            except grpc.aio.AioRpcError as error:
                _LOG.warning("the registration of %s was not renewed: %s", host_id, error.code().name)
                pause = min(_RETRY_SECONDS, lease / _RENEW_SHARE)

    renewing = asyncio.create_task(renew(), name=f"renew-{host_id}")
    try:
        yield response.tool_host
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
        with suppress(grpc.aio.AioRpcError):
            gone = registry_pb2.UnregisterToolHostRequest(host_id=host_id)
            await stub.UnregisterToolHost(gone, timeout=_RPC_SECONDS, metadata=tuple(metadata))
