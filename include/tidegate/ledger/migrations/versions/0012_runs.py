"""How the newest run of each subscription ended."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "tidegate_runs",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("error", sa.String(50)),
        sa.Column("failing_since", sa.DateTime(timezone=True)),
    )
