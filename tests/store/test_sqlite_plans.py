"""How SQLite finds what a statement asks for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwired.domain.approval import ApprovalState
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import RunState
from turnwired.store import session_statements, spending_statements, statements, waiting_statements
from turnwired.store.migrate import migrate
from turnwired.store.port import ApprovalFilter, RunFilter
from turnwired.store.sqlite import sql
from turnwired.store.sqlite.sql import NamedSql, RowsSql

TABLES = ["runs", "log_rows", "before", "probe", "messages", "sessions", "idempotency_keys", "run_labels", "spending"]
TABLES += ["approvals", "session_rules"]

_FAMILIES = (session_statements, spending_statements, waiting_statements)
ROWS = [*statements.ALL_ROWS, *(rows for family in _FAMILIES for rows in family.ALL_ROWS)]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    migrate(tmp_path / "turnwire.db")
    opened = sqlite3.connect(tmp_path / "turnwire.db")
    yield opened
    opened.close()


def _scans(database: sqlite3.Connection, text: str, parameters: object) -> list[str]:
    plan = [str(step[3]) for step in database.execute("EXPLAIN QUERY PLAN " + text, parameters)]  # type: ignore[arg-type]
    bad = [step for step in plan if "AUTOMATIC" in step]
    return bad + [step for step in plan if step.startswith("SCAN") and step.split()[1] in TABLES]


@pytest.mark.requirement("STORE-19")
@pytest.mark.parametrize(
    "rows",
    ROWS,
    ids=lambda rows: rows.name,
)
@pytest.mark.parametrize("count", [1, 5, 256])
def test_statements_over_rows_look_up_each_by_key(
    database: sqlite3.Connection, rows: statements.Rows, count: int
) -> None:
    text, parameters = RowsSql(rows)._part([(None,) * len(rows.columns)] * count)
    assert _scans(database, text, parameters) == []


@pytest.mark.requirement("STORE-19")
@pytest.mark.parametrize(
    "statement",
    [
        sql.GET_RUN,
        sql.GET_ROW,
        sql.RAISE_EPOCH,
        sql.ROWS_AFTER_SEQUENCE,
        sql.FIRST_ROW_AFTER_EPOCH,
        sql.SESSION_EXISTS,
        sql.LOAD_MESSAGES,
        *(NamedSql(statement) for family in _FAMILIES for statement in family.BY_KEY),
    ],
)
def test_reads_look_up_by_key(database: sqlite3.Connection, statement: NamedSql) -> None:
    names = {name.strip(":,()") for name in statement.text.split() if name.strip("(").startswith(":")}
    parameters = dict.fromkeys(names, 0) | statement._own
    assert _scans(database, statement.text, parameters) == []


@pytest.mark.requirement("STORE-19")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        (RunFilter("t"), "runs_by_time"),
        (RunFilter("t", session_id="s"), "runs_by_session"),
        (RunFilter("t", states=(RunState.RUNNING, RunState.WAITING)), "runs_active"),
        (RunFilter("t", labels={"a": "b"}), "runs_by_time"),
        (RunFilter("t", outcomes=(OutcomeKind.ERRORED, OutcomeKind.ABORTED)), "runs_not_answered"),
        (RunFilter("t", outcomes=(OutcomeKind.ANSWERED,)), "runs_by_time"),
    ],
)
def test_lists_read_an_index_in_order_and_sort_nothing(
    database: sqlite3.Connection, query: RunFilter, index: str
) -> None:
    statement = sql.list_runs(query, continued=True)
    parameters = sql.list_parameters(query) | {"after_time_ns": 1, "after_run_id": "r", "limit": 10}
    plan = database.execute("EXPLAIN QUERY PLAN " + statement.text, statement._own | parameters).fetchall()
    steps = [str(step[3]) for step in plan]
    assert any(f"runs USING INDEX {index} " in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


@pytest.mark.requirement("STORE-19", "APPROVE-3")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        (ApprovalFilter("t", states=(ApprovalState.PENDING,)), "approvals_pending"),
        (ApprovalFilter("t"), "approvals_by_time"),
        (ApprovalFilter("t", session_id="s", states=(ApprovalState.RESOLVED,)), "approvals_by_session"),
    ],
)
def test_lists_of_questions_read_an_index_in_order_and_sort_nothing(
    database: sqlite3.Connection, query: ApprovalFilter, index: str
) -> None:
    statement = NamedSql(waiting_statements.list_approvals(query, continued=True))
    named = {"tenant": "t", "session_id": "s", "after_time_ns": 1, "after_run_id": "r", "after_approval_id": "a"}
    plan = database.execute("EXPLAIN QUERY PLAN " + statement.text, statement._own | named | {"limit": 10}).fetchall()
    steps = [str(step[3]) for step in plan]
    assert any(f"approvals USING INDEX {index} " in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


@pytest.mark.requirement("STORE-19")
def test_reading_the_end_of_a_long_log_takes_a_few_steps(database: sqlite3.Connection) -> None:
    database.executemany(
        "INSERT INTO log_rows VALUES ('r', ?, 1, ?, ?, x'00', x'')", [(n, n, n) for n in range(1, 20_001)]
    )
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    database.set_progress_handler(count, 100)
    found = sql.ROWS_AFTER_SEQUENCE.run(database, run_id="r", after=19_990).fetchall()
    assert [row[1] for row in found] == list(range(19_991, 20_001))
    assert steps < 50  # of 100 instructions; along the log it is over 1,000
