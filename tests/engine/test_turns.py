"""Whole turns through the engine, with everything around it in memory."""

from __future__ import annotations

import asyncio

import pytest

from engine.harness import CALLER, Reader, world
from turnwired.domain.event import TextDelta, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import Cursor
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("ENGINE-1")
async def test_a_text_turn_streams_and_settles_as_answered() -> None:
    async with world([answer("Hel", "lo")]) as w:
        reader = await w.run()
    assert reader.kinds() == [
        "RunStarted",
        "IterationStarted",
        "TextDelta",
        "TextDelta",
        "PartFinished",
        "IterationFinished",
        "RunFinished",
    ]
    assert [event.sequence for event in reader.events] == list(range(1, 8))
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("ENGINE-1", "MATRIX-1")
async def test_a_tool_that_runs_on_after_the_provider_finished_does_not_end_the_run() -> None:
    gate = asyncio.Event()

    async def slow(invocation: ToolInvocation) -> str:
        await gate.wait()
        return "done"

    async with world([calls(("slow", "{}")), answer("Yes.")], {"slow": slow}) as w:
        _, reader, task = await w.start()
        await reader.until(ToolCallExecuting)
        assert not task.done()
        gate.set()
        await task
    assert reader.kinds() == [
        "RunStarted",
        "IterationStarted",
        "ToolCallStarted",
        "ToolCallArgumentsDelta",
        "ToolCallArgumentsFinished",
        "IterationFinished",
        "ToolCallExecuting",
        "ToolCallFinished",
        "IterationStarted",
        "TextDelta",
        "PartFinished",
        "IterationFinished",
        "RunFinished",
    ]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert w.provider.closed == 0


@pytest.mark.requirement("ENGINE-2", "MATRIX-11")
async def test_cancel_during_a_tool_reaches_the_tool_and_settles_the_call_as_interrupted() -> None:
    stopped = asyncio.Event()

    async def endless(invocation: ToolInvocation) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with world([calls(("endless", "{}"))], {"endless": endless}) as w:
        run_id, reader, task = await w.start()
        await reader.until(ToolCallExecuting)
        await w.engine.cancel_run(CALLER, run_id, Failure(FailurePhase.MODEL, Reason.CANCELLED, "test"))
        await task
        assert stopped.is_set()
        again = Reader()
        await w.follow(run_id, again, Cursor(1, 3))
    finished = [event for event in reader.of(ToolCallFinished) if isinstance(event, ToolCallFinished)]
    assert [event.result.status for event in finished] == [ToolResultStatus.INTERRUPTED]
    assert reader.finished.outcome.kind is OutcomeKind.ABORTED
    assert reader.finished.trace is not None
    assert again.events == reader.events[3:]


@pytest.mark.requirement("ENGINE-2")
async def test_cancel_during_text_closes_the_provider_stream_and_keeps_the_text() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    script = [[*answer("partial")[:1], never]]
    async with world(script) as w:
        run_id, reader, task = await w.start()
        await reader.until(TextDelta)
        await w.engine.cancel_run(CALLER, run_id, Failure(FailurePhase.MODEL, Reason.CANCELLED, "test"))
        await task
    assert w.provider.closed == 1
    assert reader.finished.outcome.kind is OutcomeKind.ABORTED
    assert reader.finished.outcome.partial
