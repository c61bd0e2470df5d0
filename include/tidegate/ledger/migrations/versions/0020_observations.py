"""What was last seen of each subscription, and its lag over time."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "tidegate_observations",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "tidegate_lag_samples",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("observed_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("lag", sa.BigInteger),
        sa.Column("lag_seconds", sa.Float),
    )
