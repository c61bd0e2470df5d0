"""Who cleared a stopped batch."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "tidegate_clearances",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), primary_key=True),
        sa.Column("deliveries", sa.Integer, primary_key=True),
        sa.Column("cleared_by", sa.Text, nullable=False),
        sa.Column("cleared_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
