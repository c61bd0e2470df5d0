"""What a ledger has counted of each subscription: sums that never go down, whatever is pruned or opened again.

They are written in the transaction that ends what is counted, so that reading them costs the same for any history.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Connection, func, select, text

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.migrate import migrate
from tidegate.ledger.tables import batches, deliveries, losses, totals
from tidegate.model.batch import PUBLISHED, Batch, Cause, Delivery

_ADD = text(
    "INSERT INTO tidegate_totals (subscription, name, label, value) VALUES (:subscription, :name, :label, :value) "
    "ON CONFLICT (subscription, name, label) DO UPDATE SET value = tidegate_totals.value + excluded.value"
)


class Total(StrEnum):
    """What is counted, and what its label is."""

    BATCHES = "batches"
    """By outcome."""
    RECORDS = "records"
    """Landed records of closed batches, by outcome."""
    BYTES = "bytes"
    """Bytes of their files, by outcome."""
    ROWS = "rows"
    """Of published batches, as are the next two."""
    REJECTED = "rejected"
    FILTERED = "filtered"
    DELIVERIES = "deliveries"
    FAILED_DELIVERIES = "failed_deliveries"
    """By cause."""
    STEPS = "steps"
    """How often a step ended, by step."""
    STEP_SECONDS = "step_seconds"
    """And how long that took."""


class Step(StrEnum):
    """The steps whose times a ledger knows."""

    LAND = "land"
    PROCESS = "process"
    COMMIT = "commit"


Labelled = tuple[Total, str]
"""A total and its label; an empty one for none."""


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    """All totals by subscription, the instants at which open batches were opened, and how many positions were lost.

    They are those of one instant, `now`, by the database's clock.
    """

    now: datetime
    totals: Mapping[str, Mapping[Labelled, float]] = field(default_factory=dict)
    opened: Mapping[str, datetime] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)


def ledger_totals(url: str) -> LedgerTotals:
    """What the ledger at this URL has counted. Raises UnavailableError, UnusableLedgerError."""
    database = Database(url)
    migrate(database)
    found: dict[str, dict[Labelled, float]] = defaultdict(dict)
    with database.read() as connection:
        for row in connection.execute(select(totals)):
            found[row.subscription][Total(row.name), row.label] = row.value
        is_open = select(batches.c.subscription, batches.c.opened_at).where(batches.c.closed_at.is_(None))
        lost = select(losses.c.subscription, func.count().label("positions")).group_by(losses.c.subscription)
        return LedgerTotals(
            now=database_time(connection),
            totals=found,
            opened={row.subscription: row.opened_at for row in connection.execute(is_open)},
            losses={row.subscription: row.positions for row in connection.execute(lost)},
        )


def subscription_totals(url: str, subscription: str) -> Mapping[Labelled, float]:
    """What the ledger at this URL has counted of one subscription. Raises as `ledger_totals`."""
    database = Database(url)
    migrate(database)
    with database.read() as connection:
        found = connection.execute(select(totals).where(totals.c.subscription == subscription))
        return {(Total(row.name), row.label): row.value for row in found}


def published_batches(url: str, subscription: str) -> int:
    """How many batches of a subscription were ever published and closed. Raises as `ledger_totals`."""
    found = subscription_totals(url, subscription)
    return round(sum(found.get((Total.BATCHES, str(outcome)), 0) for outcome in PUBLISHED))


def count_landing(connection: Connection, subscription: str, opened_at: datetime, now: datetime) -> None:
    """Count that all of a batch has landed."""
    _add(connection, subscription, _step(Step.LAND, opened_at, now))


def count_delivery(connection: Connection, subscription: str) -> None:
    """Count a delivery that begins."""
    _add(connection, subscription, {(Total.DELIVERIES, ""): 1})


def count_end(
    connection: Connection, subscription: str, delivery: Delivery, now: datetime, cause: Cause | None = None
) -> None:
    """Count how a delivery ends, before that is written; what is told of it later isn't counted."""
    known = select(deliveries.c.started_at, deliveries.c.outcome).where(deliveries.c.token == delivery.token)
    before = connection.execute(known).one()
    if before.outcome is None:
        failed = {(Total.FAILED_DELIVERIES, str(cause)): 1.0} if cause else {}
        _add(connection, subscription, _step(Step.PROCESS, before.started_at, now) | failed)


def count_close(connection: Connection, batch: Batch, now: datetime) -> None:
    """Count a batch that is closed, before that is written."""
    is_open = select(batches.c.id).where(batches.c.id == batch.id, batches.c.closed_at.is_(None))
    if batch.outcome is None or connection.execute(is_open).first() is None:
        return
    counted = {
        (Total.BATCHES, str(batch.outcome)): 1.0,
        (Total.RECORDS, str(batch.outcome)): batch.landed_records,
        (Total.BYTES, str(batch.outcome)): sum(file.bytes for file in batch.files),
    }
    if batch.outcome in PUBLISHED:
        counted |= _written(batch) | _commit(connection, batch, now)
    _add(connection, batch.subscription, counted)


def _written(batch: Batch) -> dict[Labelled, float]:
    return {
        (Total.ROWS, ""): batch.rows or 0,
        (Total.REJECTED, ""): batch.rejected or 0,
        (Total.FILTERED, ""): batch.filtered or 0,
    }


def _commit(connection: Connection, batch: Batch, now: datetime) -> dict[Labelled, float]:
    """From the end of the delivery that was processed; nothing where none was, as in an empty batch."""
    if batch.delivery is None:
        return {}
    won = select(deliveries.c.finished_at).where(
        deliveries.c.token == batch.delivery.token, deliveries.c.outcome == "processed"
    )
    finished_at = connection.scalar(won)
    return _step(Step.COMMIT, finished_at, now) if finished_at else {}


def _step(step: Step, began: datetime, ended: datetime) -> dict[Labelled, float]:
    seconds = max(0.0, (ended - began).total_seconds())  # a clock may be set back
    return {(Total.STEPS, str(step)): 1.0, (Total.STEP_SECONDS, str(step)): seconds}


def _add(connection: Connection, subscription: str, amounts: Mapping[Labelled, float]) -> None:
    connection.execute(
        _ADD,
        [
            {"subscription": subscription, "name": str(name), "label": label, "value": float(amount)}
            for (name, label), amount in amounts.items()
            if amount
        ],
    )
