"""Faults of the engine that its state machine found, each as a plain test."""

from __future__ import annotations

import pytest

from engine.harness import CALLER, Reader, world
from turnwired.domain.event import RunStarted
from turnwired.store.memory import MemoryStore
from turnwired.store.port import NewRun

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("REAL-7")
async def test_a_child_that_dies_before_its_first_event_is_ended_as_the_child_that_it_was() -> None:
    store = MemoryStore()
    await store.start()
    await store.create_run(NewRun("run_child", CALLER, "default", 1, parent_run_id="run_parent"))
    async with world([], store=store) as w:
        reader = Reader()
        await w.follow("run_child", reader)
    (started,) = reader.of(RunStarted)
    assert isinstance(started, RunStarted)
    assert started.parent_run_id == "run_parent"
