"""An engine with a scripted provider, tools and a store in memory, and a reader that keeps what it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from turnwire.v1 import turn_service_pb2
from turnwired.codec.event import event_from_pb
from turnwired.codec.frame import Visibility
from turnwired.domain.completion import CompletionHook
from turnwired.domain.event import Event, LoggedEvent, RunFinished
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import GenerationOptions, ModelSelection
from turnwired.domain.policy import Policy
from turnwired.domain.run import Agent, Caller, Cursor, TurnSpec
from turnwired.domain.usage import Cost, Usage
from turnwired.engine.ports import EngineConfig, PriceOf, Wiring
from turnwired.engine.service import Engine
from turnwired.store.memory import MemoryStore
from turnwired.store.port import Store
from turnwired.telemetry.null import NullTelemetry
from turnwired.testing.provider import ScriptedProvider, Step
from turnwired.testing.registry import Function, MemoryRegistry
from turnwired.tools.output import compile_output
from turnwired.tools.port import ToolRegistry
from turnwired.turn.setup import unpriced

CALLER = Caller()
LIMIT = 10.0
"""Seconds after which a test that waits has failed."""


def user(text: str) -> Message:
    """A message of the user."""
    return Message(Role.USER, (Part("", Text(text)),))


@dataclass
class Reader:
    """Follows a run and keeps frames and events, applying rewinds as a client must."""

    events: list[LoggedEvent] = field(default_factory=list)
    frames: list[turn_service_pb2.RunTurnResponse] = field(default_factory=list)
    seen: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def send(self, data: bytes) -> None:
        """Take one frame."""
        frame = turn_service_pb2.RunTurnResponse.FromString(data)
        self.frames.append(frame)
        if frame.HasField("rewind_to_sequence"):
            self.events = [event for event in self.events if event.sequence <= frame.rewind_to_sequence]
        self.events.extend(event_from_pb(event) for event in frame.events)
        async with self.seen:
            self.seen.notify_all()

    @property
    def cursor(self) -> Cursor:
        """The cursor after the last frame."""
        last = self.frames[-1]
        return Cursor(last.epoch, last.through_sequence)

    def kinds(self) -> list[str]:
        """Names of the events, in order."""
        return [type(item.event).__name__ for item in self.events]

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of one kind."""
        return [item.event for item in self.events if isinstance(item.event, kind)]

    @property
    def finished(self) -> RunFinished:
        """The end of the run."""
        last = self.events[-1].event
        assert isinstance(last, RunFinished)
        return last

    async def until(self, kind: type[Event], count: int = 1) -> None:
        """Wait until that many events of the kind were seen."""
        async with asyncio.timeout(LIMIT), self.seen:
            await self.seen.wait_for(lambda: len(self.of(kind)) >= count)


@dataclass
class World:
    """One engine and what it was wired with."""

    engine: Engine
    provider: ScriptedProvider
    registry: MemoryRegistry
    store: Store

    async def start(self, text: str = "Hello", **changes: object) -> tuple[str, Reader, asyncio.Task[None]]:
        """Start a turn and follow it in a task."""
        spec = replace(TurnSpec(CALLER, (user(text),)), **changes)  # type: ignore[arg-type]
        accepted = await self.engine.start_turn(spec)
        reader = Reader()
        task = asyncio.create_task(self.follow(accepted.run_id, reader))
        return accepted.run_id, reader, task

    async def follow(
        self, run_id: str, reader: Reader, cursor: Cursor | None = None, level: Visibility = Visibility.DELTA
    ) -> None:
        """Follow a run to its end."""
        async with asyncio.timeout(LIMIT):
            await self.engine.follow(CALLER, run_id, cursor or Cursor(), level, reader.send)

    async def run(self, text: str = "Hello", **changes: object) -> Reader:
        """Run a turn to its end."""
        _, reader, task = await self.start(text, **changes)
        await task
        return reader


async def no_price(model: ModelSelection) -> Callable[[Usage, int], Cost | None]:
    """No model has a price."""
    return unpriced


@asynccontextmanager
async def world(
    script: Sequence[Sequence[Step]],
    functions: Mapping[str, Function] | None = None,
    *,
    store: Store | None = None,
    policy: Policy | None = None,
    heartbeat: float = 60.0,
    max_active_runs: int = 100,
    options: GenerationOptions | None = None,
    hooks: Mapping[str, CompletionHook] | None = None,
    agents: Sequence[Agent] = (),
    max_run_depth: int = 4,
    model: ScriptedProvider | None = None,
    price_of: PriceOf = no_price,
    provider_name: str = "scripted",
    tools: ToolRegistry | None = None,
) -> AsyncIterator[World]:
    """An engine that is up, and is stopped at the end. ``model`` stands in for a provider with the script, ``tools``
    for a registry with the functions.
    """
    provider = model or ScriptedProvider(list(script), provider_name)
    registry = MemoryRegistry(dict(functions or {}))
    kept = store or MemoryStore()
    selection = ModelSelection(provider_name, "scripted-model", options=options or GenerationOptions())
    wiring = Wiring(
        config=EngineConfig(
            "default",
            max_active_runs=max_active_runs,
            max_run_depth=max_run_depth,
            heartbeat_seconds=heartbeat,
            deployment_policy=policy or Policy(),
        ),
        agents={"default": Agent("default", ("Be brief.",), selection), **{agent.agent_id: agent for agent in agents}},
        providers={provider_name: provider},
        default_model=selection,
        registry=tools or registry,
        store=kept,
        telemetry=NullTelemetry(),
        price_of=price_of,
        compile_output=compile_output,
        random=lambda: 0.0,
        completion_hooks=hooks or {},
    )
    await kept.start()
    async with Engine(wiring) as engine:
        yield World(engine, provider, registry, kept)
    await kept.aclose()
