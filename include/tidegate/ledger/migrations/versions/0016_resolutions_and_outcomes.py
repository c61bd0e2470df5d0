"""What is to be done with a batch that failed, and how one ended, apart from how far it has come."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_HELD = {"stopped": "stop", "asking": "ask"}
_DISCARDING = {"ignoring": "skip", "dead-lettering": "dead-letter", "retrying": "retry-later"}
_CLOSED = ("committed", "uncommitted", "ignored", "dead-lettered", "retried", "empty", "abandoned")


def upgrade() -> None:
    with op.batch_alter_table("tidegate_batches") as table:
        table.add_column(sa.Column("resolution", sa.String(20)))
        table.add_column(sa.Column("outcome", sa.String(20)))
    batches = sa.table("tidegate_batches", *map(sa.column, ("state", "resolution", "outcome")))
    for state, resolutions in (("held", _HELD), ("discarding", _DISCARDING)):
        for word, resolution in resolutions.items():
            op.execute(batches.update().where(batches.c.state == word).values(state=state, resolution=resolution))
    closed = batches.update().where(batches.c.state.in_(_CLOSED))
    op.execute(closed.values(outcome=batches.c.state, state="closed"))
