"""One service: what it says of itself, by reflection or a file, made tools. Knows no calls and no tools' results."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import partial
from typing import cast

import anyio
import grpc.aio
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from turnwired.apart import Nursery
from turnwired.domain.errors import ConfigError
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.descriptors import MAX_FILE_BYTES, declared_in, is_readable, link
from turnwired.tools.grpc.listing import Listing, listing_of, wants
from turnwired.tools.grpc.peer import NotAnswered, Peer, read_file
from turnwired.tools.grpc.reflection import Described, NotDescribed, describe


class Connection:
    """Lives in one event loop. ``listing``: what is known, None before it is. ``peer`` reaches the service."""

    def __init__(self, set_id: str, config: GrpcService) -> None:
        self.config = config
        self.listing: Listing | None = None
        self.peer = Peer(set_id, "gRPC service", config, self._ask, stays=config.descriptor_set is not None)
        self._fingerprint = b""
        self._questions = Nursery()
        self._threads: anyio.CapacityLimiter | None = None

    async def _ask(self, channel: grpc.aio.Channel) -> None:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(1)
        try:
            await self._keep(await self._described(channel, self._threads), self._threads)
        except NotDescribed as error:
            raise NotAnswered(str(error)) from None

    async def _described(self, channel: grpc.aio.Channel, threads: anyio.CapacityLimiter) -> Described:
        if self.config.descriptor_set is None:
            metadata = self.peer.authorization()
            work = describe(channel, lambda name: wants(self.config.services, name), metadata)
            return cast("Described", await self._questions.run(work, f"grpc-reflection-{self.peer.set_id}"))
        return await anyio.to_thread.run_sync(_from_file, self.config, limiter=threads, abandon_on_cancel=True)

    async def _keep(self, described: Described, threads: anyio.CapacityLimiter) -> None:
        """Make tools of it, in a thread: thousands of methods take seconds. The same as before stays as it is."""
        given_up = threading.Event()
        work = partial(_listing, self.peer.set_id, self.config, described, self._fingerprint, given_up.is_set)
        try:
            fingerprint, listing = await anyio.to_thread.run_sync(work, limiter=threads, abandon_on_cancel=True)
        finally:
            given_up.set()
        self._fingerprint = fingerprint
        if listing is not None:
            self.listing = listing


def _from_file(config: GrpcService) -> Described:
    assert config.descriptor_set is not None
    data = read_file(config.descriptor_set, "descriptor_set", MAX_FILE_BYTES)
    try:
        files = [file for file in FileDescriptorSet.FromString(data).file if is_readable(file)]
    except DecodeError:
        raise ConfigError(f"descriptor_set {config.descriptor_set} is no FileDescriptorSet") from None
    wanted = sorted({name for file in files for name in declared_in(file) if wants(config.services, name)})
    return Described(wanted, {file.name: file for file in files})


def _listing(
    set_id: str, config: GrpcService, described: Described, before: bytes, given_up: Callable[[], bool]
) -> tuple[bytes, Listing | None]:
    """The tools, or None where nothing has changed since ``before``."""
    digest = hashlib.sha256(repr((described.services, sorted(described.unknown.items()))).encode())
    for name in sorted(described.files):
        digest.update(described.files[name].SerializeToString(deterministic=True))
    if digest.digest() == before:
        return before, None
    files: list[FileDescriptorProto] = list(described.files.values())
    listing = listing_of(set_id, link(files), described.services, config.services, described.unknown, given_up)
    return digest.digest(), listing
