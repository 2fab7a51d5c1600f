"""The stores under test: the contract runs against each, unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from turnwired.store.memory import MemoryStore
from turnwired.store.port import Store
from turnwired.store.sqlite import SqliteStore

STORES = ("memory", "sqlite")


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store, started."""
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "turnwire.db")
    await opened.start()
    yield opened
    await opened.aclose()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty SQLite store at ``tmp_path / "turnwire.db"``, started."""
    opened = SqliteStore(tmp_path / "turnwire.db", wait_seconds=10)
    await opened.start()
    yield opened
    await opened.aclose()
