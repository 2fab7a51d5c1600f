"""What settled runs have spent, by session and by a tenant's day. Runs from before are not counted.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "spending",
        sa.Column("tenant", sa.String, nullable=False),
        sa.Column("scope", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "scope", "name", "unit", name="spending_pkey"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("spending")
