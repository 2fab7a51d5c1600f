"""When a session last changed, agents that are changed at runtime, and what hooks are still to be told.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add all of it."""
    op.add_column("sessions", sa.Column("update_time_ns", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE sessions SET update_time_ns = COALESCE((SELECT MAX(CASE WHEN settle_time_ns > create_time_ns "
        "THEN settle_time_ns ELSE create_time_ns END) FROM runs WHERE runs.tenant = sessions.tenant "
        "AND runs.session_id = sessions.session_id), create_time_ns)"
    )
    op.create_index("sessions_by_change", "sessions", ["tenant", "update_time_ns", "session_id"])
    op.create_table(
        "agents",
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "agent_id", "revision", name="agents_pkey"),
    )
    op.create_table(
        "hook_deliveries",
        sa.Column("hook", sa.String, nullable=False),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("settle_time_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hook", "run_id", name="hook_deliveries_pkey"),
    )


def downgrade() -> None:
    """Remove all of it."""
    op.drop_table("hook_deliveries")
    op.drop_table("agents")
    op.drop_index("sessions_by_change", "sessions")
    op.drop_column("sessions", "update_time_ns")
