from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from definitions import subscription
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.records import Dropped, Failure, Headers, Outgoing, Rejected, last
from tidegate.model.subscription import DelayedRetryTopic
from tidegate.strategies.failure.delayed_retry import (
    DelayedRetry,
    delay_ms,
    due_end,
    history,
    millis,
    next_topic,
    not_due_from,
)

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
NACKED = Failure("tidegate.RejectedRecord", "nack 3 -")
THREE, ONE = ("topic1", "topic2", "topic3"), ("topic1",)

# SmallRye's KafkaDelayedRetryTopicTest, row by row: topics, max-retries, retries so far, where to
SMALLRYE = [
    (THREE, -1, 0, "topic1"),
    (THREE, -1, 1, "topic2"),
    (THREE, -1, 2, "topic3"),
    (THREE, -1, 3, "deadTopic"),
    (THREE, 0, 0, "topic1"),
    (THREE, 0, 1, "topic2"),
    (THREE, 0, 2, "topic3"),
    (THREE, 0, 3, "deadTopic"),
    (ONE, -1, 0, "topic1"),
    (ONE, -1, 1, "deadTopic"),
    (ONE, 0, 0, "topic1"),
    (ONE, 0, 1, "deadTopic"),
    (THREE, 1, 0, "topic1"),
    (THREE, 1, 1, "deadTopic"),
    (THREE, 1, 2, "deadTopic"),
    (THREE, 2, 0, "topic1"),
    (THREE, 2, 1, "topic2"),
    (THREE, 2, 2, "deadTopic"),
    (THREE, 2, 3, "deadTopic"),
    (THREE, 3, 0, "topic1"),
    (THREE, 3, 1, "topic2"),
    (THREE, 3, 2, "topic3"),
    (THREE, 3, 3, "deadTopic"),
    (THREE, 4, 0, "topic1"),
    (THREE, 4, 1, "topic2"),
    (THREE, 4, 2, "topic3"),
    (THREE, 4, 3, "topic3"),
    (THREE, 4, 4, "deadTopic"),
    (ONE, 3, 1, "topic1"),
    (ONE, 3, 2, "topic1"),
    (ONE, 3, 3, "deadTopic"),
    (ONE, 3, 4, "deadTopic"),
]


@pytest.mark.parametrize(("topics", "max_retries", "count", "expected"), SMALLRYE)
def test_the_next_topic(topics: tuple[str, ...], max_retries: int, count: int, expected: str) -> None:
    assert (next_topic(topics, max_retries, count) or "deadTopic") == expected


def test_the_defaults_are_smallryes() -> None:
    assert DelayedRetryTopic().of("source") == ("source_retry_10000", "source_retry_20000", "source_retry_50000")
    policy = DelayedRetry.of(subscription(name="source"))
    assert (policy.timeout_ms, policy.dead_letter_topic) == (120_000, None)
    assert [next_topic(policy.topics, policy.max_retries, count) for count in range(4)] == [*policy.topics, None]


@pytest.mark.parametrize(("topic", "delay"), [("a_retry_10000", 10_000), ("my_topic_0", 0), ("_5", 5)])
def test_the_delay_is_the_names_suffix(topic: str, delay: int) -> None:
    assert delay_ms(topic) == delay


@pytest.mark.parametrize("topic", ["orders", "orders_", "orders_10s", "10000", "orders_-5", "orders_٣", "o_2147483648"])
def test_a_topic_without_a_delay_is_refused_by_name(topic: str) -> None:
    with pytest.raises(ValueError, match=f"retry topic {topic}: "):
        DelayedRetry(("fine_1", topic))


def test_there_is_a_topic() -> None:
    with pytest.raises(ValueError, match="names no topic"):
        DelayedRetry(())


def at(topic: str, offset: int = 3, partition: int = 0, headers: Headers = ()) -> Rejected:
    return Rejected(TopicPartition(topic, partition), offset, 1_000, b"k", b"3", headers, NACKED)


def read_again(record: Outgoing, offset: int) -> Rejected:
    """The produced record as it lands."""
    tp = TopicPartition(record.topic, record.partition or 0)
    return Rejected(tp, offset, record.timestamp, record.key, record.value, record.headers, NACKED)


@dataclass
class World:
    """SmallRye's receiver: takes values, rejects each third but the first, and what is due is taken again."""

    policy: DelayedRetry
    now: datetime = NOON
    rejects_all: bool = False
    deliveries: list[int] = field(default_factory=list)
    lateness: list[timedelta] = field(default_factory=list)
    retried: list[Outgoing] = field(default_factory=list)
    dead: list[Outgoing] = field(default_factory=list)
    dropped: int = 0
    waiting: dict[str, deque[Outgoing]] = field(default_factory=dict)

    def publish(self, values: Iterable[int], *, partitions: int = 1) -> None:
        for value in values:
            place = TopicPartition("topic", (value + 1) % partitions)
            key, content = f"k{value}".encode(), str(value).encode()
            self._take(Rejected(place, value // partitions, millis(self.now), key, content, (), NACKED))

    def run(self, seconds: int) -> None:
        """Plan every 100 ms, each time as far as what is due."""
        for _ in range(seconds * 10):
            self.now += timedelta(milliseconds=100)
            for topic in self.policy.topics:
                self._take_due(topic)

    def _take_due(self, topic: str) -> None:
        waiting = self.waiting.get(topic, deque())
        until = millis(not_due_from(topic, self.now))
        first = next((n for n, record in enumerate(waiting) if (record.timestamp or 0) >= until), len(waiting))
        for _ in range(due_end(Watermarks(0, len(waiting)), first)):
            record = waiting.popleft()
            self.lateness.append(self.now - NOON - timedelta(milliseconds=(record.timestamp or 0) - millis(NOON)))
            self.lateness[-1] -= timedelta(milliseconds=delay_ms(topic))
            self._take(read_again(record, 1000 + len(self.deliveries)))

    def _take(self, record: Rejected) -> None:
        value = int(record.value or b"")
        self.deliveries.append(value)
        if not self.rejects_all and (value == 0 or value % 3):
            return
        match self.policy.settle(record, self.now):
            case Outgoing(topic=topic) as sent if topic in self.policy.topics:
                self.retried.append(sent)
                self.waiting.setdefault(topic, deque()).append(sent)
            case Outgoing() as dead:
                self.dead.append(dead)
            case Dropped():
                self.dropped += 1


def header(record: Outgoing, name: str) -> str | None:
    value = last(record.headers, f"delayed-retry-{name}")
    return None if value is None else value.decode()


def test_two_retry_topics_make_sixteen_deliveries() -> None:
    """KafkaFailureHandlerTest.testDelayedRetryStrategy, its delays of 2 and 4 s."""
    world = World(DelayedRetry(("topic_retry_2000", "topic_retry_4000"), dead_letter_topic="topic-dlq"))
    world.publish(range(10))
    world.run(20)
    assert sorted(world.deliveries) == sorted([*range(10), 3, 6, 9, 3, 6, 9])
    assert len(world.retried) == 6
    for record in world.retried:
        assert record.topic in world.policy.topics
        assert header(record, "exception-class-name") == "tidegate.RejectedRecord"
        assert (header(record, "reason") or "").startswith("nack 3 -")
        assert header(record, "cause") is header(record, "cause-class-name") is None
        assert (header(record, "topic"), header(record, "partition")) == ("topic", "0")
        assert header(record, "offset") == (record.value or b"").decode()
        assert header(record, "original-timestamp") == str(millis(NOON))
        assert header(record, "first-processing-timestamp") == str(millis(NOON))
        assert header(record, "count") == str(world.policy.topics.index(record.topic))
    assert [dead.value for dead in world.dead] == [b"3", b"6", b"9"]


def test_partition_and_key_stay() -> None:
    """KafkaFailureHandlerTest.testDelayedRetryStrategyMultiplePartitions: offsets 1, 2, 3 of partition 1."""
    world = World(DelayedRetry(("topic_retry_1000", "topic_retry_2000"), dead_letter_topic="topic-dlq"))
    world.publish(range(10), partitions=3)
    world.run(10)
    assert len(world.deliveries) == 16
    assert [retried.partition for retried in world.retried] == [1] * 6
    assert [retried.key for retried in world.retried] == [b"k3", b"k6", b"k9"] * 2
    assert {header(retried, "partition") for retried in world.retried} == {"1"}
    assert {header(retried, "offset") for retried in world.retried} == {"1", "2", "3"}


def test_a_single_topic_twice_and_then_dropped() -> None:
    """KafkaFailureHandlerTest.testDelayedRetryStrategyWithSingleTopic: max-retries 2, no dead-letter topic."""
    world = World(DelayedRetry(("topic_retry_2000",), max_retries=2))
    world.publish(range(10))
    world.run(20)
    assert sorted(world.deliveries) == sorted([*range(10), 3, 6, 9, 3, 6, 9])
    assert len(world.retried) == 6
    assert (world.dead, world.dropped) == ([], 3)


def test_the_timeout_ends_the_retries() -> None:
    """KafkaFailureHandlerTest.testDelayedRetryStrategyWithTimeout: 1 and 10 s, and at most 3 s."""
    topics = ("topic_retry_1000", "topic_retry_10000")
    world = World(DelayedRetry(topics, timeout_ms=3000, dead_letter_topic="topic-dlq"))
    world.publish(range(10))
    world.run(20)
    assert len(world.deliveries) == 13
    assert len(world.retried) == len(world.dead) == 3


def test_every_retry_comes_soon_after_it_is_due_and_never_before() -> None:
    """KafkaFailureHandlerTest.testDelayedRetryProcessingDelay: 20 records that always fail, 1 and 5 s."""
    world = World(DelayedRetry(("topic_retry_1000", "topic_retry_5000")), rejects_all=True)
    world.publish(range(10))
    world.run(3)
    world.publish(range(10, 20))
    world.run(30)
    assert len(world.lateness) == 40
    assert all(timedelta(0) <= late < timedelta(milliseconds=1000) for late in world.lateness)


@pytest.mark.parametrize(("timeout_ms", "is_retried"), [(9_999, False), (10_000, True)])
def test_the_timeout_is_the_last_instant_for_a_retry(timeout_ms: int, is_retried: bool) -> None:
    settled = DelayedRetry(("orders_retry_10000",), timeout_ms=timeout_ms).settle(at("orders"), NOON)
    assert isinstance(settled, Outgoing if is_retried else Dropped)


def test_a_retry_has_the_timestamp_by_which_it_is_due() -> None:
    settled = DelayedRetry(("orders_retry_10000",)).settle(at("orders"), NOON + timedelta(microseconds=1999))
    assert isinstance(settled, Outgoing)
    assert settled.timestamp == millis(NOON) + 1


OWN: Headers = (("a", b"1"), ("null", None), ("a", b""), ("delayed-retry-count", b"7"), ("delayed-retry-cause", b"x"))


def test_a_record_from_elsewhere_begins_anew_and_keeps_its_headers() -> None:
    policy = DelayedRetry.of(subscription())
    settled = policy.settle(at("orders", headers=OWN), NOON)
    assert isinstance(settled, Outgoing)
    assert settled.topic == "orders_retry_10000"
    assert settled.headers[: len(OWN)] == OWN
    assert header(settled, "count") == "0"


def test_our_headers_are_replaced_and_no_others() -> None:
    policy = DelayedRetry(("orders_retry_1000", "orders_retry_2000"), dead_letter_topic="dead")
    first = policy.settle(at("orders", 42, headers=OWN), NOON)
    assert isinstance(first, Outgoing)
    second = policy.settle(read_again(first, 0), NOON + timedelta(seconds=1))
    assert isinstance(second, Outgoing)
    assert second.headers[: len(OWN)] == OWN
    assert len(second.headers) == len(first.headers)
    assert [header(second, name) for name in ("count", "topic", "offset")] == ["1", "orders", "42"]
    assert header(second, "first-processing-timestamp") == str(millis(NOON))
    third = policy.settle(read_again(second, 9), NOON + timedelta(seconds=3))
    assert isinstance(third, Outgoing)
    assert third.topic == "dead"
    assert third.headers[: len(OWN)] == OWN
    assert last(third.headers, "tidegate-timestamp") == b"1000"
    assert header(third, "count") == "2"
    origin = [last(third.headers, f"dead-letter-{name}") for name in ("topic", "partition", "offset")]
    assert origin == [b"orders", b"0", b"42"]


def test_a_record_without_a_timestamp_has_none_as_a_dead_letter() -> None:
    policy = DelayedRetry(("orders_retry_1",), dead_letter_topic="dead")
    first = policy.settle(Rejected(TopicPartition("orders", 0), 1, None, None, None, (), NACKED), NOON)
    assert isinstance(first, Outgoing)
    assert header(first, "original-timestamp") == "-1"
    second = policy.settle(read_again(first, 0), NOON)
    assert isinstance(second, Outgoing)
    assert (second.topic, second.timestamp) == ("dead", None)


UNDECODED: Headers = (
    ("deserialization-failure-deserializer", b"avro"),
    ("deserialization-failure-dlq", b"true"),
    ("deserialization-failure-data", b"3"),
)


def test_an_undecodable_record_doesnt_grow_with_every_retry_and_says_why_as_a_dead_letter() -> None:
    policy = DelayedRetry(("orders_retry_1", "orders_retry_2"), dead_letter_topic="dead")
    old: Headers = (("deserialization-failure-data", b"of another time"),)
    record = at("orders", headers=old + UNDECODED)
    for _ in policy.topics:
        settled = policy.settle(record, NOON)
        assert isinstance(settled, Outgoing)
        assert settled.headers[:1] == old
        assert not set(UNDECODED) & set(settled.headers)
        again = read_again(settled, 0)
        record = at(again.at.topic, headers=again.headers + UNDECODED)
    buried = policy.settle(record, NOON)
    assert isinstance(buried, Outgoing)
    assert buried.topic == "dead"
    assert buried.headers[:3] == (*old, UNDECODED[0], UNDECODED[2])


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ((), 1),
        ((("delayed-retry-count", b"1"), ("delayed-retry-count", b"2")), 3),
        ((("delayed-retry-count", None),), 1),
        ((("delayed-retry-count", b"-4"),), 1),
        ((("delayed-retry-count", b"many"),), 1),
        ((("delayed-retry-count", b"9" * 5000),), 1),
    ],
)
def test_the_last_count_is_read_and_what_cant_be_read_stops_nothing(headers: Headers, count: int) -> None:
    found = history(at("orders_retry_1", 8, headers=headers), ("orders_retry_1",), NOON)
    assert found.count == count
    assert (found.at.topic, found.offset, found.timestamp) == ("orders_retry_1", 8, 1_000)
    assert found.first_processing == millis(NOON)


def test_a_plan_stops_at_the_first_record_that_isnt_due() -> None:
    assert not_due_from("t_1000", NOON) == NOON - timedelta(milliseconds=999)
    assert not_due_from("t_1000", NOON + timedelta(microseconds=999)) == NOON - timedelta(milliseconds=999)
    assert not_due_from("t_2147483647", datetime(1970, 1, 2, tzinfo=UTC)) == datetime(1970, 1, 1, tzinfo=UTC)
    assert due_end(Watermarks(5, 100), 40) == 40
    assert due_end(Watermarks(5, 100), 100) == 100
    assert due_end(Watermarks(5, 30), 100) == 30
    assert due_end(Watermarks(50, 100), 40) == 50


@given(st.lists(st.integers(0, 5_000), max_size=20), st.integers(0, 3_000), st.integers(0, 10_000_000))
def test_nothing_is_taken_before_it_is_due_and_all_is_in_the_end(stamps: list[int], delay: int, after_us: int) -> None:
    topic, now = f"t_{delay}", NOON + timedelta(microseconds=after_us)
    begin = millis(not_due_from(topic, now)) - millis(NOON)
    first = next((offset for offset, stamp in enumerate(stamps) if stamp >= begin), len(stamps))
    taken = due_end(Watermarks(0, len(stamps)), first)
    assert all((stamp + delay) * 1000 <= after_us for stamp in stamps[:taken])
    assert taken == len(stamps) or (stamps[taken] + delay) * 1000 > after_us
