"""Topic ids, leader epochs, commits without a batch, and lost positions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("tidegate_missing") as missing:  # SQLite can't alter a table and makes it anew
        missing.alter_column("topic", type_=sa.Text)
    with op.batch_alter_table("tidegate_batches") as batches:
        batches.alter_column("group_id", type_=sa.Text)
    op.add_column("tidegate_ranges", sa.Column("start_epoch", sa.Integer))
    op.add_column("tidegate_ranges", sa.Column("end_epoch", sa.Integer))
    op.create_table(
        "tidegate_topics",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("topic_id", sa.String(64), nullable=False),
    )
    op.create_table(
        "tidegate_positions",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
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
