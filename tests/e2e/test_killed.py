"""kill -9: no settled run is lost, unfinished ones settle at the next start, and every reader ends with one log."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from e2e.history import assert_well_formed
from e2e.provider import Request, Say, Step, Wait, answer, calls, provider
from e2e.service import START_SECONDS, Followed, Service, config_text, prompt, service

from turnwire import RunView
from turnwire.v1 import event_pb2, message_pb2, outcome_pb2, run_pb2, turn_service_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

ROUNDS = 8
SESSIONS = 3
SERIAL = "[policy]\ntool.max_parallel_calls = 1\n"
"""So that a kill finds calls that wait for their turn."""


def behaviour(request: Request) -> Sequence[Step]:
    """Text and two rounds of tools, then an answer: what comes next depends only on what this turn has so far."""
    messages: list[dict[str, Any]] = request["messages"]
    assert_well_formed(messages)
    last_user = max(number for number, message in enumerate(messages) if message["role"] == "user")
    rounds = sum(1 for message in messages[last_user:] if message["role"] == "assistant")
    if rounds < 2:
        words = [Say(f"word {number} ") for number in range(5)]
        return (*words, *calls(("record", {"word": "a"}), ("slow", {"text": "b"}), ("add", {"a": 1, "b": 2})))
    return answer(*(f"answer {number} " for number in range(20)))


def check_calls(run_id: str, events: Sequence[event_pb2.RunEvent], executed: Counter[str]) -> None:
    """Each call has exactly one result, which says what is known of it, and nothing ran twice."""
    started = [event.tool_call_started.call_id for event in events if event.HasField("tool_call_started")]
    executing = {event.tool_call_executing.call_id for event in events if event.HasField("tool_call_executing")}
    results = [event.tool_call_finished.result for event in events if event.HasField("tool_call_finished")]
    assert sorted(result.call_id for result in results) == sorted(started), run_id
    for result in results:
        match result.status:
            case message_pb2.TOOL_RESULT_STATUS_OK | message_pb2.TOOL_RESULT_STATUS_OUTCOME_UNKNOWN:
                assert result.call_id in executing
            case message_pb2.TOOL_RESULT_STATUS_NOT_EXECUTED:
                assert result.call_id not in executing
                assert not executed[result.call_id], "a call that was said not to have run did run"
            case status:
                raise AssertionError(f"{run_id}: {status}")
        assert executed[result.call_id] <= 1


def ledger(directory: Path) -> Counter[str]:
    """How often each call of the tool ``record`` was executed."""
    file = directory / "ledger"
    return Counter(file.read_text().split()) if file.exists() else Counter()


async def check_log(s: Service, run_id: str, seen: Followed | None, chance: random.Random) -> list[event_pb2.RunEvent]:
    """The run is settled, and its log is one: from the start, from any cursor, and as the live reader has it."""
    cold = (await s.watch(run_id)).view.events
    assert [event.sequence for event in cold] == list(range(1, len(cold) + 1))
    assert [event.WhichOneof("event") for event in cold].count("run_finished") == 1
    assert cold[-1].WhichOneof("event") == "run_finished"
    if seen is not None:
        assert seen.view.events == cold
        for update in chance.sample(seen.updates, min(3, len(seen.updates))):
            # A reader that stood here in the old epoch, and comes back now.
            at = RunView()
            for earlier in seen.updates[: seen.updates.index(update) + 1]:
                at.apply(earlier)
            for later in (await s.watch(run_id, update.cursor)).updates:
                at.apply(later)
            assert at.events == cold, update.cursor
    return cold


@pytest.mark.slow
@pytest.mark.requirement("E2E-40")
@pytest.mark.parametrize("seed", [1])
async def test_runs_in_flight_survive_kill_9_at_random_points(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    listen = "127.0.0.1:0"
    known: dict[str, event_pb2.RunFinished] = {}
    reasons: Counter[int] = Counter()
    async with provider() as p:
        p.respond = behaviour
        views: list[Followed] = []
        following: list[asyncio.Task[Followed]] = []
        for number in range(ROUNDS + 1):
            async with service(tmp_path, config_text(p.url, more=SERIAL), listen=listen, GATES=p.url) as s:
                listen = s.address
                async with asyncio.timeout(START_SECONDS):
                    await asyncio.gather(*following)  # across the restart, on their own connections
                seen = {view.view.run_id: view for view in views}
                for run in await s.all_runs():
                    assert run.state == run_pb2.RUN_STATE_SETTLED
                    events = await check_log(s, run.run_id, seen.get(run.run_id), chance)
                    check_calls(run.run_id, events, ledger(tmp_path))
                    assert known.setdefault(run.run_id, events[-1].run_finished) == events[-1].run_finished
                    if run.run_id in seen:
                        reasons[run.outcome.failure.reason] += 1
                assert {run_id for run_id in seen if run_id} <= set(known)
                if number == ROUNDS:
                    await s.stop()
                    break
                views = [Followed() for _ in range(SESSIONS)]
                following = [
                    s.follow(prompt(f"round {number}", session_id=f"s{session}"), view)
                    for session, view in enumerate(views)
                ]
                # Anywhere from before the first event to after the last one.
                await at_event(views, chance.randrange(0, 60))
                known |= {view.view.run_id: view.view.finished for view in views if view.view.finished}  # type: ignore[misc]
                ended = await s.kill()
                assert "Traceback" not in ended.stderr, ended.stderr
    assert reasons[outcome_pb2.REASON_SERVER_RESTARTED] >= ROUNDS // 2, "the kills came too late to show anything"


async def at_event(views: Sequence[Followed], count: int) -> None:
    """Return when one of the runs has that many events, or all have ended."""
    first = random.Random(count).choice(views)
    async with asyncio.timeout(START_SECONDS), first.seen:
        await first.seen.wait_for(lambda: len(first.view.events) >= count or first.view.finished is not None)


@pytest.mark.requirement("E2E-41")
async def test_a_reader_ahead_of_what_was_stored_is_told_to_rewind(tmp_path: Path) -> None:
    listen = "127.0.0.1:0"
    async with provider() as p:
        p.respond = lambda _: (Say("never "), Say("stored "), Wait(p.gate("closed")))
        rewound: list[Followed] = []
        following: asyncio.Task[Followed] | None = None
        view = Followed()
        for attempt in range(10):
            # What is streamed is stored within 50 ms, so that a kill may come too late: then once more.
            async with service(tmp_path, config_text(p.url), listen=listen, GATES=p.url) as s:
                listen = s.address
                if following is not None:
                    await following
                    if any(update.rewind_to is not None for update in view.updates):
                        rewound.append(view)
                        cold = await s.watch(view.view.run_id or "")
                        assert cold.view.events == view.view.events
                        assert "text_delta" not in view.kinds()
                        await s.stop()
                        break
                view = Followed()
                following = s.follow(prompt(str(attempt), session_id="s"), view)
                await view.until("text_delta")
                await s.kill()
        p.gate("closed").set()
    assert rewound
    rewinds = [update for update in rewound[0].updates if update.rewind_to is not None]
    assert len(rewinds) == 1
    assert rewinds[0].cursor.epoch == 2


@pytest.mark.requirement("E2E-42", "SCN-119")
async def test_calls_cut_by_a_kill_say_what_is_known_and_the_session_goes_on(tmp_path: Path) -> None:
    async with provider() as p:
        three = calls(("add", {"a": 40, "b": 2}), ("pass_gate", {"name": "closed"}), ("record", {"word": "late"}))
        p.script(three, answer("Moving on."))
        async with service(tmp_path, config_text(p.url, more=SERIAL), GATES=p.url) as s:
            turn = prompt("Do it", session_id="s").turn
            turn_id = (await s.turns.StartTurn(turn_service_pb2.StartTurnRequest(turn=turn))).run_id
            await p.until_at_gate("closed")
            await s.kill()
        p.gate("closed").set()
        async with service(tmp_path, config_text(p.url), GATES=p.url) as s:
            run = await s.get(turn_id)
            log = (await s.watch(turn_id)).view
            after = await s.run(prompt("And now?", session_id="s"))
            sent = p.requests[-1]["messages"]
            ended = await s.stop()
    assert run.run.outcome.kind == outcome_pb2.OUTCOME_KIND_ERRORED
    assert run.run.outcome.failure.reason == outcome_pb2.REASON_SERVER_RESTARTED
    assert run.run.epoch == 2
    results = [event.tool_call_finished.result for event in log.events if event.HasField("tool_call_finished")]
    assert [result.status for result in results] == [
        message_pb2.TOOL_RESULT_STATUS_OK,
        message_pb2.TOOL_RESULT_STATUS_OUTCOME_UNKNOWN,
        message_pb2.TOOL_RESULT_STATUS_NOT_EXECUTED,
    ]
    assert after.view.text == "Moving on."
    assert_well_formed(sent)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert sent[2]["content"] == "42"
    assert len(ledger(tmp_path)) == 1
    assert turn_id in ended.stderr
    assert "SERVER_RESTARTED" in ended.stderr
