"""Each batch's commit strategy, its offsets' own state and the time of its state; what was decided about it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("tidegate_batches") as batches:
        batches.add_column(
            sa.Column("commit_strategy", sa.String(20), nullable=False, server_default="after-processing")
        )
        batches.add_column(sa.Column("since", sa.DateTime(timezone=True)))
        batches.add_column(sa.Column("offsets_committed", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute("UPDATE tidegate_batches SET offsets_committed = (state IN ('committed', 'ignored'))")
    op.rename_table("tidegate_clearances", "tidegate_clearances_before")
    op.create_table(
        "tidegate_clearances",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("deliveries", sa.Integer, nullable=False),
        sa.Column("answer", sa.String(20), nullable=False),
        sa.Column("cleared_by", sa.Text, nullable=False),
        sa.Column("cleared_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.execute(
        "INSERT INTO tidegate_clearances (batch_id, number, deliveries, answer, cleared_by, cleared_at, note) "
        "SELECT batch_id, deliveries, deliveries, 'redeliver', cleared_by, cleared_at, note "
        "FROM tidegate_clearances_before"
    )
    op.drop_table("tidegate_clearances_before")
