"""Who asked for a run, so that it acts for the same caller after a restart. Runs before had no other than anonymous.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("runs", sa.Column("principal", sa.String, nullable=False, server_default="anonymous"))
    op.add_column("runs", sa.Column("roles", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    """Remove both."""
    op.drop_column("runs", "roles")
    op.drop_column("runs", "principal")
