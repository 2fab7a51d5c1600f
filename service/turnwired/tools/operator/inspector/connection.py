"""A connection to an inspector: requests with their answers, and events as they come. Bounded both ways.

Source: https://chromedevtools.github.io/devtools-protocol/v8/. Knows the protocol's frame and none of its methods.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

OPEN_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 2.0
DETACHED: Final = "Inspector.detached"
"""The last event, however the connection has ended."""
_MAX_PENDING: Final = 64

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called on the event loop with the method and the parameters of an event. Must not raise, and must not wait."""


class InspectorLost(Exception):
    """The connection is gone: the process ended, or ended it."""


class InspectorRefused(Exception):
    """The inspector answered with an error. The text is the protocol's and may quote what was sent."""


@dataclass(slots=True)
class Connection:
    """One session with an inspector. The task that reads belongs to it and ends with ``aclose``."""

    socket: ClientConnection
    listener: Listener | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _pending: dict[int, asyncio.Future[Mapping[str, Any]]] = field(default_factory=dict)
    _reader: asyncio.Task[None] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def open(cls, host: str, port: int, path: str, max_bytes: int) -> Self:
        """Connect. Raises OSError, TimeoutError or InspectorLost. No proxy and no header but the protocol's own."""
        where = f"[{host}]" if ":" in host else host
        try:
            socket = await connect(
                f"ws://{where}:{port}{path}",
                proxy=None,
                compression=None,
                user_agent_header=None,
                max_size=max_bytes,
                max_queue=16,
                open_timeout=OPEN_SECONDS,
                close_timeout=CLOSE_SECONDS,
                ping_interval=None,
            )
        except WebSocketException:
            raise InspectorLost from None
        connection = cls(socket)
        connection._reader = asyncio.create_task(connection._read(), name=f"inspector-{port}")
        return connection

    @property
    def lost(self) -> bool:
        """Whether it can be used no more."""
        return self.ended.is_set()

    async def request(self, method: str, seconds: float, **params: object) -> Mapping[str, Any]:
        """The answer to one request. Raises InspectorLost, InspectorRefused, or TimeoutError after ``seconds``."""
        if self.lost or len(self._pending) >= _MAX_PENDING:
            raise InspectorLost
        number = next(self._numbers)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            with anyio.fail_after(seconds):
                await self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
                message = await answer
        except (WebSocketException, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise InspectorLost from None
        finally:
            self._pending.pop(number, None)
        if "error" in message:
            raise InspectorRefused(str(cast("Mapping[str, Any]", message["error"]).get("message", "")))
        return cast("Mapping[str, Any]", message.get("result", {}))

    async def _read(self) -> None:
        try:
            async for data in self.socket:
                self._take(data)
        except (WebSocketException, OSError, ValueError):
            pass
        finally:
            self.ended.set()
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(InspectorLost())
            if self.listener is not None:
                self.listener(DETACHED, {})

    def _take(self, data: str | bytes) -> None:
        message = json.loads(data)
        if not isinstance(message, dict):
            raise ValueError("no message of the protocol")  # noqa: TRY004  as json.loads says it
        answer = self._pending.get(message.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result(message)
        elif self.listener is not None and isinstance(message.get("method"), str):
            self.listener(message["method"], message.get("params") or {})

    async def aclose(self) -> None:
        """Say goodbye, within bounds: breakpoints go, and a process that is held goes on."""
        with anyio.move_on_after(CLOSE_SECONDS + 1, shield=True):
            await self.socket.close()
        if self._reader is not None:
            self._reader.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((self._reader,), timeout=CLOSE_SECONDS)
