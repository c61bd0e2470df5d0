"""When a broker last answered a subscription's runs."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "tidegate_contacts",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("has_answered", sa.Boolean, nullable=False),
    )
