"""The runs by which somebody cleared or committed a batch: each decides once."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "tidegate_operations",
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("operated_by", sa.Text, nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
    )
