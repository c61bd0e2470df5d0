"""All that the ledger has of one batch, for whoever looks into it: its times, its deliveries, and who decided what."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Table, select

from tidegate.ledger import generations, rows
from tidegate.ledger.database import Database
from tidegate.ledger.holders import has_tables
from tidegate.ledger.migrate import migrate
from tidegate.ledger.rules import unknown_batch
from tidegate.ledger.tables import batches, clearances, deliveries, ranges
from tidegate.model.batch import Batch, Cause, Landed
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Decision, Generation, HistoryEntry


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One delivery: when it began, last gave a sign of life and ended, and how.

    `outcome` is `processed`, `failed`, `late` (another one was processed before it) or None while it is under way.
    """

    number: int
    started_at: datetime
    alive_at: datetime | None
    finished_at: datetime | None
    outcome: str | None
    cause: Cause | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch with its history; `planned_ends` are those of its plan, which a landing or a commit may fall short of.

    `landings` has what each member reported, by its number.
    """

    entry: HistoryEntry
    landed_at: datetime | None
    planned_ends: Mapping[TopicPartition, int]
    deliveries: tuple[DeliveryRecord, ...]
    decisions: tuple[Decision, ...]
    landings: Mapping[int, Landed]
    generations: tuple[Generation, ...] = ()

    @property
    def batch(self) -> Batch:
        """The batch as it stands."""
        return self.entry.batch


def batch_record(url: str, batch_id: str) -> BatchRecord:
    """What the ledger at this URL has of the batch; a ledger that nobody has made yet isn't made for it.

    Raises StaleError if it doesn't know the batch, UnavailableError, WrongDefinitionError.
    """
    if not has_tables(url):
        raise unknown_batch(batch_id)
    database = Database(url)
    migrate(database)
    with database.read() as connection:

        def of_batch(table: Table, *order: str) -> list[Row[Any]]:
            found = select(table).where(table.c.batch_id == batch_id).order_by(*(table.c[column] for column in order))
            return list(connection.execute(found))

        entries = rows.read(connection, select(batches.c.id).where(batches.c.id == batch_id))
        if not entries:
            raise unknown_batch(batch_id)
        return BatchRecord(
            entry=entries[0],
            landed_at=connection.scalar(select(batches.c.landed_at).where(batches.c.id == batch_id)),
            planned_ends={TopicPartition(r.topic, r.partition): r.planned_end for r in of_batch(ranges, "place")},
            deliveries=tuple(_delivery(row) for row in of_batch(deliveries, "number")),
            decisions=tuple(map(rows.decision, of_batch(clearances, "number"))),
            landings=rows.reports(connection, batch_id),
            generations=generations.read(connection, batch_id),
        )


def history_page(url: str, subscription: str, skipped: int, limit: int) -> tuple[HistoryEntry, ...]:
    """The batches of a subscription, the newest first, behind so many; none of a ledger that nobody has made yet.

    Raises UnavailableError, UnusableLedgerError.
    """
    if not has_tables(url):
        return ()
    database = Database(url)
    migrate(database)
    newest = select(batches.c.id).where(batches.c.subscription == subscription).order_by(batches.c.number.desc())
    with database.read() as connection:
        return rows.read(connection, newest.offset(skipped).limit(limit))


def _delivery(row: Row[Any]) -> DeliveryRecord:
    cause = Cause(row.cause) if row.cause else None
    return DeliveryRecord(row.number, row.started_at, row.alive_at, row.finished_at, row.outcome, cause, row.reason)
