"""The newest committed batch of a subscription is found at once, however long its history is."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_index(
        "tidegate_batches_committed",
        "tidegate_batches",
        ["subscription", "number"],
        sqlite_where=sa.text("offsets_committed = 1"),
        postgresql_where=sa.text("offsets_committed"),
    )
