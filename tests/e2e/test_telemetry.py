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
