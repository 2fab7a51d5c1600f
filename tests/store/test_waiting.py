"""Runs that wait, their questions and standing answers, in every store."""

from __future__ import annotations

from pathlib import Path

import pytest
from store.builders import approval, changes, new_run, row, settlement

from turnwired.domain.approval import ApprovalState
from turnwired.domain.errors import Fenced, InvalidRequest
from turnwired.domain.run import RunState
from turnwired.store.port import ApprovalFilter, Changes, RunFilter, Store, StoredRule, StoredRun
from turnwired.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

MAIL, PAY = (StoredRule("tool", name, "ALLOW", 7) for name in ("mail", "pay"))


async def made(store: Store, run_id: str = "r1", session_id: str | None = "s", tenant: str = "default") -> StoredRun:
    """A new run."""
    return (await store.create_run(new_run(run_id, session_id=session_id, tenant=tenant))).run


async def state_of(store: Store, run_id: str) -> tuple[RunState, bytes]:
    """The run's state and what it waits for."""
    run = await store.get_run("default", run_id)
    assert run is not None
    return run.state, run.waiting


@pytest.mark.requirement("APPROVE-1")
async def test_a_run_is_listed_as_waiting_until_it_goes_on_and_as_settled_at_last(store: Store) -> None:
    run = await made(store)
    await made(store, "r2", "t")
    await store.append(row("r1", 1), None, changes(run, "asks"))
    assert await state_of(store, "r1") == (RunState.WAITING, b"a1")
    waiting, _ = await store.list_runs(RunFilter("default", states=(RunState.WAITING,)), 10, "")
    assert [found.run_id for found in waiting] == ["r1"]
    await store.append(row("r1", 2), None, changes(run, "answers"))
    assert await state_of(store, "r1") == (RunState.RUNNING, b"")
    await store.append(row("r1", 3), None, changes(run, "waits"))
    await store.append(row("r1", 4), settlement(), Changes(approvals=(approval(run, state=ApprovalState.WITHDRAWN),)))
    assert await state_of(store, "r1") == (RunState.SETTLED, b"")
    found = await store.get_approval("default", "r1", "a1")
    assert found == approval(run, state=ApprovalState.WITHDRAWN)


@pytest.mark.requirement("APPROVE-1")
async def test_a_row_that_is_refused_changes_nothing(store: Store) -> None:
    run = await made(store)
    await store.append(row("r1", 1), None, changes(run, "asks"))
    with pytest.raises(Fenced):
        await store.append(row("r1", 1, body=b"another"), None, changes(run, "always"))
    assert await state_of(store, "r1") == (RunState.WAITING, b"a1")
    assert await store.get_approval("default", "r1", "a1") == approval(run)
    assert await store.session_rules("default", "s") == []


@pytest.mark.requirement("APPROVE-1")
async def test_a_run_that_waits_is_taken_over_as_one_that_waits(store: Store) -> None:
    run = await made(store)
    await store.append(row("r1", 1), None, changes(run, "asks"))
    taken = await store.take_over_unfinished()
    assert [(found.state, found.waiting, found.epoch) for found in taken] == [(RunState.WAITING, b"a1", 2)]


@pytest.mark.requirement("APPROVE-1", "APPROVE-2")
async def test_questions_and_rules_outlive_the_process(tmp_path: Path) -> None:
    first, second = SqliteStore(tmp_path / "turnwire.db"), SqliteStore(tmp_path / "turnwire.db")
    await first.start()
    run = await made(first)
    await first.append(row("r1", 1), None, changes(run, "always"))
    await first.aclose()
    await second.start()
    assert await second.session_rules("default", "s") == [MAIL, PAY]
    assert await second.get_approval("default", "r1", "a1") == approval(run, state=ApprovalState.RESOLVED)
    await second.aclose()


@pytest.mark.requirement("APPROVE-2")
async def test_a_standing_answer_is_kept_once_for_its_session_alone(store: Store) -> None:
    run = await made(store)
    await made(store, "stateless", None)
    await store.append(row("r1", 1), None, changes(run, "always"))
    await store.append(row("r1", 2), None, Changes(rules=(StoredRule("tool", "mail", "ALLOW", 99),)))
    await store.append(row("stateless", 1), None, Changes(rules=(MAIL,)))
    assert await store.session_rules("default", "s") == [MAIL, PAY]
    assert await store.session_rules("default", "t") == []
    assert await store.session_rules("other", "s") == []
    await store.append(row("r1", 3), settlement())
    await store.delete_session("default", "s")
    assert await store.session_rules("default", "s") == []
    assert await store.get_approval("default", "r1", "a1") is None
    assert await store.list_approvals(ApprovalFilter("default"), 10, "") == ([], "")


@pytest.mark.requirement("APPROVE-3")
async def test_questions_are_listed_oldest_first_in_pages_by_any_filter(store: Store) -> None:
    runs = [await made(store, f"r{number}", f"s{number}") for number in range(3)]
    other = await made(store, "elsewhere", "s0", tenant="other")
    for run in (*runs, other):
        asked = tuple(approval(run, name, time_ns=time_ns) for name, time_ns in (("a1", 5), ("a2", 6)))
        await store.append(row(run.run_id, 1), None, Changes(RunState.WAITING, b"x", asked))
    await store.append(row("r2", 2), None, changes(runs[2], "answers"))

    async def listed(query: ApprovalFilter, size: int = 2) -> list[str]:
        found: list[str] = []
        token, pages = "", 0
        while pages == 0 or token:
            page, token = await store.list_approvals(query, size, token)
            found += [f"{item.run_id}/{item.approval_id}" for item in page]
            pages += 1
            assert len(page) <= size
        return found

    assert await listed(ApprovalFilter("default")) == ["r0/a1", "r1/a1", "r2/a1", "r0/a2", "r1/a2", "r2/a2"]
    pending = ApprovalFilter("default", states=(ApprovalState.PENDING,))
    assert await listed(pending, 3) == ["r0/a1", "r1/a1", "r0/a2", "r1/a2", "r2/a2"]
    both = (ApprovalState.RESOLVED, ApprovalState.PENDING)
    assert await listed(ApprovalFilter("default", run_id="r2", states=both)) == ["r2/a1", "r2/a2"]
    assert await listed(ApprovalFilter("default", session_id="s1"), 1) == ["r1/a1", "r1/a2"]
    assert await listed(ApprovalFilter("default", agent_id="nobody")) == []
    assert await listed(ApprovalFilter("other")) == ["elsewhere/a1", "elsewhere/a2"]
    assert await store.get_approval("other", "r0", "a1") is None
    for token in ("?", "MTpyMQ"):
        with pytest.raises(InvalidRequest):
            await store.list_approvals(ApprovalFilter("default"), 2, token)
