"""The threads that read, each with a connection of its own: WAL lets them read beside the writer without waiting.

A read sees every row that was acknowledged before it was asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from turnwired.store.port import LogRow, RunFilter, SpendingScope, StoredMessage, StoredRun
from turnwired.store.rules import decode_page_token, encode_page_token
from turnwired.store.sqlite import sql
from turnwired.store.sqlite.connection import unavailable
from turnwired.store.sqlite.records import stored_run
from turnwired.store.sqlite.worker import Job

Read = Callable[[sqlite3.Connection], object]


class Reader:
    """Performs reads on the connection that it is given and closes."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def perform(self, jobs: Sequence[Job[Read]]) -> None:
        """Run each read."""
        for job in jobs:
            try:
                job.result = job.work(self._connection)
            except sqlite3.Error as error:
                job.error = unavailable(self._path, error)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def spent(tenant: str, scope: SpendingScope, name: str) -> Read:
    """A total of spending, by unit."""

    def read(connection: sqlite3.Connection) -> dict[str, int]:
        return dict(sql.SPENT.run(connection, tenant=tenant, scope=scope.value, name=name).fetchall())

    return read


def read_rows(run_id: str, after_sequence: int, max_bytes: int) -> Read:
    """Rows after a sequence, up to so many bytes of body, one at least."""

    def read(connection: sqlite3.Connection) -> list[LogRow]:
        cursor = sql.ROWS_AFTER_SEQUENCE.run(connection, run_id=run_id, after=after_sequence)
        rows: list[LogRow] = []
        size = 0
        for values in cursor:
            row = LogRow(*values)
            size += len(row.body)
            if rows and size > max_bytes:
                break
            rows.append(row)
        cursor.close()
        return rows

    return read


def first_sequence_after_epoch(run_id: str, epoch: int) -> Read:
    """First sequence of the first row of a later epoch."""

    def read(connection: sqlite3.Connection) -> int | None:
        values = sql.FIRST_ROW_AFTER_EPOCH.run(connection, run_id=run_id, after=epoch).fetchone()
        return None if values is None else LogRow(*values).first_sequence

    return read


def get_run(tenant: str, run_id: str) -> Read:
    """A run of this tenant."""

    def read(connection: sqlite3.Connection) -> StoredRun | None:
        values = sql.GET_RUN.run(connection, run_id=run_id).fetchone()
        run = None if values is None else stored_run(values)
        return run if run is not None and run.tenant == tenant else None

    return read


def list_runs(query: RunFilter, page_size: int, page_token: str) -> Read:
    """A page of runs, newest first, and the token of the next. Raises InvalidRequest at once."""
    parameters = sql.list_parameters(query)
    if page_token:
        parameters["after_time_ns"], parameters["after_run_id"] = decode_page_token(page_token)
    size = max(1, page_size)

    def read(connection: sqlite3.Connection) -> tuple[list[StoredRun], str]:
        statement = sql.list_runs(query, continued=bool(page_token))
        found = statement.run(connection, limit=size + 1, **parameters).fetchall()
        runs = [stored_run(values) for values in found[:size]]
        more = len(found) > size
        return runs, encode_page_token(runs[-1].create_time_ns, runs[-1].run_id) if more else ""

    return read


def session_exists(tenant: str, session_id: str) -> Read:
    """Whether the session is there."""

    def read(connection: sqlite3.Connection) -> bool:
        return sql.SESSION_EXISTS.run(connection, tenant=tenant, session_id=session_id).fetchone() is not None

    return read


def load_messages(tenant: str, session_id: str) -> Read:
    """All messages of the session, oldest first."""

    def read(connection: sqlite3.Connection) -> list[StoredMessage]:
        found = sql.LOAD_MESSAGES.run(connection, tenant=tenant, session_id=session_id).fetchall()
        return [StoredMessage(*values) for values in found]

    return read
