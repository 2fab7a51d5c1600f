"""Brings a database file to the schema of this release, under the database's own write lock.

Any number of processes may do it at once: one migrates, the others find it done. alembic is imported only when there is
something to migrate. It knows nothing of stores.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from turnwired.domain.errors import ConfigError
from turnwired.store.schema import REVISION

if TYPE_CHECKING:
    from sqlalchemy import Connection

LOCK_SECONDS = 30.0
"""How long to wait for another process that migrates, or writes."""

_SCRIPTS = Path(__file__).parent / "migrations"


def migrate(path: Path) -> None:
    """Migrate the database file, which is made when it does not exist.

    Raises ConfigError when its schema is not one that this release knows, and sqlite3.Error as the database gives it.
    """
    if current_revision(path) != REVISION:
        _upgrade(path)


def current_revision(path: Path) -> str | None:
    """The revision of the file's schema; None when it has none yet."""
    connection = sqlite3.connect(path, timeout=LOCK_SECONDS)
    try:
        named = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
        if connection.execute(named).fetchone() is None:
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
    finally:
        connection.close()


def _upgrade(path: Path) -> None:
    from sqlalchemy import create_engine, exc, pool

    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None),
        poolclass=pool.NullPool,
    )
    try:
        with engine.connect() as connection:
            # The driver is in autocommit mode, so this is the transaction, ours from its first statement on. Closing
            # the connection before the COMMIT rolls it back.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            _run_migrations(connection, path)
            connection.exec_driver_sql("COMMIT")
    except exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise
    finally:
        engine.dispose()


def _run_migrations(connection: Connection, path: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigError(
            f"the database {path} was written by another release of turnwire, whose schema this one does not "
            f"know (it works with {REVISION}): use that release, or another database path"
        ) from error
