"""Plain confluent-kafka consume to nowhere: the most that a Python program on this client can reach."""

from confluent_kafka import Consumer, TopicPartition

from cost import report


def consume(*, bootstrap: str, topic: str, partitions: int, each: int, batch: int) -> None:
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


if __name__ == "__main__":
    report(consume)
