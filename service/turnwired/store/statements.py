"""Every statement of the store, written once with SQLAlchemy Core for all databases.

Statements that write take many rows at once: ``Rows`` builds them over ``WITH given(...) AS (VALUES ...)``. A commit of
any number of runs so takes one step of the database per kind of change, and a thread that writes gives up and takes
back the interpreter once per step. It knows no driver and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Select,
    and_,
    bindparam,
    case,
    column,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
    values,
)
from sqlalchemy.types import BigInteger, Integer, LargeBinary, String, TypeEngine

from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import RunState
from turnwired.store.port import RunFilter
from turnwired.store.schema import (
    idempotency_keys,
    log_rows,
    messages,
    pings,
    run_labels,
    runs,
    sessions,
)

# Written out, not bound: the planner uses the partial indexes only for a condition that it can see.
_SETTLED = literal_column("'SETTLED'", String)
_ANSWERED = literal_column("'ANSWERED'", String)
_ONE = literal_column("1", Integer)
_EMPTY = literal_column("''", LargeBinary)

Build = Callable[[CTE], Executable]


@dataclass(frozen=True, slots=True)
class Rows:
    """A statement over a list of given rows. ``build`` makes it from the table of them; the first column of a given
    row is never null, so that rows of nulls can fill up a list and be ignored.
    """

    name: str
    columns: tuple[tuple[str, TypeEngine[Any]], ...]
    build: Build

    def of_size(self, size: int) -> Executable:
        """The statement for ``size`` rows. Its parameters, in order, are the values, row by row."""
        names = [name for name, _ in self.columns]
        rows = [tuple(bindparam(f"{name}_{row}", type_=type_) for name, type_ in self.columns) for row in range(size)]
        table = values(*(column(name, type_) for name, type_ in self.columns), name="given")
        given = table.data(rows).cte("given")
        assert [c.name for c in given.c] == names
        return self.build(given)


def _columns(*pairs: tuple[str, TypeEngine[Any]]) -> tuple[tuple[str, TypeEngine[Any]], ...]:
    return pairs


_TEXT, _INT, _BIG, _BYTES = String(), Integer(), BigInteger(), LargeBinary()

LOG_COLUMNS = ("run_id", "row_no", "epoch", "first_sequence", "last_sequence", "body", "facts")


def _append(given: CTE) -> Executable:
    """Insert the rows that follow their log and come from its owner: compare-and-append, the compare in the database.

    The number of rows inserted says whether all did; which did not, and why, is asked for only then.
    """
    before = log_rows.alias("before")
    owner = exists(_ONE).where(runs.c.run_id == given.c.run_id, runs.c.epoch == given.c.epoch, runs.c.state != _SETTLED)
    follows = exists(_ONE).where(
        before.c.run_id == given.c.run_id,
        before.c.row_no == given.c.row_no - _ONE,
        before.c.last_sequence == given.c.first_sequence - _ONE,
    )
    first = and_(given.c.row_no == _ONE, given.c.first_sequence == _ONE)
    # The key is asked for first, so that a row that is there already is left alone on every database.
    there = exists(_ONE).where(log_rows.c.run_id == given.c.run_id, log_rows.c.row_no == given.c.row_no)
    rows = select(*(given.c[name] for name in LOG_COLUMNS)).where(owner, or_(first, follows), ~there)
    return insert(log_rows).from_select(LOG_COLUMNS, rows, include_defaults=False)


APPEND = Rows(
    "append",
    _columns(
        ("run_id", _TEXT),
        ("row_no", _INT),
        ("epoch", _INT),
        ("first_sequence", _BIG),
        ("last_sequence", _BIG),
        ("body", _BYTES),
        ("facts", _BYTES),
    ),
    _append,
)


def _settle(given: CTE) -> Executable:
    return (
        update(runs)
        .values(
            state=_SETTLED,
            settle_time_ns=given.c.settle_time_ns,
            summary=given.c.summary,
            waiting=_EMPTY,
            outcome_kind=given.c.outcome_kind,
        )
        .where(runs.c.run_id == given.c.run_id)
    )


SETTLE = Rows(
    "settle",
    _columns(("run_id", _TEXT), ("settle_time_ns", _BIG), ("summary", _BYTES), ("outcome_kind", _TEXT)),
    _settle,
)


def _add_messages(given: CTE) -> Executable:
    """Messages go to the end of the session of the run that is given; one of no session keeps none.

    ``nth`` counts from 1 within one run. A session has one active run, so no two runs here share a session.
    """
    last = (
        select(func.coalesce(func.max(messages.c.position), literal_column("0", Integer)))
        .where(messages.c.tenant == runs.c.tenant, messages.c.session_id == runs.c.session_id)
        .scalar_subquery()
    )
    rows = select(
        runs.c.tenant,
        runs.c.session_id,
        last + given.c.nth,
        given.c.message_id,
        given.c.role,
        given.c.body,
        given.c.message_run_id,
        given.c.create_time_ns,
    ).where(runs.c.run_id == given.c.run_id, runs.c.session_id.is_not(None))
    names = ["tenant", "session_id", "position", "message_id", "role", "body", "run_id", "create_time_ns"]
    return insert(messages).from_select(names, rows, include_defaults=False)


ADD_MESSAGES = Rows(
    "add_messages",
    _columns(
        ("run_id", _TEXT),
        ("nth", _INT),
        ("message_id", _TEXT),
        ("role", _TEXT),
        ("body", _BYTES),
        ("message_run_id", _TEXT),
        ("create_time_ns", _BIG),
    ),
    _add_messages,
)


def _find_keys(given: CTE) -> Executable:
    keys = idempotency_keys.c
    return select(keys.tenant, keys.principal, keys.request_id, keys.run_id, keys.digest).where(
        keys.tenant == given.c.tenant,
        keys.principal == given.c.principal,
        keys.request_id == given.c.request_id,
    )


FIND_KEYS = Rows("find_keys", _columns(("tenant", _TEXT), ("principal", _TEXT), ("request_id", _TEXT)), _find_keys)


def _find_active(given: CTE) -> Executable:
    return select(runs.c.tenant, runs.c.session_id, runs.c.run_id).where(
        runs.c.tenant == given.c.tenant,
        runs.c.session_id == given.c.session_id,
        runs.c.session_id.is_not(None),
        runs.c.state != _SETTLED,
    )


FIND_ACTIVE = Rows("find_active", _columns(("tenant", _TEXT), ("session_id", _TEXT)), _find_active)


def _insert_all(table: Any, names: Sequence[str]) -> Build:
    def build(given: CTE) -> Executable:
        rows = select(*(given.c[name] for name in names)).where(given.c[names[0]].is_not(None))
        return insert(table).from_select(list(names), rows, include_defaults=False)

    return build


def _add_sessions(given: CTE) -> Executable:
    there = exists(_ONE).where(sessions.c.tenant == given.c.tenant, sessions.c.session_id == given.c.session_id)
    time_ns = given.c.create_time_ns
    rows = select(given.c.tenant, given.c.session_id, time_ns, time_ns).where(given.c.tenant.is_not(None), ~there)
    names = ["tenant", "session_id", "create_time_ns", "update_time_ns"]
    return insert(sessions).from_select(names, rows, include_defaults=False)


ADD_SESSIONS = Rows(
    "add_sessions",
    _columns(("tenant", _TEXT), ("session_id", _TEXT), ("create_time_ns", _BIG)),
    _add_sessions,
)

RUN_COLUMNS = tuple(c.name for c in runs.columns)
ADD_RUNS = Rows("add_runs", tuple((c.name, c.type) for c in runs.columns), _insert_all(runs, RUN_COLUMNS))
ADD_KEYS = Rows(
    "add_keys",
    tuple((c.name, c.type) for c in idempotency_keys.columns),
    _insert_all(idempotency_keys, [c.name for c in idempotency_keys.columns]),
)
ADD_LABELS = Rows(
    "add_labels",
    tuple((c.name, c.type) for c in run_labels.columns),
    _insert_all(run_labels, [c.name for c in run_labels.columns]),
)

ALL_ROWS = (
    APPEND,
    SETTLE,
    ADD_MESSAGES,
    FIND_KEYS,
    FIND_ACTIVE,
    ADD_SESSIONS,
    ADD_RUNS,
    ADD_KEYS,
    ADD_LABELS,
)


# Reading. Parameters are bound by name.

_run_id = bindparam("run_id", type_=String)
_tenant = bindparam("tenant", type_=String)
_session_id = bindparam("session_id", type_=String)


def _run_select() -> Select[Any]:
    """A run with the end of its log, which is found through the key and so costs no write per append."""
    of_run = log_rows.c.run_id == runs.c.run_id
    last_row_no = select(func.max(log_rows.c.row_no)).where(of_run).scalar_subquery()
    last_sequence = (
        select(log_rows.c.last_sequence).where(of_run).order_by(log_rows.c.row_no.desc()).limit(_ONE).scalar_subquery()
    )
    return select(*runs.columns, last_row_no.label("last_row_no"), last_sequence.label("last_sequence"))


GET_RUN = _run_select().where(runs.c.run_id == _run_id)
UNFINISHED_RUNS = _run_select().where(runs.c.state != _SETTLED).order_by(runs.c.create_time_ns, runs.c.run_id)
RAISE_EPOCHS = update(runs).values(epoch=runs.c.epoch + _ONE).where(runs.c.state != _SETTLED)
RAISE_EPOCH = RAISE_EPOCHS.where(runs.c.run_id == _run_id)

GET_ROW = select(*(log_rows.c[name] for name in LOG_COLUMNS)).where(
    log_rows.c.run_id == _run_id, log_rows.c.row_no == bindparam("row_no", type_=Integer)
)


def _rows_from_first_after(name: str) -> Select[Any]:
    """Rows of a run from the first whose column is greater than ``:after``, by halving.

    Sequences and epochs only grow along a log, so about log2(rows) look-ups by key find the place: 0.05 ms at the end
    of a log of 20,000 rows where reading along it took 4 ms, and no second index slows appending.
    """
    end = (
        select(func.coalesce(func.max(log_rows.c.row_no), literal_column("0", Integer)) + _ONE)
        .where(log_rows.c.run_id == _run_id)
        .scalar_subquery()
    )
    search = select(_ONE.label("low"), end.label("high")).cte("search", recursive=True)
    middle = (search.c.low + search.c.high) // literal_column("2", Integer)
    probe = log_rows.alias("probe")
    beyond = probe.c[name] > bindparam("after", type_=BigInteger)
    step = select(case((beyond, search.c.low), else_=middle + _ONE), case((beyond, middle), else_=search.c.high)).where(
        search.c.low < search.c.high, probe.c.run_id == _run_id, probe.c.row_no == middle
    )
    search = search.union_all(step)
    found = select(func.max(search.c.low)).scalar_subquery()
    return (
        select(*(log_rows.c[column_name] for column_name in LOG_COLUMNS))
        .where(log_rows.c.run_id == _run_id, log_rows.c.row_no >= found)
        .order_by(log_rows.c.row_no)
    )


ROWS_AFTER_SEQUENCE = _rows_from_first_after("last_sequence")
FIRST_ROW_AFTER_EPOCH = _rows_from_first_after("epoch").limit(_ONE)

SESSION_EXISTS = select(_ONE).where(sessions.c.tenant == _tenant, sessions.c.session_id == _session_id)
LOAD_MESSAGES = (
    select(
        messages.c.message_id,
        messages.c.role,
        messages.c.body,
        messages.c.run_id,
        messages.c.create_time_ns,
    )
    .where(messages.c.tenant == _tenant, messages.c.session_id == _session_id)
    .order_by(messages.c.position)
)

DELETE_PING = pings.delete()
WRITE_PING = insert(pings).values(
    id=_ONE, time_ns=bindparam("time_ns", type_=BigInteger), filler=bindparam("filler", type_=LargeBinary)
)


def list_runs(query: RunFilter, *, continued: bool) -> Select[Any]:
    """Newest first. Parameters: ``tenant``, ``limit``, each id that the query sets, ``state_N`` for its states,
    ``outcome_N`` for its outcomes, ``label_N`` and ``label_value_N`` for its labels, in order, and ``after_time_ns``,
    ``after_run_id`` if continued.
    """
    wanted: list[ColumnElement[bool]] = [runs.c.tenant == _tenant]
    if query.session_id is not None:
        wanted += [runs.c.session_id == _session_id, runs.c.session_id.is_not(None)]
    if query.agent_id is not None:
        wanted.append(runs.c.agent_id == bindparam("agent_id", type_=String))
    if query.parent_run_id is not None:
        wanted.append(runs.c.parent_run_id == bindparam("parent_run_id", type_=String))
    if query.states:
        states = (bindparam(f"state_{number}", type_=String) for number in range(len(query.states)))
        wanted.append(or_(*(runs.c.state == state for state in states)))
        if RunState.SETTLED not in query.states:
            wanted.append(runs.c.state != _SETTLED)
    if query.outcomes:
        outcomes = (bindparam(f"outcome_{number}", type_=String) for number in range(len(query.outcomes)))
        wanted.append(or_(*(runs.c.outcome_kind == outcome for outcome in outcomes)))
        if OutcomeKind.ANSWERED not in query.outcomes:
            wanted.append(runs.c.outcome_kind != _ANSWERED)
    for number in range(len(query.labels)):
        wanted.append(
            exists(_ONE).where(
                run_labels.c.run_id == runs.c.run_id,
                run_labels.c.name == bindparam(f"label_{number}", type_=String),
                run_labels.c.value == bindparam(f"label_value_{number}", type_=String),
            )
        )
    if continued:
        after = tuple_(bindparam("after_time_ns", type_=BigInteger), bindparam("after_run_id", type_=String))
        wanted.append(tuple_(runs.c.create_time_ns, runs.c.run_id) < after)
    return (
        _run_select()
        .where(*wanted)
        .order_by(runs.c.create_time_ns.desc(), runs.c.run_id.desc())
        .limit(bindparam("limit", type_=Integer))
    )
