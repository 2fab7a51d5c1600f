"""gRPC services for tests, made of a compiled .proto and handlers over dynamic messages, with reflection of our own.

The reflection answers with the files it was given, byte for byte, one at a time: a test says what a server says.
"""

from __future__ import annotations

import asyncio
import functools
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google.api
import grpc
import grpc.aio
import grpc_tools  # type: ignore[import-untyped]  # it ships no types
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.reflection_pb2 import (
    ErrorResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)
from grpc_tools import protoc

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure
from turnwired.domain.run import Caller
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.descriptors import Linked, link
from turnwired.tools.grpc.toolset import GrpcToolset
from turnwired.tools.port import ToolInvocation, ToolOutput

SHOP = Path(__file__).parent / "grpc_services" / "shop.proto"
SERVICE = "shop.v1.ProductService"
V1 = "grpc.reflection.v1.ServerReflection"
V1ALPHA = "grpc.reflection.v1alpha.ServerReflection"
FOREVER = 60.0
"""Seconds that no test takes."""

Handler = Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[Any]]
Raw = Callable[[bytes, grpc.aio.ServicerContext[Any, Any]], Any]


def compiled(text: str, name: str = "test.proto") -> FileDescriptorSet:
    """The descriptors of a .proto with its comments, as protoc writes them."""
    apis = Path(next(iter(google.api.__path__))).parents[1]
    ours = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(text, encoding="utf-8")
        out = Path(folder) / "set.binpb"
        arguments = ["protoc", f"-I{folder}", f"-I{ours}", f"-I{apis}", "--include_imports", "--include_source_info"]
        assert protoc.main([*arguments, f"--descriptor_set_out={out}", name]) == 0
        return FileDescriptorSet.FromString(out.read_bytes())


@functools.cache
def shop() -> FileDescriptorSet:
    """The shop's descriptors."""
    return compiled(SHOP.read_text(encoding="utf-8"), "shop.proto")


@functools.cache
def linked_shop() -> Linked:
    """The shop's descriptors, linked."""
    return link(shop().file)


@dataclass
class Reflection:
    """Answers what a test gives. ``services`` are those listed; ``gone`` are listed and not described."""

    files: Sequence[FileDescriptorProto]
    services: Sequence[str]
    gone: Sequence[str] = ()
    asked: list[str] = field(default_factory=list)
    tokens: list[object] = field(default_factory=list)
    broken: Callable[[ServerReflectionRequest], ServerReflectionResponse | None] = lambda _: None

    async def handle(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[bytes]:
        """The stream of the reflection service."""
        self.tokens += [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        async for data in requests:
            request = ServerReflectionRequest.FromString(data)
            answer = self.broken(request) or self.answer(request)
            yield answer.SerializeToString()

    def answer(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        """One answer."""
        match request.WhichOneof("message_request"):
            case "list_services":
                self.asked.append("*")
                named = [ServiceResponse(name=name) for name in (*self.services, *self.gone)]
                return ServerReflectionResponse(list_services_response=ListServiceResponse(service=named))
            case "file_containing_symbol":
                symbol = request.file_containing_symbol
                found = [file for file in self.files if symbol in names_of(file)]
            case _:
                symbol = request.file_by_filename
                found = [file for file in self.files if file.name == symbol]
        self.asked.append(symbol)
        if not found:
            return ServerReflectionResponse(error_response=ErrorResponse(error_code=5, error_message="not found"))
        data = [file.SerializeToString() for file in found]
        return ServerReflectionResponse(file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=data))


def names_of(file: FileDescriptorProto) -> list[str]:
    """Full names of a file's services."""
    return [f"{file.package}.{service.name}".lstrip(".") for service in file.service]


@dataclass
class Server:
    """A server of one process. ``seen``: metadata of each call."""

    reflection: Reflection | None = None
    versions: Sequence[str] = (V1, V1ALPHA)
    handlers: dict[str, Any] = field(default_factory=dict)
    seen: list[dict[str, str | bytes]] = field(default_factory=list)
    options: Sequence[tuple[str, int]] = ()
    compression: grpc.Compression | None = None
    port: int = 0
    server: grpc.aio.Server | None = None

    def add(self, path: str, handler: Handler, linked: Linked | None = None) -> None:
        """A unary method ``package.Service/Method`` over dynamic messages."""
        service, _, name = path.partition("/")
        method = (linked or linked_shop()).services[service].methods_by_name[name]
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

        async def unary(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
            self._note(context)
            answer = await handler(request.FromString(data), context)
            if isinstance(answer, bytes):
                return answer
            return (response(**answer) if isinstance(answer, dict) else answer).SerializeToString()

        self.handlers[path] = grpc.unary_unary_rpc_method_handler(unary)

    def add_stream(self, path: str, handler: Callable[[Any, Any], AsyncIterator[Mapping[str, object]]]) -> None:
        """A server-streaming method over dynamic messages."""
        service, _, name = path.partition("/")
        method = linked_shop().services[service].methods_by_name[name]
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

        async def stream(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[bytes]:
            self._note(context)
            async for answer in handler(request.FromString(data), context):
                yield response(**answer).SerializeToString()

        self.handlers[path] = grpc.unary_stream_rpc_method_handler(stream)

    def _note(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self.seen.append({str(key): value for key, value in context.invocation_metadata() or ()})

    async def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen on the loopback."""
        self.server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *self.options], compression=self.compression)
        by_service: dict[str, dict[str, Any]] = {}
        for path, handler in self.handlers.items():
            service, _, name = path.partition("/")
            by_service.setdefault(service, {})[name] = handler
        if self.reflection is not None:
            for version in self.versions:
                info: Any = grpc.stream_stream_rpc_method_handler(self.reflection.handle)
                by_service[version] = {"ServerReflectionInfo": info}
        handlers = [grpc.method_handlers_generic_handler(name, methods) for name, methods in by_service.items()]
        self.server.add_generic_rpc_handlers(tuple(handlers))
        address = f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self.server.add_insecure_port(address)
        else:
            self.port = self.server.add_secure_port(address, credentials)
        await self.server.start()

    async def stop(self) -> None:
        """Cut every connection."""
        if self.server is not None:
            await self.server.stop(None)
            self.server = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"


def shop_server(*services: str, files: Iterable[FileDescriptorProto] | None = None) -> Server:
    """A server that says it has the shop's services."""
    return Server(Reflection(list(shop().file if files is None else files), services or (SERVICE,)))


@asynccontextmanager
async def up(server: Server) -> AsyncIterator[Server]:
    """The server, listening; ended afterwards."""
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def toolset_of(address: str, **settings: object) -> AsyncIterator[GrpcToolset]:
    """A started source over the server, whose tools are known; closed afterwards."""
    toolset = GrpcToolset("shop", GrpcService.model_validate({"address": address, **settings}))
    await toolset.start()
    try:
        async with asyncio.timeout(20):
            await toolset.tools()
        yield toolset
    finally:
        await toolset.aclose()


def call_of(
    name: str,
    arguments: Mapping[str, object] | None = None,
    *,
    timeout: float | None = 5.0,
    caller: Caller | None = None,
    headers: Mapping[str, str] | None = None,
) -> ToolInvocation:
    """One call of a run."""
    return ToolInvocation(
        "run_1", "call_1", name, arguments or {}, caller or Caller(), timeout=timeout, headers=headers or {}
    )


def data_of(output: ToolOutput) -> Any:
    """The structured result."""
    assert output.structured_json is not None, output
    return json.loads(output.structured_json)


def words_of_output(output: ToolOutput) -> str:
    """All that the model reads."""
    contents = [part.content for part in output.content]
    return "\n".join(str(getattr(item, "text", None) or getattr(item, "json", "")) for item in contents)


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when the condition holds; fail when it does not within so many seconds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


async def names(toolset: GrpcToolset) -> list[str]:
    """What it lists now."""
    return [tool.ref.native_name for tool in await toolset.tools()]


async def changed(toolset: GrpcToolset, before: list[str]) -> None:
    """Return when it lists something else."""
    async with asyncio.timeout(10):
        while await names(toolset) == before:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.01)


async def failure_of(toolset: GrpcToolset, name: str, arguments: dict[str, object] | None = None) -> Failure:
    """The failure that a call raises."""
    with pytest.raises(ToolError) as raised:
        await toolset.call(call_of(name, arguments, timeout=10))
    return raised.value.failure


def answering(*services: str) -> Server:
    """A server that answers reads and creates."""
    server = shop_server(*services)

    async def echo(request: Any, context: Any) -> Any:
        return {"name": request.name}

    server.add(f"{SERVICE}/GetProduct", echo)
    server.add(f"{SERVICE}/CreateProduct", echo)
    return server
