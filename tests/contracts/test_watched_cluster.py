"""What is promised to those who wait for records; the double in memory and a real broker are held to the same."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Protocol

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.kafka.watch import WatchClient
from tidegate.model.errors import BrokerUnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import TopicNames, TopicPattern
from tidegate.ports import Committed, WatchedCluster
from tidegate.testing.topics import MemoryTopics, Record
from tidegate.testing.watched_cluster import MemoryWatchedCluster
from tidegate_local.broker import Broker

MINUTE = 60_000


class World(Protocol):
    """A cluster, and one who asks it."""

    cluster: WatchedCluster

    def topic(self, partitions: int) -> str: ...
    def produce(self, topic: str, *timestamps: int) -> None: ...
    def open_transaction(self, topic: str) -> object: ...
    def commit(self, group: str, topic: str, offset: int) -> None: ...
    def unreachable(self) -> WatchedCluster: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.topics = MemoryTopics()
        self._positions: dict[str, dict[TopicPartition, Committed]] = {}
        self.cluster = MemoryWatchedCluster(self.topics, lambda group: self._positions.get(group, {}))

    def topic(self, partitions: int) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self.topics.create(name, partitions)
        return name

    def produce(self, topic: str, *timestamps: int) -> None:
        self.topics.produce(topic, *(Record(b"v", timestamp=each) for each in timestamps))

    def open_transaction(self, topic: str) -> object:
        transaction = self.topics.begin()
        transaction.produce(topic, Record(b"v"))
        return transaction

    def commit(self, group: str, topic: str, offset: int) -> None:
        self._positions.setdefault(group, {})[TopicPartition(topic, 0)] = Committed(offset)

    def unreachable(self) -> WatchedCluster:
        self.topics.reachable = False
        return self.cluster


class BrokerWorld:
    def __init__(self, broker: Broker, topic: Callable[..., str]) -> None:
        self._client = {"bootstrap.servers": broker.bootstrap_servers}
        self._topic = topic
        self.cluster = WatchClient(self._client)

    def topic(self, partitions: int) -> str:
        return self._topic(partitions)

    def produce(self, topic: str, *timestamps: int) -> None:
        producer = Producer(self._client)
        for each in timestamps:
            producer.produce(topic, b"v", partition=0, timestamp=each)
        assert producer.flush(120) == 0

    def open_transaction(self, topic: str) -> object:
        producer = Producer(self._client | {"transactional.id": topic})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(120) == 0
        return producer

    def commit(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer(self._client | {"group.id": group})
        consumer.commit(offsets=[KafkaPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()

    def unreachable(self) -> WatchedCluster:
        return WatchClient({"bootstrap.servers": "127.0.0.1:1"})


@pytest.fixture(params=["memory", pytest.param("broker", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = MemoryWorld()
    if request.param == "broker":
        made = BrokerWorld(request.getfixturevalue("broker"), request.getfixturevalue("topic"))
    yield made
    made.cluster.close()


def test_partitions_and_their_ends_and_what_is_not_there_has_none(world: World) -> None:
    topic, gone = world.topic(2), TopicPartition("no-such-topic", 0)
    both = (TopicPartition(topic, 0), TopicPartition(topic, 1))
    world.produce(topic, 1, 2, 3)
    assert world.cluster.partitions(TopicNames((topic, "no-such-topic"))) == both
    assert world.cluster.partitions(TopicPattern(f"{topic}.*", internal=False)) == both
    assert world.cluster.ends((*both, gone), "read_committed") == {both[0]: 3, both[1]: 0}
    assert world.cluster.ends((), "read_committed") == {}


def test_an_open_transaction_ends_what_is_read_committed(world: World) -> None:
    topic = world.topic(1)
    world.produce(topic, 1, 2)
    still_open = world.open_transaction(topic)
    at = TopicPartition(topic, 0)
    assert world.cluster.ends([at], "read_committed") == {at: 2}
    assert world.cluster.ends([at], "read_uncommitted") == {at: 3}
    del still_open


def test_offsets_by_time(world: World) -> None:
    topic = world.topic(1)
    world.produce(topic, MINUTE, 3 * MINUTE)
    at = TopicPartition(topic, 0)
    for milliseconds, offset in ((0, 0), (MINUTE, 0), (MINUTE + 1, 1), (3 * MINUTE, 1), (3 * MINUTE + 1, 2)):
        since = datetime.fromtimestamp(milliseconds / 1000, UTC)
        assert world.cluster.offsets_at([at], since) == {at: offset}, milliseconds


def test_the_committed_offsets_of_any_group(world: World) -> None:
    topic = world.topic(2)
    both = (TopicPartition(topic, 0), TopicPartition(topic, 1))
    for group, offset in ((f"{topic}-one", 1), (f"{topic}-two", 2)):
        world.commit(group, topic, offset)
        assert world.cluster.committed(group, both) == {both[0]: offset}
    assert world.cluster.committed(f"{topic}-nobody", both) == {}


def test_a_broker_that_does_not_answer_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.kafka.watch._SECONDS", 0.5)
    away = world.unreachable()
    at = TopicPartition("orders", 0)
    with pytest.raises(BrokerUnavailableError):
        away.ends([at], "read_committed")
    with pytest.raises(BrokerUnavailableError):
        away.partitions(TopicNames(("orders",)))
    with pytest.raises(BrokerUnavailableError):
        away.committed("group", [at])
    away.close()
