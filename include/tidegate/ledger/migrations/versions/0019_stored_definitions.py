"""Definitions that aren't files, and who changed them."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "tidegate_definitions",
        sa.Column("name", sa.String(250), primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("asked", sa.JSON, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "tidegate_definition_changes",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(250), nullable=False, index=True),
        sa.Column("what", sa.String(20), nullable=False),
        sa.Column("document", sa.Text),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
    )
