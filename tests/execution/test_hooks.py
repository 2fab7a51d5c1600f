"""Hooks: what they are told, how often, and how little harm they can do."""

from __future__ import annotations

import asyncio
import importlib.metadata
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from execution.served import SECONDS, served, turn
from store.builders import new_run

from turnwire.v1 import outcome_pb2
from turnwired.domain.errors import ConfigError
from turnwired.domain.event import RunFinished
from turnwired.domain.outcome import OutcomeKind
from turnwired.engine import hook_delivery
from turnwired.engine.hook_loading import entry_point_hooks, hook_of, load_hooks
from turnwired.engine.hooks import Hook, HookEvent, Patience, SettledRun
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer, calls

pytestmark = pytest.mark.anyio

EAGER = Patience(delay=0.0)


class Listening:
    """Keeps what it is told. ``fail`` calls raise first."""

    def __init__(self, fail: int = 0) -> None:
        self.events: list[HookEvent] = []
        self.settled: list[SettledRun] = []
        self.fail = fail
        self.changed = asyncio.Event()

    async def on_event(self, event: HookEvent) -> None:
        """An event."""
        self.events.append(event)

    async def on_settle(self, settled: SettledRun) -> None:
        """The end."""
        self.settled.append(settled)
        self.changed.set()
        if self.fail:
            self.fail -= 1
            raise RuntimeError("not now")

    def hook(self, name: str = "listening") -> Hook:
        """As a hook."""
        return replace(hook_of(name, self), patience=EAGER)


async def look(name: str) -> str:
    """Look."""
    return f"saw {name}"


@pytest.mark.requirement("TOOLX-30")
async def test_a_hook_hears_every_event_but_deltas_and_then_the_end_once() -> None:
    listening = Listening()
    script = [calls(("look", '{"name":"x"}')), answer("Done.")]
    async with served(script, look, hooks=[listening.hook()]) as s:
        seen = await s.run(session_id="s")
        await asyncio.wait_for(listening.changed.wait(), SECONDS)
    deltas = {"text_delta", "tool_call_arguments_delta"}
    expected = [event.sequence for event in seen.events if event.WhichOneof("event") not in deltas]
    assert [event.logged.sequence for event in listening.events] == expected
    assert [event.event_id for event in listening.events] == [f"{seen.run_id}/{number}" for number in expected]
    assert isinstance(listening.events[-1].logged.event, RunFinished)
    (settled,) = listening.settled
    assert (settled.record_id, settled.run.session_id) == (seen.run_id, "s")
    assert settled.run.outcome is not None
    assert settled.run.outcome.kind is OutcomeKind.ANSWERED
    assert settled.run.usage.input_tokens == 200


@pytest.mark.requirement("TOOLX-31")
async def test_an_end_that_a_hook_did_not_take_is_told_again_at_the_next_start(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "turnwire.db")
    first, second, third = Listening(fail=99), Listening(), Listening()
    async with served([answer("Yes.")], store=store, hooks=[first.hook()]) as s:
        seen = await s.run()
        await s.engine.hooks.drain(SECONDS)
        assert await store.pending_deliveries("listening", 10) == [("default", seen.run_id)]
        assert s.engine.hooks.failed == 1
    assert len(first.settled) == EAGER.tries
    assert [settled.redelivered for settled in first.settled] == [False, True, True]
    async with served([], store=store, hooks=[second.hook()]) as s:
        await asyncio.wait_for(second.changed.wait(), SECONDS)
        await s.engine.hooks.drain(SECONDS)
        assert await store.pending_deliveries("listening", 10) == []
    async with served([], store=store, hooks=[third.hook()]):
        pass
    assert [settled.record_id for settled in second.settled] == [seen.run_id]
    assert [settled.redelivered for settled in second.settled] == [True]
    assert [event.logged.sequence for event in second.events] == [event.logged.sequence for event in first.events]
    assert not third.settled


@pytest.mark.requirement("TOOLX-31")
async def test_a_run_that_a_crash_cut_off_is_told_with_the_end_that_recovery_gave_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "turnwire.db")
    await store.start()
    await store.create_run(new_run("run_lost"))
    await store.aclose()
    listening = Listening()
    async with served([], store=store, hooks=[listening.hook()]):
        await asyncio.wait_for(listening.changed.wait(), SECONDS)
    (settled,) = listening.settled
    assert settled.record_id == "run_lost"
    assert settled.run.outcome is not None
    assert settled.run.outcome.kind is OutcomeKind.ERRORED


@pytest.mark.requirement("TOOLX-32")
async def test_a_hook_that_hangs_or_fails_holds_up_no_run_and_no_other_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_delivery, "MOST_WAITING", 3)
    monkeypatch.setattr("turnwired.engine.service.HOOK_SECONDS", 0.1)
    gate, called = threading.Event(), 0

    def hang(event: HookEvent) -> None:
        nonlocal called
        called += 1
        gate.wait(SECONDS)

    def fail(event: HookEvent) -> None:
        raise SystemError("broken")

    good = Listening()
    bad = [Hook("hangs", on_event=hang, patience=EAGER), Hook("fails", on_event=fail, patience=EAGER)]
    async with served([answer("Yes.")], hooks=[*bad, good.hook("good")]) as s:
        s.provider.repeat_last = True
        for number in range(8):
            seen = await s.run(f"turn {number}")
            assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
        async with asyncio.timeout(SECONDS):
            while len(good.settled) < 8:
                good.changed.clear()
                await good.changed.wait()
        assert called <= 3, "more runs wait in memory than may"
        assert len(await s.store.pending_deliveries("hangs", 100)) == 8, "what waits is in the store"
        gate.set()
    assert len({settled.record_id for settled in good.settled}) == 8


def on_settle(settled: SettledRun) -> None:
    """This module is a hook too."""


class Quiet:
    """Hears nothing."""


@pytest.mark.requirement("TOOLX-33")
def test_hooks_come_from_references_and_entry_points_and_useless_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (module,) = load_hooks([__name__])
    assert (module.name, module.on_event) == (__name__, None)
    assert module.on_settle is not None
    (made,) = load_hooks([f"{__name__}:Listening"])
    assert made.on_event is not None
    for bad in (f"{__name__}:Quiet", f"{__name__}:nothing", "no_such_module"):
        with pytest.raises(ConfigError, match=bad.partition(":")[0]):
            load_hooks([bad])
    points = [
        SimpleNamespace(name="broken", value="x", load=lambda: 1 / 0),
        SimpleNamespace(name="quiet", value="y", load=lambda: Quiet),
        SimpleNamespace(name="good", value="z", load=lambda: Listening),
    ]

    def found(*, group: str) -> list[SimpleNamespace]:
        return points if group == "turnwired.hooks" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", found)
    assert [hook.name for hook in entry_point_hooks()] == ["good"]


@pytest.mark.requirement("TOOLX-32")
async def test_a_cancelled_run_is_told_like_any_other() -> None:
    listening = Listening()
    never = asyncio.Event()
    async with served([[never.wait]], hooks=[listening.hook()]) as s:
        seen, task = s.follow(turn())
        await seen.until("iteration_started")
        await s.cancel(seen.run_id)
        await task
        await asyncio.wait_for(listening.changed.wait(), SECONDS)
    assert listening.settled[0].run.outcome is not None
    assert listening.settled[0].run.outcome.kind is OutcomeKind.ABORTED
