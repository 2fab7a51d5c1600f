"""Runs that wait for their caller: what for, the questions that they ask, and the standing answers of sessions.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add all of it."""
    op.add_column("runs", sa.Column("waiting", sa.LargeBinary, nullable=False, server_default=""))
    op.create_table(
        "approvals",
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("approval_id", sa.String, nullable=False),
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("session_id", sa.String),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("create_time_ns", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "approval_id", name="approvals_pkey"),
    )
    by_time = ["tenant", "create_time_ns", "run_id", "approval_id"]
    pending = sa.text("state = 'PENDING'")
    op.create_index("approvals_pending", "approvals", by_time, sqlite_where=pending, postgresql_where=pending)
    op.create_index("approvals_by_time", "approvals", by_time)
    in_session = sa.text("session_id IS NOT NULL")
    op.create_index(
        "approvals_by_session",
        "approvals",
        ["tenant", "session_id", *by_time[1:]],
        sqlite_where=in_session,
        postgresql_where=in_session,
    )
    op.create_table(
        "session_rules",
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("session_id", sa.String, nullable=False),
        sa.Column("permission", sa.String, nullable=False),
        sa.Column("pattern", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("create_time_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_id", "permission", "pattern", "action", name="session_rules_pkey"),
    )


def downgrade() -> None:
    """Remove all of it."""
    op.drop_table("session_rules")
    op.drop_table("approvals")
    op.drop_column("runs", "waiting")
