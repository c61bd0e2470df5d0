"""What tests on the real broker do and look at."""

from pathlib import Path

import pyarrow.dataset
from confluent_kafka import Consumer, TopicPartition

from tidegate.batch import Batch
from tidegate.pipeline import Pipeline
from tidegate_local.broker import Broker


def deliver(pipeline: Pipeline) -> Batch | None:
    """One run: plan, land, process, commit."""
    plan = pipeline.plan()
    if plan.batch is None:
        return None
    for member in plan.members:
        pipeline.land(plan.batch.id, member)
    pipeline.process(plan.batch.id)
    return pipeline.commit(plan.batch.id)


def committed(broker: Broker, group: str, *partitions: tuple[str, int]) -> list[int]:
    """The group's committed offsets, as any Kafka client sees them."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        return [p.offset for p in consumer.committed([TopicPartition(*at) for at in partitions], timeout=20)]
    finally:
        consumer.close()


def in_lake(pipeline: Pipeline) -> list[tuple[int, int]]:
    """(partition, offset) of every record that a reader of the lake sees, in order."""
    folder = Path(pipeline.output.removeprefix("file://"))
    files = [str(path) for path in folder.glob("batch_id=*/*.parquet")]
    if not files:
        return []
    table = pyarrow.dataset.dataset(files).to_table(["partition", "offset"])
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
