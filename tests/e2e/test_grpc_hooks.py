"""An app that is told over gRPC, while it and the service as a process of its own are killed and come back."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import grpc
import pytest
from e2e.provider import Hang, Say, answer, provider
from e2e.service import START_SECONDS, Followed, config_text, prompt, service
from execution.hook_app import App, End, Events, listening
from execution.hook_kit import DELTAS, free_port

from turnwire.v1 import event_pb2, outcome_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(200)]

ROUNDS = 3


@pytest.mark.requirement("GHOOK-13", "GHOOK-5")
async def test_over_kills_of_service_and_app_every_end_is_told_and_what_is_new_is_told_once(tmp_path: Path) -> None:
    rng, port = random.Random(4711), free_port()
    app = App(lambda _: grpc.StatusCode.INTERNAL if rng.random() < 0.2 else None)
    hooks = f'[hooks]\nentry_points = false\n[hooks.grpc.ledger]\naddress = "127.0.0.1:{port}"\ndeadline_seconds = 2\n'
    async with provider(*[answer("Yes."), answer("No."), (Say("half "), Hang())] * ROUNDS) as p:
        config = config_text(p.url, more=hooks)
        for number in range(ROUNDS):
            async with service(tmp_path, config) as s:
                if number:  # in the first round the app is not there at all
                    async with listening(app, port):
                        await s.run(prompt(f"a {number}"))
                        await app.until(lambda: bool(app.settled))
                else:
                    await s.run(prompt(f"a {number}"))
                await s.run(prompt(f"b {number}"))  # nobody is there to be told
                cut = Followed()
                following = s.follow(prompt(f"c {number}"), cut)
                await cut.until("text_delta")
                await s.kill()
                following.cancel()
        async with service(tmp_path, config) as s, listening(app, port):
            runs = {run.run_id: run for run in await s.all_runs()}
            await app.until(lambda: {end.delivery_id for end in app.settled} == set(runs), START_SECONDS)
            logs = {run_id: (await s.watch(run_id)).view.events for run_id in runs}
            ended = await s.stop()
    assert ended.code == 0
    assert len(runs) == 3 * ROUNDS
    told: dict[str, dict[int, event_pb2.RunEvent]] = {run_id: {} for run_id in runs}
    for batch in app.events:
        for event in batch.events:
            assert told[batch.run_id].setdefault(event.sequence, event) == event, "the same number, another event"
    for run_id, events in logs.items():
        assert list(told[run_id]) == [event.sequence for event in events if event.WhichOneof("event") not in DELTAS]
    fresh = Counter(end.delivery_id for end in app.asked if isinstance(end, End) and not end.redelivered)
    assert all(times == 1 for times in fresh.values()), "what may be known says so"
    assert all(end.run == runs[end.delivery_id] for end in app.settled)
    kinds = Counter(run.outcome.kind for run in runs.values())
    assert kinds == {outcome_pb2.OUTCOME_KIND_ANSWERED: 2 * ROUNDS, outcome_pb2.OUTCOME_KIND_ERRORED: ROUNDS}
    asked = [(request.run_id if isinstance(request, Events) else request.delivery_id, request) for request in app.asked]
    for run_id in runs:
        order = [type(request) for of, request in asked if of == run_id]
        assert order.index(Events) < order.index(End)
