"""The first tables of the ledger, and the identity of this one."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_ledger()
    _create_batches()
    _create_landings()
    _create_deliveries()


def _create_ledger() -> None:
    ledger = op.create_table("tidegate_ledger", sa.Column("identity", sa.String(32), primary_key=True))
    op.bulk_insert(ledger, [{"identity": uuid.uuid4().hex}])
    op.create_table(
        "tidegate_subscriptions",
        sa.Column("name", sa.String(250), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tidegate_missing",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
    )


def _create_batches() -> None:
    op.create_table(
        "tidegate_batches",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("subscription", sa.String(250), sa.ForeignKey("tidegate_subscriptions.name"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("opening", sa.Integer, nullable=False),
        sa.Column("group_id", sa.String(250), nullable=False),
        sa.Column("receipt", sa.Text, nullable=False),
        sa.Column("members", sa.Integer, nullable=False),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("partition_by", sa.JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("winner", sa.String(32)),
        sa.Column("attempt", sa.Text),
        sa.Column("rows", sa.BigInteger),
        sa.Column("rejected", sa.BigInteger),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("landed_at", sa.DateTime(timezone=True)),
        sa.Column("closed_at", sa.DateTime(timezone=True)),
    )
    op.create_index("tidegate_batches_history", "tidegate_batches", ["subscription", "number"], unique=True)
    unclosed = sa.text("closed_at IS NULL")
    op.create_index(
        "tidegate_batches_open",
        "tidegate_batches",
        ["subscription"],
        unique=True,
        sqlite_where=unclosed,
        postgresql_where=unclosed,
    )


def _create_landings() -> None:
    op.create_table(
        "tidegate_ranges",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), primary_key=True),
        sa.Column("topic", sa.String(250), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("member", sa.Integer),
        sa.Column("start_offset", sa.BigInteger, nullable=False),
        sa.Column("planned_end", sa.BigInteger, nullable=False),
        sa.Column("end_offset", sa.BigInteger, nullable=False),
        sa.Column("records", sa.BigInteger),
    )
    op.create_table(
        "tidegate_landings",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), primary_key=True),
        sa.Column("member", sa.Integer, primary_key=True),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "tidegate_files",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), primary_key=True),
        sa.Column("member", sa.Integer, primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )


def _create_deliveries() -> None:
    op.create_table(
        "tidegate_deliveries",
        sa.Column("token", sa.String(32), primary_key=True),
        sa.Column("batch_id", sa.String(64), sa.ForeignKey("tidegate_batches.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("opening", sa.Integer, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("outcome", sa.String(20)),
        sa.Column("reason", sa.Text),
        sa.UniqueConstraint("batch_id", "number", name="tidegate_deliveries_number"),
    )
