"""How far a group is behind a topic, from the offsets that Kafka holds."""

from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

_SECONDS = 30


@dataclass(frozen=True)
class PartitionLag:
    """One partition: its first offset, the end of its log, and the group's committed offset (None without one)."""

    topic: str
    partition: int
    start: int
    end: int
    committed: int | None

    @property
    def lag(self) -> int:
        """Offsets between the committed one and the log's end; control records count, as a commit passes them too."""
        return self.end - (self.start if self.committed is None else self.committed)


def group_lag(bootstrap: str, group: str, topic: str) -> tuple[PartitionLag, ...]:
    """Return the group's lag on every partition of the topic, without joining the group.

    Raises KafkaException if the broker doesn't answer in time.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 3}
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions)
        committed = consumer.committed([TopicPartition(topic, each) for each in partitions], timeout=_SECONDS)
        return tuple(_partition_lag(consumer, each) for each in committed)
    finally:
        consumer.close()


def _partition_lag(consumer: Consumer, committed: TopicPartition) -> PartitionLag:
    start, end = consumer.get_watermark_offsets(TopicPartition(committed.topic, committed.partition), timeout=_SECONDS)
    offset = committed.offset if committed.offset >= 0 else None  # negative: nothing is committed
    return PartitionLag(committed.topic, committed.partition, start, end, offset)
