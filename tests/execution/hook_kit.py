"""What tests of hooks over gRPC share: the service with an app that it tells."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
from execution.hook_app import End, Events, Ill
from execution.served import SECONDS, Seen, Served, served

from turnwired.engine.hooks import Hook, Patience
from turnwired.rpc.hook_client import HookApp, HookClient
from turnwired.store.port import Store
from turnwired.testing.provider import Step, answer, calls

DELTAS = {"text_delta", "reasoning_delta", "tool_call_arguments_delta", "tool_call_progressed"}
EAGER = Patience(call=10.0, delay=0.0, again=0.0)
TOOL_TURN = [calls(("look", '{"name":"x"}')), answer("Done.")]


async def look(name: str) -> str:
    """Look."""
    return f"saw {name}"


@asynccontextmanager
async def told(
    app: HookApp | int,
    script: Sequence[Sequence[Step]],
    *,
    store: Store | None = None,
    patience: Patience = EAGER,
    more: Sequence[Hook] = (),
) -> AsyncIterator[Served]:
    """The service, and an app that it tells."""
    client = HookClient(app if isinstance(app, HookApp) else HookApp("app", f"127.0.0.1:{app}"))
    try:
        hook = replace(client.hook(), patience=patience)
        async with served(script, look, store=store, hooks=[hook, *more]) as s:
            yield s
    finally:
        await client.aclose()


def expected(seen: Seen) -> list[int]:
    """The events of a run that a hook is told."""
    return [event.sequence for event in seen.events if event.WhichOneof("event") not in DELTAS]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def nothing_left(store: Store, name: str = "grpc:app") -> None:
    """Wait until everything is told."""
    async with asyncio.timeout(SECONDS):
        while await store.pending_deliveries(name, 10):  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.01)


def once(code: grpc.StatusCode) -> Ill:
    """Each kind of call fails once."""
    failed: set[type] = set()

    def ill(request: Events | End) -> grpc.StatusCode | None:
        if type(request) in failed:
            return None
        failed.add(type(request))
        return code

    return ill
