"""Maps in requests with more entries than anybody needs: refused by their path before they cost anything."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from execution.served import SECONDS, Served, served, turn

from turnwire.v1 import agent_service_pb2, policy_pb2, session_service_pb2, turn_service_pb2
from turnwired.policy.validate import MOST_ENTRIES
from turnwired.rpc.request import MAX_LABELS
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio

MANY = 100_000


def caps(count: int, length: int = 1) -> policy_pb2.Policy:
    """A policy with a cap for each of so many tools."""
    made = policy_pb2.Policy()
    for number in range(count):
        made.loop.max_tool_calls_per_tool[str(number).zfill(length)].value = number
    return made


def calls_with(s: Served, policy: policy_pb2.Policy) -> list[tuple[str, Any]]:
    """Every call that takes a policy, and the path of the policy in it."""
    wanted = agent_service_pb2.PutAgentRequest()
    wanted.agent.agent_id = "a"
    wanted.agent.policy.CopyFrom(policy)
    started = turn_service_pb2.StartTurnRequest(turn=turn("Hello", policy=policy).turn)
    return [
        ("policy", s.turns.ResolvePolicy(turn_service_pb2.ResolvePolicyRequest(policy=policy), timeout=SECONDS)),
        ("turn.policy", s.turns.StartTurn(started, timeout=SECONDS)),
        ("agent.policy", s.agents.PutAgent(wanted, timeout=SECONDS)),
    ]


async def refused(call: Any) -> str:
    """The words of the refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.details() or ""


@pytest.mark.requirement("HOSTILE-15")
@pytest.mark.parametrize(("count", "length"), [(MOST_ENTRIES + 1, 1), (MANY, 1), (1, 257)])
async def test_caps_of_more_tools_than_anybody_has_are_refused_in_no_time(count: int, length: int) -> None:
    policy = caps(count, length)
    async with served([]) as s:
        before = time.monotonic()
        for path, call in calls_with(s, policy):
            assert (await refused(call)).startswith(f"{path}.loop.max_tool_calls_per_tool")
        took = time.monotonic() - before
    assert took < SECONDS / 2


@pytest.mark.requirement("HOSTILE-15")
async def test_caps_of_as_many_tools_as_are_allowed_are_taken() -> None:
    async with served([answer("Yes.")]) as s:
        for _, call in calls_with(s, caps(MOST_ENTRIES)):
            await call


@pytest.mark.requirement("HOSTILE-15")
@pytest.mark.parametrize("labels", [{f"k{n}": "v" for n in range(MAX_LABELS + 1)}, {"k": "v" * 257}, {"": "v"}])
async def test_labels_that_no_run_can_have_are_refused_in_a_listing(tmp_path: Path, labels: dict[str, str]) -> None:
    few = {f"k{n}": "v" for n in range(MAX_LABELS)}
    async with served([answer("Yes.")], store=SqliteStore(tmp_path / "turnwire.db")) as s:
        request = turn("Hello")
        request.turn.labels.update(few)
        _, task = s.follow(request)
        seen = await task
        found = await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(labels=few), timeout=SECONDS)
        listing = turn_service_pb2.ListRunsRequest(labels=labels)
        assert (await refused(s.turns.ListRuns(listing, timeout=SECONDS))).startswith("labels: ")
        sessions = session_service_pb2.ListSessionsRequest(labels=labels)
        assert (await refused(s.sessions.ListSessions(sessions, timeout=SECONDS))).startswith("labels: ")
    assert [run.run_id for run in found.runs] == [seen.run_id]
