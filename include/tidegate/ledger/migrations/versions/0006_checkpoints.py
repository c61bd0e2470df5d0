"""Positions and states of subscriptions with `commit-strategy: checkpoint`."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "tidegate_checkpoints",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("leader_epoch", sa.Integer),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "tidegate_states",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text),
        sa.Column("since", sa.DateTime(timezone=True)),
    )
