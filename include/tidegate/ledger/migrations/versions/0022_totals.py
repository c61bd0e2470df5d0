"""What is counted of each subscription, from the batches and deliveries that are there."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_CLOSED = "FROM tidegate_batches b {join} WHERE b.outcome IS NOT NULL {which} GROUP BY b.subscription"
_COUNTED = (
    ("batches", "b.outcome", "COUNT(*)", "", ""),
    ("records", "b.outcome", "SUM(p.records)", "JOIN tidegate_ranges p ON p.batch_id = b.id", ""),
    ("bytes", "b.outcome", "SUM(p.bytes)", "JOIN tidegate_files p ON p.batch_id = b.id", ""),
    ("rows", "''", "SUM(b.rows)", "", "AND b.outcome IN ('committed', 'uncommitted')"),
    ("rejected", "''", "SUM(b.rejected)", "", "AND b.outcome IN ('committed', 'uncommitted')"),
    ("deliveries", "''", "COUNT(*)", "JOIN tidegate_deliveries p ON p.batch_id = b.id", ""),
    (
        *("failed_deliveries", "COALESCE(p.cause, 'system')", "COUNT(*)"),
        *("JOIN tidegate_deliveries p ON p.batch_id = b.id", "AND p.outcome = 'failed'"),
    ),
)


def upgrade() -> None:
    op.create_table(
        "tidegate_totals",
        sa.Column("subscription", sa.String(250), primary_key=True),
        sa.Column("name", sa.String(50), primary_key=True),
        sa.Column("label", sa.String(50), primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
    )
    for name, label, value, join, which in _COUNTED:
        found = f"SELECT b.subscription, '{name}' AS name, {label} AS label, {value} AS value "
        found += _CLOSED.format(join=join, which=which) + ("" if label == "''" else f", {label}")
        op.execute(
            "INSERT INTO tidegate_totals (subscription, name, label, value) "  # noqa: S608 - constants
            f"SELECT subscription, name, label, value FROM ({found}) counted WHERE value IS NOT NULL"
        )
