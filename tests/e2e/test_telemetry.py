"""Traces and metrics as a collector gets them from the real process, and silence where there is no collector."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.provider import Drop, Refuse, Say, Wait, answer, calls, provider
from e2e.service import ROOT, Followed, config_text, prompt, service
from telemetry.collector import running_collector

from turnwire.v1 import turn_service_pb2

pytestmark = pytest.mark.anyio

CHECKER = Path(os.environ.get("TURNWIRE_SHARED", str(ROOT.parent / "shared"))) / "otel" / "check_spans.py"
RETRY = "[policy]\nretry.initial_delay = '10ms'\nretry.max_delay = '10ms'\n"


@pytest.mark.requirement("E2E-50")
async def test_spans_and_metrics_of_runs_with_tools_pass_an_independent_checker(tmp_path: Path) -> None:
    with running_collector() as collector:
        config = f'{config_text("URL", time_server=True)}[telemetry]\notlp_endpoint = "{collector.endpoint}"\n{RETRY}'
        gate = asyncio.Event()
        both = calls(("add", {"a": 1, "b": 2}), ("time__get_current_time", {"timezone": "UTC"}), ("nosuch", {}))
        async with (
            provider(
                *(both, (Say("It is three"), Wait(gate), *answer(". "))),
                *((Refuse(503),), answer("At last.")),
                *((Refuse(401, "invalid_api_key"),),) * 2,
                *((Say("half"), Drop()),) * 8,
            ) as p,
            service(tmp_path, config.replace("URL", p.url), GATES=p.url) as s,
        ):
            # The rest of the text comes in a read of its own, so that there is a time between chunks to measure.
            slow = Followed()
            following = s.follow(prompt("a very private question", session_id="s0"), slow)
            await slow.until("text_delta")
            gate.set()
            await following
            for number in range(1, 4):
                await s.run(prompt("a very private question", session_id=f"s{number}"))
            ended = await s.stop()
        spans = collector.spans
        directory = tmp_path / "otlp"
        directory.mkdir()
        collector.dump(directory)
        text = collector.text()
    assert (ended.code, ended.complaints) == (0, "")
    names = {span.name for span in spans}
    assert {
        "invoke_agent default",
        "chat scripted-model",
        "execute_tool add",
        "execute_tool time__get_current_time",
    } <= names, names
    for secret in ("a very private question", "It is three", "sk-e2e-secret-4711"):
        assert secret not in text
    if not CHECKER.exists():
        pytest.skip(f"the independent checker is not here ({CHECKER.name}); set TURNWIRE_SHARED")
    command = [sys.executable, str(CHECKER), str(directory), "--require-metrics", "--no-content"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: ASYNC221
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.requirement("E2E-51")
async def test_without_a_collector_nothing_is_logged_and_a_dead_one_costs_no_run(tmp_path: Path) -> None:
    async with provider(answer("Fine."), answer("Fine.")) as p:
        async with service(tmp_path, config_text(p.url), GATES=p.url) as s:
            silent = await s.run(prompt())
            ended = await s.stop()
        dead = config_text(p.url) + "[telemetry]\notlp_endpoint = 'http://127.0.0.1:9'\n"
        async with service(tmp_path, dead, GATES=p.url) as s:
            told = await s.run(prompt())
            ended_dead = await s.stop()
    assert (silent.view.text, told.view.text) == ("Fine.", "Fine.")
    assert (ended.code, ended.complaints) == (0, "")
    assert ended_dead.code == 0
    assert "Traceback" not in ended_dead.stderr
    assert len(ended_dead.stderr.splitlines()) <= 3, ended_dead.stderr


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.requirement("SCN-150")
async def test_streaming_and_not_the_spans_of_parallel_tools_are_one_tree_under_the_caller(tmp_path: Path) -> None:
    threaded = ("pass_gate", {"name": "open"})  # not async: it runs in a thread
    three = calls(("add", {"a": 1, "b": 2}), threaded, ("time__get_current_time", {"timezone": "UTC"}))
    trees: dict[str, set[tuple[str, str, str]]] = {}
    for mode in ("stream", "no stream"):
        directory = tmp_path / mode.replace(" ", "_")
        directory.mkdir()
        with running_collector() as collector:
            config = f'{config_text("URL", time_server=True)}[telemetry]\notlp_endpoint = "{collector.endpoint}"\n'
            async with (
                provider(three, answer("Three.")) as p,
                service(directory, config.replace("URL", p.url), GATES=p.url) as s,
            ):
                p.gate("open").set()
                shown = (("traceparent", TRACEPARENT),)
                request = prompt("Hello")
                if mode == "stream":
                    frames = s.turns.RunTurn(request, metadata=shown, timeout=60)
                    events = [event async for frame in frames for event in frame.events]
                    assert events[-1].run_finished.outcome.kind == 1
                else:
                    start = turn_service_pb2.StartTurnRequest(turn=request.turn)
                    run_id = (await s.turns.StartTurn(start, metadata=shown, timeout=60)).run_id
                    assert (await s.watch(run_id)).view.text == "Three."
                    assert (await s.get(run_id)).run.outcome.kind == 1
                await s.stop()
            ours = [span for span in collector.spans if span.trace_id == TRACEPARENT.split("-")[1]]
            by_id = {span.span_id: span for span in ours}
            trees[mode] = set()
            for span in ours:
                if span.name.startswith("turnwire.v1."):
                    continue
                above = by_id.get(span.parent_id)
                outside = above is None or above.name.startswith("turnwire.v1.")
                number = str(span.attributes.get("turnwire.iteration.number", ""))
                trees[mode].add((span.name, number, "the caller" if outside or above is None else above.name))
    assert trees["stream"] == trees["no stream"]
    tools = {(name, above) for name, _, above in trees["stream"] if name.startswith("execute_tool")}
    assert tools == {
        (f"execute_tool {name}", "turnwire.iteration") for name in ("add", "pass_gate", "time__get_current_time")
    }
    assert ("tools/call get_current_time", "", "execute_tool time__get_current_time") in trees["stream"]
    assert sum(name.startswith("chat ") for name, _, _ in trees["stream"]) == 1, "both calls of the model stand alike"
    assert [above for name, _, above in trees["stream"] if name.startswith("invoke_agent")] == ["the caller"]
