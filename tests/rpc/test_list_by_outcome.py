"""ListRuns by how runs ended."""

from __future__ import annotations

from typing import cast

import grpc
import pytest
from execution.served import SECONDS, served
from store.builders import new_run

from turnwire.v1 import outcome_pb2, turn_service_pb2
from turnwired.domain.failure import Reason
from turnwired.store.memory import MemoryStore
from turnwired.testing.provider import answer, fails

ANSWERED, ERRORED = outcome_pb2.OUTCOME_KIND_ANSWERED, outcome_pb2.OUTCOME_KIND_ERRORED


@pytest.mark.requirement("CTX-31")
async def test_runs_are_listed_by_how_they_ended() -> None:
    async with served([answer("fine"), [fails(Reason.PROVIDER_REJECTED)], answer("fine")]) as s:
        for _ in range(3):
            await s.run()

        async def listed(*kinds: outcome_pb2.OutcomeKind.ValueType) -> list[outcome_pb2.OutcomeKind.ValueType]:
            request = turn_service_pb2.ListRunsRequest(outcome_kinds=kinds)
            return [run.outcome.kind for run in (await s.turns.ListRuns(request, timeout=SECONDS)).runs]

        assert await listed(ERRORED) == [ERRORED]
        assert await listed(ANSWERED) == [ANSWERED, ANSWERED]
        assert await listed(ERRORED, ANSWERED, *[ERRORED] * 5000) == [ANSWERED, ERRORED, ANSWERED]
        assert await listed() == [ANSWERED, ERRORED, ANSWERED]
        assert await listed(outcome_pb2.OUTCOME_KIND_REFUSED) == []


@pytest.mark.requirement("CTX-31")
@pytest.mark.parametrize("kind", [0, 99])
async def test_an_outcome_that_is_none_is_refused_by_its_path(kind: int) -> None:
    async with served([]) as s:
        kinds = [ERRORED, cast("outcome_pb2.OutcomeKind.ValueType", kind)]
        request = turn_service_pb2.ListRunsRequest(outcome_kinds=kinds)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await s.turns.ListRuns(request, timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "outcome_kinds" in (caught.value.details() or "")


@pytest.mark.requirement("CTX-30")
async def test_a_run_that_was_found_unfinished_is_listed_as_it_was_closed() -> None:
    store = MemoryStore()
    await store.start()
    await store.create_run(new_run("run_left"))
    async with served([], store=store) as s:
        request = turn_service_pb2.ListRunsRequest(outcome_kinds=[ERRORED])
        assert [run.run_id for run in (await s.turns.ListRuns(request, timeout=SECONDS)).runs] == ["run_left"]
