"""What was told of each subscription, and to whom."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "tidegate_alerts",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("kind", sa.String(20), primary_key=True),
        sa.Column("notifier", sa.String(500), primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claim", sa.String(32)),
        sa.Column("claimed_at", sa.DateTime(timezone=True)),
        sa.Column("told_at", sa.DateTime(timezone=True)),
    )
