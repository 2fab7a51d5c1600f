"""An app that implements HookService: keeps what it is told, and is as bad as a test wants it to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from turnwire.v1 import hook_service_pb2, hook_service_pb2_grpc

Events = hook_service_pb2.OnEventsRequest
End = hook_service_pb2.OnSettleRequest
Context = grpc.aio.ServicerContext[Any, Any]
Ill = Callable[[Events | End], grpc.StatusCode | asyncio.Event | int | None]
"""What goes wrong with a request: a status, a wait that the test ends, a number that is kept; None: nothing."""


def well(request: Events | End) -> None:
    """Nothing goes wrong."""
    del request


@dataclass
class App(hook_service_pb2_grpc.HookServiceServicer):
    """``asked`` is every request, ``events`` and ``settled`` are those that were answered with OK."""

    ill: Ill = well
    asked: list[Events | End] = field(default_factory=list[Events | End])
    events: list[Events] = field(default_factory=list[Events])
    settled: list[End] = field(default_factory=list[End])
    tokens: list[str] = field(default_factory=list[str])
    busy: int = 0
    most_busy: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def OnEvents(  # noqa: N802 - the contract's name; the stub is for both kinds of server
        self, request: Events, context: Context
    ) -> hook_service_pb2.OnEventsResponse:
        """Events of a run."""
        kept = await self._hear(request, context)
        self.events.append(request)
        await self._tell()
        return hook_service_pb2.OnEventsResponse(kept_sequence=kept)

    async def OnSettle(  # noqa: N802
        self, request: End, context: Context
    ) -> hook_service_pb2.OnSettleResponse:
        """The end of a run."""
        await self._hear(request, context)
        self.settled.append(request)
        await self._tell()
        return hook_service_pb2.OnSettleResponse()

    async def _hear(
        self,
        request: Events | End,
        context: Context,
    ) -> int | None:
        self.asked.append(request)
        self.tokens += [str(value) for key, value in context.invocation_metadata() or () if key == "authorization"]
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        await self._tell()
        try:
            match self.ill(request):
                case None:
                    return None
                case int() as kept:
                    return kept
                case asyncio.Event() as gate:
                    await gate.wait()
                    return None
                case code:
                    await context.abort(code, "secret words of the app")
        finally:
            self.busy -= 1

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, there: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(there)

    def sequences(self, run_id: str) -> list[int]:
        """The events of a run that were taken, as often as they were."""
        return [event.sequence for batch in self.events if batch.run_id == run_id for event in batch.events]


@asynccontextmanager
async def listening(app: App, port: int = 0, *, tls: tuple[bytes, bytes] | None = None) -> AsyncIterator[int]:
    """The app on a loopback port. ``tls``: key and certificate."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    hook_service_pb2_grpc.add_HookServiceServicer_to_server(app, server)
    if tls is None:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
    else:
        bound = server.add_secure_port(f"localhost:{port}", grpc.ssl_server_credentials([tls]))
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)
