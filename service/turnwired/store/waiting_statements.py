"""The statements of runs that wait, of their questions and of standing answers. Knows no driver and runs nothing."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Select,
    and_,
    bindparam,
    exists,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.types import BigInteger, Integer, LargeBinary, String

from turnwired.domain.approval import ApprovalState
from turnwired.store.port import ApprovalFilter
from turnwired.store.schema import approvals, runs, session_rules
from turnwired.store.statements import Rows

_ONE = literal_column("1", Integer)
_tenant = bindparam("tenant", type_=String)
_session_id = bindparam("session_id", type_=String)
_run_id = bindparam("run_id", type_=String)

APPROVAL_COLUMNS = tuple(c.name for c in approvals.columns)


def _change_states(given: CTE) -> Executable:
    return update(runs).values(state=given.c.state, waiting=given.c.waiting).where(runs.c.run_id == given.c.run_id)


CHANGE_STATES = Rows(
    "change_states", (("run_id", String()), ("state", String()), ("waiting", LargeBinary())), _change_states
)
_APPROVALS = tuple((c.name, c.type) for c in approvals.columns)


def _same(given: CTE) -> ColumnElement[bool]:
    return and_(approvals.c.run_id == given.c.run_id, approvals.c.approval_id == given.c.approval_id)


def _change_approvals(given: CTE) -> Executable:
    return update(approvals).values(state=given.c.state, body=given.c.body).where(_same(given))


def _add_approvals(given: CTE) -> Executable:
    rows = select(*(given.c[name] for name in APPROVAL_COLUMNS)).where(
        given.c.run_id.is_not(None), ~exists(_ONE).where(_same(given))
    )
    return insert(approvals).from_select(list(APPROVAL_COLUMNS), rows, include_defaults=False)


CHANGE_APPROVALS = Rows("change_approvals", _APPROVALS, _change_approvals)
ADD_APPROVALS = Rows("add_approvals", _APPROVALS, _add_approvals)
"""After ``CHANGE_APPROVALS`` with the same rows: together they put what is given in the place of what is there."""

_RULE_COLUMNS = ("permission", "pattern", "action", "create_time_ns")


def _add_rules(given: CTE) -> Executable:
    there = exists(_ONE).where(
        session_rules.c.tenant == runs.c.tenant,
        session_rules.c.session_id == runs.c.session_id,
        session_rules.c.permission == given.c.permission,
        session_rules.c.pattern == given.c.pattern,
        session_rules.c.action == given.c.action,
    )
    rows = select(runs.c.tenant, runs.c.session_id, *(given.c[name] for name in _RULE_COLUMNS)).where(
        runs.c.run_id == given.c.run_id, runs.c.session_id.is_not(None), ~there
    )
    return insert(session_rules).from_select(["tenant", "session_id", *_RULE_COLUMNS], rows, include_defaults=False)


ADD_RULES = Rows(
    "add_rules",
    (
        ("run_id", String()),
        ("permission", String()),
        ("pattern", String()),
        ("action", String()),
        ("create_time_ns", BigInteger()),
    ),
    _add_rules,
)

GET_APPROVAL = select(*approvals.columns).where(
    approvals.c.run_id == _run_id, approvals.c.approval_id == bindparam("approval_id", type_=String)
)
SESSION_RULES = (
    select(*(session_rules.c[name] for name in _RULE_COLUMNS))
    .where(session_rules.c.tenant == _tenant, session_rules.c.session_id == _session_id)
    .order_by(
        session_rules.c.create_time_ns, session_rules.c.permission, session_rules.c.pattern, session_rules.c.action
    )
)
ANY_RULES = select(_ONE).select_from(session_rules).limit(_ONE)
# Written out, not bound: the planner uses the partial index only for a condition that it can see.
_STATES = {state: approvals.c.state == literal_column(f"'{state.value}'", String) for state in ApprovalState}


def list_approvals(query: ApprovalFilter, *, continued: bool) -> Select[Any]:
    """Oldest first. Parameters: ``tenant``, ``limit``, each id that the query sets, and ``after_time_ns``,
    ``after_run_id``, ``after_approval_id`` if continued.
    """
    wanted: list[ColumnElement[bool]] = [approvals.c.tenant == _tenant]
    if query.run_id is not None:
        wanted.append(approvals.c.run_id == _run_id)
    if query.session_id is not None:
        wanted += [approvals.c.session_id == _session_id, approvals.c.session_id.is_not(None)]
    if query.agent_id is not None:
        wanted.append(approvals.c.agent_id == bindparam("agent_id", type_=String))
    if query.states:
        wanted.append(or_(*(_STATES[state] for state in query.states)))
    place = (approvals.c.create_time_ns, approvals.c.run_id, approvals.c.approval_id)
    if continued:
        after = tuple_(
            bindparam("after_time_ns", type_=BigInteger),
            bindparam("after_run_id", type_=String),
            bindparam("after_approval_id", type_=String),
        )
        wanted.append(tuple_(*place) > after)
    return select(*approvals.columns).where(*wanted).order_by(*place).limit(bindparam("limit", type_=Integer))


ALL_ROWS = (CHANGE_STATES, CHANGE_APPROVALS, ADD_APPROVALS, ADD_RULES)
BY_KEY = (GET_APPROVAL, SESSION_RULES)
