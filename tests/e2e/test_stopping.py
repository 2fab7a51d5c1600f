"""SIGTERM and Ctrl-C: no new runs, those in flight finish or are cancelled, and all of it is stored."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from e2e.provider import Hang, Say, Wait, answer, calls, provider
from e2e.service import SECONDS, Followed, Service, config_text, prompt, service
from grpc_health.v1 import health_pb2, health_pb2_grpc

from turnwire.v1 import message_pb2, outcome_pb2, run_pb2, turn_service_pb2

pytestmark = pytest.mark.anyio


async def refused(s: Service) -> grpc.aio.AioRpcError:
    """The error of a turn that is sent while the service stops."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await s.turns.StartTurn(turn_service_pb2.StartTurnRequest(turn=prompt().turn), timeout=SECONDS)
    return caught.value


async def none_alive(processes: list[psutil.Process]) -> bool:
    """Whether all of them have ended; those that are ending get a moment."""
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, 5.0)
    return not alive


@pytest.mark.requirement("E2E-30")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_run_in_flight_finishes_within_the_grace_period_and_new_ones_are_refused(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with provider() as p:
        gate = p.gate("text")
        p.script((Say("one "), Wait(gate), *answer("two")))
        config = config_text(p.url, grace_seconds=60.0, time_server=True)
        async with service(tmp_path, config, GATES=p.url) as s:
            await s.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS)  # the MCP server is up
            children = s.children()
            assert children
            view = Followed()
            following = s.follow(prompt(), view)
            await view.until("text_delta")
            s.signal(number)
            await s.line("no new runs")
            error = await refused(s)
            checker: Any = health_pb2_grpc.HealthStub(s.channel)  # no types are shipped for it
            health = await checker.Check(
                health_pb2.HealthCheckRequest(service="turnwire.v1.TurnService"), timeout=SECONDS
            )
            gate.set()
            await following
            ended = await s.wait()
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert view.view.outcome is not None
        assert view.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
        assert view.view.text == "one two"
        assert (ended.code, ended.complaints) == (0, "")
        assert ended.stdout.splitlines()[-1] == "stopped"
        assert await none_alive(children)
        async with service(tmp_path, config, GATES=p.url) as again:
            assert view.view.run_id is not None
            reloaded = await again.watch(view.view.run_id)
            await again.stop()
    assert reloaded.view.events == view.view.events


@pytest.mark.requirement("E2E-31")
async def test_runs_that_outlive_the_grace_period_are_cancelled_settled_and_stored(tmp_path: Path) -> None:
    async with provider() as p:
        by_prompt = {
            "text": (Say("half "), Hang()),
            "tool": calls(("pass_gate", {"name": "never"}), ("add", {"a": 1, "b": 1})),
            "silent": (Hang(),),
        }
        p.respond = lambda request: by_prompt[request["messages"][-1]["content"]]
        async with service(tmp_path, config_text(p.url, grace_seconds=0.2), GATES=p.url) as s:
            views = {name: Followed() for name in by_prompt}
            following = [s.follow(prompt(name, session_id=f"s-{name}"), view) for name, view in views.items()]
            await views["text"].until("text_delta")
            await views["silent"].until("iteration_started")
            await p.until_at_gate("never")
            s.signal(signal.SIGTERM)
            await asyncio.gather(*following)
            ended = await s.wait()
        assert ended.code == 0
        assert "Traceback" not in ended.stderr
        for view in views.values():
            outcome = view.view.outcome
            assert outcome is not None
            assert outcome.failure.reason == outcome_pb2.REASON_SHUTTING_DOWN, outcome
            assert "Send the turn again" in outcome.failure.message
        results = [e.tool_call_finished.result for e in views["tool"].view.events if e.HasField("tool_call_finished")]
        assert {result.status for result in results} == {
            message_pb2.TOOL_RESULT_STATUS_OK,
            message_pb2.TOOL_RESULT_STATUS_INTERRUPTED,
        }
        p.gate("never").set()
        async with service(tmp_path, config_text(p.url), GATES=p.url) as again:
            runs = await again.all_runs()
            for view in views.values():
                assert view.view.run_id is not None
                assert (await again.watch(view.view.run_id)).view.events == view.view.events
            ended = await again.stop()
        assert [run.state for run in runs] == [run_pb2.RUN_STATE_SETTLED] * 3
        assert {run.epoch for run in runs} == {1}, "nothing was left for the next start to settle"
        assert ended.stderr == ""


@pytest.mark.requirement("E2E-32")
async def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    async with provider((Say("half "), Hang())) as p:
        config = config_text(p.url, grace_seconds=600.0, time_server=True)
        async with service(tmp_path, config, GATES=p.url) as s:
            await s.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS)
            children = s.children()
            view = Followed()
            following = s.follow(prompt(), view)
            await view.until("text_delta")
            s.signal(signal.SIGINT)
            await s.line("no new runs")
            s.signal(signal.SIGINT)
            ended = await s.wait(10.0)
            following.cancel()
            await asyncio.wait([following])
        assert ended.code in (-signal.SIGINT, 130)
        assert "Traceback" not in ended.stderr
        assert await none_alive(children)
        async with service(tmp_path, config, GATES=p.url) as again:
            run = (await again.all_runs())[0]
            await again.stop()
        assert run.outcome.failure.reason == outcome_pb2.REASON_SERVER_RESTARTED
