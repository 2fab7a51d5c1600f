"""Runs, their logs, sessions and idempotency keys.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Create the first schema."""
    _create_runs()
    _create_sessions()
    op.create_table(
        "log_rows",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("row_no", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("first_sequence", sa.BigInteger, nullable=False),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("facts", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "row_no", name="log_rows_pkey"),
    )
    op.create_table(
        "pings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time_ns", sa.BigInteger, nullable=False),
        sa.Column("filler", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop everything: there is nothing before the first revision."""
    for table in ("pings", "log_rows", "messages", "idempotency_keys", "sessions", "run_labels", "runs"):
        op.drop_table(table)


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("create_time_ns", sa.BigInteger, nullable=False),
        sa.Column("settle_time_ns", sa.BigInteger, nullable=False),
        sa.Column("session_id", sa.String),
        sa.Column("parent_run_id", sa.String),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.Column("summary", sa.LargeBinary, nullable=False),
    )
    _partial_index(
        "runs_one_active_per_session",
        ["tenant", "session_id"],
        "session_id IS NOT NULL AND state <> 'SETTLED'",
        unique=True,
    )
    op.create_index("runs_by_time", "runs", ["tenant", "create_time_ns", "run_id"])
    _partial_index(
        "runs_by_session",
        ["tenant", "session_id", "create_time_ns", "run_id"],
        "session_id IS NOT NULL",
    )
    _partial_index("runs_active", ["tenant", "create_time_ns", "run_id"], "state <> 'SETTLED'")
    op.create_table(
        "run_labels",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("value", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name="run_labels_pkey"),
    )


def _partial_index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, "runs", columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("session_id", sa.String, nullable=False),
        sa.Column("create_time_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_id", name="sessions_pkey"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("principal", sa.String, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("create_time_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "principal", "request_id", name="idempotency_keys_pkey"),
    )
    op.create_table(
        "messages",
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("session_id", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("message_id", sa.String, nullable=False),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("run_id", sa.String),
        sa.Column("create_time_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_id", "position", name="messages_pkey"),
    )
