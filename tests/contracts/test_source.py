"""What every record source promises; the double in memory and a real broker are held to the same."""

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest
from broker_topics import delete_topic, listed
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from tidegate.kafka.source import KafkaSource
from tidegate.model.errors import BrokerUnavailableError, LostDataError
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.subscription import IsolationLevel, TopicNames, TopicPartitions, TopicPattern, TopicSelection
from tidegate.ports import RecordSource
from tidegate.testing.source import MemorySource, ReadRecord
from tidegate.testing.topics import MemoryTopics, Record

SECONDS = 120.0
SHORT = 1.0
OFFSETS_TOPIC = "__consumer_offsets"
Row = tuple[int, int, bytes | None]  # partition, offset, value


class World(Protocol):
    """A broker with topics, and sources that read from it."""

    def topic(self, partitions: int = 1, name: str | None = None) -> str: ...
    def internal_topic(self) -> str: ...
    def add_partition(self, topic: str, total: int) -> None: ...
    def make_anew(self, topic: str) -> None: ...
    def produce(self, topic: str, *values: bytes, partition: int = 0, timestamp: int = 1) -> None: ...
    def transaction(self, topic: str, *values: bytes, end: str) -> None: ...
    def expire(self, topic: str, before: int) -> None: ...
    def source(self, isolation_level: IsolationLevel = "read_committed") -> RecordSource: ...
    def unreachable(self) -> RecordSource: ...
    def now(self) -> float: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.topics = MemoryTopics()

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        name = name or f"topic-{uuid.uuid4().hex[:8]}"
        self.topics.create(name, partitions)
        return name

    def internal_topic(self) -> str:
        self.topics.create(OFFSETS_TOPIC)
        return OFFSETS_TOPIC

    def add_partition(self, topic: str, total: int) -> None:
        self.topics.add_partitions(topic, 1)
        assert sum(at.topic == topic for at in self.topics.logs) == total

    def make_anew(self, topic: str) -> None:
        self.topics.delete(topic)
        self.topics.create(topic)

    def produce(self, topic: str, *values: bytes, partition: int = 0, timestamp: int = 1) -> None:
        self.topics.produce(topic, *(Record(v, timestamp=timestamp) for v in values), partition=partition)

    def transaction(self, topic: str, *values: bytes, end: str) -> None:
        transaction = self.topics.begin()
        transaction.produce(topic, *(Record(v) for v in values))
        if end != "open":
            {"commit": transaction.commit, "abort": transaction.abort}[end]()

    def expire(self, topic: str, before: int) -> None:
        self.topics.expire(topic, before)

    def source(self, isolation_level: IsolationLevel = "read_committed") -> RecordSource:
        return MemorySource(self.topics, isolation_level=isolation_level)

    def unreachable(self) -> RecordSource:
        topics = MemoryTopics()
        topics.reachable = False
        return MemorySource(topics)

    def now(self) -> float:
        return 0.0


class KafkaWorld:
    def __init__(self, bootstrap: str, admin: AdminClient, topic: Callable[..., str], stack: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._admin = admin
        self._make = topic
        self._stack = stack

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        name = self._make(partitions, name=name)
        self._wait_for(name, partitions)
        return name

    def internal_topic(self) -> str:
        """Kafka makes it when the first group asks for its offsets."""
        asking = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "asking"})
        self._stack.callback(asking.close)
        asking.committed([KafkaPartition("nowhere", 0)], timeout=SECONDS)
        self._wait(lambda: self._partitions(OFFSETS_TOPIC) > 0)
        return OFFSETS_TOPIC

    def add_partition(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(SECONDS)
        self._wait_for(topic, total)

    def make_anew(self, topic: str) -> None:
        delete_topic(self._admin, topic)
        self._make(name=topic)
        self._wait_for(topic, 1)

    def _wait_for(self, topic: str, partitions: int) -> None:
        """A broker hears a moment after the controller what was created or deleted."""
        self._wait(lambda: self._partitions(topic) == partitions)

    def _partitions(self, topic: str) -> int:
        return len(listed(self._admin, topic).partitions)

    def _end(self, topic: str) -> int:
        (found,) = self._admin.list_offsets({KafkaPartition(topic, 0): OffsetSpec.latest()}).values()
        return int(found.result(SECONDS).offset)

    def _wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline, "waited in vain"

    def produce(self, topic: str, *values: bytes, partition: int = 0, timestamp: int = 1) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for value in values:
            producer.produce(topic, value=value, partition=partition, timestamp=timestamp)
        assert producer.flush(SECONDS) == 0

    def transaction(self, topic: str, *values: bytes, end: str) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, partition=0)
        assert producer.flush(SECONDS) == 0
        if end == "open":
            self._stack.callback(producer.abort_transaction, SECONDS)
        else:
            before = self._end(topic)
            {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end](SECONDS)
            self._wait(lambda: self._end(topic) > before)  # a marker is written a moment later

    def expire(self, topic: str, before: int) -> None:
        partition = KafkaPartition(topic, 0, before)
        for future in self._admin.delete_records([partition]).values():
            future.result(SECONDS)

    def source(self, isolation_level: IsolationLevel = "read_committed") -> RecordSource:
        client = {"bootstrap.servers": self._bootstrap}
        source = KafkaSource(client, isolation_level=isolation_level, timeout=SECONDS)
        self._stack.callback(source.close)
        return source

    def unreachable(self) -> RecordSource:
        source = KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, timeout=SHORT)
        self._stack.callback(source.close)
        return source

    def now(self) -> float:
        return time.monotonic()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    with ExitStack() as stack:
        servers = request.getfixturevalue("broker").bootstrap_servers
        yield KafkaWorld(servers, request.getfixturevalue("admin"), request.getfixturevalue("topic"), stack)


def read(
    world: World, source: RecordSource, ranges: Sequence[Range], seconds: float = SECONDS
) -> tuple[list[Row], dict[int, tuple[int, int]]]:
    """The rows that were read, by partition and offset, and per partition the end reached and the records."""
    found: list[Row] = []
    with source.read(ranges, world.now() + seconds) as reader:
        for chunk in reader:
            assert len(chunk) > 0
            found += _rows(chunk)
        progress = reader.progress()
    assert [(r.at, r.start) for r, _ in progress] == [(r.at, r.start) for r in ranges]
    return sorted(found), {r.partition: (r.end, records) for r, records in progress}


def _rows(chunk: Any) -> list[Row]:
    if isinstance(chunk, tuple):
        records: Collection[ReadRecord] = chunk
        return [(r.partition, r.offset, r.record.value) for r in records]
    return [(row["partition"], row["offset"], row["value"]) for row in chunk.to_pylist()]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, end)]


def test_partitions_of_named_topics_come_in_order_and_missing_topics_have_none(world: World) -> None:
    one, two, source = world.topic(), world.topic(2), world.source()
    expected = sorted([TopicPartition(one, 0), TopicPartition(two, 0), TopicPartition(two, 1)])
    assert list(source.partitions(TopicNames((two, "nowhere", one)))) == expected
    assert source.partitions(TopicNames(("nowhere",))) == ()  # nor was it created


def test_where_all_may_be_seen_a_missing_topic_isnt_hidden_nor_made(world: World) -> None:
    topic, source = world.topic(), world.source()
    assert source.hidden([topic, "nowhere"]) == frozenset()
    assert source.partitions(TopicNames(("nowhere",))) == ()


def test_a_new_partition_is_seen(world: World) -> None:
    topic, source = world.topic(), world.source()
    assert len(source.partitions(TopicNames((topic,)))) == 1
    world.add_partition(topic, 2)
    assert source.partitions(TopicNames((topic,)))[-1] == TopicPartition(topic, 1)


def test_a_pattern_is_a_full_match(world: World) -> None:
    topic, source = world.topic(), world.source()
    assert source.partitions(TopicPattern(topic[:-1])) == ()
    assert source.partitions(TopicPattern(topic[:-1] + ".")) == (TopicPartition(topic, 0),)


def test_a_pattern_finds_internal_topics_only_if_it_says_so(world: World) -> None:
    topic, internal, source = world.topic(), world.internal_topic(), world.source()
    pattern = f"{topic}|__.*"

    def found(selection: TopicSelection) -> set[str]:
        return {at.topic for at in source.partitions(selection)}

    assert found(TopicPattern(pattern)) == {topic}
    assert found(TopicPattern(pattern, internal=True)) >= {topic, internal}
    assert found(TopicNames((internal,))) == {internal}
    assert found(TopicPartitions({internal: (0,)})) == {internal}


def test_a_topic_of_a_user_s_own_may_begin_like_an_internal_one(world: World) -> None:
    own = world.topic(name=f"__own-{uuid.uuid4().hex[:8]}")
    assert world.source().partitions(TopicPattern("__own-.*")) == (TopicPartition(own, 0),)


def test_chosen_partitions_are_those_that_exist(world: World) -> None:
    topic, source = world.topic(3), world.source()
    chosen = TopicPartitions({topic: (0, 2, 7), "nowhere": (0,)})
    assert source.partitions(chosen) == (TopicPartition(topic, 0), TopicPartition(topic, 2))


def test_watermarks_end_at_the_last_stable_offset_under_read_committed(world: World) -> None:
    topic = world.topic(2)
    world.produce(topic, *numbers(0, 3))
    world.transaction(topic, b"open", end="open")
    world.produce(topic, b"after")
    at, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert world.source().watermarks([at, other]) == {at: Watermarks(0, 3), other: Watermarks(0, 0)}
    assert world.source("read_uncommitted").watermarks([at]) == {at: Watermarks(0, 5)}


def test_watermarks_begin_at_the_earliest_record(world: World) -> None:
    topic = world.topic()
    world.produce(topic, *numbers(0, 5))
    world.expire(topic, 2)
    at = TopicPartition(topic, 0)
    assert world.source().watermarks([at]) == {at: Watermarks(2, 5)}


def test_offsets_at_a_time_are_the_first_at_or_after_it(world: World) -> None:
    topic, source = world.topic(2), world.source()
    for second in (10, 20, 30):
        world.produce(topic, b"r", timestamp=second * 1000)
    at, other = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def offset(seconds: float) -> dict[TopicPartition, int]:
        return source.offsets_at([at, other], datetime.fromtimestamp(seconds, UTC))

    assert offset(5) == {at: 0, other: 0}
    assert offset(20) == {at: 1, other: 0}
    assert offset(20.001) == {at: 2, other: 0}
    assert offset(31) == {at: 3, other: 0}


def second(number: float) -> datetime:
    return datetime.fromtimestamp(number, UTC)


def test_the_time_of_the_first_record_at_or_after_each_position(world: World) -> None:
    topic, source = world.topic(3), world.source()
    for each in (10, 30, 20):
        world.produce(topic, b"r", timestamp=each * 1000)
    world.produce(topic, b"r", timestamp=40_250, partition=2)
    of = [TopicPartition(topic, number) for number in range(3)]
    assert source.times_of({of[0]: 0, of[1]: 0, of[2]: 0}, SECONDS) == {
        of[0]: second(10),
        of[1]: None,
        of[2]: second(40.25),
    }
    assert source.times_of({of[0]: 1}, SECONDS) == {of[0]: second(30)}
    assert source.times_of({of[0]: 2, of[2]: 1}, SECONDS) == {of[0]: second(20), of[2]: None}
    assert source.times_of({}, SECONDS) == {}


def test_the_time_of_the_first_record_after_a_gap_of_aborted_ones(world: World) -> None:
    topic = world.topic()
    world.transaction(topic, *numbers(0, 3), end="abort")
    at = TopicPartition(topic, 0)
    assert world.source().times_of({at: 1}, SECONDS) == {at: None}
    world.produce(topic, b"after", timestamp=5_000)
    assert world.source().times_of({at: 1}, SECONDS) == {at: second(5)}


def test_a_record_of_an_open_transaction_has_no_time_yet(world: World) -> None:
    topic = world.topic()
    world.transaction(topic, b"open", end="open")
    world.produce(topic, b"after", timestamp=5_000)
    at = TopicPartition(topic, 0)
    assert world.source().times_of({at: 0}, SECONDS) == {at: None}
    assert world.source("read_uncommitted").times_of({at: 1}, SECONDS) == {at: second(5)}


def test_a_time_that_isnt_known_is_left_out(world: World) -> None:
    topic = world.topic()
    world.produce(topic, *numbers(0, 5), timestamp=5_000)
    world.expire(topic, 3)
    at, nowhere = TopicPartition(topic, 0), TopicPartition(topic, 7)
    assert world.source().times_of({at: 1}, SHORT) == {}  # gone
    assert world.source().times_of({at: 3, nowhere: 0}, SHORT) == {at: second(5)}
    assert world.unreachable().times_of({at: 3}, SHORT) == {}


def test_each_topic_has_an_id_and_a_missing_one_has_none(world: World) -> None:
    one, two, source = world.topic(), world.topic(2), world.source()
    ids = source.topic_ids([one, "nowhere", two])
    assert set(ids) == {one, two}
    assert ids[one] != ids[two]
    world.produce(one, b"r")
    assert source.topic_ids([one]) == {one: ids[one]}
    assert source.topic_ids([]) == source.topic_ids(["nowhere"]) == {}


def test_a_topic_that_was_made_anew_has_another_id(world: World) -> None:
    topic, source = world.topic(), world.source()
    before = source.topic_ids([topic])
    world.make_anew(topic)
    after = source.topic_ids([topic])
    assert set(before) == set(after) == {topic}
    assert before != after


def test_a_range_keeps_the_leader_epoch_of_its_start_and_ends_under_no_older_one(world: World) -> None:
    topic = world.topic(3)
    for partition in range(3):
        world.produce(topic, *numbers(0, 5), partition=partition)
    planned = [Range(topic, 0, 1, 5, start_epoch=0), Range(topic, 1, 2, 9), Range(topic, 2, 3, 3, start_epoch=0)]
    with world.source().read(planned, world.now() + SHORT) as reader:
        for _ in reader:
            pass
    read_to = [r for r, _ in reader.progress()]
    assert [(r.end, r.start_epoch) for r in read_to] == [(5, 0), (5, None), (3, 0)]
    assert all(r.end_epoch in {0, None} for r in read_to)


def test_exactly_the_ranges_are_read(world: World) -> None:
    topic = world.topic(3)
    for partition in range(3):
        world.produce(topic, *numbers(0, 300), partition=partition)
    ranges = [Range(topic, 0, 10, 290), Range(topic, 1, 0, 1), Range(topic, 2, 5, 5)]
    rows, progress = read(world, world.source(), ranges)
    assert rows == [(0, n, b"%d" % n) for n in range(10, 290)] + [(1, 0, b"0")]
    assert progress == {0: (290, 280), 1: (1, 1), 2: (5, 0)}


def test_several_topics_are_told_apart(world: World) -> None:
    one, two = world.topic(), world.topic(2)
    world.produce(one, *numbers(0, 7))
    world.produce(two, *numbers(0, 9), partition=1)
    with world.source().read([Range(two, 1, 0, 9), Range(one, 0, 0, 7)], world.now() + SECONDS) as reader:
        for _ in reader:
            pass
        assert reader.progress() == ((Range(two, 1, 0, 9), 9), (Range(one, 0, 0, 7), 7))


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_range_ends_behind_trailing_markers(world: World, end: str) -> None:
    topic = world.topic()
    world.produce(topic, b"plain")
    world.transaction(topic, b"in", b"side", end=end)
    rows, progress = read(world, world.source(), [Range(topic, 0, 0, 4)])
    assert [value for *_, value in rows] == ([b"plain", b"in", b"side"] if end == "commit" else [b"plain"])
    assert progress == {0: (4, len(rows))}


def test_a_range_may_end_within_an_aborted_transaction(world: World) -> None:
    topic = world.topic()
    world.produce(topic, b"before")
    world.transaction(topic, *numbers(0, 5), end="abort")
    world.produce(topic, b"after")
    assert read(world, world.source(), [Range(topic, 0, 0, 3)]) == ([(0, 0, b"before")], {0: (3, 1)})
    assert read(world, world.source(), [Range(topic, 0, 2, 7)]) == ([], {0: (7, 0)})


def test_read_uncommitted_sees_aborted_and_open_transactions(world: World) -> None:
    topic = world.topic()
    world.transaction(topic, b"aborted", end="abort")
    world.transaction(topic, b"open", end="open")
    rows, progress = read(world, world.source("read_uncommitted"), [Range(topic, 0, 0, 3)])
    assert (rows, progress) == ([(0, 0, b"aborted"), (0, 2, b"open")], {0: (3, 2)})


def test_an_open_transaction_holds_the_reading_up_until_the_deadline(world: World) -> None:
    topic = world.topic()
    world.produce(topic, b"before")
    world.transaction(topic, b"open", end="open")
    assert read(world, world.source(), [Range(topic, 0, 0, 2)], SHORT) == ([(0, 0, b"before")], {0: (1, 1)})


def test_the_deadline_shrinks_the_range_to_what_was_read(world: World) -> None:
    topic = world.topic(2)
    world.produce(topic, *numbers(0, 5))
    ranges = [Range(topic, 0, 0, 10), Range(topic, 1, 3, 3)]
    rows, progress = read(world, world.source(), ranges, SHORT)
    assert (len(rows), progress) == (5, {0: (5, 5), 1: (3, 0)})


def test_after_the_deadline_nothing_is_read(world: World) -> None:
    topic = world.topic()
    world.produce(topic, b"r")
    assert read(world, world.source(), [Range(topic, 0, 0, 1)], -1) == ([], {0: (0, 0)})


def test_a_partition_that_does_not_exist_leaves_its_range_empty_and_the_others_whole(world: World) -> None:
    topic = world.topic()
    world.produce(topic, b"r")
    rows, progress = read(world, world.source(), [Range(topic, 0, 0, 1), Range(topic, 6, 2, 9)], SHORT)
    assert (rows, progress) == ([(0, 0, b"r")], {0: (1, 1), 6: (2, 0)})


@pytest.mark.parametrize("start", [1, 9])
def test_records_that_are_gone_are_lost_data(world: World, start: int) -> None:
    topic = world.topic()
    world.produce(topic, *numbers(0, 5))
    world.expire(topic, 3)
    with pytest.raises(LostDataError, match=rf"\[3, 5\).*topic {topic}, partition 0, offset {start}\)"):
        read(world, world.source(), [Range(topic, 0, start, 10)])


def test_nobody_answers(world: World) -> None:
    source, at = world.unreachable(), TopicPartition("flights", 0)
    with pytest.raises(BrokerUnavailableError):
        source.partitions(TopicNames(("flights",)))
    with pytest.raises(BrokerUnavailableError):
        source.watermarks([at])
    with pytest.raises(BrokerUnavailableError):
        source.offsets_at([at], datetime.now(UTC))
    with pytest.raises(BrokerUnavailableError):
        source.topic_ids(["flights"])
    assert read(world, source, [Range("flights", 0, 4, 9)], SHORT) == ([], {0: (4, 0)})
