"""A client that does not read: other runs go on, memory stays bounded, and the client loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from e2e.provider import Request, Say, Step, answer, calls, provider
from e2e.service import SECONDS, config_text, prompt, service

from turnwire.v1 import event_pb2, outcome_pb2, turn_service_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

READERS = 32
PIECE = "x" * 1024
PIECES, ITERATIONS = 256, 20  # 5 MiB of deltas and as much again in finished parts: 320 MiB if kept for each reader
MORE = "[policy]\nloop.max_steps = 30\nloop.repeated_call_threshold = 0\n"


def talkative(request: Request) -> Sequence[Step]:
    """A quarter of a MiB and a tool call, again and again."""
    messages = request["messages"]
    if messages[-1]["content"] == "another run":
        return answer("Quick.")
    if sum(1 for message in messages if message["role"] == "assistant") == ITERATIONS:
        return answer("The end.")
    return (*(Say(PIECE) for _ in range(PIECES)), *calls(("add", {"a": 1, "b": 1})))


@pytest.mark.slow
@pytest.mark.requirement("E2E-60")
async def test_readers_that_do_not_read_harm_nobody_and_miss_nothing(tmp_path: Path) -> None:
    async with provider() as p, service(tmp_path, config_text(p.url, more=MORE), GATES=p.url) as s:
        p.respond = talkative
        await s.run(prompt("what one such run takes, with a reader"))
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
        late: list[event_pb2.RunEvent] = []
        async with asyncio.timeout(SECONDS):
            while not late or not late[-1].HasField("run_finished"):
                frame = await stuck[0].read()
                assert isinstance(frame, turn_service_pb2.WatchRunResponse)
                late += frame.events
        for call in stuck:
            call.cancel()
            await call.code()  # what is still to come for a call must not come to a loop that is closed
        ended = await s.stop()
    assert run.view.outcome is not None
    assert run.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED, run.view.outcome
    assert run.view.text == "The end."
    assert quick.view.text == "Quick."
    assert grown < 80 << 20, f"{grown >> 20} MiB more with {READERS} readers that do not read"
    sequences = [event.sequence for event in late]
    assert sequences == list(range(sequences[0], len(run.view.events) + 1))
    assert late[-1] == run.view.events[-1]
    assert ended.code == 0
