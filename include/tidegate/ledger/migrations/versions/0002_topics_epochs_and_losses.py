"""Topic ids, leader epochs, commits without a batch, and lost positions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("tidegate_ranges", sa.Column("start_epoch", sa.Integer))
    op.add_column("tidegate_ranges", sa.Column("end_epoch", sa.Integer))
    op.create_table(
        "tidegate_topics",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("topic_id", sa.String(64), nullable=False),
    )
    op.create_table(
        "tidegate_recommits",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "tidegate_losses",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True),
        sa.Column("earliest", sa.BigInteger, nullable=False),
        sa.Column("end_offset", sa.BigInteger, nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
    )
