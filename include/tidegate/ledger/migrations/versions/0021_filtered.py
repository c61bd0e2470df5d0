"""How many records a batch's transform left out on purpose; what a list of subscriptions needs of an observation."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("tidegate_batches", sa.Column("filtered", sa.BigInteger))
    op.add_column("tidegate_observations", sa.Column("summary", sa.Text))
