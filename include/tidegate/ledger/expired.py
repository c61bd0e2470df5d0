"""The rows of batches that ended: which of them did so well and long ago, and how they go."""

from collections import defaultdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, select

from tidegate.ledger.rules import ENDED_WELL
from tidegate.ledger.tables import batches, clearances, deliveries, files, generations, landings, ranges
from tidegate.ports import ExpiredBatch

_OF_A_BATCH = (clearances, generations, ranges, files, landings, deliveries)


def read(
    connection: Connection, subscription: str, before: datetime, beyond: int, limit: int
) -> tuple[ExpiredBatch, ...]:
    """Some of a subscription's, in the order of its history."""
    those = and_(batches.c.subscription == subscription, batches.c.number > beyond, _is_expired(before))
    return read_all(connection, those, limit)


def read_all(connection: Connection, which: ColumnElement[bool], limit: int | None = None) -> tuple[ExpiredBatch, ...]:
    """The closed batches of which this is true, whether they ended well or not, by their numbers."""
    query = select(batches.c.id, batches.c.number, batches.c.closed_at).where(which)
    query = query.order_by(batches.c.number).limit(limit)
    found = connection.execute(query).all()
    uris: dict[str, list[str]] = defaultdict(list)
    landed = select(files.c.batch_id, files.c.uri).where(files.c.batch_id.in_(query.with_only_columns(batches.c.id)))
    for row in connection.execute(landed.order_by(files.c.batch_id, files.c.member, files.c.place)):
        uris[row.batch_id].append(row.uri)
    return tuple(ExpiredBatch(row.id, row.number, row.closed_at, tuple(uris[row.id])) for row in found)


def remove(connection: Connection, batch_id: str, before: datetime) -> bool:
    """Remove one with all that belongs to it, if it is one; whether it was."""
    this = and_(batches.c.id == batch_id, _is_expired(before))
    if connection.execute(select(batches.c.id).where(this)).first() is None:
        return False
    remove_all(connection, batches.c.id == batch_id)
    return True


def remove_all(connection: Connection, which: ColumnElement[bool]) -> None:
    """Remove the batches of which this is true, with all that belongs to them."""
    these = select(batches.c.id).where(which).scalar_subquery()
    for table in _OF_A_BATCH:
        connection.execute(delete(table).where(table.c.batch_id.in_(these)))
    connection.execute(delete(batches).where(which))


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
