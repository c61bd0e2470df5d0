"""The consumer of contenders that read by confluent-kafka: assigned outright, with the setting that helps it most."""

from confluent_kafka import Consumer, TopicPartition


def assigned(bootstrap: str, topic: str, partitions: int) -> Consumer:
    """A consumer of all partitions from offset 0, which the caller closes."""
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
    return consumer
