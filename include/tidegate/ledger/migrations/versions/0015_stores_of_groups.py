"""Which store has a group's positions; versions of checkpoints said so indirectly."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    with op.batch_alter_table("tidegate_groups") as groups:
        groups.add_column(sa.Column("store", sa.String(20)))
        groups.add_column(sa.Column("moved_by", sa.Text))
        groups.add_column(sa.Column("moved_at", sa.DateTime(timezone=True)))
    op.execute(
        "UPDATE tidegate_groups SET store = 'kafka' WHERE EXISTS (SELECT 1 FROM tidegate_batches b "
        "WHERE b.subscription = tidegate_groups.subscription AND b.group_id = tidegate_groups.group_id "
        "AND b.offsets_committed AND b.commit_strategy NOT IN ('checkpoint', 'ignore'))"
    )
    op.execute(
        "UPDATE tidegate_groups SET store = 'ledger' WHERE (SELECT MAX(c.version) FROM tidegate_checkpoints c "
        "WHERE c.subscription = tidegate_groups.subscription AND c.group_id = tidegate_groups.group_id) >= "
        "(SELECT COALESCE(MAX(b.number), 0) FROM tidegate_batches b "
        "WHERE b.subscription = tidegate_groups.subscription AND b.group_id = tidegate_groups.group_id "
        "AND b.offsets_committed AND b.commit_strategy NOT IN ('checkpoint', 'ignore'))"
    )
    with op.batch_alter_table("tidegate_checkpoints") as checkpoints:
        checkpoints.drop_column("version")
