"""The service over real tools: a scripted model, the true registry over Python functions, a store, gRPC in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from engine.harness import no_price
from google.protobuf.message import Message
from rpc.server import LOOPBACK, has_price

from turnwire.v1 import (
    agent_service_pb2_grpc,
    approval_pb2,
    event_pb2,
    message_pb2,
    outcome_pb2,
    run_pb2,
    session_service_pb2_grpc,
    turn_service_pb2,
    turn_service_pb2_grpc,
)
from turnwired.callers import Callers
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import Policy
from turnwired.domain.run import Agent
from turnwired.engine.hooks import Hook
from turnwired.engine.ports import EngineConfig, Wiring
from turnwired.engine.service import Engine
from turnwired.providers.port import ModelProvider
from turnwired.rpc.agent_service import AgentService
from turnwired.rpc.auth import Gate
from turnwired.rpc.server import RpcServer
from turnwired.rpc.server_service import ServerService
from turnwired.rpc.session_service import SessionService
from turnwired.rpc.turn_service import TurnService
from turnwired.store.memory import MemoryStore
from turnwired.store.port import Store
from turnwired.telemetry.null import NullTelemetry
from turnwired.testing.provider import ScriptedProvider, Step
from turnwired.tools.output import compile_output
from turnwired.tools.python import PythonToolset
from turnwired.tools.registry import Registry, Source

SECONDS = 20.0
"""Longest that a test waits for anything."""
MODEL = ModelSelection("scripted", "scripted-model")


@dataclass
class Seen:
    """The frames of one stream, as they come."""

    events: list[event_pb2.RunEvent] = field(default_factory=list[event_pb2.RunEvent])
    run_id: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def id(self) -> str:
        """The run's id as soon as it is told: a tool may act before its reader hears of the run."""
        async with asyncio.timeout(SECONDS):
            await self.begun.wait()
        return self.run_id

    async def take(self, frame: turn_service_pb2.RunTurnResponse | turn_service_pb2.WatchRunResponse) -> None:
        """Keep a frame."""
        for event in frame.events:
            if event.HasField("run_started"):
                self.run_id = event.run_started.run_id
                self.begun.set()
            self.events.append(event)
        async with self.changed:
            self.changed.notify_all()

    def kinds(self) -> list[str]:
        """Names of the events, in order."""
        return [event.WhichOneof("event") or "" for event in self.events]

    async def until(self, kind: str, count: int = 1) -> None:
        """Wait until that many events of a kind came."""
        async with asyncio.timeout(SECONDS), self.changed:
            await self.changed.wait_for(lambda: self.kinds().count(kind) >= count)

    @property
    def asked(self) -> list[approval_pb2.Approval]:
        """The questions, in the order in which they were asked."""
        return [e.approval_requested.approval for e in self.events if e.HasField("approval_requested")]

    @property
    def resolutions(self) -> list[event_pb2.ApprovalResolved]:
        """Their answers, in order."""
        return [event.approval_resolved for event in self.events if event.HasField("approval_resolved")]

    @property
    def waits(self) -> list[event_pb2.RunWaiting]:
        """What the run waited for, in order."""
        return [event.run_waiting for event in self.events if event.HasField("run_waiting")]

    @property
    def results(self) -> list[message_pb2.ToolResult]:
        """The results of the calls, in the order in which they settled."""
        return [e.tool_call_finished.result for e in self.events if e.HasField("tool_call_finished")]

    @property
    def notices(self) -> list[outcome_pb2.Notice]:
        """The notices."""
        return [event.notice for event in self.events if event.HasField("notice")]

    @property
    def finished(self) -> event_pb2.RunFinished:
        """The end."""
        assert self.kinds().count("run_finished") == 1, self.kinds()
        assert self.events[-1].HasField("run_finished")
        return self.events[-1].run_finished


@dataclass
class Served:
    """A service that is up."""

    engine: Engine
    provider: ScriptedProvider
    store: Store
    channel: grpc.aio.Channel
    turns: turn_service_pb2_grpc.TurnServiceAsyncStub
    sessions: session_service_pb2_grpc.SessionServiceAsyncStub
    agents: agent_service_pb2_grpc.AgentServiceAsyncStub
    address: str = ""

    def follow(self, request: turn_service_pb2.RunTurnRequest) -> tuple[Seen, asyncio.Task[Seen]]:
        """Run a turn in a task; cancelling the task drops the RPC."""
        seen = Seen()

        async def read() -> Seen:
            async for frame in self.turns.RunTurn(request, timeout=SECONDS):
                await seen.take(frame)
            return seen

        return seen, asyncio.create_task(read())

    async def run(self, text: str = "Hello", **fields: object) -> Seen:
        """Run a turn to its end."""
        _, task = self.follow(turn(text, **fields))
        return await task

    async def cancel(self, run_id: str) -> run_pb2.Run:
        """Cancel a run; as it stands right after."""
        request = turn_service_pb2.CancelRunRequest(run_id=run_id)
        return (await self.turns.CancelRun(request, timeout=SECONDS)).run

    async def watch(self, run_id: str, **fields: Any) -> Seen:
        """The whole log of a run, to its end."""
        seen = Seen()
        request = turn_service_pb2.WatchRunRequest(run_id=run_id, **fields)
        async for frame in self.turns.WatchRun(request, timeout=SECONDS):
            await seen.take(frame)
        return seen

    async def resolve(
        self, approval: approval_pb2.Approval, decision: approval_pb2.ApprovalDecision.ValueType, **fields: Any
    ) -> run_pb2.Run:
        """Answer a question; the run after it."""
        request = turn_service_pb2.ResolveApprovalRequest(
            run_id=approval.run_id, approval_id=approval.approval_id, decision=decision, **fields
        )
        return (await self.turns.ResolveApproval(request, timeout=SECONDS)).run

    async def approvals(self, **fields: Any) -> list[approval_pb2.Approval]:
        """The questions that are listed."""
        request = turn_service_pb2.ListApprovalsRequest(**fields)
        return list((await self.turns.ListApprovals(request, timeout=SECONDS)).approvals)

    async def submit(self, run_id: str, *results: message_pb2.ToolResult) -> turn_service_pb2.SubmitToolResultsResponse:
        """Hand in results."""
        request = turn_service_pb2.SubmitToolResultsRequest(run_id=run_id, results=results)
        return await self.turns.SubmitToolResults(request, timeout=SECONDS)

    async def get(self, run_id: str) -> run_pb2.Run:
        """The run as it stands."""
        return (await self.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id), timeout=SECONDS)).run

    async def settled(self, run_id: str) -> turn_service_pb2.GetRunResponse:
        """The run when it has settled, from its own log."""
        await self.watch(run_id)
        return await self.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id), timeout=SECONDS)


def turn(text: str = "Hello", **fields: object) -> turn_service_pb2.RunTurnRequest:
    """A turn with one user message."""
    request = turn_service_pb2.RunTurnRequest()
    request.turn.input.add(role=message_pb2.ROLE_USER).parts.add().text = text
    for name, value in fields.items():
        if isinstance(value, Message):
            getattr(request.turn, name).CopyFrom(value)
        else:
            setattr(request.turn, name, value)
    return request


def words(result: message_pb2.ToolResult) -> str:
    """All text and JSON of a result."""
    return "\n".join(part.text or part.data_json for part in result.content)


@asynccontextmanager
async def served(
    script: Sequence[Sequence[Step]],
    *functions: Callable[..., object],
    sources: Sequence[Source] = (),
    policy: Policy | None = None,
    store: Store | None = None,
    model: ModelProvider | None = None,
    hooks: Sequence[Hook] = (),
    compose: Callable[[Sequence[Source]], Registry] = Registry,
    callers: Callers | None = None,
    agents: Sequence[Agent] = (),
) -> AsyncIterator[Served]:
    """The service on a free loopback port with these tools. ``model`` stands in for the scripted one.

    ``compose`` makes the registry of the sources.
    """
    known = callers or Callers()
    provider = ScriptedProvider(list(script))
    registry = compose([*([Source(PythonToolset(functions))] if functions else []), *sources])
    kept = store or MemoryStore()
    wiring = Wiring(
        config=EngineConfig(
            "default", deployment_policy=policy or Policy(), principals=known.roles, tenants=known.tenants
        ),
        agents={agent.agent_id: agent for agent in (Agent("default", ("Be brief.",), MODEL), *agents)},
        providers={"scripted": model or provider},
        default_model=MODEL,
        registry=registry,
        store=kept,
        telemetry=NullTelemetry(),
        price_of=no_price,
        compile_output=compile_output,
        hooks=tuple(hooks),
        random=lambda: 0.0,
    )
    await kept.start()
    await registry.start()
    try:
        async with Engine(wiring) as engine:
            info = ServerService(engine, "default", MODEL, 1 << 20, has_price, durable=False)
            server = RpcServer(
                LOOPBACK,
                TurnService(engine),
                info,
                sessions=SessionService(engine),
                agents=AgentService(engine),
                gate=Gate(known),
            )
            await server.start()
            try:
                address = f"127.0.0.1:{server.port}"
                async with grpc.aio.insecure_channel(address) as channel:
                    turns: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
                    sessions: session_service_pb2_grpc.SessionServiceAsyncStub = (
                        session_service_pb2_grpc.SessionServiceStub(channel)
                    )
                    stored: agent_service_pb2_grpc.AgentServiceAsyncStub = agent_service_pb2_grpc.AgentServiceStub(
                        channel
                    )
                    yield Served(engine, provider, kept, channel, turns, sessions, stored, address)
            finally:
                await server.stop(0)
    finally:
        await registry.aclose()
        await kept.aclose()
