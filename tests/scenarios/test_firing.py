"""Turns that something outside starts by the clock: a slot is one turn, whoever fires it and however often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from execution.served import SECONDS, Served, served, turn
from scenarios.kit import ANSWERED

from turnwire.v1 import turn_service_pb2
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio


async def fire(s: Served, slot: str, **labels: str) -> turn_service_pb2.StartTurnResponse:
    """What a timer does at its time: the slot is the id of the request."""
    request = turn_service_pb2.StartTurnRequest(turn=turn("What is new?", session_id="news").turn)
    request.turn.request_id = f"news-{slot.replace(':', '')}"
    request.turn.labels.update(labels)
    return await s.turns.StartTurn(request, timeout=SECONDS)


@pytest.mark.requirement("SCN-165")
async def test_a_slot_that_several_timers_fire_before_and_after_a_restart_is_one_turn(tmp_path: Path) -> None:
    """The service has no timers of its own: what the scenario demands of them is that firing is a claim in the store.

    That claim is the id of the request. Whatever fires, once or from three replicas of an app, before a restart of the
    service or after it, starts each slot at most once; a slot that was missed is started late, once.
    """
    path = tmp_path / "turnwire.db"
    async with served([answer("Done at ten.")], store=SqliteStore(path)) as s:
        three = await asyncio.gather(*(fire(s, "22:00") for _ in range(3)))
        assert len({response.run_id for response in three}) == 1
        first = await s.settled(three[0].run_id)
        assert len(s.provider.requests) == 1
    async with served([answer("Done at eleven.")], store=SqliteStore(path)) as s:
        assert (await fire(s, "22:00")).run_id == three[0].run_id, "it is not repeated after the restart"
        late = await asyncio.gather(*(fire(s, "23:00", late="true") for _ in range(3)))
        assert len({response.run_id for response in late}) == 1
        second = await s.settled(late[0].run_id)
        listed = await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(session_id="news"), timeout=SECONDS)
        assert len(s.provider.requests) == 1
    assert [run.run.outcome.kind for run in (first, second)] == [ANSWERED, ANSWERED]
    assert {run.run_id: run.labels.get("late", "") for run in listed.runs} == {
        three[0].run_id: "",
        late[0].run_id: "true",
    }, "one run for a slot"
