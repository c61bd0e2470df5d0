"""A subscription's topic and its dead-letter topic on a real broker, and whoever redrives from one to the other."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from definitions import subscription
from topic_reader import await_transactions

from tidegate.config import consumer_properties
from tidegate.config.settings import Settings
from tidegate.dead_letters.redriver import RedriveRequest
from tidegate.dead_letters.targets import Targets
from tidegate.model.subscription import TopicNames
from tidegate.operations.dead_letters import OpenDeadLetters, open_dead_letters
from tidegate.ports import Connection
from tidegate.testing.connections import MemoryConnections
from tidegate_local.broker import Broker


@contextmanager
def opened(name: str, home: Path, servers: str, **values: Any) -> Iterator[OpenDeadLetters]:
    """The dead letters of a subscription of this name, with these values."""
    kafka = Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": servers})
    definition = subscription(
        name=name,
        poll_timeout_ms=30_000,
        consumer={"group_id": f"{name}-lake", "librdkafka": consumer_properties.translate({})},
        **values,
    )
    settings = Settings.from_environment({"TIDEGATE_HOME": str(home)})
    with open_dead_letters(definition, settings, MemoryConnections(kafka)) as letters:
        yield letters


@dataclass
class Yard:
    """A subscription's topic and its dead-letter topic on the real broker."""

    name: str
    broker: Broker
    home: Path
    admin: AdminClient
    put_already: int = field(default=0)

    @property
    def topic(self) -> str:
        return f"dead-letter-topic-{self.name}"

    @property
    def producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 1})

    def put(self, count: int, *, partitions: int = 1, reason: str = "no number", to: str | None = None) -> None:
        """Dead letters with their number as value, spread over the partitions of the dead-letter topic."""
        producer = self.producer
        for number in range(self.put_already, self.put_already + count):
            headers = [
                ("trace", b"\x00\xff"),
                ("nothing", None),
                ("dead-letter-reason", reason.encode()),
                ("dead-letter-topic", (to or self.name).encode()),
                ("dead-letter-partition", b"1"),
                ("dead-letter-offset", str(number).encode()),
            ]
            key, value = f"k{number}".encode(), str(number).encode()
            producer.produce(self.topic, value, key, number % partitions, timestamp=1000 + number, headers=headers)
        assert producer.flush(120) == 0
        self.put_already += count

    def arrived(self, topic: str | None = None) -> list[Any]:
        """What a reader of committed records finds in the topic, now."""
        topic = topic or self.name
        await_transactions(self.broker.bootstrap_servers, topic)
        found: list[Any] = []
        client = {"group.id": "look", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap_servers, "auto.offset.reset": "earliest", **client}
        )
        try:
            numbers = consumer.list_topics(topic, 20).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
            open_ones, deadline = len(numbers), time.monotonic() + 60
            while open_ones:
                assert time.monotonic() < deadline, f"{topic} isn't read to its end"
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error():
                    open_ones -= 1
                else:
                    found.append(message)
        finally:
            consumer.close()
        return found

    def values(self) -> list[int]:
        return sorted(int(message.value()) for message in self.arrived())

    def letters(self) -> Any:
        return opened(self.name, self.home, self.broker.bootstrap_servers)

    def order(self, **values: Any) -> RedriveRequest:
        """Of what lies in the dead-letter topic, to the subscription's topic and those that are allowed."""
        targets = Targets(TopicNames((self.name,)), frozenset(values.pop("allowed", ())))
        return RedriveRequest(self.name, targets, **values)

    def redrive(self, **values: Any) -> Any:
        """A plain redrive, and how it came out."""
        with self.letters() as letters:
            order = self.order(**values)
            redriver = letters.redriver(order)
            redriver.run(letters.survey(order), lambda _: None)
            return redriver
