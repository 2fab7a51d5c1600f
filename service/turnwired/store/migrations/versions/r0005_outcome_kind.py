"""How a run ended, to list runs by. Runs that settled before have none and are in no list by outcome.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the column and the index of all ends but ANSWERED."""
    op.add_column("runs", sa.Column("outcome_kind", sa.String))
    not_answered = sa.text("outcome_kind <> 'ANSWERED'")
    op.create_index(
        "runs_not_answered",
        "runs",
        ["tenant", "create_time_ns", "run_id"],
        sqlite_where=not_answered,
        postgresql_where=not_answered,
    )


def downgrade() -> None:
    """Remove both."""
    op.drop_index("runs_not_answered", "runs")
    op.drop_column("runs", "outcome_kind")
