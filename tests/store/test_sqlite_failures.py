"""What happens to a SQLite store when its database cannot be written, and after."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from store import children
from store.builders import make_run, message, new_run, row, settlement

from turnwired.domain.errors import StoreError, StoreUnavailable
from turnwired.store.port import LogRow
from turnwired.store.sqlite import SqliteStore, connection

pytestmark = pytest.mark.anyio


def _writing_connection(store: SqliteStore) -> sqlite3.Connection:
    assert store._write_connection is not None
    return store._write_connection


@pytest.mark.requirement("STORE-14")
async def test_a_full_database_says_so_and_works_again_when_there_is_room(sqlite_store: SqliteStore) -> None:
    await make_run(sqlite_store, "run_1", rows=1)
    writing = _writing_connection(sqlite_store)
    (pages,) = writing.execute("PRAGMA page_count").fetchone()
    writing.execute(f"PRAGMA max_page_count = {pages + 2}")
    large = row("run_1", 2, body=b"x" * 100_000)
    with pytest.raises(StoreUnavailable, match=r"cannot grow.*free space"):
        await sqlite_store.append(large)
    with pytest.raises(StoreUnavailable, match=r"cannot grow"):
        await sqlite_store.append(large, settlement(message("m1")))
    with pytest.raises(StoreUnavailable, match=r"cannot grow"):
        await sqlite_store.ping()
    assert len(await sqlite_store.read_rows("run_1", 0, 1_000_000)) == 1
    writing.execute("PRAGMA max_page_count = 1000000")
    await sqlite_store.append(large)
    await sqlite_store.ping()
    assert len(await sqlite_store.read_rows("run_1", 0, 1_000_000)) == 2


@pytest.mark.requirement("STORE-12", "STORE-14")
async def test_a_row_that_does_not_fit_leaves_room_for_those_that_do(sqlite_store: SqliteStore) -> None:
    for number in range(5):
        await sqlite_store.create_run(new_run(f"run_{number}", session_id=f"s{number}"))
    writing = _writing_connection(sqlite_store)
    (pages,) = writing.execute("PRAGMA page_count").fetchone()
    writing.execute(f"PRAGMA max_page_count = {pages + 4}")
    outcomes = await asyncio.gather(
        sqlite_store.append(row("run_0", 1)),
        sqlite_store.append(row("run_1", 1, body=b"x" * 100_000)),
        sqlite_store.append(row("run_2", 1), settlement(message("m"))),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "StoreUnavailable", "NoneType"]
    assert await sqlite_store.load_messages("default", "s2") == [message("m")]


@pytest.mark.requirement("STORE-14")
async def test_a_database_locked_by_another_program_says_so_and_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    store = SqliteStore(tmp_path / "turnwire.db")
    await store.start()
    try:
        await make_run(store, "run_1", rows=1)
        other = sqlite3.connect(tmp_path / "turnwire.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = [store.append(row("run_1", 2)), store.create_run(new_run("run_2")), store.ping()]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert "was locked by another program" in str(outcomes[0])
        # Reading goes on beside a lock.
        assert len(await store.read_rows("run_1", 0, 1000)) == 1
        other.execute("ROLLBACK")
        other.close()
        await store.append(row("run_1", 2))
        await store.create_run(new_run("run_2"))
        await store.ping()
    finally:
        await store.aclose()


@pytest.mark.requirement("STORE-14")
async def test_a_database_whose_file_was_taken_away_fails_its_ping(tmp_path: Path, sqlite_store: SqliteStore) -> None:
    await sqlite_store.ping()
    kept = (tmp_path / "turnwire.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreUnavailable, match=r"cannot be used"):
        await sqlite_store.ping()
    (tmp_path / "turnwire.db").touch()
    with pytest.raises(StoreUnavailable, match=r"was replaced"):
        await sqlite_store.ping()
    kept.rename(tmp_path / "turnwire.db")
    await sqlite_store.ping()


@pytest.mark.requirement("STORE-14")
async def test_a_connection_that_broke_is_unavailable_and_not_silent(sqlite_store: SqliteStore) -> None:
    await make_run(sqlite_store, "run_1", rows=1)
    _writing_connection(sqlite_store).close()
    with pytest.raises(StoreUnavailable, match=r"could not be used"):
        await sqlite_store.append(row("run_1", 2))
    with pytest.raises(StoreUnavailable):
        await sqlite_store.create_run(new_run("run_2"))
    with pytest.raises(StoreUnavailable):
        await sqlite_store.ping()


@pytest.mark.requirement("STORE-10", "STORE-12")
async def test_a_value_that_no_database_holds_fails_alone(sqlite_store: SqliteStore) -> None:
    await sqlite_store.create_run(new_run("run_1"))
    await sqlite_store.create_run(new_run("run_2"))
    outcomes = await asyncio.gather(
        sqlite_store.append(row("run_1", 1)),
        sqlite_store.append(LogRow("run_2", 1, 1, 1, 2**63, b"a sequence of more than 63 bits")),
        sqlite_store.create_run(new_run("run_\ud800")),
        sqlite_store.create_run(new_run("run_3", labels={"\udfff": "a lone surrogate"})),
        sqlite_store.create_run(new_run("run_4")),
        return_exceptions=True,
    )
    kinds = [type(outcome).__name__ for outcome in outcomes]
    assert kinds == ["NoneType", "StoreError", "StoreError", "StoreError", "RunCreated"]
    assert "cannot be stored" in str(outcomes[1])
    with pytest.raises(StoreError):
        await sqlite_store.get_run("default", "run_\ud800")
    await sqlite_store.append(row("run_2", 1))


_DISK_ERROR = """
    import asyncio, resource, sys
    from pathlib import Path
    from store.builders import make_run, row
    from turnwired.domain.errors import StoreUnavailable
    from turnwired.store.sqlite import SqliteStore

    async def main():
        store = SqliteStore(Path(sys.argv[1]))
        await store.start()
        await make_run(store, "run_1", rows=3)
        no_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, no_limit[1]))
        large = row("run_1", 4, body=b"x" * 50_000)
        for _ in range(2):
            try:
                await store.append(large)
            except StoreUnavailable as error:
                print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, no_limit)
        await store.append(large)
        print(len(await store.read_rows("run_1", 0, 1_000_000)))
        await store.aclose()

    asyncio.run(main())
"""


@pytest.mark.requirement("STORE-14")
def test_a_disk_that_refuses_to_write_says_so_and_works_again(tmp_path: Path) -> None:
    code, out, err = children.finish(children.start(_DISK_ERROR, str(tmp_path / "turnwire.db")))
    assert code == 0, err
    first, second, rows = out.splitlines()
    assert "turnwire.db had an input or output error" in first or "cannot grow" in first
    assert "turnwire.db had an input or output error" in second or "cannot grow" in second
    assert rows == "4"
