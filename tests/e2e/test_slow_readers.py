"""A client that does not read: other runs go on, memory stays bounded, and the client loses nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from e2e.provider import Say, answer, provider
from e2e.service import SECONDS, config_text, prompt, service
from turnwire.v1 import outcome_pb2, turn_service_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

READERS = 16
PIECE = "x" * 1024
PIECES = 5 * 1024  # 5 MiB of text, 80 MiB if it were kept for each reader


@pytest.mark.slow
@pytest.mark.requirement("E2E-60")
async def test_readers_that_do_not_read_harm_nobody_and_miss_nothing(tmp_path: Path) -> None:
    long = (*(Say(PIECE) for _ in range(PIECES)), *answer("end"))
    async with provider(long, long, answer("Quick.")) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        await s.run(prompt("warm up: the memory that one long run takes"))
        before = psutil.Process(s.process.pid).memory_info().rss
        started = await s.turns.StartTurn(turn_service_pb2.StartTurnRequest(turn=prompt("long").turn))
        watch = turn_service_pb2.WatchRunRequest(run_id=started.run_id)
        stuck = [s.turns.WatchRun(watch) for _ in range(READERS)]
        for call in stuck:
            async with asyncio.timeout(SECONDS):
                await call.read()  # attached; from here on it reads no more
        run = await s.watch(started.run_id)
        quick = await s.run(prompt("another run"))
        grown = psutil.Process(s.process.pid).memory_info().rss - before
        late = []
        async with asyncio.timeout(SECONDS):
            while not late or not late[-1].HasField("run_finished"):
                late += list((await stuck[0].read()).events)
        for call in stuck:
            call.cancel()
        ended = await s.stop()
    assert run.view.outcome is not None
    assert run.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED, run.view.outcome
    assert len(run.view.text) == PIECES * len(PIECE) + len("end")
    assert quick.view.text == "Quick."
    assert grown < 32 << 20, f"{grown >> 20} MiB more with {READERS} readers that do not read"
    assert late[-1] == run.view.events[-1]
    assert ended.code == 0
