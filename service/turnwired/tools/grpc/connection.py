"""One service: its channel, what it says of itself, and when to ask it again. Knows no calls and no tools' results.

One task asks, and asks again after an attempt that failed (ever more rarely), after the connection was lost, and when
what is known is old. Everybody else only reads. Faults end here: other services see nothing of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, cast

import anyio
import grpc
import grpc.aio
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.tools.apart import Nursery
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.descriptors import MAX_FILE_BYTES, declared_in, is_readable, link
from turnwired.tools.grpc.listing import Listing, listing_of, wants
from turnwired.tools.grpc.reflection import Described, NotDescribed, describe
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.25
_MAX_DELAY: Final = 30.0
_STEADY_AFTER: Final = 10.0
"""Seconds up after which a connection that is lost counts as the first one that is."""
_CLOSE_SECONDS: Final = 2.0
_MAX_CA_BYTES: Final = 1024 * 1024
_MAX_DESCRIPTION: Final = 4 * 1024 * 1024
"""Bytes of one answer of the reflection service, however little is read of others."""


class Losses:
    """How often a channel has lost its connection, though it may have another by now."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def add(self) -> None:
        """One more."""
        self.count += 1
        self._more.set()
        self._more = asyncio.Event()

    async def more_than(self, count: int, within: float) -> bool:
        """Whether there are more, or there will be within so many seconds."""
        if self.count == count:
            with anyio.move_on_after(within):
                await self._more.wait()
        return self.count != count


class Connection:
    """Lives in one event loop; ``aclose`` ends it for good. ``listing``: what is known, None before it is."""

    def __init__(self, set_id: str, config: GrpcService) -> None:
        self.set_id = set_id
        self.config = config
        self.failure: Failure | None = None
        self.listing: Listing | None = None
        self.closed = False
        self._channel: grpc.aio.Channel | None = None
        self._owner: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._wanted = asyncio.Event()
        self._fingerprint = b""
        self._asked_at = 0.0
        self._failures = 0
        self._losses = 0
        self.losses = Losses()
        self._questions = Nursery()
        self._threads: anyio.CapacityLimiter | None = None

    def begin(self) -> None:
        """Ask in the background, if nothing is known, or what is known is older than ``refresh_interval``."""
        if self.closed:
            return
        if self._owner is None:
            # A context of its own: the caller's span must not become the parent of all that the owner does.
            self._threads = anyio.CapacityLimiter(1)
            self._owner = asyncio.get_running_loop().create_task(
                self._own(), name=f"grpc-{self.set_id}", context=contextvars.Context()
            )
        elif self.listing is not None and anyio.current_time() - self._asked_at >= self.config.refresh_interval:
            self.ask_again()

    def ask_again(self) -> None:
        """What is known is old: ask as soon as no attempt has just failed."""
        self._wanted.set()

    async def first_try(self) -> None:
        """Return when the first attempt has ended, well or not. Bounded by the discovery timeout."""
        self.begin()
        await self._tried.wait()

    async def channel(self, within: float) -> grpc.aio.Channel:
        """The channel, connected. Raises ToolError when it is not within so many seconds: nothing was sent."""
        channel = self._channel
        if self.closed or channel is None:
            raise ToolError(self.unavailable("is closed" if self.closed else "has not been connected to yet"))
        state = channel.get_state(try_to_connect=True)
        if state is not grpc.ChannelConnectivity.READY:
            with anyio.move_on_after(within):
                await self._ready(channel)
                return channel
            words = "cannot be reached"
            if self.failure is not None:
                words = self.failure.message
            raise ToolError(self.unavailable(f"{words}; the call was not sent"))
        return channel

    async def _ready(self, channel: grpc.aio.Channel) -> None:
        while True:
            state = channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.READY:
                return
            await channel.wait_for_state_change(state)

    def secrets_hidden(self, text: str) -> str:
        """Foreign words without the token of this service."""
        try:
            token = self.config.token()
        except ConfigError:
            return text
        return text.replace(token, "[redacted]") if token else text

    async def aclose(self) -> None:
        """End the channel, every call on it and the tasks. Bounded."""
        self.closed = True
        tasks = [task for task in (self._owner, self._watcher) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        self._tried.set()
        channel, self._channel = self._channel, None
        if channel is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await channel.close()

    async def _own(self) -> None:
        while True:
            self._wanted.clear()
            worked = False
            try:
                worked = await self._attempt()
            except Exception as error:  # noqa: BLE001  task boundary: nobody awaits the owner
                _LOG.warning("gRPC service %s: %s", self.set_id, where_raised(error))
                self._failed(f"{type(error).__name__} while it was asked what it has")
            self._tried.set()
            if worked:
                await self._wanted.wait()
                if self._losses > 1:
                    await anyio.sleep(_delay(self._losses))
            else:
                await anyio.sleep(_delay(self._failures))

    async def _attempt(self) -> bool:
        """Ask once; what is not known afterwards has a ``failure``."""
        seconds = self.config.discovery_timeout
        try:
            with anyio.fail_after(seconds):
                channel = await self._open()
                described = await self._described(channel)
                await self._keep(described)
        except TimeoutError:
            self._failed(f"did not say what it has within {seconds:g} s")
        except NotDescribed as error:
            self._failed(str(error))
        except ConfigError as error:
            self._failed(str(error))
        except asyncio.CancelledError:
            # gRPC raises it for a call that ends locally; only whoever cancels this task is to end it.
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self._failed("the question what it has was broken off")
        except grpc.aio.AioRpcError as error:
            self._failed(f"{error.code().name}: {redact(self.secrets_hidden(error.details() or ''), 300)}")
        else:
            self.failure = None
            self._failures = 0
            self._asked_at = anyio.current_time()
            return True
        return False

    async def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            credentials = await anyio.to_thread.run_sync(_credentials, self.config) if self.config.secure else None
            options = list(_options(self.config).items())
            address = self.config.address
            if credentials is None:
                self._channel = grpc.aio.insecure_channel(address, options)
            else:
                self._channel = grpc.aio.secure_channel(address, credentials, options)
            self._watcher = asyncio.get_running_loop().create_task(
                self._watch(self._channel), name=f"grpc-watch-{self.set_id}", context=contextvars.Context()
            )
        return self._channel

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        """Ask again whenever the connection was lost: behind the address there may be another release by then."""
        up_since = 0.0
        state = channel.get_state()
        while True:
            await channel.wait_for_state_change(state)
            was, state = state, channel.get_state()
            if was is grpc.ChannelConnectivity.READY:
                self.losses.add()
                if self.config.descriptor_set is None:
                    self._losses = 1 if anyio.current_time() - up_since >= _STEADY_AFTER else self._losses + 1
                    self.ask_again()
            if state is grpc.ChannelConnectivity.READY:
                up_since = anyio.current_time()

    async def _described(self, channel: grpc.aio.Channel) -> Described:
        if self.config.descriptor_set is None:
            token = self.config.token()
            metadata = (("authorization", f"Bearer {token}"),) if token else ()
            work = describe(channel, lambda name: wants(self.config.services, name), metadata)
            return cast("Described", await self._questions.run(work, f"grpc-reflection-{self.set_id}"))
        return await anyio.to_thread.run_sync(_from_file, self.config, limiter=self._threads, abandon_on_cancel=True)

    async def _keep(self, described: Described) -> None:
        """Make tools of it, in a thread: thousands of methods take seconds. The same as before stays as it is."""
        given_up = threading.Event()
        work = partial(_listing, self.set_id, self.config, described, self._fingerprint, given_up.is_set)
        try:
            fingerprint, listing = await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)
        finally:
            given_up.set()
        self._fingerprint = fingerprint
        if listing is not None:
            self.listing = listing

    def _failed(self, words: str) -> None:
        failure = self.unavailable(words)
        if self.failure != failure:
            _LOG.warning("%s", failure.message)
        self.failure = failure
        self._failures += 1

    def unavailable(self, words: str) -> Failure:
        """The failure of a service that was not reached."""
        prefix = f"gRPC service {self.set_id!r}"
        return Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.TOOL_SOURCE_UNAVAILABLE,
            message=words if words.startswith(prefix) else f"{prefix}: {words}",
            retryable=True,
            origin=self.set_id,
        )


def _delay(times: int) -> float:
    longest: float = min(_MAX_DELAY, _FIRST_DELAY * 2 ** min(times, 10))
    return longest * random.uniform(0.5, 1)  # noqa: S311  jitter


def _options(config: GrpcService) -> Mapping[str, int | str]:
    options: dict[str, int | str] = {
        "grpc.max_receive_message_length": max(config.max_message_bytes, _MAX_DESCRIPTION),
        "grpc.max_send_message_length": config.max_message_bytes,
        "grpc.max_metadata_size": 64 * 1024,
        # A server that is gone without a word is noticed; more often than this servers may take amiss.
        "grpc.keepalive_time_ms": 300_000,
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.initial_reconnect_backoff_ms": 250,
        "grpc.min_reconnect_backoff_ms": 2000,
        "grpc.max_reconnect_backoff_ms": 10_000,
        # A record of the name's owner must not make calls that are sent again.
        "grpc.service_config_disable_resolution": 1,
        # Channels of equal options share a connection; each source is to fail alone.
        "grpc.use_local_subchannel_pool": 1,
    }
    if config.is_local:
        options["grpc.enable_http_proxy"] = 0
    return options


def _credentials(config: GrpcService) -> grpc.ChannelCredentials:
    if config.ca_file is None:
        return grpc.ssl_channel_credentials()
    data = _read(config.ca_file, "ca_file", _MAX_CA_BYTES)
    return grpc.ssl_channel_credentials(root_certificates=data)


def _read(path: Path, key: str, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{key} {path} cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(data) > most:
        raise ConfigError(f"{key} {path} is longer than {most} bytes")
    return data


def _from_file(config: GrpcService) -> Described:
    assert config.descriptor_set is not None
    data = _read(config.descriptor_set, "descriptor_set", MAX_FILE_BYTES)
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
