"""Read again: the records of a batch that has ended, from its landing, or else from Kafka, exactly as they were."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum

from tidegate.model.batch import Batch, Landed
from tidegate.model.errors import CorruptFileError, LostDataError, UnavailableError, message
from tidegate.model.receipt import Receipt
from tidegate.steps.context import ProcessContext
from tidegate.steps.loss import recreated
from tidegate.steps.read_and_land import ReadingLander
from tidegate.steps.verify_landed import gone_from_kafka

log = logging.getLogger(__name__)


class RecordsFrom(StrEnum):
    """Where the records of a batch are read once more."""

    LANDING = "landing"
    KAFKA = "kafka"


def missing_from_landing(ctx: ProcessContext, batch: Batch) -> str | None:
    """What keeps the landed files from being read again, in words; None if they are as they were landed."""
    if not batch.files and batch.landed_records:
        return "the ledger names no landed files"
    try:
        ctx.landing.verify(batch.files)
    except CorruptFileError as error:
        return str(error)
    return None


def missing_from_kafka(ctx: ProcessContext, batch: Batch) -> str | None:
    """What keeps Kafka from giving the same records again, as far as it can be told without reading them."""
    positions = ctx.offsets.committed([r.at for r in batch.ranges])
    receipts = [Receipt.parse(position.metadata) for position in positions.values()]
    if len(receipts) < len(batch.ranges) or {each and each.incarnation for each in receipts} != {
        batch.receipt.incarnation
    }:
        return "the group was reset or a topic created again since, so what its offsets meant isn't known"
    topics = {r.topic for r in batch.ranges if not r.is_empty}
    if again := recreated(ctx.source.topic_ids(topics), ctx.ledger.look(batch.subscription).topic_ids):
        return "; ".join(f"topic {topic} {why}" for topic, why in again.items())
    if gone := gone_from_kafka(ctx, batch):
        return f"Kafka doesn't hold all of {gone} any more"
    return None


def source_of(ctx: ProcessContext, batch: Batch) -> RecordsFrom:
    """From where the batch's records would come. Raises LostDataError, naming what is missing, if from nowhere."""
    damaged = missing_from_landing(ctx, batch)
    if damaged is None:
        return RecordsFrom.LANDING
    if gone := missing_from_kafka(ctx, batch):
        raise _lost(batch, damaged, gone)
    return RecordsFrom.KAFKA


@contextmanager
def landed_records(ctx: ProcessContext, batch: Batch, tokens: Sequence[str]) -> Iterator[Batch]:
    """The batch with files of exactly its records: those of its landing, or new ones that go when this is left.

    New ones are the last token's own: whoever has an older one gives way, and takes nothing that the last one's job
    reads. What older ones have left goes. Raises LostDataError, naming what is missing, where neither has all of them.
    """
    damaged = missing_from_landing(ctx, batch)
    if damaged is None:
        yield batch
        return
    log.warning("%s", message(f"the landing can't be read again: {damaged}", batch, "its records come from Kafka"))
    if gone := missing_from_kafka(ctx, batch):
        raise _lost(batch, damaged, gone)
    *older, name = (f"{batch.id}-{token}" for token in tokens)
    for each in older:
        ctx.landing.discard(batch.subscription, each, ())
    landed = _read(ctx, replace(batch, id=name, shares=(tuple(r.at for r in batch.ranges),)))
    try:
        if landed.ranges != tuple(r for r in batch.ranges if not r.is_empty):
            why = f"the poll timeout cut short what was read again: {', '.join(map(str, landed.ranges))}"
            raise UnavailableError(message(why, batch, "raise poll-timeout.ms, or run again"))
        found = {at: records for at, records in landed.records.items() if records}
        if found != {at: records for at, records in batch.records.items() if records}:
            raise _lost(batch, damaged, f"Kafka has {sum(found.values())} records there now: it was compacted")
        yield replace(batch, files=landed.files)
    finally:
        ctx.landing.discard(batch.subscription, name, ())


def _read(ctx: ProcessContext, batch: Batch) -> Landed:
    return ReadingLander(ctx.source, ctx.landing, ctx.clock, ctx.subscription.poll_timeout_ms).land(batch, 0)


def _lost(batch: Batch, damaged: str, gone: str) -> LostDataError:
    why = f"its {batch.landed_records} records can't be had any more, and nothing was replaced: {damaged}; {gone}"
    return LostDataError(message(why, batch, "put the landed files back, from a copy"))
