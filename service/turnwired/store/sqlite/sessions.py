"""Sessions and agents in SQLite: reads for a reader's connection, changes for the writer's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from turnwired.domain.errors import Conflict
from turnwired.store import session_statements, spending_statements
from turnwired.store.port import SessionFilter, StoredAgent, StoredMessage, StoredSession
from turnwired.store.rules import decode_page_token, decode_position, encode_page_token, encode_position, session_busy
from turnwired.store.sqlite import sql
from turnwired.store.sqlite.records import stored_run
from turnwired.store.sqlite.sql import NamedSql, Value

Read = Callable[[sqlite3.Connection], object]

_GET_SESSION = NamedSql(session_statements.GET_SESSION)
_LABELS = NamedSql(session_statements.LABELS_OF_RUN)
_SUMMARIES = NamedSql(session_statements.SUMMARIES)
_LIST_MESSAGES = NamedSql(session_statements.LIST_MESSAGES)
_DELETES = tuple(NamedSql(statement) for statement in (*session_statements.DELETES, spending_statements.FORGET_SESSION))
_PENDING = NamedSql(session_statements.PENDING_DELIVERIES)
_DELIVERED = NamedSql(session_statements.DELIVERED)
_PUT_AGENT = NamedSql(session_statements.PUT_AGENT)
_GET_AGENT = NamedSql(session_statements.GET_AGENT)
_GET_REVISION = NamedSql(session_statements.GET_REVISION)
_NEWEST_AGENTS = NamedSql(session_statements.NEWEST_AGENTS)


@lru_cache(maxsize=64)
def _list_sessions(agent: bool, labels: int, continued: bool) -> NamedSql:
    shape = SessionFilter("", "" if agent else None, {str(number): "" for number in range(labels)})
    return NamedSql(session_statements.list_sessions(shape, continued=continued))


def get_session(tenant: str, session_id: str) -> Read:
    """One session."""

    def read(connection: sqlite3.Connection) -> StoredSession | None:
        row = _GET_SESSION.run(connection, tenant=tenant, session_id=session_id).fetchone()
        return None if row is None else _session(connection, row)

    return read


def list_sessions(query: SessionFilter, page_size: int, page_token: str) -> Read:
    """A page of sessions, newest change first, and the token of the next. Raises InvalidRequest at once."""
    parameters: dict[str, Value] = {"tenant": query.tenant}
    if query.agent_id is not None:
        parameters["agent_id"] = query.agent_id
    for number, (name, wanted) in enumerate(query.labels.items()):
        parameters[f"label_{number}"] = name
        parameters[f"label_value_{number}"] = wanted
    if page_token:
        parameters["after_time_ns"], parameters["after_session_id"] = decode_page_token(page_token, "ListSessions")
    size = max(1, page_size)

    def read(connection: sqlite3.Connection) -> tuple[list[StoredSession], str]:
        statement = _list_sessions(query.agent_id is not None, len(query.labels), bool(page_token))
        found = statement.run(connection, limit=size + 1, **parameters).fetchall()
        page = [_session(connection, row) for row in found[:size]]
        more = len(found) > size
        return page, encode_page_token(page[-1].update_time_ns, page[-1].session_id) if more else ""

    return read


def _session(connection: sqlite3.Connection, row: Sequence[Any]) -> StoredSession:
    tenant, session_id, create_time_ns, update_time_ns, count, first_message, newest_id, first_id = row
    newest = None if newest_id is None else sql.GET_RUN.run(connection, run_id=newest_id).fetchone()
    labels = None if first_id is None else _LABELS.run(connection, run_id=first_id).fetchone()
    summaries = _SUMMARIES.run(connection, tenant=tenant, session_id=session_id).fetchall()
    return StoredSession(
        tenant,
        session_id,
        create_time_ns,
        update_time_ns,
        count,
        first_message or b"",
        None if newest is None else stored_run(newest),
        {} if labels is None else json.loads(labels[0]),
        tuple(summary for (summary,) in summaries),
    )


def list_messages(tenant: str, session_id: str, page_size: int, page_token: str) -> Read:
    """A page of messages, oldest first, and the token of the next. Raises InvalidRequest at once."""
    after = decode_position(page_token) if page_token else 0
    size = max(1, page_size)

    def read(connection: sqlite3.Connection) -> tuple[list[StoredMessage], str]:
        found = _LIST_MESSAGES.run(
            connection, tenant=tenant, session_id=session_id, after=after, limit=size + 1
        ).fetchall()
        page = [StoredMessage(*values[:-1]) for values in found[:size]]
        return page, encode_position(found[size - 1][-1]) if len(found) > size else ""

    return read


def get_agent(tenant: str, agent_id: str, revision: int | None) -> Read:
    """One revision, or the newest."""

    def read(connection: sqlite3.Connection) -> StoredAgent | None:
        statement = _GET_AGENT if revision is None else _GET_REVISION
        named: dict[str, Value] = {} if revision is None else {"revision": revision}
        row = statement.run(connection, tenant=tenant, agent_id=agent_id, **named).fetchone()
        return None if row is None else StoredAgent(*row)

    return read


def newest_agents(connection: sqlite3.Connection) -> list[StoredAgent]:
    """The newest revision of every agent."""
    return [StoredAgent(*row) for row in _NEWEST_AGENTS.run(connection).fetchall()]


def delete(connection: sqlite3.Connection, tenant: str, session_id: str) -> Conflict | None:
    """Delete a session, inside a transaction. Gives the refusal when a run of it is active."""
    active = sql.FIND_ACTIVE.fetch(connection, [(tenant, session_id)])
    for _, _, run_id in active:
        return session_busy(session_id, run_id)
    for statement in _DELETES:
        statement.run(connection, tenant=tenant, session_id=session_id)
    return None


def pending_deliveries(hook: str, limit: int) -> Read:
    """Tenant and id of runs that a hook is still to be told of."""

    def read(connection: sqlite3.Connection) -> list[tuple[str, str]]:
        found = _PENDING.run(connection, hook=hook, limit=limit).fetchall()
        return [(str(tenant), str(run_id)) for tenant, run_id in found]

    return read


def delivered(connection: sqlite3.Connection, hook: str, run_id: str) -> None:
    """A hook was told of a run."""
    _DELIVERED.run(connection, hook=hook, run_id=run_id)


def put_agent(connection: sqlite3.Connection, agent: StoredAgent) -> bool:
    """Store a revision, inside a transaction; False when it is there already."""
    before = connection.total_changes
    _PUT_AGENT.run(connection, tenant=agent.tenant, agent_id=agent.agent_id, revision=agent.revision, body=agent.body)
    return connection.total_changes > before
