"""The store's statements as SQL text for the driver, compiled once each.

Core writes the statements and the driver runs them: through Core a look-up by key took 35 to 50 us of CPU instead of
8 to 13, and a statement over VALUES, which its cache cannot hold, 1.4 ms instead of 29 us.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import RunState
from turnwired.store import session_statements, spending_statements, statements
from turnwired.store.port import RunFilter
from turnwired.store.statements import Rows

Value = str | int | bytes | None

MAX_ROWS = 256
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, MAX_ROWS)
"""Numbers of rows that have a prepared text; a list in between is filled up with nulls, which statements ignore."""


class RowsSql:
    """The texts of one statement over rows, and how to run it."""

    def __init__(self, rows: Rows) -> None:
        compiled = _compile(rows.of_size(1), "qmark")
        width = len(rows.columns)
        assert compiled.positiontup == [f"{name}_0" for name, _ in rows.columns]
        group = f"({', '.join('?' * width)})"
        text = compiled.string
        assert text.count(group) == 1
        self._nulls: tuple[Value, ...] = (None,) * width
        self._texts = {size: text.replace(group, ", ".join([group] * size)) for size in _SIZES}

    def run(self, connection: sqlite3.Connection, rows: Sequence[Sequence[Value]]) -> None:
        """Run it over all rows, in one step per MAX_ROWS."""
        for start in range(0, len(rows), MAX_ROWS):
            connection.execute(*self._part(rows[start : start + MAX_ROWS]))

    def fetch(self, connection: sqlite3.Connection, rows: Sequence[Sequence[Value]]) -> Iterable[tuple[Any, ...]]:
        """Like run, with what it selects."""
        for start in range(0, len(rows), MAX_ROWS):
            yield from connection.execute(*self._part(rows[start : start + MAX_ROWS])).fetchall()

    def _part(self, rows: Sequence[Sequence[Value]]) -> tuple[str, list[Value]]:
        count = len(rows)
        size = next(size for size in _SIZES if size >= count)
        parameters = list(chain.from_iterable(rows))
        if size > count:
            parameters.extend(self._nulls * (size - count))
        return self._texts[size], parameters


class NamedSql:
    """The text of one statement with named parameters, and the values of those that the statement itself sets."""

    def __init__(self, statement: Executable) -> None:
        compiled = _compile(statement, "named")
        self.text = compiled.string
        self._own = {name: value for name, value in compiled.params.items() if value is not None}

    def run(self, connection: sqlite3.Connection, **parameters: Value) -> sqlite3.Cursor:
        """Execute with these values."""
        return connection.execute(self.text, self._own | parameters)


def _compile(statement: Executable, paramstyle: str) -> SQLCompiler:
    assert isinstance(statement, ClauseElement)
    compiled = statement.compile(dialect=sqlite.dialect(paramstyle=paramstyle))
    assert isinstance(compiled, SQLCompiler)
    return compiled


APPEND = RowsSql(statements.APPEND)
SETTLE = RowsSql(statements.SETTLE)
ADD_MESSAGES = RowsSql(statements.ADD_MESSAGES)
FIND_KEYS = RowsSql(statements.FIND_KEYS)
FIND_ACTIVE = RowsSql(statements.FIND_ACTIVE)
ADD_SESSIONS = RowsSql(statements.ADD_SESSIONS)
ADD_RUNS = RowsSql(statements.ADD_RUNS)
ADD_KEYS = RowsSql(statements.ADD_KEYS)
ADD_LABELS = RowsSql(statements.ADD_LABELS)

TOUCH = RowsSql(session_statements.TOUCH)
TOUCH_SETTLED = RowsSql(session_statements.TOUCH_SETTLED)
ADD_DELIVERIES = RowsSql(session_statements.ADD_DELIVERIES)
ADD_TOTALS = RowsSql(spending_statements.ADD_TOTALS)
RAISE_TOTALS = RowsSql(spending_statements.RAISE_TOTALS)

GET_RUN = NamedSql(statements.GET_RUN)
GET_ROW = NamedSql(statements.GET_ROW)
UNFINISHED_RUNS = NamedSql(statements.UNFINISHED_RUNS)
RAISE_EPOCHS = NamedSql(statements.RAISE_EPOCHS)
RAISE_EPOCH = NamedSql(statements.RAISE_EPOCH)
ROWS_AFTER_SEQUENCE = NamedSql(statements.ROWS_AFTER_SEQUENCE)
FIRST_ROW_AFTER_EPOCH = NamedSql(statements.FIRST_ROW_AFTER_EPOCH)
SESSION_EXISTS = NamedSql(statements.SESSION_EXISTS)
LOAD_MESSAGES = NamedSql(statements.LOAD_MESSAGES)
DELETE_PING = NamedSql(statements.DELETE_PING)
WRITE_PING = NamedSql(statements.WRITE_PING)
SPENT = NamedSql(spending_statements.SPENT)


def list_runs(query: RunFilter, *, continued: bool) -> NamedSql:
    """The statement for a query of this shape: the same for all values of the same fields."""
    named = tuple(name for name in ("session_id", "agent_id", "parent_run_id") if getattr(query, name) is not None)
    return _list_runs(named, query.states, query.outcomes, len(query.labels), continued)


@lru_cache(maxsize=64)
def _list_runs(
    named: tuple[str, ...],
    states: tuple[RunState, ...],
    outcomes: tuple[OutcomeKind, ...],
    labels: int,
    continued: bool,
) -> NamedSql:
    shape = RunFilter(
        tenant="",
        session_id="" if "session_id" in named else None,
        agent_id="" if "agent_id" in named else None,
        parent_run_id="" if "parent_run_id" in named else None,
        states=states,
        outcomes=outcomes,
        labels={str(number): "" for number in range(labels)},
    )
    return NamedSql(statements.list_runs(shape, continued=continued))


def list_parameters(query: RunFilter) -> dict[str, Value]:
    """Values of the fields that the query sets, and of its labels."""
    fields: dict[str, Value] = {
        "tenant": query.tenant,
        "session_id": query.session_id,
        "agent_id": query.agent_id,
        "parent_run_id": query.parent_run_id,
    }
    values: dict[str, Value] = {name: value for name, value in fields.items() if value is not None}
    for number, state in enumerate(query.states):
        values[f"state_{number}"] = state.value
    for number, outcome in enumerate(query.outcomes):
        values[f"outcome_{number}"] = outcome.value
    for number, (name, wanted) in enumerate(query.labels.items()):
        values[f"label_{number}"] = name
        values[f"label_value_{number}"] = wanted
    return values
