"""Who reset a group, when, why, and from where to where."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "tidegate_resets",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("subscription", sa.String(250), nullable=False),
        sa.Column("group_id", sa.Text, nullable=False),
        sa.Column("reset_by", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("gives_up", sa.String(64)),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True)),
    )
    op.create_index("tidegate_resets_subscription", "tidegate_resets", ["subscription", "begun_at"])
    op.create_table(
        "tidegate_position_changes",
        sa.Column("reset_id", sa.String(32), sa.ForeignKey("tidegate_resets.id"), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("before", sa.BigInteger),
        sa.Column("after", sa.BigInteger, nullable=False),
    )
