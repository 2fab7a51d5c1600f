"""The tables of the store, for every SQL database, and the revision of the schema that this release works with.

Types are the portable ones: text, integers, bytes. Times are nanoseconds since the epoch. Keys carry the tenant from
the first revision on; a run's id is unique over all tenants. There are no foreign keys: the statements that write
check what they need, in the same statement. It knows no driver.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

REVISION = "0006"
"""Newest alembic revision. A test checks it against the migrations."""

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("tenant", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("create_time_ns", BigInteger, nullable=False),
    Column("settle_time_ns", BigInteger, nullable=False),
    Column("session_id", String),
    Column("parent_run_id", String),
    Column("labels", Text, nullable=False),  # a JSON object, to read; run_labels is there to search
    Column("spec", LargeBinary, nullable=False),
    Column("summary", LargeBinary, nullable=False),
    Column("waiting", LargeBinary, nullable=False, server_default=""),
    Column("outcome_kind", String),
    Column("principal", String, nullable=False, server_default="anonymous"),
    Column("roles", Text, nullable=False, server_default="[]"),  # a JSON array
)

_ACTIVE = "state <> 'SETTLED'"
_ACTIVE_IN_SESSION = f"session_id IS NOT NULL AND {_ACTIVE}"
_NOT_ANSWERED = "outcome_kind <> 'ANSWERED'"
_IN_SESSION = "session_id IS NOT NULL"

# One active run per session: the database itself refuses a second one.
Index(
    "runs_one_active_per_session",
    runs.c.tenant,
    runs.c.session_id,
    unique=True,
    sqlite_where=text(_ACTIVE_IN_SESSION),
    postgresql_where=text(_ACTIVE_IN_SESSION),
)
Index("runs_by_time", runs.c.tenant, runs.c.create_time_ns, runs.c.run_id)
Index(
    "runs_by_session",
    runs.c.tenant,
    runs.c.session_id,
    runs.c.create_time_ns,
    runs.c.run_id,
    sqlite_where=text(_IN_SESSION),
    postgresql_where=text(_IN_SESSION),
)
Index(
    "runs_active",
    runs.c.tenant,
    runs.c.create_time_ns,
    runs.c.run_id,
    sqlite_where=text(_ACTIVE),
    postgresql_where=text(_ACTIVE),
)

# What an operator looks for: most runs are answered, and a list of those is one of nearly all.
Index(
    "runs_not_answered",
    runs.c.tenant,
    runs.c.create_time_ns,
    runs.c.run_id,
    sqlite_where=text(_NOT_ANSWERED),
    postgresql_where=text(_NOT_ANSWERED),
)

run_labels = Table(
    "run_labels",
    metadata,
    Column("run_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("value", String, nullable=False),
    PrimaryKeyConstraint("run_id", "name", name="run_labels_pkey"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("tenant", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("create_time_ns", BigInteger, nullable=False),
    Column("update_time_ns", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "session_id", name="sessions_pkey"),
)
Index("sessions_by_change", sessions.c.tenant, sessions.c.update_time_ns, sessions.c.session_id)

# Ends of runs that a hook has not taken yet.
hook_deliveries = Table(
    "hook_deliveries",
    metadata,
    Column("hook", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("settle_time_ns", BigInteger, nullable=False),
    PrimaryKeyConstraint("hook", "run_id", name="hook_deliveries_pkey"),
)

# What settled runs have spent, by session and by a tenant's UTC day; a row for tokens and one for each currency.
spending = Table(
    "spending",
    metadata,
    Column("tenant", String, nullable=False),
    Column("scope", String, nullable=False),
    Column("name", String, nullable=False),
    Column("unit", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "scope", "name", "unit", name="spending_pkey"),
)

# One row for each revision of an agent; none is ever changed.
agents = Table(
    "agents",
    metadata,
    Column("tenant", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "agent_id", "revision", name="agents_pkey"),
)

# Questions to people. Ids are unique in their run only.
approvals = Table(
    "approvals",
    metadata,
    Column("run_id", String, nullable=False),
    Column("approval_id", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("session_id", String),
    Column("agent_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("create_time_ns", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "approval_id", name="approvals_pkey"),
)
_PENDING = "state = 'PENDING'"
# Nearly all questions that are asked for are open ones, and of those there are few.
Index(
    "approvals_pending",
    approvals.c.tenant,
    approvals.c.create_time_ns,
    approvals.c.run_id,
    approvals.c.approval_id,
    sqlite_where=text(_PENDING),
    postgresql_where=text(_PENDING),
)
Index(
    "approvals_by_time",
    approvals.c.tenant,
    approvals.c.create_time_ns,
    approvals.c.run_id,
    approvals.c.approval_id,
)

Index(
    "approvals_by_session",
    approvals.c.tenant,
    approvals.c.session_id,
    approvals.c.create_time_ns,
    approvals.c.run_id,
    approvals.c.approval_id,
    sqlite_where=text(_IN_SESSION),
    postgresql_where=text(_IN_SESSION),
)

# Standing answers of sessions.
session_rules = Table(
    "session_rules",
    metadata,
    Column("tenant", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("permission", String, nullable=False),
    Column("pattern", String, nullable=False),
    Column("action", String, nullable=False),
    Column("create_time_ns", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "session_id", "permission", "pattern", "action", name="session_rules_pkey"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", String, nullable=False),
    Column("principal", String, nullable=False),
    Column("request_id", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("create_time_ns", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "principal", "request_id", name="idempotency_keys_pkey"),
)

# A table with a rowid in SQLite, on purpose: bodies go to the end of the file one after the other. As a clustered table
# it wrote 2 to 5 times the bytes per row, with up to 4 times the CPU; an index on last_sequence wrote up to twice.
log_rows = Table(
    "log_rows",
    metadata,
    Column("run_id", String, nullable=False),
    Column("row_no", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("first_sequence", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("facts", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "row_no", name="log_rows_pkey"),
)

messages = Table(
    "messages",
    metadata,
    Column("tenant", String, nullable=False),
    Column("session_id", String, nullable=False),
    Column("position", Integer, nullable=False),
    Column("message_id", String, nullable=False),
    Column("role", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("run_id", String),
    Column("create_time_ns", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "session_id", "position", name="messages_pkey"),
)

# What a health check writes to: one row, so that checking leaves nothing behind.
pings = Table(
    "pings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("time_ns", BigInteger, nullable=False),
    Column("filler", LargeBinary, nullable=False),
)
