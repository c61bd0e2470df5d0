"""Whose a group is, and the cluster that its positions belong to."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "tidegate_groups",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column("cluster_id", sa.String(250)),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("accepted_by", sa.Text),
        sa.Column("accepted_at", sa.DateTime(timezone=True)),
    )
    op.create_index("tidegate_groups_cluster", "tidegate_groups", ["group_id", "cluster_id"], unique=True)
    op.execute(
        "INSERT INTO tidegate_groups (subscription, group_id, version) "
        "SELECT subscription, group_id, 0 FROM tidegate_batches "
        "UNION SELECT subscription, group_id, 0 FROM tidegate_positions "
        "UNION SELECT subscription, group_id, 0 FROM tidegate_checkpoints"
    )
