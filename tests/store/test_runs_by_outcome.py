"""Runs by how they ended: every store finds the same."""

from __future__ import annotations

import pytest
from store.builders import new_run, row, settlement

from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import RunState
from turnwired.store.port import RunFilter, Store

ENDS = [OutcomeKind.ANSWERED, OutcomeKind.ERRORED, OutcomeKind.ABORTED, OutcomeKind.ANSWERED, OutcomeKind.ERRORED]


async def fill(store: Store) -> None:
    """Five runs that ended, oldest first, and one that goes on."""
    for number, kind in enumerate(ENDS, 1):
        await store.create_run(new_run(f"run_{number}", session_id=f"s{number}", time_ns=number))
        await store.append(row(f"run_{number}", 1), settlement(outcome=kind))
    await store.create_run(new_run("run_6", time_ns=6))


@pytest.mark.requirement("CTX-30")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunFilter("default", outcomes=(OutcomeKind.ERRORED,)), ["run_5", "run_2"]),
        (RunFilter("default", outcomes=(OutcomeKind.ABORTED, OutcomeKind.ERRORED)), ["run_5", "run_3", "run_2"]),
        (RunFilter("default", outcomes=(OutcomeKind.ANSWERED,)), ["run_4", "run_1"]),
        (RunFilter("default", outcomes=(OutcomeKind.ANSWERED, OutcomeKind.ABORTED)), ["run_4", "run_3", "run_1"]),
        (RunFilter("default", outcomes=tuple(OutcomeKind)), ["run_5", "run_4", "run_3", "run_2", "run_1"]),
        (RunFilter("default", outcomes=(OutcomeKind.REFUSED,)), []),
        (RunFilter("default", outcomes=(OutcomeKind.ERRORED,), session_id="s2"), ["run_2"]),
        (RunFilter("default", outcomes=(OutcomeKind.ERRORED,), states=(RunState.RUNNING,)), []),
        (RunFilter("other", outcomes=(OutcomeKind.ERRORED,)), []),
    ],
)
async def test_runs_are_listed_by_how_they_ended(store: Store, query: RunFilter, expected: list[str]) -> None:
    await fill(store)
    found: list[str] = []
    token = ""
    while True:
        page, token = await store.list_runs(query, 2, token)
        found += [run.run_id for run in page]
        if not token:
            break
    assert found == expected


@pytest.mark.requirement("CTX-30")
async def test_a_run_has_no_outcome_until_it_has_settled(store: Store) -> None:
    await fill(store)
    page, _ = await store.list_runs(RunFilter("default"), 10, "")
    assert [run.outcome for run in page] == [None, *reversed(ENDS)]
