"""What only the store in memory does."""

from __future__ import annotations

import pytest
from store.builders import make_run, new_run, row, settlement

from turnwired.store.memory import MemoryStore
from turnwired.store.port import RunFilter

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("STORE-20")
async def test_the_oldest_settled_runs_are_forgotten_with_their_keys_and_active_ones_never() -> None:
    store = MemoryStore(settled_runs=2)
    await store.start()
    await make_run(store, "run_active", rows=1)
    for number in range(5):
        await store.create_run(new_run(f"run_{number}", request_id=f"q{number}"))
        await store.append(row(f"run_{number}", 1), settlement())
    page, _ = await store.list_runs(RunFilter("default"), 10, "")
    assert {run.run_id for run in page} == {"run_active", "run_3", "run_4"}
    assert await store.read_rows("run_0", 0, 1000) == []
    assert not (await store.create_run(new_run("run_6", request_id="q0"))).existing
    assert (await store.create_run(new_run("run_7", request_id="q4"))).existing
