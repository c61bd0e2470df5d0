"""Whatever a topic holds, every record that counts lands as it was received, and the group ends without lag."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ctypes import c_char_p, c_int, c_size_t, c_ssize_t, c_void_p, create_string_buffer
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from broker_world import committed, deliver, in_lake
from by_night import rows_one_in
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from mock_cluster import _librdkafka as librdkafka

from tidegate.model.errors import LostDataError
from tidegate.model.offsets import TopicPartition as Position
from tidegate.runtime.pipeline import Pipeline
from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.broker

SECONDS = 120.0
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}


class Log:
    """One partition, and what was put into it, in order: plain records and transactions, which may be open."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        group = {"group.id": uuid.uuid4().hex, "isolation.level": "read_uncommitted"}
        self._asker = Consumer({"bootstrap.servers": servers} | group)
        self.topic = topic
        self._open: dict[str, Producer] = {}
        self._end = 0

    def play(self, script: str) -> None:
        """`p`: a plain record; `a`, `b`: a record of that transaction, from its first on; `A+` commits, `A-` aborts."""
        for word in script.split():
            match word:
                case "p":
                    self._produce(Producer({"bootstrap.servers": self._servers}))
                case "a" | "b":
                    self._produce(self._open.get(word) or self._begin(word))
                case "A+" | "B+":
                    self._open.pop(word[0].lower()).commit_transaction(SECONDS)
                case "A-" | "B-":
                    self._open.pop(word[0].lower()).abort_transaction(SECONDS)
            self._end += 1
            self._wait_for_end()

    def _wait_for_end(self) -> None:
        """A marker is written a moment after its transaction has ended."""
        deadline = time.monotonic() + SECONDS
        while self._asker.get_watermark_offsets(TopicPartition(self.topic, 0), SECONDS)[1] < self._end:
            assert time.monotonic() < deadline, "the marker didn't come"

    def close(self) -> None:
        self._asker.close()
        for producer in self._open.values():
            producer.abort_transaction(SECONDS)

    def _begin(self, name: str) -> Producer:
        producer = Producer({"bootstrap.servers": self._servers, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._open[name] = producer
        return producer

    def _produce(self, producer: Producer) -> None:
        producer.produce(self.topic, b"v", b"k", 0)
        assert producer.flush(SECONDS) == 0


@pytest.fixture
def log(broker: Broker, topic: Callable[..., str]) -> Iterator[Log]:
    with closing(Log(broker.bootstrap_servers, topic())) as made:
        yield made


def deliver_to(end: int, pipeline: Pipeline, broker: Broker, topic: str) -> None:
    """Runs until the group stands at this offset."""
    deadline = time.monotonic() + SECONDS
    while committed(broker, f"{topic}-lake", (topic, 0)) != [end]:
        assert time.monotonic() < deadline, "the group didn't come to the end"
        deliver(pipeline)


ALL = 1000


@pytest.mark.parametrize(
    ("script", "cap", "committed_at", "seen", "uncommitted_at", "seen_uncommitted"),
    rows_one_in(
        2,
        [
            ("p a A+", ALL, 3, [0, 1], 3, [0, 1]),
            ("p a a A-", ALL, 4, [0], 4, [0, 1, 2]),
            ("a a A-", ALL, 3, [], 3, [0, 1]),
            ("a A+ a A+ a A-", ALL, 6, [0, 2], 6, [0, 2, 4]),
            ("a b p A- b B+ p", ALL, 7, [1, 2, 4, 6], 7, [0, 1, 2, 4, 6]),
            ("p a a", ALL, 1, [0], 3, [0, 1, 2]),
            ("a b A+ p", ALL, 1, [0], 4, [0, 1, 3]),
            ("p a A+", 2, 3, [0, 1], 3, [0, 1]),
            ("a A- b B- p", 1, 5, [4], 5, [0, 2, 4]),
        ],
    ),
    ids=[
        "a marker at the end",
        "an aborted one at the end",
        "nothing but an aborted one",
        "one after the other",
        "interleaved",
        "an open one",
        "an open one before a committed one's marker",
        "a batch of a marker only",
        "batches of one offset",
    ],
)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_leave_no_lag(
    broker: Broker,
    log: Log,
    open_subscription: Callable[..., Pipeline],
    script: str,
    cap: int,
    committed_at: int,
    seen: list[int],
    uncommitted_at: int,
    seen_uncommitted: list[int],
    isolation: str,
) -> None:
    log.play(script)
    consumer = {"isolation_level": isolation, "max_poll_records": cap}
    pipeline = open_subscription(log.topic, consumer=consumer)
    end, offsets = (committed_at, seen) if isolation == "read_committed" else (uncommitted_at, seen_uncommitted)
    deliver_to(end, pipeline, broker, log.topic)
    assert in_lake(pipeline) == [(0, offset) for offset in offsets]


def test_an_open_transaction_is_read_once_it_is_committed(
    broker: Broker, log: Log, open_subscription: Callable[..., Pipeline]
) -> None:
    pipeline = open_subscription(log.topic, poll_timeout_ms=1500)
    log.play("p a p")
    deliver_to(1, pipeline, broker, log.topic)
    assert deliver(pipeline) is None
    log.play("A+ p")
    deliver_to(5, pipeline, broker, log.topic)
    assert in_lake(pipeline) == [(0, offset) for offset in (0, 1, 2, 4)]


@contextmanager
def compacting(admin: AdminClient, topic: str) -> Iterator[None]:
    """The topic, which is COMPACTED, is compacted within this block, and no longer after it."""
    yield
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(SECONDS)


def first_message(servers: str, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = consumer.consume(1, SECONDS)
        return message
    finally:
        consumer.close()


def test_a_range_that_was_compacted_away_is_passed(
    broker: Broker,
    admin: AdminClient,
    topic: Callable[..., str],
    open_subscription: Callable[..., Pipeline],
) -> None:
    name = topic(config=COMPACTED)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    deadline = time.monotonic() + 60
    sent = 0
    with compacting(admin, name):
        while sent == 0 or first_message(broker.bootstrap_servers, name).offset() < 50:
            assert time.monotonic() < deadline, "nothing was compacted"
            for _ in range(60):
                producer.produce(name, b"v", b"same", 0)
            assert producer.flush(SECONDS) == 0
            sent += 60
    pipeline = open_subscription(name, consumer={"max_poll_records": 50}, poll_timeout_ms=3000)
    (oldest,) = pipeline.source.times_of({Position(name, 0): 0}, SECONDS).values()
    assert oldest is not None
    assert round(oldest.timestamp() * 1000) == first_message(broker.bootstrap_servers, name).timestamp()[1]
    first = deliver(pipeline)
    assert first is not None
    assert (first.ranges[0].end, first.landed_records) == (50, 0)  # it ends in a gap, and nothing is left of it
    deliver_to(sent, pipeline, broker, name)
    offsets = [offset for _, offset in in_lake(pipeline)]
    assert 0 < len(offsets) < sent - 50
    assert (len(set(offsets)), offsets[-1]) == (len(offsets), sent - 1)


RECORDS: list[dict[str, Any]] = [
    {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("b", b"2"), ("a", b"1")]},
    {"key": b"k", "value": None, "headers": None},
    {"key": None, "value": b"v", "headers": [("h", None)]},
    {"key": None, "value": None, "headers": [("h", b""), ("h", None)]},
    {"key": b"", "value": b"", "headers": [("", b"\x00")]},
    {"key": b"\xff\xfe\x00k", "value": b"\x80\x00v\n", "headers": [("\u00fc\U0001f30a", b"\xc3\x28")]},
    {"key": b"k", "value": b"x" * 700_000, "headers": [(str(n), bytes([n])) for n in range(256)]},
]


@pytest.fixture
def in_spark(spark_connect: SparkConnect) -> Iterator[Callable[[list[str]], list[dict[str, Any]]]]:
    """Reads Parquet files with a real Spark."""
    session = spark_connect.session()

    def read(files: list[str]) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in session.read.parquet(*files).sort("offset").collect()]

    yield read
    session.stop()


@pytest.fixture
def in_arrow() -> Callable[[list[str]], list[dict[str, Any]]]:
    """Reads Parquet files with Arrow."""

    def read(files: list[str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pyarrow.dataset.dataset(files).to_table().sort_by("offset").to_pylist()
        return rows

    return read


@pytest.mark.parametrize("reader", ["in_arrow", pytest.param("in_spark", marks=pytest.mark.spark)])
def test_bytes_arrive_as_they_were_sent_and_what_is_missing_stays_apart_from_what_is_empty(
    broker: Broker,
    topic: Callable[..., str],
    open_subscription: Callable[..., Pipeline],
    request: pytest.FixtureRequest,
    reader: str,
) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for record in RECORDS:
        producer.produce(name, partition=0, **{k: v for k, v in record.items() if v is not None})
    assert producer.flush(SECONDS) == 0
    pipeline = open_subscription(name)
    deliver(pipeline)
    folder = Path(pipeline.output.removeprefix("file://"))
    rows = request.getfixturevalue(reader)([str(path) for path in folder.glob("batch_id=*/*.parquet")])
    assert [
        {
            "key": None if row["key"] is None else bytes(row["key"]),
            "value": None if row["value"] is None else bytes(row["value"]),
            "headers": row["headers"] and [(pair["key"], pair["value"]) for pair in row["headers"]],
        }
        for row in rows
    ] == RECORDS


class RawProducer:
    """librdkafka without Python's binding, which takes no header name but text."""

    def __init__(self, servers: str) -> None:
        self._lib = librdkafka()
        self._lib.rd_kafka_conf_set.argtypes = [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]
        self._lib.rd_kafka_headers_new.restype = c_void_p
        self._lib.rd_kafka_header_add.argtypes = [c_void_p, c_char_p, c_ssize_t, c_char_p, c_ssize_t]
        self._lib.rd_kafka_flush.argtypes = [c_void_p, c_int]
        why = create_string_buffer(512)
        configuration = self._lib.rd_kafka_conf_new()
        self._lib.rd_kafka_conf_set(configuration, b"bootstrap.servers", servers.encode(), why, len(why))
        self._handle = self._lib.rd_kafka_new(0, configuration, why, len(why))

    def produce(self, topic: str, header: bytes) -> None:
        """A record with a header of this name, once it is there."""
        headers = self._lib.rd_kafka_headers_new(c_size_t(1))
        self._lib.rd_kafka_header_add(headers, header, len(header), b"h", 1)
        end, of_topic, value, with_headers = (c_int(number) for number in (0, 1, 4, 10))
        named = (of_topic, topic.encode(), value, b"v", c_size_t(1), with_headers, c_void_p(headers), end)
        self._lib.rd_kafka_producev(c_void_p(self._handle), *named)
        assert self._lib.rd_kafka_flush(self._handle, int(SECONDS * 1000)) == 0

    def close(self) -> None:
        self._lib.rd_kafka_destroy(self._handle)


def test_a_header_name_that_is_not_text_is_lost_data_at_its_position(
    broker: Broker, topic: Callable[..., str], open_subscription: Callable[..., Pipeline]
) -> None:
    name = topic()
    with closing(RawProducer(broker.bootstrap_servers)) as producer:
        for header in (b"fine", b"\xff\xfe"):
            producer.produce(name, header)
    pipeline = open_subscription(name)
    with pytest.raises(LostDataError, match=f"header isn't UTF-8.*topic {name}, partition 0, offset 1"):
        deliver(pipeline)
    assert committed(broker, f"{name}-lake", (name, 0)) == [0]
