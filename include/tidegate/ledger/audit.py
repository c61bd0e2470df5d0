"""Who decided about a subscription what, when and why: all that the ledger has of people's doings, in one order."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from tidegate.ledger import replays, resets
from tidegate.ledger.database import Database
from tidegate.ledger.holders import is_made
from tidegate.ledger.migrate import migrate
from tidegate.ledger.tables import batches, clearances, definition_changes, groups, redriven, redrives
from tidegate.model.errors import first_few


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One thing that a person did; `batch_id` is the batch that it was about, None for none."""

    at: datetime
    by: str
    what: str
    note: str = ""
    batch_id: str | None = None


def audit_trail(url: str, subscription: str, limit: int) -> tuple[AuditLine, ...]:
    """The newest of each kind, so many at most, in order of time, the newest first.

    Raises UnavailableError, UnusableLedgerError; a ledger that nobody has made yet has none.
    """
    if not is_made(url):
        return ()
    database = Database(url)
    migrate(database)
    with database.read() as connection:
        lines = [line for told in _KINDS for line in told(connection, subscription, limit)]
    return tuple(sorted(lines, key=lambda line: line.at, reverse=True))[:limit]


def _cleared(connection: Connection, subscription: str, limit: int) -> Iterator[AuditLine]:
    of = select(batches.c.subscription).where(batches.c.id == clearances.c.batch_id).scalar_subquery()
    newest = select(clearances).where(of == subscription).order_by(clearances.c.cleared_at.desc()).limit(limit)
    for row in connection.execute(newest):
        yield AuditLine(row.cleared_at, row.cleared_by, f"answered {row.answer}", row.note, row.batch_id)


def _reset(connection: Connection, subscription: str, limit: int) -> Iterator[AuditLine]:
    for each in resets.read(connection, subscription, limit):
        moved = f"reset group {each.group}: {first_few([str(change) for change in each.changes])}"
        done = "" if each.is_done else " (which may not have been carried out)"
        yield AuditLine(each.at, each.by, f"{moved}{done}", each.note, each.gives_up)


def _replayed(connection: Connection, subscription: str, limit: int) -> Iterator[AuditLine]:
    for each in replays.read(connection, subscription)[:limit]:
        ended = "" if each.is_done else " (which hasn't come to its end)"
        yield AuditLine(each.at, each.by, f"replayed {each.asked} into {each.output} as {each.name}{ended}", each.note)


def _defined(connection: Connection, subscription: str, limit: int) -> Iterator[AuditLine]:
    of_it = select(definition_changes).where(definition_changes.c.name == subscription)
    for row in connection.execute(of_it.order_by(definition_changes.c.id.desc()).limit(limit)):
        yield AuditLine(row.changed_at, row.changed_by, f"definition {row.what}")


def _moved(connection: Connection, subscription: str, limit: int) -> Iterator[AuditLine]:
    for row in connection.execute(select(groups).where(groups.c.subscription == subscription).limit(limit)):
        if row.accepted_by is not None:
            what = f"accepted cluster {row.cluster_id} for group {row.group_id}"
            yield AuditLine(row.accepted_at, row.accepted_by, what)
        if row.moved_by is not None:
            yield AuditLine(row.moved_at, row.moved_by, f"moved the positions of group {row.group_id} to {row.store}")


def _redriven(connection: Connection, subscription: str, limit: int) -> Iterator[AuditLine]:
    letters = select(func.count()).where(redriven.c.token == redrives.c.token).scalar_subquery()
    of_it = select(redrives, letters.label("letters")).where(redrives.c.subscription == subscription)
    for row in connection.execute(of_it.order_by(redrives.c.noted_at.desc()).limit(limit)):
        how = "" if row.state == "redriven" else f" ({row.state})"
        what = f"redrove {row.letters:,} dead letters of {row.topic}{how}"
        yield AuditLine(row.noted_at, row.redriven_by, what)


_KINDS = (_cleared, _reset, _replayed, _defined, _moved, _redriven)
