"""Opening a SQLite store: its lock, its schema, and files that it cannot use."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, pool
from store import children
from store.builders import make_run

from turnwired.domain.errors import ConfigError
from turnwired.store import migrate
from turnwired.store.schema import REVISION, metadata
from turnwired.store.sqlite import SqliteStore, connection

pytestmark = pytest.mark.anyio


@pytest.fixture
def closed_directory(tmp_path: Path) -> Iterator[Path]:
    tmp_path.chmod(0o500)
    yield tmp_path
    tmp_path.chmod(0o700)


def one_line(error: pytest.ExceptionInfo[ConfigError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.requirement("STORE-16")
async def test_a_second_store_on_the_file_is_refused_in_one_line_that_names_the_process(
    tmp_path: Path, sqlite_store: SqliteStore
) -> None:
    second = SqliteStore(tmp_path / "turnwire.db")
    with pytest.raises(ConfigError) as raised:
        await second.start()
    text = one_line(raised)
    assert f"in use by another server (process {os.getpid()})" in text
    assert "another database path" in text
    await second.aclose()
    await sqlite_store.ping()


@pytest.mark.requirement("STORE-16")
async def test_the_lock_goes_with_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    child = children.start(
        """
        import asyncio, sys
        from pathlib import Path
        from turnwired.store.sqlite import SqliteStore

        async def main():
            await SqliteStore(Path(sys.argv[1])).start()
            print("started", flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
        """,
        str(path),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    store = SqliteStore(path)
    with pytest.raises(ConfigError, match=rf"process {child.pid}"):
        await store.start()
    child.send_signal(signal.SIGKILL)
    children.finish(child)
    await store.start()
    await store.ping()
    await store.aclose()


@pytest.mark.requirement("STORE-16")
async def test_closing_lets_another_store_have_the_file(tmp_path: Path) -> None:
    for rows in (1, 2):
        store = SqliteStore(tmp_path / "turnwire.db")
        await store.start()
        await make_run(store, f"run_{rows}", rows=rows)
        await store.aclose()


@pytest.mark.requirement("STORE-17")
def test_three_processes_that_migrate_at_once_all_succeed(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from turnwired.store.migrate import current_revision, migrate
        import alembic.command, alembic.config, sqlalchemy  # so that they meet in the database, not in importing

        print("ready", flush=True)
        sys.stdin.readline()
        migrate(Path(sys.argv[1]))
        print(current_revision(Path(sys.argv[1])))
    """
    path = tmp_path / "turnwire.db"
    running = [children.start(script, str(path)) for _ in range(3)]
    for child in running:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in running:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in running:
        code, out, err = children.finish(child)
        assert (code, out) == (0, f"{REVISION}\n"), err


@pytest.mark.requirement("STORE-17")
def test_the_migrations_make_the_schema_and_end_at_its_revision(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    migrate.migrate(path)
    engine = create_engine(f"sqlite:///{path}", poolclass=pool.NullPool)
    with engine.connect() as opened:
        differences = compare_metadata(MigrationContext.configure(opened), metadata)
    assert differences == []
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    assert scripts.get_heads() == [REVISION]
    indexes = "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    migrated = sqlite3.connect(path)
    declared = create_engine("sqlite://")
    metadata.create_all(declared)
    with declared.connect() as opened:  # alembic does not compare the conditions of indexes
        expected = opened.exec_driver_sql(indexes).fetchall()
    assert migrated.execute(indexes).fetchall() == [tuple(found) for found in expected]
    migrated.close()
    declared.dispose()


@pytest.mark.requirement("STORE-17")
def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "turnwire.db"
    broken = sqlite3.connect(path)
    broken.execute("CREATE TABLE messages (a)")
    broken.close()
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate.migrate(path)
    left = sqlite3.connect(path)
    assert left.execute("SELECT name FROM sqlite_master").fetchall() == [("messages",)]
    left.close()


@pytest.mark.requirement("STORE-17")
async def test_a_database_of_a_later_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    migrate.migrate(path)
    later = sqlite3.connect(path, isolation_level=None)
    later.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError) as raised:
        await SqliteStore(path).start()
    assert "written by another release" in one_line(raised)
    assert later.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
    later.close()


@pytest.mark.requirement("STORE-17")
@pytest.mark.parametrize(
    "content", [b"this is text and no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "turnwire.db"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        await SqliteStore(path).start()
    text = one_line(raised)
    assert str(path) in text
    assert "not a database of turnwire, or is damaged" in text
    assert path.read_bytes() == content


@pytest.mark.requirement("STORE-17")
async def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    places = (tmp_path, tmp_path / "file" / "turnwire.db", Path("/dev/null/turnwire.db"), Path("/proc/turnwire.db"))
    for path in places:
        with pytest.raises(ConfigError) as raised:
            await SqliteStore(path).start()
        assert str(path) in one_line(raised)


@pytest.mark.requirement("STORE-17")
@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
async def test_a_directory_that_cannot_be_written_is_refused(closed_directory: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        await SqliteStore(closed_directory / "turnwire.db").start()
    assert "permission denied" in one_line(raised)


@pytest.mark.requirement("STORE-17")
async def test_a_database_that_another_program_locks_is_refused_after_a_bounded_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    path = tmp_path / "turnwire.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store = SqliteStore(path)
    with pytest.raises(ConfigError, match="locked by another program"):
        await store.start()
    other.close()
    await store.start()
    await store.aclose()


@pytest.mark.requirement("STORE-17")
async def test_the_file_is_for_its_owner_alone_and_its_directory_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "place" / "turnwire.db"
    store = SqliteStore(path)
    await store.start()
    await make_run(store, "run_1", rows=1)
    for name in ("turnwire.db", "turnwire.db-wal", "turnwire.db.lock"):
        assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600
    await store.aclose()


@pytest.mark.requirement("STORE-18")
async def test_the_database_is_durable_at_each_commit(sqlite_store: SqliteStore) -> None:
    writing = sqlite_store._write_connection
    assert writing is not None
    assert writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert writing.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
