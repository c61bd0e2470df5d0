"""Plain confluent-kafka consume to nowhere, with the setting that makes it fastest; see cost.py."""

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from cost import report


def consume(*, bootstrap: str, topic: str, partitions: int, each: int, batch: int) -> dict[str, Any]:
    """Take `each` records of every partition, at most `batch` a call, and drop them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.queue.backoff.ms": 2,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    left = each * partitions
    while left > 0:
        left -= len(consumer.consume(min(batch, left), 0.1))
    consumer.close()
    return {}


if __name__ == "__main__":
    report(consume)
