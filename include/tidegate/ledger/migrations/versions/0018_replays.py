"""What is read once more, into another output."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "tidegate_replays",
        sa.Column("name", sa.String(250), primary_key=True),
        sa.Column("subscription", sa.String(250), nullable=False),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("replayed_by", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "tidegate_replay_ranges",
        sa.Column("name", sa.String(250), sa.ForeignKey("tidegate_replays.name"), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("start_offset", sa.BigInteger, nullable=False),
        sa.Column("end_offset", sa.BigInteger, nullable=False),
    )
