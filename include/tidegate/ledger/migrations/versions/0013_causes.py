"""What failed a delivery: its records, which a failure strategy decides about, or anything else."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("tidegate_deliveries", sa.Column("cause", sa.String(20)))
