"""Answers without an end and stores without speed: what is kept and what is sent stays of bounded size."""

from __future__ import annotations

import asyncio

import pytest

from engine.faults import FaultyStore
from engine.harness import LIMIT, Reader, world
from engine.judge import assert_log
from turnwired.codec.frame import Visibility
from turnwired.domain.event import IterationStarted, TextDelta, ToolCallProgressed
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    MediaProduced,
    NativeItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallOpened,
)
from turnwired.domain.outcome import OutcomeKind
from turnwired.engine import follow as engine_follow
from turnwired.engine import measure as engine_measure
from turnwired.testing.provider import Step, answer, calls, stopped
from turnwired.tools.port import ToolInvocation
from turnwired.turn.answer import MAX_FILE_BYTES

pytestmark = pytest.mark.anyio

LONG = "x" * 600


@pytest.mark.requirement("ENGINE-31")
@pytest.mark.parametrize(
    "batch",
    [
        [TextChunk(0, LONG)],
        [ReasoningChunk(0, LONG)],
        [ToolCallOpened(0, "a", "look"), ToolArgumentsChunk(0, LONG)],
        [NativeItem(0, "result", LONG)],
        [MediaProduced(0, "image/png", b"")] * 10,
    ],
    ids=["text", "reasoning", "arguments", "native items", "files"],
)
async def test_an_answer_that_does_not_end_is_ended(batch: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_measure, "MAX_ANSWER_CHARACTERS", 1000)
    async with world([[batch, batch, batch, *answer("never")]]) as w:
        reader = await w.run()
        assert w.provider.closed == 1
    assert_log(reader.events)
    failure = reader.finished.outcome.failure
    assert reader.finished.outcome.kind is OutcomeKind.ERRORED
    assert failure is not None
    assert failure.reason is Reason.PROVIDER_PROTOCOL_ERROR


@pytest.mark.requirement("ENGINE-32", "SCN-145")
@pytest.mark.parametrize("level", list(Visibility))
async def test_frames_keep_their_size_where_a_slow_store_made_a_row_that_does_not(
    level: Visibility, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_follow, "FRAME_BYTES", 2000)
    store = FaultyStore()
    begin = asyncio.Event()
    async with world([[begin.wait, *answer(*[LONG] * 20)]], store=store) as w:
        run_id, live, task = await w.start()
        await live.until(IterationStarted)
        store.gate = asyncio.Event()
        begin.set()
        await live.until(TextDelta, 20)
        store.gate.set()
        async with asyncio.timeout(LIMIT):
            await task
        stored = Reader()
        await w.follow(run_id, stored, level=level)
    assert max(len(row.body) for row in store.appended) > 6000
    assert max((frame.ByteSize() for frame in stored.frames if len(frame.events) > 1), default=0) < 2100
    assert stored.frames[-1].through_sequence == live.events[-1].sequence
    if level is Visibility.DELTA:
        assert stored.events == live.events


@pytest.mark.requirement("ENGINE-35")
async def test_a_tool_that_floods_with_progress_fills_neither_the_log_nor_the_stream() -> None:
    async def flood(invocation: ToolInvocation) -> str:
        assert invocation.on_progress is not None
        for number in range(10_000):
            invocation.on_progress(number, 10_000, "on it")
        return "done"

    async with world([calls(("flood", "{}")), answer("ok")], {"flood": flood}) as w:
        reader = await w.run()
    assert 1 <= len(reader.of(ToolCallProgressed)) < 1_000
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("OUT-3", "ENGINE-21", "SCN-145")
async def test_the_last_event_fits_a_message_whatever_files_and_native_parts_the_run_has() -> None:
    heavy: Step = [
        ReasoningChunk(0, "", b"s" * 400_000, redacted=True),
        NativeItem(1, "result", f'"{"x" * 1_000_000}"'),
        MediaProduced(2, "image/png", bytes(MAX_FILE_BYTES)),
    ]
    async with world([[heavy, [stopped(FinishReason.OUTPUT_LIMIT)]]]) as w:
        reader = await w.run(include_trace=True)
    assert reader.finished.message is not None
    assert reader.finished.trace is not None
    assert max(frame.ByteSize() for frame in reader.frames) < 4 << 20
