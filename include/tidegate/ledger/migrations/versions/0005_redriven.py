"""Which dead letters were redriven."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "tidegate_redriving",
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("turn", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tidegate_redrives",
        sa.Column("token", sa.String(32), primary_key=True),
        sa.Column("after", sa.String(32), nullable=False),
        sa.Column("topic", sa.String(250), nullable=False),
        sa.Column("topic_id", sa.String(64), nullable=False),
        sa.Column("subscription", sa.String(250), nullable=False),
        sa.Column("redriven_by", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True)),
    )
    op.create_index("tidegate_redrives_topic", "tidegate_redrives", ["topic", "state"])
    op.create_table(
        "tidegate_redriven",
        sa.Column("token", sa.String(32), sa.ForeignKey("tidegate_redrives.token"), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True),
        sa.Column("destination", sa.String(250), nullable=False),
    )
    op.create_index("tidegate_redriven_place", "tidegate_redriven", ["offset", "partition"])
