"""One server behind gRPC: its channel, and the task that asks it what it has. Knows neither the question nor calls.

The task asks, and asks again after an attempt that failed (ever more rarely), after the connection was lost, and when
what is known is old. Everybody else only reads. Faults end here: other sources see nothing of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import anyio
import grpc
import grpc.aio

from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.tools.grpc.calls import metadata_of
from turnwired.tools.grpc.endpoint import Endpoint
from turnwired.tools.grpc.line import Line, Losses
from turnwired.tools.hiding import hidden
from turnwired.tools.port import ToolInvocation
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.25
_MAX_DELAY: Final = 30.0
_STEADY_AFTER: Final = 10.0
"""Seconds up after which a connection that is lost counts as the first one that is."""
_CONNECT_SECONDS: Final = 3.0
_CLOSE_SECONDS: Final = 2.0
_MAX_CA_BYTES: Final = 1024 * 1024
_MAX_DESCRIPTION: Final = 4 * 1024 * 1024
"""Bytes of one answer that says what there is, however little is read of others."""

Metadata = tuple[tuple[str, str], ...]
Ask = Callable[[grpc.aio.Channel], Awaitable[None]]
"""Asks a server what it has and keeps the answer. Raises NotAnswered, ConfigError, AioRpcError; may be cancelled."""


class NotAnswered(Exception):
    """The server did not say what it has; the text says why."""


class Peer:
    """Lives in one event loop; ``aclose`` ends it for good. ``kind`` is what messages call it.

    ``failure``: why the server cannot be used, or was not the last time. ``stays``: a lost connection changes nothing
    in what is known. ``losses``: of its connections.
    """

    def __init__(self, set_id: str, kind: str, endpoint: Endpoint, ask: Ask, *, stays: bool = False) -> None:
        self.set_id = set_id
        self.failure: Failure | None = None
        self.closed = False
        self.losses = Losses()
        self._kind = kind
        self._endpoint = endpoint
        self._ask = ask
        self._stays = stays
        self._channel: grpc.aio.Channel | None = None
        self._owner: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._wanted = asyncio.Event()
        self._answered = False
        self._asked_at = 0.0
        self._failures = 0
        self._in_a_row = 0

    def begin(self) -> None:
        """Ask in the background, if nothing is known, or what is known is older than ``refresh_interval``."""
        if self.closed:
            return
        if self._owner is None:
            # A context of its own: the caller's span must not become the parent of all that the owner does.
            self._owner = asyncio.get_running_loop().create_task(
                self._own(), name=f"grpc-{self.set_id}", context=contextvars.Context()
            )
        elif self._answered and anyio.current_time() - self._asked_at >= self._endpoint.refresh_interval:
            self.ask_again()

    def ask_again(self) -> None:
        """What is known is old: ask as soon as no attempt has just failed."""
        self._wanted.set()

    @property
    def trying(self) -> bool:
        """Whether the first attempt goes on."""
        return self._owner is not None and not self._tried.is_set()

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
                await ready(channel)
                return channel
            words = "cannot be reached"
            if self.failure is not None:
                words = self.failure.message
            raise ToolError(self.unavailable(f"{words}; the call was not sent"))
        return channel

    async def for_call(self, invocation: ToolInvocation, deadline: float | None) -> tuple[Line, Metadata]:
        """The connected channel and the metadata of a call. Raises ToolError: nothing was sent."""
        left = None if deadline is None else deadline - anyio.current_time()
        channel = await self.channel(_CONNECT_SECONDS if left is None else min(_CONNECT_SECONDS, left))
        try:
            return Line(channel, self.losses), metadata_of(invocation, self._endpoint.token())
        except ConfigError as error:
            raise ToolError(self.unavailable(f"{error}; the call was not sent")) from None

    def authorization(self) -> Metadata:
        """Metadata of a call that is on nobody's behalf. Raises ConfigError."""
        token = self._endpoint.token()
        return (("authorization", f"Bearer {token}"),) if token else ()

    def secrets_hidden(self, text: str) -> str:
        """Foreign words without the token of this server."""
        try:
            token = self._endpoint.token()
        except ConfigError:
            return text
        return hidden(text, (token,)) if token else text

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
                _LOG.warning("%s %s: %s", self._kind, self.set_id, where_raised(error))
                self._failed(f"{type(error).__name__} while it was asked what it has")
            self._tried.set()
            if worked:
                await self._wanted.wait()
                if self._in_a_row > 1:
                    await anyio.sleep(backoff(self._in_a_row))
            else:
                await anyio.sleep(backoff(self._failures))

    async def _attempt(self) -> bool:
        """Ask once; what is not known afterwards has a ``failure``."""
        seconds = self._endpoint.discovery_timeout
        try:
            with anyio.fail_after(seconds):
                await self._ask(await self._open())
        except TimeoutError:
            self._failed(f"did not say what it has within {seconds:g} s")
        except (NotAnswered, ConfigError) as error:
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
            self._answered = True
            self._asked_at = anyio.current_time()
            return True
        return False

    async def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            endpoint = self._endpoint
            credentials = await anyio.to_thread.run_sync(_credentials, endpoint) if endpoint.secure else None
            options = list(_options(endpoint).items())
            if credentials is None:
                self._channel = grpc.aio.insecure_channel(endpoint.address, options)
            else:
                self._channel = grpc.aio.secure_channel(endpoint.address, credentials, options)
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
                if not self._stays:
                    self._in_a_row = 1 if anyio.current_time() - up_since >= _STEADY_AFTER else self._in_a_row + 1
                    self.ask_again()
            if state is grpc.ChannelConnectivity.READY:
                up_since = anyio.current_time()

    def _failed(self, words: str) -> None:
        failure = self.unavailable(words)
        if self.failure != failure:
            _LOG.warning("%s", failure.message)
        self.failure = failure
        self._failures += 1

    def unavailable(self, words: str) -> Failure:
        """The failure of a server that was not reached."""
        prefix = f"{self._kind} {self.set_id!r}"
        return Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.TOOL_SOURCE_UNAVAILABLE,
            message=words if words.startswith(prefix) else f"{prefix}: {words}",
            retryable=True,
            origin=self.set_id,
        )


async def ready(channel: grpc.aio.Channel) -> None:
    """Return when the channel is connected."""
    while True:
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return
        await channel.wait_for_state_change(state)


def backoff(times: int) -> float:
    """Seconds to wait before the next attempt, with jitter."""
    longest: float = min(_MAX_DELAY, _FIRST_DELAY * 2 ** min(times, 10))
    return longest * random.uniform(0.5, 1)  # noqa: S311  jitter


def _options(endpoint: Endpoint) -> Mapping[str, int | str]:
    options: dict[str, int | str] = {
        "grpc.max_receive_message_length": max(endpoint.max_message_bytes, _MAX_DESCRIPTION),
        "grpc.max_send_message_length": endpoint.max_message_bytes,
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
    if endpoint.is_local:
        options["grpc.enable_http_proxy"] = 0
    return options


def _credentials(endpoint: Endpoint) -> grpc.ChannelCredentials:
    if endpoint.ca_file is None:
        return grpc.ssl_channel_credentials()
    data = read_file(endpoint.ca_file, "ca_file", _MAX_CA_BYTES)
    return grpc.ssl_channel_credentials(root_certificates=data)


def read_file(path: Path, key: str, most: int) -> bytes:
    """A file that the configuration names under ``key``. Raises ConfigError, also for more than ``most`` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{key} {path} cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(data) > most:
        raise ConfigError(f"{key} {path} is longer than {most} bytes")
    return data
