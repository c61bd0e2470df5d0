"""The land step of one member, from planned ranges in Kafka to durable Parquet files.

With `wait` as its second argument it says when its imports are done, and waits for a line before it begins.
"""

import sys
from dataclasses import replace
from pathlib import Path

from cost import report
from tidegate.config.reading import load
from tidegate.kafka.source import KafkaSource
from tidegate.landing import writer
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.batch import Batch
from tidegate.model.offsets import Range, assign
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription
from tidegate.runtime.clock import SystemClock
from tidegate.steps import land as step
from tidegate.steps.context import Context
from tidegate.steps.read_and_land import ReadingLander
from tidegate.testing.definitions import MemoryDefinitions
from tidegate.testing.lake import MemoryLake
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.run_log import MemoryRunLog

DEADLINE_MS = 300_000


def land(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    each: int,
    into: str,
    members: int = 1,
    member: int = 0,
    compression: str | None = None,
) -> None:
    """Land a member's share of the first `each` records of every partition."""
    if compression:
        level = 1 if compression == "zstd" else None
        writer.COMPRESSION = {"compression": compression, "compression_level": level}  # type: ignore[dict-item]
    batch = _batch([Range(topic, partition, 0, each) for partition in range(partitions)], members)
    ledger = MemoryLedger()
    ledger.open(batch, ledger.look(batch.subscription).version)
    source = KafkaSource({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    landing, lake, clock = ParquetLanding(f"file://{into}"), MemoryLake(), SystemClock()
    lander = ReadingLander(source, landing, clock, DEADLINE_MS)
    context = Context(
        subscription=_subscription(batch),
        output=batch.output,
        source=source,
        offsets=MemoryOffsets(batch.group),
        landing=landing,
        lake=lake,
        staged=lake,
        ledger=ledger,
        run_log=MemoryRunLog(clock.now),
        clock=clock,
        definitions=MemoryDefinitions(),
    )
    step.land(context, batch.id, member, lander)
    source.close()


def _subscription(batch: Batch) -> Subscription:
    """The shipped one, but that the batch is its own."""
    shipped = load(Path(__file__).resolve().parents[2] / "include" / "subscriptions" / "flights.yaml")
    return replace(shipped, name=batch.subscription, consumer=replace(shipped.consumer, group_id=batch.group))


def _batch(ranges: list[Range], members: int) -> Batch:
    receipt = Receipt("benchmark")
    return Batch(
        id=receipt.batch_after("benchmark"),
        subscription="benchmark",
        group="benchmark",
        receipt=receipt,
        ranges=tuple(ranges),
        shares=assign([r.at for r in ranges], members),
        output="file:///nowhere",
    )


if __name__ == "__main__":
    if sys.argv[2:] == ["wait"]:
        print("ready", flush=True)
        sys.stdin.readline()
    report(land)
