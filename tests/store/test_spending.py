"""What every store keeps of spending. A store passes this file unchanged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from store.builders import new_run, row, settlement

from turnwired.domain.errors import StoreError
from turnwired.store.port import Settlement, Spending, SpendingScope, Store
from turnwired.store.rules import MOST_SPENT
from turnwired.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

SESSION, DAY = SpendingScope.SESSION, SpendingScope.DAY


def spent(amount: int, name: str = "s", *, scope: SpendingScope = SESSION, unit: str = "tokens") -> Spending:
    """What a run of the default tenant adds."""
    return Spending("default", scope, name, unit, amount)


def end(*items: Spending) -> Settlement:
    """An end with that."""
    return Settlement(9, b"summary", spent=items)


@pytest.mark.requirement("BUDGET-7")
async def test_totals_are_summed_by_unit_and_begin_empty(store: Store) -> None:
    assert await store.spent("default", SESSION, "s") == {}
    for number, items in enumerate([(spent(5), spent(7, unit="USD")), (spent(2), spent(1, "d", scope=DAY)), ()]):
        await store.create_run(new_run(f"run_{number}", session_id="s"))
        await store.append(row(f"run_{number}", 1), end(*items))
    assert await store.spent("default", SESSION, "s") == {"tokens": 7, "USD": 7}
    assert await store.spent("default", DAY, "d") == {"tokens": 1}
    assert await store.spent("other", SESSION, "s") == {}
    assert await store.spent("default", SESSION, "d") == {}


@pytest.mark.requirement("BUDGET-7")
async def test_a_row_that_is_handed_in_twice_is_added_once(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    for _ in range(2):
        await store.append(row("run_1", 1), end(spent(5)))
    with pytest.raises(StoreError):
        await store.append(row("run_1", 2), end(spent(5)))
    assert await store.spent("default", SESSION, "s") == {"tokens": 5}


@pytest.mark.requirement("BUDGET-7")
async def test_runs_that_settle_at_once_are_all_counted(store: Store) -> None:
    for number in range(40):
        await store.create_run(new_run(f"run_{number}"))
    ends = (end(spent(1), spent(number, unit="USD"), spent(1, f"d{number}", scope=DAY)) for number in range(40))
    await asyncio.gather(*(store.append(row(f"run_{number}", 1), item) for number, item in enumerate(ends)))
    assert await store.spent("default", SESSION, "s") == {"tokens": 40, "USD": sum(range(40))}
    assert await store.spent("default", DAY, "d39") == {"tokens": 1}


@pytest.mark.requirement("BUDGET-7")
async def test_a_total_stays_at_the_most_that_can_be_kept(store: Store) -> None:
    for number in range(3):
        await store.create_run(new_run(f"run_{number}"))
        await store.append(row(f"run_{number}", 1), end(spent(MOST_SPENT - 1), spent(MOST_SPENT - 1)))
    assert await store.spent("default", SESSION, "s") == {"tokens": MOST_SPENT}


@pytest.mark.requirement("BUDGET-24")
async def test_a_deleted_sessions_totals_go_with_it_and_its_tenants_stay(store: Store) -> None:
    await store.create_run(new_run("run_1", session_id="s"))
    await store.append(row("run_1", 1), end(spent(5), spent(5, "t"), spent(5, "s", scope=DAY)))
    await store.delete_session("default", "s")
    assert await store.spent("default", SESSION, "s") == {}
    assert await store.spent("default", SESSION, "t") == {"tokens": 5}
    assert await store.spent("default", DAY, "s") == {"tokens": 5}


@pytest.mark.requirement("BUDGET-7")
async def test_totals_are_in_the_file(tmp_path: Path) -> None:
    for number in range(3):
        store = SqliteStore(tmp_path / "turnwire.db")
        await store.start()
        assert await store.spent("default", SESSION, "s") == ({"tokens": number} if number else {})
        await store.create_run(new_run(f"run_{number}"))
        await store.append(row(f"run_{number}", 1), end(spent(1)))
        await store.aclose()


@pytest.mark.requirement("BUDGET-7")
async def test_a_run_that_spent_nothing_adds_nothing(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    await store.append(row("run_1", 1), settlement())
    assert await store.spent("default", DAY, "s") == {}
