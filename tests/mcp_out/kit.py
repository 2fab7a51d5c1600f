"""An engine with some tools behind the HTTP server, and MCP clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from engine.harness import no_price
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from turnwired.callers import Callers
from turnwired.config.http import HttpConfig
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import Policy
from turnwired.domain.run import Agent
from turnwired.engine.ports import EngineConfig, Wiring
from turnwired.engine.service import Engine
from turnwired.http.server import HttpServer
from turnwired.store.memory import MemoryStore
from turnwired.telemetry.null import NullTelemetry
from turnwired.testing.provider import ScriptedProvider
from turnwired.tools.access import Access
from turnwired.tools.output import compile_output
from turnwired.tools.python import PythonToolset
from turnwired.tools.registry import Registry, Source

SECONDS = 20.0
ERAS = ("legacy", "2026-07-28")
MODEL = ModelSelection("scripted", "scripted-model")


@dataclass
class Endpoint:
    """An endpoint that is up."""

    engine: Engine
    server: HttpServer
    registry: Registry

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.mcp_url

    @asynccontextmanager
    async def client(self, token: str | None = None, era: str = "legacy") -> AsyncIterator[Client]:
        """An MCP client of one caller."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
            Client(
                streamable_http_client(self.url, http_client=http), mode=era, read_timeout_seconds=SECONDS
            ) as client,
        ):
            yield client

    async def post(self, body: Any = None, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """One plain request."""
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            given = {"accept": "application/json, text/event-stream", **(headers or {})}
            if isinstance(body, bytes):
                return await http.post(self.url, content=body, headers={"content-type": "application/json", **given})
            return await http.post(self.url, json=body, headers=given)


@asynccontextmanager
async def endpoint(
    *functions: Callable[..., object],
    sources: Sequence[Source] = (),
    callers: Callers | None = None,
    policy: Policy | None = None,
    access: Access | None = None,
    agents: Sequence[Agent] = (),
    find_above: int = 0,
    **config: Any,
) -> AsyncIterator[Endpoint]:
    """The endpoint on a free loopback port."""
    own = [Source(PythonToolset(functions))] if functions else []
    registry = Registry([*own, *sources], access=access or Access(), find_above=find_above)
    store = MemoryStore()
    known = callers or Callers()
    wiring = Wiring(
        config=EngineConfig("default", deployment_policy=policy or Policy(), principals=known.roles),
        agents={agent.agent_id: agent for agent in (Agent("default", ("Be brief.",), MODEL), *agents)},
        providers={"scripted": ScriptedProvider([])},
        default_model=MODEL,
        registry=registry,
        store=store,
        telemetry=NullTelemetry(),
        price_of=no_price,
        compile_output=compile_output,
    )
    await store.start()
    await registry.start()
    try:
        async with Engine(wiring) as engine:
            settings = {"listen": "127.0.0.1:0", "mcp": True, **config}
            server = HttpServer(HttpConfig.model_validate(settings), known, engine.outside)
            await server.start()
            try:
                yield Endpoint(engine, server, registry)
            finally:
                await server.stop(1.0)
    finally:
        await registry.aclose()
        await store.aclose()
