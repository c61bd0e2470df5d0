"""When a delivery last gave a sign of life; at which version of its subscription a checkpoint was committed."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("tidegate_deliveries", sa.Column("alive_at", sa.DateTime(timezone=True)))
    with op.batch_alter_table("tidegate_checkpoints") as checkpoints:
        checkpoints.add_column(sa.Column("version", sa.BigInteger, nullable=False, server_default="0"))
    # as far as can be told: a checkpoint belongs to the newest batch that was committed into the ledger
    op.execute(
        "UPDATE tidegate_checkpoints SET version = COALESCE((SELECT MAX(b.number) FROM tidegate_batches b WHERE "
        "b.subscription = tidegate_checkpoints.subscription AND b.group_id = tidegate_checkpoints.group_id AND "
        "b.commit_strategy = 'checkpoint' AND b.offsets_committed), 0)"
    )
