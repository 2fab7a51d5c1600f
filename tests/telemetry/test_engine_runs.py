"""Telemetry under the real engine, with a scripted model and tools in memory: the order is the engine's own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from engine.harness import CALLER, Reader, World, no_price, user
from opentelemetry.propagate import inject
from telemetry.collector import Collector
from telemetry.test_conventions import CHECKER

from turnwired.domain.errors import ToolError
from turnwired.domain.event import IterationStarted, TextDelta, ToolCallExecuting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.model import ModelSelection
from turnwired.domain.run import Agent, TurnSpec
from turnwired.engine.ports import EngineConfig, Wiring
from turnwired.engine.service import Engine
from turnwired.store.memory import MemoryStore
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.testing.provider import ScriptedProvider, Step, answer, calls, fails
from turnwired.testing.registry import Function, MemoryRegistry
from turnwired.tools.output import compile_output
from turnwired.tools.port import ToolInvocation, ToolRegistry

CANCEL = Failure(FailurePhase.MODEL, Reason.CANCELLED, "test")


@asynccontextmanager
async def traced_world(
    telemetry: OtelTelemetry,
    script: Sequence[Sequence[Step]],
    functions: Mapping[str, Function],
    tools: ToolRegistry | None = None,
) -> AsyncIterator[World]:
    """An engine whose runs are traced. ``tools`` are there in place of the functions."""
    provider, registry, store = ScriptedProvider(list(script)), MemoryRegistry(dict(functions)), MemoryStore()
    model = ModelSelection("scripted", "scripted-model")
    wiring = Wiring(
        config=EngineConfig("default"),
        agents={"default": Agent("default", ("Be brief.",), model)},
        providers={"scripted": provider},
        default_model=model,
        registry=tools or registry,
        store=store,
        telemetry=telemetry,
        price_of=no_price,
        compile_output=compile_output,
        random=lambda: 0.0,
    )
    await store.start()
    async with Engine(wiring) as engine:
        yield World(engine, provider, registry, store)
    await store.aclose()


async def start(world: World, telemetry: OtelTelemetry) -> tuple[str, Reader, asyncio.Task[None]]:
    """Start a turn as an RPC does, and follow it."""
    call = telemetry.rpc.call_started("turnwire.v1.TurnService/StartTurn", {})
    accepted = await world.engine.start_turn(TurnSpec(CALLER, (user("KEY-PROMPT"),)), call.headers)
    call.ended("OK")
    reader = Reader()
    return accepted.run_id, reader, asyncio.create_task(world.follow(accepted.run_id, reader))


async def never() -> None:
    """A model that says no more."""
    await asyncio.Event().wait()


async def endless(invocation: ToolInvocation) -> str:
    """A tool that does not end."""
    await never()
    return ""


def check(collector: Collector, directory: Path, *options: str) -> None:
    """The independent checker, where it is at hand."""
    assert "KEY-" not in collector.text()
    if not CHECKER.exists():
        return
    collector.dump(directory)
    checked = subprocess.run(
        [sys.executable, str(CHECKER), str(directory), "--no-content", *options],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.requirement("TEL-1", "TEL-2", "TEL-6", "TEL-7", "SCN-150")
async def test_a_retried_run_with_parallel_tools_is_one_tree(
    telemetry: OtelTelemetry, collector: Collector, tmp_path: Path
) -> None:
    inside: dict[str, str] = {}

    async def works(invocation: ToolInvocation) -> str:
        current: dict[str, str] = {}
        inject(current)
        inside["current"], inside["headers"] = current["traceparent"], invocation.headers["traceparent"]
        return "KEY-RESULT"

    async def breaks(invocation: ToolInvocation) -> str:
        raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, "KEY-MESSAGE"))

    script: list[Sequence[Step]] = [
        [fails(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=0.001)],
        calls(("works", '{"a": "KEY-ARGUMENT"}'), ("breaks", "{}")),
        answer("KEY-ANSWER", " in", " chunks"),
    ]
    async with traced_world(telemetry, script, {"works": works, "breaks": breaks}) as world:
        _, reader, task = await start(world, telemetry)
        await task
        headers = [request.headers["traceparent"] for request in world.provider.requests]
    await asyncio.to_thread(telemetry.aclose)
    check(collector, tmp_path, "--require-metrics")

    spans = {span.span_id: span for span in collector.spans}
    assert sorted(span.name for span in spans.values()) == [
        "chat scripted-model",
        "chat scripted-model",
        "execute_tool breaks",
        "execute_tool works",
        "invoke_agent default",
        "turnwire.iteration",
        "turnwire.iteration",
        "turnwire.v1.TurnService/StartTurn",
    ]
    first, second = (span for span in spans.values() if span.name == "chat scripted-model")
    assert [header.split("-")[2] for header in headers] == [first.span_id, first.span_id, second.span_id]
    assert [name for name, _ in first.events] == ["turnwire.retry"]
    assert first.attributes["turnwire.iteration.attempts"] == 2
    works_span = collector.span("execute_tool works")
    assert {value.split("-")[2] for value in inside.values()} == {works_span.span_id}
    assert works_span.parent_id == first.parent_id
    assert collector.span("execute_tool breaks").attributes["error.type"] == "TOOL_FAILED"
    started = [event for event in reader.of(IterationStarted) if isinstance(event, IterationStarted)]
    assert {event.span_id for event in started} == {first.span_id, second.span_id}
    run = collector.span("invoke_agent default")
    assert run.attributes["gen_ai.usage.input_tokens"] == 200
    assert not run.error


@pytest.mark.requirement("TEL-4", "TEL-8", "SCN-152")
async def test_a_cancel_in_the_text_and_one_in_a_tool_leave_whole_traces_without_errors(
    telemetry: OtelTelemetry, collector: Collector, tmp_path: Path
) -> None:
    script = [[*answer("KEY-PARTIAL")[:1], never], calls(("endless", "{}")), answer("KEY", "-ANSWER")]
    async with traced_world(telemetry, script, {"endless": endless}) as world:
        run_id, reader, task = await start(world, telemetry)
        await reader.until(TextDelta)
        await world.engine.cancel_run(CALLER, run_id, CANCEL)
        await task
        run_id, reader, task = await start(world, telemetry)
        await reader.until(ToolCallExecuting)
        await world.engine.cancel_run(CALLER, run_id, CANCEL)
        await task
    await asyncio.to_thread(telemetry.aclose)
    check(collector, tmp_path, "--require-metrics")
    assert not [span for span in collector.spans if span.error]
    cut = next(span for span in collector.spans if span.name == "chat scripted-model")
    assert cut.attributes["gen_ai.response.finish_reasons"] == ["error"]
    assert isinstance(cut.attributes["gen_ai.response.time_to_first_chunk"], float)
    assert cut.attributes["turnwire.failure.reason"] == "CANCELLED"
    assert collector.span("execute_tool endless").attributes["turnwire.tool.status"] == "INTERRUPTED"
    runs = [span for span in collector.spans if span.name == "invoke_agent default"]
    assert [run.attributes["turnwire.run.outcome"] for run in runs] == ["ABORTED", "ABORTED"]


@pytest.mark.requirement("TEL-3", "TEL-8", "SCN-152")
async def test_a_run_in_flight_when_the_engine_stops_is_traced_to_its_end(
    telemetry: OtelTelemetry, collector: Collector, tmp_path: Path
) -> None:
    async with traced_world(telemetry, [[*answer("KEY-PARTIAL")[:1], never]], {}) as world:
        _, reader, task = await start(world, telemetry)
        await reader.until(TextDelta)
    await task
    await asyncio.to_thread(telemetry.aclose)
    check(collector, tmp_path)
    run = collector.span("invoke_agent default")
    assert run.attributes["turnwire.run.outcome"] == "ABORTED"
    assert {str(span.attributes.get("error.type")) for span in collector.spans if span.kind != "SERVER"} == {
        "SHUTTING_DOWN"
    }
