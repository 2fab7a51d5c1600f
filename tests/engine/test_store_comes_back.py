"""A store that was away for longer than a run could wait: what becomes of the run, its readers and its session."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from engine.faults import FaultyStore
from engine.harness import CALLER, LIMIT, Reader, World, user, world
from engine.judge import assert_log, assert_session
from turnwired.domain.errors import StoreUnavailable, Unavailable
from turnwired.domain.event import IterationStarted, TextDelta
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import RunState, TurnSpec
from turnwired.engine import log as engine_log
from turnwired.engine import recovery as engine_recovery
from turnwired.store.port import RunFilter
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio

CANCELLED = Failure(FailurePhase.MODEL, Reason.CANCELLED, "test")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits between attempts."""
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(engine_recovery, "RETRY_SECONDS", 0.001)


async def follow_to_the_end(w: World, run_id: str, reader: Reader) -> None:
    """As a client does: attach again with the cursor whenever the stream is cut."""
    async with asyncio.timeout(LIMIT):
        while True:
            with contextlib.suppress(Unavailable):
                await w.follow(run_id, reader, reader.cursor)
                return
            await asyncio.sleep(0)


@pytest.mark.requirement("ENGINE-33")
async def test_a_run_that_could_not_be_recorded_is_ended_when_the_store_is_back() -> None:
    store = FaultyStore()
    begin, end = asyncio.Event(), asyncio.Event()
    script = [[begin.wait, *answer("lost")[:1], end.wait, *answer("never")], answer("again")]
    async with world(script, store=store) as w:
        run_id, reader, task = await w.start(session_id="s")
        await reader.until(IterationStarted)
        store.fail_next = engine_log.STORE_ATTEMPTS + 3  # the run gives up, and so do three attempts to end it
        begin.set()
        await reader.until(TextDelta)
        end.set()
        with pytest.raises(Unavailable):
            await task
        during = await w.engine.cancel_run(CALLER, run_id, CANCELLED)
        assert during.state is RunState.RUNNING
        await follow_to_the_end(w, run_id, reader)
        stored = Reader()
        await w.follow(run_id, stored)
        fresh = await w.run(session_id="s")
        await assert_session(w, "s")
    assert_log(reader.events)
    assert reader.events == stored.events
    assert not reader.of(TextDelta)
    assert {frame.epoch for frame in stored.frames} == {2}
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert failure.reason is Reason.STORE_UNAVAILABLE
    assert fresh.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("ENGINE-33")
async def test_a_server_that_stops_does_not_wait_for_a_store_that_stays_away() -> None:
    store = FaultyStore()
    begin = asyncio.Event()
    async with world([[begin.wait, *answer("never")]], store=store) as w:
        _, reader, task = await w.start(session_id="s")
        await reader.until(IterationStarted)
        store.fail_next = 10**6
        begin.set()
        with pytest.raises(Unavailable):
            await task
        async with asyncio.timeout(1.0):
            await w.engine.stop(0.5)


@pytest.mark.requirement("ENGINE-34")
async def test_a_run_that_was_created_without_an_answer_is_ended_and_frees_its_session() -> None:
    store = FaultyStore(lost_answers=1)
    async with world([answer("again")], store=store) as w:
        with pytest.raises(StoreUnavailable):
            await w.engine.start_turn(TurnSpec(CALLER, (user("Hello"),), session_id="s"))
        async with asyncio.timeout(LIMIT):
            while True:
                runs, _ = await w.engine.list_runs(RunFilter(CALLER.tenant), 10, "")
                if runs[0].state is RunState.SETTLED:
                    break
                await asyncio.sleep(0)
        fresh = await w.run(session_id="s")
    assert runs[0].outcome is not None
    assert runs[0].outcome.kind is OutcomeKind.ERRORED
    assert fresh.finished.outcome.kind is OutcomeKind.ANSWERED
