"""What every outbox promises; the double in memory and a producer on a real broker are held to the same."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from topic_reader import Arrived, arrived

from tidegate.kafka.outbox import KafkaOutbox
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.records import Outgoing
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTopics


class Post(Protocol):
    """An outbox, and the topics that it sends to."""

    outbox: Any

    def topic(self, partitions: int) -> str: ...
    def arrived(self, topic: str) -> list[Arrived]: ...
    def topics(self) -> set[str]: ...


class MemoryPost:
    def __init__(self) -> None:
        self._topics = MemoryTopics()
        self.outbox = MemoryOutbox(self._topics)

    def topic(self, partitions: int) -> str:
        self._topics.create("dead", partitions)
        return "dead"

    def arrived(self, topic: str) -> list[Arrived]:
        logs = [self._topics.logs[at] for at in sorted(self._topics.logs) if at.topic == topic]
        return [
            Arrived(number, record.timestamp, record.key, record.value, record.headers)
            for number, log in enumerate(logs)
            for _, record in log.records(0, log.high, committed_only=True)
        ]

    def topics(self) -> set[str]:
        return set(self._topics.ids)


class KafkaPost:
    def __init__(self, servers: str, make_topic: Callable[..., str], topics: Callable[[], set[str]]) -> None:
        self.outbox = KafkaOutbox({"bootstrap.servers": servers}, timeout=20)
        self._servers = servers
        self._make_topic = make_topic
        self.topics = topics

    def topic(self, partitions: int) -> str:
        return self._make_topic(partitions=partitions)

    def arrived(self, topic: str) -> list[Arrived]:
        return arrived(self._servers, topic)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def post(request: pytest.FixtureRequest) -> Iterator[Post]:
    if request.param == "memory":
        yield MemoryPost()
        return
    servers = request.getfixturevalue("broker").bootstrap_servers
    admin = request.getfixturevalue("admin")
    post = KafkaPost(servers, request.getfixturevalue("topic"), lambda: set(admin.list_topics(timeout=20).topics))
    yield post
    post.outbox.close()


def outgoing(topic: str, **values: Any) -> Outgoing:
    return replace(Outgoing(topic, 0, 1_500_000_000_000, b"key", b"value", ()), **values)


RECORDS: tuple[dict[str, Any], ...] = (
    {},
    {"key": None},
    {"key": b""},
    {"value": None},
    {"value": b""},
    {"headers": (("a", b"1"), ("b", None), ("a", b""), ("ä", b"\xff"), ("a", b"1"), ("", b""))},
    {"timestamp": 1},
    {"partition": 1},
)


@pytest.mark.parametrize("values", RECORDS, ids=str)
def test_a_record_arrives_as_it_was_given(post: Post, values: dict[str, Any]) -> None:
    sent = outgoing(post.topic(2), **values)
    assert post.outbox.send([sent]) == 1
    (found,) = post.arrived(sent.topic)
    assert found == (sent.partition, sent.timestamp, sent.key, sent.value, sent.headers)


def test_records_are_counted_and_keep_their_order(post: Post) -> None:
    topic = post.topic(2)
    values = [b"%d" % number for number in range(500)]
    assert post.outbox.send(outgoing(topic, partition=n % 2, value=value) for n, value in enumerate(values)) == 500
    assert [record.value for record in post.arrived(topic)] == values[0::2] + values[1::2]
    assert post.outbox.send([outgoing(topic)]) == 1
    assert len(post.arrived(topic)) == 501


def test_nothing_to_send_is_fine(post: Post) -> None:
    assert post.outbox.send([]) == 0
    assert post.outbox.send(iter(())) == 0


@pytest.mark.parametrize("partition", [None, 3, 2**31 - 1])
def test_without_a_partition_that_is_there_the_key_decides(post: Post, partition: int | None) -> None:
    topic = post.topic(3)
    keys = [b"%d" % number for number in range(60)]
    post.outbox.send(outgoing(topic, partition=partition, key=key) for key in keys)
    first = {record.key: record.partition for record in post.arrived(topic)}
    assert set(first.values()) == {0, 1, 2}
    post.outbox.send(outgoing(topic, partition=partition, key=key) for key in keys)
    assert {(record.key, record.partition) for record in post.arrived(topic)} == set(first.items())
    post.outbox.send([outgoing(topic, partition=partition, key=None)])
    assert len(post.arrived(topic)) == 121


def test_a_topic_that_is_not_there_is_refused_by_name_and_never_created(post: Post) -> None:
    there = post.topic(1)
    with pytest.raises(WrongDefinitionError, match=r"topic no-such-topic, .*isn't there.*create it"):
        post.outbox.send([outgoing("no-such-topic")])
    assert "no-such-topic" not in post.topics()
    assert post.outbox.send([outgoing(there)]) == 1


def test_an_error_of_who_gives_the_records_comes_through(post: Post) -> None:
    topic = post.topic(1)

    def records() -> Iterator[Outgoing]:
        yield outgoing(topic)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        post.outbox.send(records())
    assert post.outbox.send([outgoing(topic, value=b"later")]) == 1
    assert post.arrived(topic)[-1].value == b"later"


def test_the_double_remembers_what_was_sent() -> None:
    outbox = MemoryOutbox()
    sent = [outgoing("anywhere", partition=None, timestamp=None)]
    outbox.send(sent)
    assert outbox.produced == sent
