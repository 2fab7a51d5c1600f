"""The statements of sessions and agents, beside those of runs and logs. Knows no driver and runs nothing."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.types import BigInteger, Integer, LargeBinary, String

from turnwired.store.port import SessionFilter
from turnwired.store.schema import (
    agents,
    approvals,
    hook_deliveries,
    idempotency_keys,
    log_rows,
    messages,
    run_labels,
    runs,
    session_rules,
    sessions,
)
from turnwired.store.statements import Rows

_ONE = literal_column("1", Integer)
_tenant = bindparam("tenant", type_=String)
_session_id = bindparam("session_id", type_=String)
_agent_id = bindparam("agent_id", type_=String)
_limit = bindparam("limit", type_=Integer)


def _touch(given: CTE) -> Executable:
    return (
        update(sessions)
        .values(update_time_ns=given.c.time_ns)
        .where(sessions.c.tenant == given.c.tenant, sessions.c.session_id == given.c.session_id)
    )


TOUCH = Rows("touch", (("tenant", String()), ("session_id", String()), ("time_ns", BigInteger())), _touch)


def _touch_settled(given: CTE) -> Executable:
    return (
        update(sessions)
        .values(update_time_ns=given.c.time_ns)
        .where(
            runs.c.run_id == given.c.run_id,
            sessions.c.tenant == runs.c.tenant,
            sessions.c.session_id == runs.c.session_id,
        )
    )


TOUCH_SETTLED = Rows("touch_settled", (("run_id", String()), ("time_ns", BigInteger())), _touch_settled)

# Through the index of a session's runs, which is ordered by time.
_of_session = and_(
    runs.c.tenant == sessions.c.tenant,
    runs.c.session_id == sessions.c.session_id,
    runs.c.session_id.is_not(None),
)
# Said, not guessed: within the search for a label the session is two levels up.
_first_run = (
    select(runs.c.run_id)
    .where(_of_session)
    .order_by(runs.c.create_time_ns, runs.c.run_id)
    .limit(_ONE)
    .correlate(sessions)
)
_newest_run = (
    select(runs.c.run_id)
    .where(_of_session)
    .order_by(runs.c.create_time_ns.desc(), runs.c.run_id.desc())
    .limit(_ONE)
    .correlate(sessions)
)
_newest_agent = _newest_run.with_only_columns(runs.c.agent_id)
_in_session = and_(messages.c.tenant == sessions.c.tenant, messages.c.session_id == sessions.c.session_id)


def _session_select() -> Select[Any]:
    count = select(func.count()).where(_in_session).scalar_subquery()
    first = select(messages.c.body).where(_in_session).order_by(messages.c.position).limit(_ONE).scalar_subquery()
    wanted: list[ColumnElement[Any]] = [
        sessions.c.tenant,
        sessions.c.session_id,
        sessions.c.create_time_ns,
        sessions.c.update_time_ns,
        count.label("message_count"),
        first.label("first_message"),
        _newest_run.scalar_subquery().label("newest_run_id"),
        _first_run.scalar_subquery().label("first_run_id"),
    ]
    return select(*wanted)


GET_SESSION = _session_select().where(sessions.c.tenant == _tenant, sessions.c.session_id == _session_id)
LABELS_OF_RUN = select(runs.c.labels).where(runs.c.run_id == bindparam("run_id", type_=String))
_runs_of_session = and_(runs.c.tenant == _tenant, runs.c.session_id == _session_id, runs.c.session_id.is_not(None))
SUMMARIES = (
    select(runs.c.summary)
    .where(_runs_of_session, runs.c.state == literal_column("'SETTLED'", String))
    .order_by(runs.c.create_time_ns, runs.c.run_id)
)


def list_sessions(query: SessionFilter, *, continued: bool) -> Select[Any]:
    """Newest change first. Parameters: ``tenant``, ``limit``, ``agent_id`` and ``label_N``, ``label_value_N`` where the
    query has them, and ``after_time_ns``, ``after_session_id`` if continued.
    """
    wanted: list[ColumnElement[bool]] = [sessions.c.tenant == _tenant]
    if query.agent_id is not None:
        wanted.append(_newest_agent.scalar_subquery() == _agent_id)
    wanted += [
        exists(_ONE).where(
            run_labels.c.run_id == _first_run.scalar_subquery(),
            run_labels.c.name == bindparam(f"label_{number}", type_=String),
            run_labels.c.value == bindparam(f"label_value_{number}", type_=String),
        )
        for number in range(len(query.labels))
    ]
    if continued:
        after = tuple_(bindparam("after_time_ns", type_=BigInteger), bindparam("after_session_id", type_=String))
        wanted.append(tuple_(sessions.c.update_time_ns, sessions.c.session_id) < after)
    return (
        _session_select()
        .where(*wanted)
        .order_by(sessions.c.update_time_ns.desc(), sessions.c.session_id.desc())
        .limit(_limit)
    )


LIST_MESSAGES = (
    select(
        messages.c.message_id,
        messages.c.role,
        messages.c.body,
        messages.c.run_id,
        messages.c.create_time_ns,
        messages.c.position,
    )
    .where(
        messages.c.tenant == _tenant,
        messages.c.session_id == _session_id,
        messages.c.position > bindparam("after", type_=Integer),
    )
    .order_by(messages.c.position)
    .limit(_limit)
)

_its_runs = select(runs.c.run_id).where(_runs_of_session)
DELETES = (
    delete(hook_deliveries).where(hook_deliveries.c.run_id.in_(_its_runs)),
    delete(approvals).where(approvals.c.run_id.in_(_its_runs)),
    delete(session_rules).where(session_rules.c.tenant == _tenant, session_rules.c.session_id == _session_id),
    delete(log_rows).where(log_rows.c.run_id.in_(_its_runs)),
    delete(run_labels).where(run_labels.c.run_id.in_(_its_runs)),
    delete(idempotency_keys).where(idempotency_keys.c.tenant == _tenant, idempotency_keys.c.run_id.in_(_its_runs)),
    delete(messages).where(messages.c.tenant == _tenant, messages.c.session_id == _session_id),
    delete(runs).where(_runs_of_session),
    delete(sessions).where(sessions.c.tenant == _tenant, sessions.c.session_id == _session_id),
)
"""What is left of a session goes in this order, in one transaction: the runs last but for the session itself."""

_hook = bindparam("hook", type_=String)


def _add_deliveries(given: CTE) -> Executable:
    rows = select(given.c.hook, given.c.run_id, given.c.time_ns).where(given.c.hook.is_not(None))
    names = ["hook", "run_id", "settle_time_ns"]
    return insert(hook_deliveries).from_select(names, rows, include_defaults=False)


ADD_DELIVERIES = Rows(
    "add_deliveries", (("hook", String()), ("run_id", String()), ("time_ns", BigInteger())), _add_deliveries
)
PENDING_DELIVERIES = (
    select(runs.c.tenant, runs.c.run_id)
    .where(hook_deliveries.c.hook == _hook, runs.c.run_id == hook_deliveries.c.run_id)
    .order_by(hook_deliveries.c.settle_time_ns, hook_deliveries.c.run_id)
    .limit(_limit)
)
DELIVERED = delete(hook_deliveries).where(
    hook_deliveries.c.hook == _hook, hook_deliveries.c.run_id == bindparam("run_id", type_=String)
)

_revision = bindparam("revision", type_=Integer)
_there = exists(_ONE).where(agents.c.tenant == _tenant, agents.c.agent_id == _agent_id, agents.c.revision == _revision)
PUT_AGENT = insert(agents).from_select(
    ["tenant", "agent_id", "revision", "body"],
    select(_tenant, _agent_id, _revision, bindparam("body", type_=LargeBinary)).where(~_there),
    include_defaults=False,
)
GET_AGENT = (
    select(agents.c.tenant, agents.c.agent_id, agents.c.revision, agents.c.body)
    .where(agents.c.tenant == _tenant, agents.c.agent_id == _agent_id)
    .order_by(agents.c.revision.desc())
    .limit(_ONE)
)
GET_REVISION = GET_AGENT.where(agents.c.revision == _revision)
_later = agents.alias("later")
NEWEST_AGENTS = (
    select(agents.c.tenant, agents.c.agent_id, agents.c.revision, agents.c.body)
    .where(
        ~exists(_ONE).where(
            _later.c.tenant == agents.c.tenant,
            _later.c.agent_id == agents.c.agent_id,
            _later.c.revision > agents.c.revision,
        )
    )
    .order_by(agents.c.tenant, agents.c.agent_id)
)

ALL_ROWS = (TOUCH, TOUCH_SETTLED, ADD_DELIVERIES)
BY_KEY = (GET_SESSION, LABELS_OF_RUN, SUMMARIES, LIST_MESSAGES, PUT_AGENT, GET_AGENT, GET_REVISION, DELIVERED, *DELETES)
"""What must find its rows by key or index. Deleting a session's idempotency keys looks through those of the tenant."""
