"""Hooks over gRPC: apps that are not there, hang or fail, and how little harm they can do."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from execution.hook_app import App, End, Events, listening
from execution.hook_kit import EAGER, expected, free_port, nothing_left, told
from execution.served import SECONDS, turn

from turnwire.v1 import outcome_pb2, session_service_pb2
from turnwired.codec.frame import Visibility
from turnwired.domain.run import Caller, Cursor
from turnwired.engine import hook_delivery
from turnwired.engine.follow import Send
from turnwired.engine.service import Engine
from turnwired.rpc.hook_client import HookApp, HookClient
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_delivery, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr("turnwired.engine.service.HOOK_SECONDS", 0.2)


@pytest.mark.requirement("GHOOK-5")
async def test_an_app_that_comes_late_is_told_everything_also_after_a_restart_of_the_server(tmp_path: Path) -> None:
    store, app = SqliteStore(tmp_path / "turnwire.db"), App()
    target = HookApp("app", f"127.0.0.1:{free_port()}", deadline=0.3)
    async with told(target, [answer("Yes.")], store=store) as s:
        s.provider.repeat_last = True
        missed = [await s.run() for _ in range(3)]
        assert len(await store.pending_deliveries("grpc:app", 10)) == 3
    async with told(target, [answer("Yes.")], store=store) as s:
        missed.append(await s.run())
        async with listening(app, int(target.address.rpartition(":")[2])):
            await app.until(lambda: len(app.settled) >= 4)
            await nothing_left(store)
    assert Counter(end.delivery_id for end in app.settled) == Counter(run.run_id for run in missed)
    for run in missed:
        assert sorted(set(app.sequences(run.run_id))) == expected(run)


@pytest.mark.requirement("GHOOK-6")
async def test_an_app_that_hangs_holds_up_no_run_and_no_other_app_and_ends_with_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_delivery, "MOST_WAITING", 3)
    gate = asyncio.Event()
    hanging, good = App(lambda _: gate), App()
    async with listening(hanging) as port, listening(good) as other, asyncio.timeout(SECONDS):
        client = HookClient(HookApp("good", f"127.0.0.1:{other}"))
        more = [replace(client.hook(), patience=EAGER)]
        async with told(port, [answer("Yes.")], more=more) as s:
            s.provider.repeat_last = True
            for number in range(8):
                seen = await s.run(f"turn {number}")
                assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
            await good.until(lambda: len(good.settled) == 8)
            assert hanging.most_busy <= 6, "more runs wait in memory than may"
            assert len(await s.store.pending_deliveries("grpc:app", 100)) == 8, "what waits is in the store"
        gate.set()
        await client.aclose()


@pytest.mark.requirement("GHOOK-5")
async def test_runs_that_ran_out_of_tries_while_nobody_was_there_are_told_as_soon_as_another_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_delivery, "SWEEP_SECONDS", 3600.0)
    monkeypatch.setattr(hook_delivery, "RUNS_AT_ONCE", 1)
    app, target = App(), HookApp("app", f"127.0.0.1:{free_port()}", deadline=0.2)
    async with told(target, [answer("Yes.")], patience=replace(EAGER, again=3600.0)) as s:
        s.provider.repeat_last = True
        runs = [await s.run() for _ in range(3)]
        aside = s.engine.hooks._tellers[0].aside
        async with asyncio.timeout(SECONDS):
            while not aside:  # noqa: ASYNC110 - what a hook puts aside has no event to wait for
                await asyncio.sleep(0.01)
        async with listening(app, int(target.address.rpartition(":")[2])):
            await app.until(lambda: {end.delivery_id for end in app.settled} == {run.run_id for run in runs})


@pytest.mark.requirement("GHOOK-6")
async def test_runs_that_wait_for_an_app_hold_no_frame_and_those_that_are_deleted_meanwhile_are_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_delivery, "RUNS_AT_ONCE", 2)
    held, most, follow_run = 0, 0, Engine.follow

    async def watched(
        engine: Engine,
        caller: Caller,
        run_id: str,
        cursor: Cursor,
        level: Visibility,
        send: Send,
        *,
        until_waiting: bool = False,
    ) -> None:
        async def counted(frame: bytes) -> None:
            nonlocal held, most
            held += 1
            most = max(most, held)
            try:
                await send(frame)
            finally:
                held -= 1

        told = counted if level is Visibility.MILESTONE else send
        await follow_run(engine, caller, run_id, cursor, level, told, until_waiting=until_waiting)

    monkeypatch.setattr(Engine, "follow", watched)
    gate = asyncio.Event()
    app = App(lambda _: None if gate.is_set() else gate)
    async with listening(app) as port, told(port, [answer("Yes.")]) as s:
        s.provider.repeat_last = True
        kept = [await s.run(f"turn {number}") for number in range(6)]
        gone = await s.run(session_id="gone")
        await app.until(lambda: app.busy == 2)
        request = session_service_pb2.DeleteSessionRequest(session_id="gone")
        await s.sessions.DeleteSession(request, timeout=SECONDS)
        gate.set()
        await nothing_left(s.store)
        assert s.engine.hooks._tellers[0].room.value == 2, "room is given back once"
    assert most <= 3, "those under way, and one that finds no room"
    assert {end.delivery_id for end in app.settled} == {run.run_id for run in kept}
    assert gone.run_id not in {batch.run_id for batch in app.events}


@pytest.mark.requirement("GHOOK-6")
async def test_an_app_that_never_answers_is_given_up_after_the_deadline_and_tried_again() -> None:
    app = App(lambda request: asyncio.Event() if len(app.asked) < 3 else None)
    async with listening(app) as port:
        target = HookApp("app", f"127.0.0.1:{port}", deadline=0.2)
        async with told(target, [answer("Yes.")]) as s:
            seen = await s.run()
            await app.until(lambda: bool(app.settled))
    assert app.sequences(seen.run_id) == expected(seen)


@pytest.mark.requirement("GHOOK-7")
async def test_a_run_whose_events_are_not_taken_stands_aside_for_the_others_and_is_told_when_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_delivery, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(hook_delivery, "ROUNDS", 1 << 30)
    poison = ""

    def ill(request: Events | End) -> grpc.StatusCode | None:
        bad = isinstance(request, Events) and request.run_id == poison
        return grpc.StatusCode.INVALID_ARGUMENT if bad else None

    app = App(lambda request: grpc.StatusCode.INVALID_ARGUMENT)
    async with listening(app) as port, told(port, [answer("Yes.")]) as s:
        s.provider.repeat_last = True
        first = await s.run()
        poison, app.ill = first.run_id, ill
        second = await s.run()
        await app.until(lambda: bool(app.settled))
        assert [end.delivery_id for end in app.settled] == [second.run_id]
        poison = ""
        await nothing_left(s.store)
        assert s.engine.hooks.failed
    assert [end.delivery_id for end in app.settled] == [second.run_id, first.run_id]
    assert app.sequences(first.run_id) == expected(first)


@pytest.mark.requirement("GHOOK-8")
@pytest.mark.parametrize("bad", [grpc.StatusCode.INTERNAL, 0])
async def test_the_end_is_told_even_if_the_events_are_never_taken_and_they_are_told_when_they_are(
    bad: grpc.StatusCode | int,
) -> None:
    app = App(lambda request: bad if isinstance(request, Events) else None)
    async with listening(app) as port, told(port, [answer("Yes.")]) as s:
        seen = await s.run()
        await app.until(lambda: bool(app.settled))
        assert await s.store.pending_deliveries("grpc:app", 10) == [("default", seen.run_id)]
        app.ill = lambda _: None
        await nothing_left(s.store)
    assert app.sequences(seen.run_id)[-len(expected(seen)) :] == expected(seen)
    assert len(app.settled) == 1, "what was taken is not told again"


@pytest.mark.requirement("GHOOK-9")
async def test_runs_that_are_silent_for_hours_leave_the_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_delivery, "RUNS_AT_ONCE", 1)
    gate, never = asyncio.Event(), asyncio.Event()
    app = App(lambda _: gate)
    async with listening(app) as port, told(port, [[never.wait], answer("Yes.")]) as s:
        silent, following = s.follow(turn())
        await silent.until("iteration_started")
        await app.until(lambda: app.busy == 1)
        other = await s.run()
        assert app.most_busy == 1
        gate.set()
        await app.until(lambda: bool(app.settled))
        assert [end.delivery_id for end in app.settled] == [other.run_id]
        assert app.sequences(silent.run_id) == expected(silent)
        await s.cancel(silent.run_id)
        await following
        await app.until(lambda: len(app.settled) == 2)
    assert app.sequences(other.run_id) == expected(other)
    assert app.sequences(silent.run_id) == expected(silent)


@pytest.mark.requirement("GHOOK-9")
async def test_runs_that_go_on_for_hours_do_not_keep_the_ends_of_others_from_being_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_delivery, "MOST_WAITING", 1)
    app, never = App(), asyncio.Event()
    async with listening(app) as port, told(port, [[never.wait], answer("Yes.")]) as s:
        silent, following = s.follow(turn())
        await silent.until("iteration_started")
        other = await s.run()
        await app.until(lambda: bool(app.settled))
        assert [end.delivery_id for end in app.settled] == [other.run_id]
        assert app.sequences(other.run_id) == expected(other)
        await s.cancel(silent.run_id)
        await following
