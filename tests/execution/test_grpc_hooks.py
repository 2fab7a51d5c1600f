"""Hooks over gRPC: what an app is told, how often, and with which right."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import grpc
import pytest
from execution.hook_app import App, End, Events, listening
from execution.hook_kit import TOOL_TURN, expected, nothing_left, once, told
from execution.served import SECONDS
from providers.cloud.kit import certificate

from turnwire.v1 import outcome_pb2, run_pb2
from turnwired.config.hooks import GrpcHookConfig, HooksConfig
from turnwired.domain.event import DELTA_EVENTS, Event, LoggedEvent, PartFinished, RunResumed
from turnwired.domain.hook_kind import HookKind, kind_of
from turnwired.domain.message import Blob, Content, Part, Reasoning, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.run import Run, RunState
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.engine import follow, hook_delivery
from turnwired.engine.hooks import HookBatch, SettledRun
from turnwired.rpc.hook_apps import hook_apps
from turnwired.rpc.hook_client import HookApp, HookClient
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_delivery, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr("turnwired.engine.service.HOOK_SECONDS", 0.2)


@pytest.mark.requirement("GHOOK-1")
async def test_an_app_hears_every_event_but_deltas_and_then_the_end_with_what_it_cost() -> None:
    app = App()
    async with listening(app) as port, told(port, TOOL_TURN) as s:
        seen = await s.run(session_id="s", agent_id="default")
        await app.until(lambda: bool(app.settled))
        await nothing_left(s.store)
        stored = await s.settled(seen.run_id)
    assert app.sequences(seen.run_id) == expected(seen)
    streamed = {event.sequence: event for event in seen.events}
    assert all(event == streamed[event.sequence] for batch in app.events for event in batch.events)
    assert {(b.tenant, b.session_id, b.agent_id, b.redelivered) for b in app.events} == {
        ("default", "s", "default", False)
    }
    assert not any(batch.HasField("parent_run_id") for batch in app.events)
    (settled,) = app.settled
    assert isinstance(app.asked[-1], End)
    assert (settled.delivery_id, settled.tenant, settled.redelivered) == (seen.run_id, "default", False)
    assert settled.run == stored.run
    assert settled.run.state == run_pb2.RUN_STATE_SETTLED
    assert settled.run.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert settled.run.usage.input_tokens == 200
    assert settled.message == seen.finished.message
    assert not settled.HasField("structured_output_json")


@pytest.mark.requirement("GHOOK-2")
@pytest.mark.parametrize(
    ("kinds", "cases"),
    [
        ([HookKind.RESULTS], {"tool_call_finished"}),
        ([HookKind.TEXT], {"part_finished"}),
        ([HookKind.RUN], {"run_started", "run_finished"}),
        ([HookKind.ITERATIONS], {"iteration_started", "iteration_finished"}),
        ([HookKind.CALLS], {"tool_call_started", "tool_call_arguments_finished", "tool_call_executing"}),
        ([], set[str]()),
    ],
)
async def test_an_app_hears_the_kinds_of_events_that_it_chose(kinds: list[HookKind], cases: set[str]) -> None:
    app = App()
    async with listening(app) as port:
        target = HookApp("app", f"127.0.0.1:{port}", kinds=frozenset(kinds))
        async with told(target, TOOL_TURN) as s:
            await s.run()
            await app.until(lambda: bool(app.settled))
    heard = [event for batch in app.events for event in batch.events]
    assert {event.WhichOneof("event") for event in heard} >= cases
    extra = {event.WhichOneof("event") for event in heard} - cases
    assert extra <= {"part_finished"} if HookKind.CALLS in kinds else not extra
    if HookKind.TEXT in kinds:
        assert [event.part_finished.part.text for event in heard] == ["Done."]


@pytest.mark.requirement("GHOOK-2")
@pytest.mark.parametrize("kind", [kind for kind in get_args(Event) if kind is not PartFinished])
async def test_every_event_but_deltas_is_of_one_kind(kind: Any) -> None:
    found = kind_of(kind.__new__(kind))
    assert (found is None) == (kind in DELTA_EVENTS)


@pytest.mark.requirement("GHOOK-2")
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (Text("a"), HookKind.TEXT),
        (Reasoning("a"), HookKind.REASONING),
        (ToolCall("c", ToolRef("look", "look", ToolSource.LOCAL), "{}"), HookKind.CALLS),
        (ToolResult("c", ToolResultStatus.OK), HookKind.RESULTS),
        (Blob("image/png", b"x"), HookKind.PARTS),
    ],
)
async def test_a_part_is_of_the_kind_of_its_content(content: Content, kind: HookKind) -> None:
    assert kind_of(PartFinished(Part("p", content))) is kind


@pytest.mark.requirement("GHOOK-3")
@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED])
async def test_what_was_not_answered_with_ok_is_told_again_with_the_same_ids(code: grpc.StatusCode) -> None:
    app = App(once(code))
    async with listening(app) as port, told(port, [answer("Yes.")]) as s:
        seen = await s.run()
        await app.until(lambda: bool(app.settled))
    first, again = [request for request in app.asked if isinstance(request, Events)][:2]
    assert (first.redelivered, again.redelivered) == (False, True)
    assert first.events == again.events
    assert app.sequences(seen.run_id) == expected(seen)
    ends = [request for request in app.asked if isinstance(request, End)]
    assert [(end.delivery_id, end.redelivered) for end in ends] == [(seen.run_id, False), (seen.run_id, True)]


@pytest.mark.requirement("GHOOK-3", "GHOOK-7")
@pytest.mark.parametrize("seed", range(5))
async def test_whatever_an_app_does_to_single_calls_it_has_every_event_in_order_and_every_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "FRAME_BYTES", 300)
    monkeypatch.setattr(hook_delivery, "RUNS_AT_ONCE", 2)
    rng = random.Random(seed)
    codes = [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED]
    kept: dict[str, list[int]] = {}

    def ill(request: Events | End) -> grpc.StatusCode | int | None:
        if rng.random() < 0.4:
            return rng.choice(codes)
        if isinstance(request, End):
            return None
        here = kept.setdefault(request.run_id, [])
        numbers = [event.sequence for event in request.events]
        some = rng.randrange(len(numbers) + 1)
        here += [number for number in numbers[:some] if not here or number > here[-1]]
        return numbers[some - 1] if some else numbers[0] - 1

    app = App(ill)
    async with listening(app) as port, told(port, [answer("a ", "b ")]) as s:
        s.provider.repeat_last = True
        runs = await asyncio.gather(*(s.run(f"turn {number}") for number in range(6)))
        await nothing_left(s.store)
        assert s.engine.hooks._tellers[0].room.value == 2, "room is given back once"
    assert {run.run_id: kept[run.run_id] for run in runs} == {run.run_id: expected(run) for run in runs}
    assert {end.delivery_id for end in app.settled} == {run.run_id for run in runs}
    assert app.most_busy <= 2


@pytest.mark.requirement("GHOOK-4")
async def test_an_app_that_keeps_one_event_at_a_time_is_told_the_rest_each_time() -> None:
    app = App(lambda request: request.events[0].sequence if isinstance(request, Events) else None)
    async with listening(app) as port, told(port, TOOL_TURN) as s:
        seen = await s.run()
        await app.until(lambda: bool(app.settled))
    assert [batch.events[0].sequence for batch in app.events] == expected(seen)
    known = [batch.events[0] in before.events for before, batch in pairwise(app.events)]
    assert [batch.redelivered for batch in app.events] == [False, *known]


@pytest.mark.requirement("GHOOK-4", "GHOOK-5")
async def test_an_app_that_has_events_from_before_a_restart_is_not_told_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "FRAME_BYTES", 1)  # an event in each frame
    store = SqliteStore(tmp_path / "turnwire.db")
    first = App(lambda request: grpc.StatusCode.INTERNAL if isinstance(request, End) else None)
    async with listening(first) as port, told(port, TOOL_TURN, store=store) as s:
        seen = await s.run()
        await first.until(lambda: any(isinstance(request, End) for request in first.asked))
    known = first.sequences(seen.run_id)
    assert known == expected(seen), "an end that is not taken has no events told again"
    second = App(lambda asked: max(known[-2], asked.events[-1].sequence) if isinstance(asked, Events) else None)
    async with listening(second) as port, told(port, [], store=store):
        await second.until(lambda: bool(second.settled))
    assert second.sequences(seen.run_id) == [known[0], known[-1]]
    assert all(request.redelivered for request in second.asked)


@pytest.mark.requirement("GHOOK-1")
async def test_an_app_learns_of_which_run_a_run_is_a_child_and_of_its_value() -> None:
    run = Run("run_1", "agent", RunState.SETTLED, 1, parent_run_id="run_0", structured_output_json="{}")
    app = App()
    async with listening(app) as port:
        client = HookClient(HookApp("app", f"127.0.0.1:{port}"))
        hook = client.hook()
        assert hook.on_events is not None and hook.on_settle is not None
        event = LoggedEvent(1, 1, 0, RunResumed())
        assert await hook.on_events(HookBatch("acme", run, (event,))) == 1
        given = hook.on_settle(SettledRun("run_1", run, "acme"))
        assert isinstance(given, Awaitable)
        await given
        await client.aclose()
    assert (app.events[0].parent_run_id, app.events[0].tenant) == ("run_0", "acme")
    assert (app.settled[0].structured_output_json, app.settled[0].tenant) == ("{}", "acme")
    assert not app.settled[0].HasField("message")


def from_configuration(port: int, environ: dict[str, str] | None = None, **fields: object) -> HookApp:
    """The app as the configuration makes it."""
    config = HooksConfig(grpc={"app": GrpcHookConfig.model_validate({"address": f"localhost:{port}", **fields})})
    (app,) = hook_apps(config, environ or {}, "turnwire.toml")
    return app


@pytest.mark.requirement("GHOOK-10")
async def test_the_token_is_read_anew_for_each_call_and_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "turnwired")
    file = tmp_path / "token"
    app = App(once(grpc.StatusCode.UNAUTHENTICATED))
    async with listening(app) as port:
        async with told(from_configuration(port, token_file=str(file)), [answer("Yes.")]) as s:
            s.provider.repeat_last = True
            await s.run()
            async with asyncio.timeout(SECONDS):
                while "its token cannot be read" not in caplog.text:  # noqa: ASYNC110 - a log has no event to wait for
                    await asyncio.sleep(0.01)
            file.write_text("secret-token-1\n")
            await app.until(lambda: len(app.settled) == 1)
            file.write_text("secret-token-2\n")
            await s.run()
            await app.until(lambda: len(app.settled) == 2)
        target = from_configuration(port, {"TOKEN": "secret-token-3"}, token_env="TOKEN")
        async with told(target, [answer("Yes.")]) as s:
            await s.run()
            await app.until(lambda: len(app.settled) == 3)
    assert set(app.tokens) == {f"Bearer secret-token-{number}" for number in (1, 2, 3)}
    assert "refuses every call (UNAUTHENTICATED)" in caplog.text
    assert "secret" not in caplog.text
    assert "secret" not in repr(target)


@pytest.mark.requirement("GHOOK-11")
async def test_an_app_is_told_over_tls_if_its_certificate_is_one_that_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    ours, key = certificate(tmp_path / "ours")
    theirs, _ = certificate(tmp_path / "theirs")
    store, app = SqliteStore(tmp_path / "turnwire.db"), App()
    async with listening(app, tls=(key.read_bytes(), ours.read_bytes())) as port:
        wrong = from_configuration(port, tls=True, ca_file=str(theirs), deadline_seconds=0.2)
        async with told(wrong, [answer("Yes.")], store=store) as s:
            await s.run()
            await s.engine.hooks.drain(SECONDS)
        assert not app.asked
        right = from_configuration(port, tls=True, ca_file=str(ours))
        async with told(right, [], store=store):
            await app.until(lambda: bool(app.settled))
