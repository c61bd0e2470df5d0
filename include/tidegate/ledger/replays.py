"""The rows of replays: what is read once more, for whom, and into which output."""

from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from tidegate.ledger.tables import replay_ranges, replays
from tidegate.ledger.upsert import enter_row
from tidegate.model.offsets import Range
from tidegate.ports import Replay


def enter(connection: Connection, replay: Replay) -> None:
    """Write one that begins, unless it has begun."""
    row = {"name": replay.name, "subscription": replay.subscription, "output": replay.output, "asked": replay.asked}
    values = {"replayed_by": replay.by, "note": replay.note, "begun_at": replay.at}
    if not enter_row(connection, replays, {**row, **values}):
        return
    for r in replay.ranges:
        at = {"name": replay.name, "topic": r.topic, "partition": r.partition}
        connection.execute(insert(replay_ranges).values({**at, "start_offset": r.start, "end_offset": r.end}))


def close(connection: Connection, name: str, now: datetime) -> None:
    """Write that it has ended."""
    connection.execute(update(replays).where(replays.c.name == name).values(done_at=now))


def read(connection: Connection, subscription: str | None) -> tuple[Replay, ...]:
    """Those of a subscription, or of all; the newest first."""
    query = select(replays).order_by(replays.c.begun_at.desc(), replays.c.name)
    found = connection.execute(
        query if subscription is None else query.where(replays.c.subscription == subscription)
    ).all()
    ranges: dict[str, list[Range]] = {row.name: [] for row in found}
    of_these = select(replay_ranges).where(replay_ranges.c.name.in_(ranges))
    for row in connection.execute(of_these.order_by(replay_ranges.c.topic, replay_ranges.c.partition)):
        ranges[row.name].append(Range(row.topic, row.partition, row.start_offset, row.end_offset))
    return tuple(
        Replay(
            name=row.name,
            subscription=row.subscription,
            output=row.output,
            asked=row.asked,
            by=row.replayed_by,
            at=row.begun_at,
            note=row.note,
            ranges=tuple(ranges[row.name]),
            is_done=row.done_at is not None,
        )
        for row in found
    )
