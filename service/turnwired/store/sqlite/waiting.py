"""Questions and standing answers in SQLite: reads for a reader's connection, changes for the writer's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from turnwired.domain.approval import ApprovalState
from turnwired.store import waiting_statements
from turnwired.store.port import ApprovalFilter, Changes, StoredApproval, StoredRule
from turnwired.store.rules import decode_approval_token, encode_approval_token
from turnwired.store.sqlite.sql import NamedSql, RowsSql, Value

Read = Callable[[sqlite3.Connection], object]

_CHANGE_STATES = RowsSql(waiting_statements.CHANGE_STATES)
_CHANGE_APPROVALS = RowsSql(waiting_statements.CHANGE_APPROVALS)
_ADD_APPROVALS = RowsSql(waiting_statements.ADD_APPROVALS)
_ADD_RULES = RowsSql(waiting_statements.ADD_RULES)
_GET_APPROVAL = NamedSql(waiting_statements.GET_APPROVAL)
_SESSION_RULES = NamedSql(waiting_statements.SESSION_RULES)
_ANY_RULES = NamedSql(waiting_statements.ANY_RULES)


def apply(connection: sqlite3.Connection, changes: Sequence[tuple[str, Changes]]) -> None:
    """Make what rows of these runs change, inside the transaction of the rows."""
    states = [(run_id, change.state.value, change.waiting) for run_id, change in changes if change.state is not None]
    asked = [_values(approval) for _, change in changes for approval in change.approvals]
    rules = [
        (run_id, rule.permission, rule.pattern, rule.action, rule.create_time_ns)
        for run_id, change in changes
        for rule in change.rules
    ]
    _CHANGE_STATES.run(connection, states)
    _CHANGE_APPROVALS.run(connection, asked)
    _ADD_APPROVALS.run(connection, asked)
    _ADD_RULES.run(connection, rules)


def _values(approval: StoredApproval) -> tuple[Value, ...]:
    return (
        approval.run_id,
        approval.approval_id,
        approval.tenant,
        approval.session_id,
        approval.agent_id,
        approval.state.value,
        approval.create_time_ns,
        approval.body,
    )


def _approval(row: Sequence[Any]) -> StoredApproval:
    run_id, approval_id, tenant, session_id, agent_id, state, create_time_ns, body = row
    return StoredApproval(approval_id, tenant, run_id, agent_id, ApprovalState(state), create_time_ns, body, session_id)


def get_approval(tenant: str, run_id: str, approval_id: str) -> Read:
    """One question of this tenant."""

    def read(connection: sqlite3.Connection) -> StoredApproval | None:
        row = _GET_APPROVAL.run(connection, run_id=run_id, approval_id=approval_id).fetchone()
        found = None if row is None else _approval(row)
        return found if found is not None and found.tenant == tenant else None

    return read


@lru_cache(maxsize=64)
def _list(named: tuple[str, ...], states: tuple[ApprovalState, ...], continued: bool) -> NamedSql:
    shape = ApprovalFilter(
        "",
        run_id="" if "run_id" in named else None,
        session_id="" if "session_id" in named else None,
        agent_id="" if "agent_id" in named else None,
        states=states,
    )
    return NamedSql(waiting_statements.list_approvals(shape, continued=continued))


def list_approvals(query: ApprovalFilter, page_size: int, page_token: str) -> Read:
    """A page of questions, oldest first, and the token of the next. Raises InvalidRequest at once."""
    fields = {"run_id": query.run_id, "session_id": query.session_id, "agent_id": query.agent_id}
    named: dict[str, Value] = {name: value for name, value in fields.items() if value is not None}
    parameters = {"tenant": query.tenant, **named}
    if page_token:
        after = decode_approval_token(page_token)
        parameters["after_time_ns"], parameters["after_run_id"], parameters["after_approval_id"] = after
    size = max(1, page_size)

    def read(connection: sqlite3.Connection) -> tuple[list[StoredApproval], str]:
        statement = _list(tuple(named), tuple(sorted(set(query.states))), bool(page_token))
        found = [_approval(row) for row in statement.run(connection, limit=size + 1, **parameters).fetchall()]
        page = found[:size]
        if len(found) <= size:
            return page, ""
        return page, encode_approval_token(page[-1].create_time_ns, page[-1].run_id, page[-1].approval_id)

    return read


def session_rules(tenant: str, session_id: str) -> Read:
    """The standing answers of a session, oldest first."""

    def read(connection: sqlite3.Connection) -> list[StoredRule]:
        found = _SESSION_RULES.run(connection, tenant=tenant, session_id=session_id).fetchall()
        return [StoredRule(*values) for values in found]

    return read


def any_rules(connection: sqlite3.Connection) -> bool:
    """Whether any session has a standing answer."""
    return _ANY_RULES.run(connection).fetchone() is not None
