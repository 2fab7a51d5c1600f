"""Asks a server what it offers: gRPC server reflection, version v1, and v1alpha of servers that know no other.

Follows grpc/reflection/v1/reflection.proto; the messages of both versions are the same on the wire. Everything is
bounded, for a server may say what it likes. Knows descriptors as files only.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import grpc
import grpc.aio
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from turnwired.tools.grpc.descriptors import MAX_FILE_BYTES, MAX_FILES, declared_in, is_readable
from turnwired.tools.grpc.wellknown import FILES

MAX_SERVICES: Final = 2000
METHODS: Final = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)

Metadata = tuple[tuple[str, str], ...]


class NotDescribed(Exception):
    """The server does not describe itself in a way that can be used; the text says how, without its own words."""


@dataclass(slots=True)
class Described:
    """What a server says of itself. ``unknown``: services that it names and does not describe, and why."""

    services: list[str] = field(default_factory=list)
    files: dict[str, FileDescriptorProto] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    size: int = 0


async def describe(channel: grpc.aio.Channel, wanted: Callable[[str], bool], metadata: Metadata) -> Described:
    """Services that are wanted, with all their files. Raises NotDescribed and grpc.aio.AioRpcError.

    Run it in a task of its own and with a deadline: gRPC answers a cancellation with one that it makes itself.
    """
    for method in METHODS:
        try:
            return await _Talk(channel, method, metadata).describe(wanted)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
    raise NotDescribed("it offers no server reflection; switch it on there or set descriptor_set")


class _Talk:
    """One reflection stream: a question, its answer, the next question."""

    def __init__(self, channel: grpc.aio.Channel, method: str, metadata: Metadata) -> None:
        self._call = channel.stream_stream(
            method,
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=_response,
        )(metadata=metadata)
        self._found = Described()
        self._declared: set[str] = set()
        self._seen: set[bytes] = set()

    async def describe(self, wanted: Callable[[str], bool]) -> Described:
        try:
            await self._services(wanted)
            for name in self._found.services:
                if name in self._declared:
                    continue  # came with another one's file
                await self._files(ServerReflectionRequest(file_containing_symbol=name), name)
            await self._imports()
        finally:
            self._call.cancel()
        return self._found

    async def _services(self, wanted: Callable[[str], bool]) -> None:
        answer = await self._ask(ServerReflectionRequest(list_services="*"))
        if answer.WhichOneof("message_response") != "list_services_response":
            raise NotDescribed("it does not answer which services it has")
        names = {service.name for service in answer.list_services_response.service}
        self._found.services = sorted(name for name in names if wanted(name))
        if len(self._found.services) > MAX_SERVICES:
            raise NotDescribed(f"it has more than {MAX_SERVICES} services; name those that are wanted in services")

    async def _imports(self) -> None:
        """Files that others import and that did not come with them."""
        waiting = deque(self._found.files.values())
        asked: set[str] = set()
        while waiting:
            for name in waiting.popleft().dependency:
                if name in self._found.files or name in FILES or name in asked:
                    continue
                if len(asked) == MAX_FILES:
                    raise NotDescribed(f"its services have more than {MAX_FILES} files")
                asked.add(name)
                waiting += await self._files(ServerReflectionRequest(file_by_filename=name), "")

    async def _files(self, question: ServerReflectionRequest, service: str) -> list[FileDescriptorProto]:
        """Keep the files of an answer. One that is not there is a matter of the service that needs it."""
        answer = await self._ask(question)
        if answer.WhichOneof("message_response") != "file_descriptor_response":
            if service:
                self._found.unknown[service] = "the server lists it and does not describe it"
            return []
        new: list[FileDescriptorProto] = []
        for data in answer.file_descriptor_response.file_descriptor_proto:
            digest = hashlib.sha256(data).digest()
            if digest in self._seen:
                continue  # some servers send all that a file imports with every answer
            self._seen.add(digest)
            self._found.size += len(data)
            if self._found.size > MAX_FILE_BYTES or len(self._found.files) > MAX_FILES:
                raise NotDescribed(f"its description is longer than {MAX_FILE_BYTES} bytes or {MAX_FILES} files")
            try:
                file = FileDescriptorProto.FromString(data)
            except DecodeError:
                file = None
            if file is None or not is_readable(file):
                if service:
                    self._found.unknown[service] = "the server describes it with a file that cannot be read"
                continue
            if file.name not in self._found.files:
                self._found.files[file.name] = file
                self._declared |= set(declared_in(file))
                new.append(file)
        return new

    async def _ask(self, question: ServerReflectionRequest) -> ServerReflectionResponse:
        with suppress(asyncio.InvalidStateError):  # the stream has ended; reading says how
            await self._call.write(question)
        answer = await self._call.read()
        if not isinstance(answer, ServerReflectionResponse):
            code = await self._call.code()  # the end of the stream; a status that is an error is raised by read
            raise NotDescribed(f"it ended the reflection stream with {code.name}")
        return answer


def _response(data: bytes) -> ServerReflectionResponse | None:
    try:
        return ServerReflectionResponse.FromString(data)
    except DecodeError:
        return None
