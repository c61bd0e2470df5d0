"""A landed file has a checksum, and the output of a delivery the checksum of a list of its files."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("tidegate_files", sa.Column("checksum", sa.String(50)))
    op.add_column("tidegate_batches", sa.Column("seal", sa.String(50)))
