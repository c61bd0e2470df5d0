"""The rows of batches that ended well long ago: which those are, and how they go."""

from collections import defaultdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, select

from tidegate.ledger.rules import ENDED_WELL
from tidegate.ledger.tables import batches, clearances, deliveries, files, generations, landings, ranges
from tidegate.ports import ExpiredBatch

_PARTS = (generations, ranges, files, landings, deliveries)


def read(
    connection: Connection, subscription: str, before: datetime, beyond: int, limit: int
) -> tuple[ExpiredBatch, ...]:
    """Some of a subscription's, in the order of its history."""
    of_subscription = (batches.c.subscription == subscription, batches.c.number > beyond)
    query = select(batches.c.id, batches.c.number, batches.c.closed_at).where(*of_subscription, _is_expired(before))
    found = connection.execute(query.order_by(batches.c.number).limit(limit)).all()
    uris: dict[str, list[str]] = defaultdict(list)
    landed = select(files.c.batch_id, files.c.uri).where(files.c.batch_id.in_([row.id for row in found]))
    for row in connection.execute(landed.order_by(files.c.batch_id, files.c.member, files.c.place)):
        uris[row.batch_id].append(row.uri)
    return tuple(ExpiredBatch(row.id, row.number, row.closed_at, tuple(uris[row.id])) for row in found)


def remove(connection: Connection, batch_id: str, before: datetime) -> bool:
    """Remove one with all that belongs to it, if it is one; whether it was."""
    this = (batches.c.id == batch_id, _is_expired(before))
    if connection.execute(select(batches.c.id).where(*this)).first() is None:
        return False
    for table in _PARTS:
        connection.execute(delete(table).where(table.c.batch_id == batch_id))
    connection.execute(delete(batches).where(batches.c.id == batch_id))
    return True


def _is_expired(before: datetime) -> ColumnElement[bool]:
    """As `tidegate.ledger.rules.is_expired` has it."""
    newer = batches.alias()
    is_newer = (
        *(newer.c.subscription == batches.c.subscription, newer.c.group_id == batches.c.group_id),
        *(newer.c.offsets_committed == batches.c.offsets_committed, newer.c.number > batches.c.number),
        newer.c.closed_at.is_not(None),
    )
    return and_(
        batches.c.closed_at < before,
        batches.c.outcome.in_([outcome.value for outcome in ENDED_WELL]),
        batches.c.rows.is_not(None),
        ~exists().where(clearances.c.batch_id == batches.c.id),
        ~exists().where(generations.c.batch_id == batches.c.id, generations.c.outcome.is_(None)),
        exists().where(*is_newer),
    )
