"""The rows of a group's resets: who moved positions, when, why, and from where to where."""

from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from tidegate.ledger.tables import position_changes, resets
from tidegate.model.offsets import TopicPartition
from tidegate.ports import GroupReset, PositionChange


def enter(connection: Connection, subscription: str, reset: GroupReset) -> None:
    """Write a reset that is about to be carried out."""
    row = {"id": reset.id, "subscription": subscription, "group_id": reset.group}
    values = {"reset_by": reset.by, "note": reset.note, "gives_up": reset.gives_up, "begun_at": reset.at}
    connection.execute(insert(resets).values({**row, **values}))
    for change in reset.changes:
        at = {"reset_id": reset.id, "topic": change.at.topic, "partition": change.at.partition}
        connection.execute(insert(position_changes).values({**at, "before": change.before, "after": change.after}))


def close(connection: Connection, reset: GroupReset, now: datetime) -> None:
    """Write that it was carried out."""
    connection.execute(update(resets).where(resets.c.id == reset.id).values(done_at=now))


def read(connection: Connection, subscription: str, limit: int) -> tuple[GroupReset, ...]:
    """Those of a subscription, the newest first."""
    newest = select(resets).where(resets.c.subscription == subscription).order_by(resets.c.begun_at.desc(), resets.c.id)
    found = connection.execute(newest.limit(limit)).all()
    ids = [row.id for row in found]
    changes: dict[str, list[PositionChange]] = {reset_id: [] for reset_id in ids}
    of_these = select(position_changes).where(position_changes.c.reset_id.in_(ids))
    for row in connection.execute(of_these.order_by(position_changes.c.topic, position_changes.c.partition)):
        at = TopicPartition(row.topic, row.partition)
        changes[row.reset_id].append(PositionChange(at, row.before, row.after))
    return tuple(
        GroupReset(
            id=row.id,
            group=row.group_id,
            by=row.reset_by,
            at=row.begun_at,
            note=row.note,
            changes=tuple(changes[row.id]),
            gives_up=row.gives_up,
            is_done=row.done_at is not None,
        )
        for row in found
    )
