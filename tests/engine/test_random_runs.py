"""The real engine under random models, tools, stores, callers and crashes; every run judged by the invariants."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass

import pytest

from engine import people
from engine.chaos import CANCELLED, Chaos, DyingStore, Tools, meddle, watcher
from engine.harness import Reader, World, world
from engine.judge import assert_log, assert_requests, assert_same_for_all, assert_session, assert_spent
from turnwired.domain.completion import CompletionHook, CompletionRequest
from turnwired.domain.errors import Fenced, Unavailable
from turnwired.domain.event import ToolCallExecuting
from turnwired.domain.policy import (
    BudgetPolicy,
    CompletionMode,
    CompletionPolicy,
    LoopPolicy,
    Policy,
    RetryPolicy,
    ToolErrorMode,
    ToolPolicy,
)
from turnwired.engine import execution as engine_execution
from turnwired.engine import log as engine_log

pytestmark = pytest.mark.anyio


def _breaks(request: CompletionRequest) -> str | None:
    raise KeyError(request.run_id)


HOOKS: dict[str, CompletionHook] = {"asks": lambda _: "Answer.", "declines": lambda _: None, "breaks": _breaks}
SEEDS = range(24)
RUNS = 6


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of the engine that only cost time here; a small window, so that readers fall behind."""
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(engine_log, "WINDOW_BYTES", 4000)
    monkeypatch.setattr(engine_log, "BACKLOG_BYTES", 2000)
    monkeypatch.setattr(engine_execution, "UNWIND_SECONDS", 0.05)


def policy(rng: random.Random) -> Policy:
    """Bounds that are sometimes reached."""
    return Policy(
        loop=LoopPolicy(max_steps=rng.choice((1, 2, 6)), max_tool_calls=rng.choice((1, 3, 50))),
        retry=RetryPolicy(max_attempts=rng.choice((1, 3))),
        tool=ToolPolicy(
            error_mode=rng.choice((ToolErrorMode.RECOVER, ToolErrorMode.ABORT)),
            max_parallel_calls=rng.choice((1, 2, 8)),
            execution_mode=people.mode(rng),
        ),
        approval=people.approval(rng),
        timeout=people.waiting(rng),
        completion=CompletionPolicy(
            mode=(mode := rng.choice(list(CompletionMode))),
            custom_hook=rng.choice(sorted(HOOKS)) if mode is CompletionMode.CUSTOM else None,
            answer_at_step_bound=rng.choice((True, False)),
            allow_tools=rng.choice((True, False)),
        ),
        budget=BudgetPolicy(
            max_total_tokens=rng.choice((None, None, 250, 2000)),
            max_session_tokens=rng.choice((None, None, None, 1500)),
            max_tenant_day_tokens=rng.choice((None, None, 100_000)),
        ),
    )


@dataclass
class Judged:
    """One random run in a world: drives it, watches it, meddles with it, and judges it."""

    w: World
    chaos: Chaos
    session_id: str | None

    async def go(self) -> None:
        """From the start to the verdict."""
        w, rng = self.w, self.chaos.random
        w.provider.script[:] = self.chaos.script()
        w.provider.requests.clear()
        run_id, live, task = await w.start(session_id=self.session_id, policy=policy(rng), tools=people.OWN)
        watching = [asyncio.create_task(self._watch(run_id, live)) for _ in range(rng.randint(0, 3))]
        meddler = asyncio.create_task(meddle(w, run_id, live, self.chaos)) if rng.random() < 0.5 else None
        rescue = asyncio.get_running_loop().call_later(0.2, w.engine.cancel_if_live, run_id, CANCELLED)
        try:
            async with people.People(w, run_id, self.chaos).watching(live):
                await task
            watched = [await other for other in watching]
        finally:
            rescue.cancel()
            if meddler is not None:
                meddler.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await meddler
        await assert_same_for_all(w, run_id, live, watched)
        assert_requests(w.provider.requests)
        if self.session_id is not None:
            await assert_session(w, self.session_id)

    async def _watch(self, run_id: str, live: Reader) -> tuple[int, Reader]:
        for _ in range(self.chaos.random.randint(0, 30)):
            await asyncio.sleep(0)
        return await watcher(self.w, run_id, live, self.chaos)


@pytest.mark.requirement("ENGINE-30", "BUDGET-16")
@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_a_run_settles_once_and_everybody_reads_the_same(seed: int) -> None:
    chaos = Chaos(random.Random(seed))
    tools = Tools(chaos)
    store = DyingStore(chaos=chaos, unreliable=chaos.random.choice((0.0, 0.2)))
    async with world([], tools.functions(), store=store, hooks=HOOKS) as w:
        for _ in range(RUNS):
            await Judged(w, chaos, chaos.random.choice((None, "s"))).go()
        await assert_spent(w, "s")
    assert len(set(tools.ran)) == len(tools.ran), "a call was executed twice"


@pytest.mark.requirement("ENGINE-30", "BUDGET-16")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_process_that_dies_anywhere_leaves_runs_that_the_next_one_ends(seed: int) -> None:
    chaos = Chaos(random.Random(1000 + seed))
    tools = Tools(chaos)
    store = DyingStore(chaos=chaos)
    runs: list[tuple[str, Reader]] = []
    for life in range(3):
        store.live_for(None)
        async with world(chaos.script(40), tools.functions(), store=store, hooks=HOOKS) as w:
            await end_earlier(w, runs, tools.ran, chaos)
            store.live_for(chaos.random.randint(0, 30))
            with contextlib.suppress(Unavailable):
                for _ in range(RUNS):
                    w.provider.requests.clear()
                    run_id, live, task = await w.start(
                        session_id=f"s{life}", policy=policy(chaos.random), tools=people.OWN
                    )
                    runs.append((run_id, live))
                    rescue = asyncio.get_running_loop().call_later(0.2, w.engine.cancel_if_live, run_id, CANCELLED)
                    async with people.People(w, run_id, chaos).watching(live):
                        await task
                    rescue.cancel()
                    assert_requests(w.provider.requests)
        store.live_for(chaos.random.randint(0, 1))
        with contextlib.suppress(Fenced):  # and the next one dies while it ends what it found
            async with world([], store=store):
                pass
    store.live_for(None)
    async with world([], store=store) as w:
        await end_earlier(w, runs, tools.ran, chaos)
        for life in range(3):
            await assert_session(w, f"s{life}")
            await assert_spent(w, f"s{life}")
    assert len(set(tools.ran)) == len(tools.ran), "a call was executed twice"


async def end_earlier(w: World, runs: list[tuple[str, Reader]], executed: list[tuple[str, str]], chaos: Chaos) -> None:
    """Every run of an earlier process is settled, or waits still and then goes on to its end, with what its readers saw
    as far as it was durable.
    """
    for run_id, seen in runs:
        again = Reader()
        rescue = asyncio.get_running_loop().call_later(0.2, w.engine.cancel_if_live, run_id, CANCELLED)
        async with people.People(w, run_id, chaos, diligent=True).watching(again):
            await w.follow(run_id, again)
        rescue.cancel()
        assert_log(again.events)
        resumed = Reader()
        resumed.events = list(seen.events)
        if seen.frames:
            await w.follow(run_id, resumed, seen.cursor)
            assert resumed.events == again.events
        durable = {item.event.call_id for item in again.events if isinstance(item.event, ToolCallExecuting)}
        assert {call_id for ran_in, call_id in executed if ran_in == run_id} <= durable
