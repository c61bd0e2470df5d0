"""Batches on their way through a ledger, for the tests of every kind of it."""

from dataclasses import replace
from datetime import UTC, datetime

from tidegate.model.batch import Batch, Delivery, Landed, LandedFile, Outcome
from tidegate.model.manifest import Counts, Published, Result
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Ledger

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))
COUNTS = Counts(written=7, rejected=1, seal="crc32:0000abcd")


def plan(number: int = 0, size: int = 10, subscription: str = "flights") -> Batch:
    """Two members, three partitions, of which the last has nothing to read."""
    receipt = Receipt("inc", number=number)
    start = 100 * number
    ranges = (Range("t", 0, start, start + size), Range("t", 1, 0, 5), Range("t", 2, 8, 8))
    return Batch(
        id=receipt.batch_after(f"{subscription}-g"),
        subscription=subscription,
        group="g",
        receipt=receipt,
        ranges=ranges,
        shares=((T0,), (T1, T2)),
        output="file:///lake/flights",
        partition_by=("carrier",),
    )


def report(batch: Batch, member: int, less: int = 0, nothing: bool = False) -> Landed:
    """A member's share as landed: whole, a number of offsets less, or nothing of it."""
    ranges = tuple(replace(r, end=r.start if nothing else max(r.start, r.end - less)) for r in batch.share(member))
    records = {r.at: r.end - r.start for r in ranges}
    total = sum(records.values())
    return Landed(
        ranges, records, (LandedFile(f"file:///landing/{member}.parquet", total, 10 * total, f"crc32:{total:08x}"),)
    )


def result(batch_id: str, delivery: Delivery, attempt: str = "a1") -> Result:
    return Result(batch_id, delivery.token, attempt, read=8, filtered=0, files=(), rejected_files=())


def published(batch: Batch, less: int = 0) -> Published:
    """The batch in the lake, as a delivery published it that had landed so many offsets less of each partition."""
    ranges = tuple(replace(r, end=max(r.start, r.end - less)) for r in batch.ranges)
    files = (LandedFile("file:///landing/other.parquet", 7, 70, "crc32:00000007"),)
    return Published(batch.id, ranges, {r.at: r.end - r.start for r in ranges}, files, rows=6, rejected=1)


def opened(ledger: Ledger, batch: Batch | None = None) -> Batch:
    batch = batch or plan()
    return ledger.open(batch, ledger.look(batch.subscription).version)


def landed(ledger: Ledger, batch: Batch | None = None) -> Batch:
    batch = opened(ledger, batch)
    for member in batch.members_with_work():
        batch = ledger.landed(batch.id, member, report(batch, member))
    return batch


def processing(ledger: Ledger) -> tuple[str, Delivery]:
    batch_id = landed(ledger).id
    return batch_id, ledger.start_delivery(batch_id)


def processed(ledger: Ledger) -> Batch:
    batch_id, delivery = processing(ledger)
    return ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS)


def closed(ledger: Ledger, batch: Batch, outcome: Outcome = Outcome.COMMITTED) -> Batch:
    """The batch opened, landed whole or with nothing, and closed with this outcome."""
    if outcome is Outcome.EMPTY:
        batch = opened(ledger, batch)
        for member in batch.members_with_work():
            batch = ledger.landed(batch.id, member, report(batch, member, nothing=True))
        return batch
    return ledger.close(landed(ledger, batch).id, outcome)
