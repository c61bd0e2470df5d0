"""When the oldest records that wait were made, on a real broker: what its topics say of time, and what asking costs."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from tidegate.kafka.source import KafkaSource
from tidegate.model.offsets import TopicPartition
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

MANY = 300
MakeTopic = Callable[..., str]


def produced(broker: Broker, topic: str, *records: tuple[int, int, bytes]) -> None:
    """Records as partition, timestamp in ms and value."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 100})
    for partition, milliseconds, value in records:
        producer.produce(topic, value=value, partition=partition, timestamp=milliseconds)
    assert producer.flush(120) == 0


def test_where_the_broker_stamps_records_its_time_counts(broker: Broker, topic: MakeTopic) -> None:
    name = topic(config={"message.timestamp.type": "LogAppendTime"})
    before = time.time()
    produced(broker, name, (0, 1_000, b"an old one"))
    at, source = TopicPartition(name, 0), KafkaSource({"bootstrap.servers": broker.bootstrap_servers})
    found = source.times_of({at: 0}, 20)[at]
    assert found is not None
    assert before - 1 <= found.timestamp() <= time.time() + 1


def test_hundreds_of_partitions_are_asked_for_one_record_each(broker: Broker, topic: MakeTopic) -> None:
    name = topic(partitions=MANY)
    records = [(partition, 1_000 * (1 + partition), bytes(10_000)) for partition in range(MANY) for _ in range(10)]
    produced(broker, name, *records)
    positions = {TopicPartition(name, partition): 5 for partition in range(MANY)}
    source = KafkaSource({"bootstrap.servers": broker.bootstrap_servers})
    began = time.monotonic()
    found = source.times_of(positions, 60)
    print(f"{MANY} partitions took {time.monotonic() - began:.2f} s")  # noqa: T201 - for whoever measures: -s
    expected = {at: datetime.fromtimestamp(1 + at.partition, UTC) for at in positions}
    assert found == expected


def test_a_record_larger_than_a_fetch_has_a_time_too(broker: Broker, topic: MakeTopic) -> None:
    name = topic(partitions=2)
    produced(broker, name, (0, 2_000, bytes(900_000)), (1, 3_000, bytes(900_000)))
    source = KafkaSource({"bootstrap.servers": broker.bootstrap_servers})
    found = source.times_of({TopicPartition(name, number): 0 for number in (0, 1)}, 20)
    assert sorted(each.timestamp() for each in found.values() if each) == [2, 3]
