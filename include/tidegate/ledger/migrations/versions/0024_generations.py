"""How often a batch was made, beside the first time."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "tidegate_generations",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("begun_by", sa.Text, nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("tokens", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(20)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("rows", sa.BigInteger),
        sa.Column("rejected", sa.BigInteger),
        sa.Column("filtered", sa.BigInteger),
    )
