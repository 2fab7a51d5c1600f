"""What an app says of its own accord: whether it takes calls, and that its tools have changed.

Two streams for as long as there is a connection, each in a task of its own. Either may be missing: an app without a
health service takes calls, and one that does not tell of changes is asked now and then.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Final

import anyio
import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from turnwired.codec.tool_host import WATCH_TOOLS, decode_version, encode_watch_tools
from turnwired.domain.errors import CodecError, ConfigError, ToolError
from turnwired.domain.faults import where_raised
from turnwired.tools.grpc.peer import Peer, backoff

_LOG = logging.getLogger(__name__)

_HEALTH: Final = "/grpc.health.v1.Health/Watch"
_CONNECT_SECONDS: Final = 30.0
_PAUSE: Final = 0.25
"""Seconds between two things that an app says: it may say them faster than anybody can ask what they mean."""
_CLOSE_SECONDS: Final = 2.0


class Watching:
    """Lives in one event loop. ``serving``: False while the app says that it takes no calls."""

    def __init__(self, peer: Peer, changed: Callable[[str], None]) -> None:
        self.serving = True
        self._peer = peer
        self._changed = changed
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Listen from now on."""
        if self._tasks or self._peer.closed:
            return
        request = health_pb2.HealthCheckRequest(service="").SerializeToString()
        for name, work in (
            ("health", self._follow(_HEALTH, request, self._health)),
            ("changes", self._follow(WATCH_TOOLS, encode_watch_tools(), self._version)),
        ):
            task = asyncio.get_running_loop().create_task(
                work, name=f"host-{name}-{self._peer.set_id}", context=contextvars.Context()
            )
            self._tasks.append(task)

    async def aclose(self) -> None:
        """Stop listening. Bounded."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)

    async def _follow(self, path: str, request: bytes, told: Callable[[bytes], None]) -> None:
        failures = 0
        while not self._peer.closed:
            silent = True
            try:
                silent = await self._listen(await self._peer.channel(_CONNECT_SECONDS), path, request, told)
            except ToolError:  # not connected in all that time
                failures = 0
            except ConfigError:
                pass  # the token is not there; whoever asks for the tools says so
            except asyncio.CancelledError:
                # gRPC raises it for a call that ends locally; only whoever cancels this task is to end it.
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
            except Exception as error:  # noqa: BLE001  task boundary: nobody awaits it, and one thing said is no end
                _LOG.warning("tool host %s: %s", self._peer.set_id, where_raised(error))
            failures = failures + 1 if silent else 0
            await anyio.sleep(backoff(failures))

    async def _listen(
        self, channel: grpc.aio.Channel, path: str, request: bytes, told: Callable[[bytes], None]
    ) -> bool:
        """Hear until the stream ends. True when nothing was said."""
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        call = method(request, metadata=self._peer.authorization())
        silent = True
        try:
            while isinstance(message := await call.read(), bytes):
                silent = False
                told(message)
                await anyio.sleep(_PAUSE)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        finally:
            call.cancel()
            if path == _HEALTH:
                self.serving = True  # nobody says otherwise any more; a lost connection is noticed elsewhere
        return silent

    def _health(self, message: bytes) -> None:
        try:
            status = health_pb2.HealthCheckResponse.FromString(message).status
        except DecodeError:
            return
        serving = status != health_pb2.HealthCheckResponse.NOT_SERVING
        if serving != self.serving:
            _LOG.info("tool host %s %s calls", self._peer.set_id, "takes" if serving else "takes no")
        self.serving = serving

    def _version(self, message: bytes) -> None:
        try:
            self._changed(decode_version(message))
        except CodecError:
            self._changed("")
