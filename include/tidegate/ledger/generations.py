"""The rows of generations: implements `tidegate.ports.Generations`."""

import uuid
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.migrate import migrate
from tidegate.ledger.rules import unknown_batch
from tidegate.ledger.tables import batches, generations, ranges
from tidegate.model.offsets import Range
from tidegate.ports import FIRST, Generation, GenerationOutcome, Made, ReprocessedBatch


class SqlGenerations:
    """The port `Generations` in the database of this URL, whose tables are made or migrated when it is opened."""

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_time) -> None:
        self._database = Database(url)
        self._now = now
        migrate(self._database)

    def begin(self, batch_id: str, output: str, by: str, note: str, beyond: int) -> Generation:
        """See `tidegate.ports.Generations`."""
        token = uuid.uuid4().hex
        with self._database.write() as connection:
            if connection.execute(select(batches.c.id).where(batches.c.id == batch_id)).first() is None:
                raise unknown_batch(batch_id)
            now = self._now(connection)
            known = read(connection, batch_id)
            found = next((each for each in known if each.is_open), None)
            if found is not None and found.output == output and found.number > beyond:
                tokens = " ".join([*found.tokens, token])
                connection.execute(update(generations).where(_is(batch_id, found.number)).values(tokens=tokens))
                number = found.number
            else:
                if found is not None:
                    _end(connection, found, GenerationOutcome.GIVEN_UP, now, Made())
                number = max([FIRST, beyond, *(each.number for each in known)]) + 1
                row = {"batch_id": batch_id, "number": number, "output": output, "begun_by": by, "note": note}
                connection.execute(insert(generations).values({**row, "begun_at": now, "tokens": token}))
            return next(each for each in read(connection, batch_id) if each.number == number)

    def end(self, batch_id: str, number: int, made: Made) -> Generation:
        """See `tidegate.ports.Generations`."""
        with self._database.write() as connection:
            found = next(each for each in read(connection, batch_id) if each.number == number)
            if found.is_open:
                _end(connection, found, GenerationOutcome.REPLACED, self._now(connection), made)
            return next(each for each in read(connection, batch_id) if each.number == number)

    def fail(self, generation: Generation) -> None:
        """See `tidegate.ports.Generations`."""
        with self._database.write() as connection:
            known = read(connection, generation.batch_id)
            found = next(each for each in known if each.number == generation.number)
            if found.is_open and found.tokens == generation.tokens and len(found.tokens) == 1:
                _end(connection, found, GenerationOutcome.FAILED, self._now(connection), Made())

    def of(self, batch_id: str) -> tuple[Generation, ...]:
        """See `tidegate.ports.Generations`."""
        with self._database.read() as connection:
            return read(connection, batch_id)

    def reprocessed(self, subscription: str) -> tuple[ReprocessedBatch, ...]:
        """See `tidegate.ports.Generations`."""
        newest = (
            select(
                generations.c.batch_id,
                func.max(generations.c.number).label("number"),
                generations.c.outcome.is_(None).label("is_open"),
            )
            .join(batches, batches.c.id == generations.c.batch_id)
            .where(
                batches.c.subscription == subscription,
                generations.c.output == batches.c.output,
                generations.c.outcome.is_(None) | (generations.c.outcome == GenerationOutcome.REPLACED.value),
            )
            .group_by(generations.c.batch_id, generations.c.outcome)
            .subquery()
        )
        query = select(newest.c.number, newest.c.is_open, ranges).join(newest, newest.c.batch_id == ranges.c.batch_id)
        found: dict[tuple[str, int, bool], list[Range]] = defaultdict(list)
        with self._database.read() as connection:
            for row in connection.execute(query.order_by(newest.c.number, ranges.c.place)):
                held = Range(row.topic, row.partition, row.start_offset, row.end_offset)
                found[row.batch_id, row.number, bool(row.is_open)].append(held)
        return tuple(
            ReprocessedBatch(batch_id, number, tuple(held), is_open)
            for (batch_id, number, is_open), held in found.items()
        )


def _is(batch_id: str, number: int) -> ColumnElement[bool]:
    return and_(generations.c.batch_id == batch_id, generations.c.number == number)


def _end(connection: Connection, found: Generation, outcome: GenerationOutcome, now: datetime, made: Made) -> None:
    values: dict[str, Any] = {"outcome": outcome.value, "ended_at": now}
    counts = {"rows": made.rows, "rejected": made.rejected, "filtered": made.filtered}
    connection.execute(update(generations).where(_is(found.batch_id, found.number)).values({**values, **counts}))


def read(connection: Connection, batch_id: str) -> tuple[Generation, ...]:
    """The generations of a batch, in order."""
    query = select(generations).where(generations.c.batch_id == batch_id).order_by(generations.c.number)
    return tuple(
        Generation(
            batch_id=row.batch_id,
            number=row.number,
            output=row.output,
            by=row.begun_by,
            at=row.begun_at,
            note=row.note,
            tokens=tuple(row.tokens.split()),
            outcome=None if row.outcome is None else GenerationOutcome(row.outcome),
            ended_at=row.ended_at,
            made=Made(row.rows, row.rejected, row.filtered),
        )
        for row in connection.execute(query)
    )
