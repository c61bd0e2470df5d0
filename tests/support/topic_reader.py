"""What a reader of committed records finds in a topic of a real broker."""

from threading import Event
from time import monotonic
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.model.records import Headers

_SECONDS = 60
_PAUSE = Event()


class Arrived(NamedTuple):
    """A record as it lies in a topic."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def arrived(bootstrap_servers: str, topic: str) -> list[Arrived]:
    """All records that are committed, in order of partition and offset, once no transaction is open in the topic."""
    await_transactions(bootstrap_servers, topic)
    return visible(bootstrap_servers, topic)


def await_transactions(bootstrap_servers: str, topic: str) -> None:
    """Wait until none is open in the topic.

    A commit is answered before the partitions have its markers: a reader may reach their end without its records.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    deadline = monotonic() + _SECONDS
    while _ends(admin, topic, IsolationLevel.READ_COMMITTED) != _ends(admin, topic, IsolationLevel.READ_UNCOMMITTED):
        assert monotonic() < deadline, f"a transaction stays open in {topic}"
        _PAUSE.wait(0.02)


def _ends(admin: AdminClient, topic: str, isolation: IsolationLevel) -> dict[int, int]:
    numbers = admin.list_topics(topic, _SECONDS).topics[topic].partitions
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in numbers}
    found = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_SECONDS)
    return {at.partition: answer.result().offset for at, answer in found.items()}


def visible(bootstrap_servers: str, topic: str) -> list[Arrived]:
    """The records that a reader of committed ones is given now, in order of partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "topic-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        numbers = consumer.list_topics(topic, _SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        return _until_the_end(consumer, set(numbers))
    finally:
        consumer.close()


def _until_the_end(consumer: Consumer, numbers: set[int]) -> list[Arrived]:
    found: list[tuple[int, int, Arrived]] = []
    deadline = monotonic() + _SECONDS
    while numbers:
        assert monotonic() < deadline, "the topic wasn't read to its end"
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            numbers.discard(message.partition())
            continue
        headers = tuple((name, value) for name, value in message.headers() or ())
        record = Arrived(message.partition(), message.timestamp()[1], message.key(), message.value(), headers)
        found.append((message.partition(), message.offset(), record))
    return [record for _, _, record in sorted(found, key=lambda one: one[:2])]
