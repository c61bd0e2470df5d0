"""What every lander promises: this process that reads, in memory and from a broker, and Spark's executors."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidegate.kafka.source import KafkaSource
from tidegate.landing.parquet import ParquetLanding
from tidegate.landing.requests import ParquetLandingRequests
from tidegate.model.batch import Batch, Landed
from tidegate.model.errors import BatchFailedError, LostDataError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Failure
from tidegate.model.subscription import IsolationLevel
from tidegate.parquet.locations import locate
from tidegate.ports import Lander, Landing
from tidegate.runtime.clock import SystemClock
from tidegate.spark.landing import SparkLander
from tidegate.steps.read_and_land import ReadingLander
from tidegate.testing.clock import MemoryClock
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics, Record
from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect
from tidegate_spark import land_batch

SECONDS = 120.0
WHEN = 1_500_000_000_123
Row = tuple[str, int, int, bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]
"""topic, partition, offset, key, value, timestamp in milliseconds, its type, headers."""


class World(Protocol):
    """Topics, a lander that reads them, and the landing that it lands in."""

    landing: Landing

    def topic(self, partitions: int = 1) -> str: ...
    def produce(self, topic: str, *records: Record, partition: int = 0) -> None: ...
    def transaction(self, topic: str, *records: Record, end: str) -> None: ...
    def expire(self, topic: str, before: int) -> None: ...
    def lander(self, isolation_level: IsolationLevel = "read_committed") -> Lander: ...
    def rows(self, landed: Landed) -> list[Row]: ...


class MemoryWorld:
    def __init__(self) -> None:
        self._topics = MemoryTopics()
        self.landing = MemoryLanding()

    def topic(self, partitions: int = 1) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self._topics.create(name, partitions)
        return name

    def produce(self, topic: str, *records: Record, partition: int = 0) -> None:
        self._topics.produce(topic, *records, partition=partition)

    def transaction(self, topic: str, *records: Record, end: str) -> None:
        transaction = self._topics.begin()
        transaction.produce(topic, *records)
        {"commit": transaction.commit, "abort": transaction.abort}[end]()

    def expire(self, topic: str, before: int) -> None:
        self._topics.expire(topic, before)

    def lander(self, isolation_level: IsolationLevel = "read_committed") -> Lander:
        clock = MemoryClock()
        source = MemorySource(self._topics, isolation_level=isolation_level, clock=clock)
        return ReadingLander(source, self.landing, clock, 1000)

    def rows(self, landed: Landed) -> list[Row]:
        reads = [read for file in landed.files for read in self.landing.files[file.uri]]
        return sorted(
            (
                one.topic,
                one.partition,
                one.offset,
                r.key,
                r.value,
                r.timestamp,
                r.timestamp_type,
                list(r.headers) or None,
            )
            for one in reads
            for r in [one.record]
        )


class KafkaWorld:
    """A broker, and files; the process that reads is this one."""

    def __init__(
        self, broker: Broker, admin: AdminClient, topic: Callable[..., str], folder: Path, stack: ExitStack
    ) -> None:
        self.servers = broker.bootstrap_servers
        self.uri = f"file://{folder}"
        self.landing = ParquetLanding(self.uri)
        self._make = topic
        self._admin = admin
        self._stack = stack

    def topic(self, partitions: int = 1) -> str:
        return self._make(partitions)

    def produce(self, topic: str, *records: Record, partition: int = 0) -> None:
        self._send(Producer({"bootstrap.servers": self.servers}), topic, records, partition)

    def transaction(self, topic: str, *records: Record, end: str) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._send(producer, topic, records, 0)
        marker = self._end(topic)
        {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end](SECONDS)
        deadline = time.monotonic() + SECONDS
        while self._end(topic) == marker:  # it is written a moment later
            assert time.monotonic() < deadline, "the marker didn't come"

    def expire(self, topic: str, before: int) -> None:
        at = KafkaPartition(topic, 0, before)
        self._admin.delete_records([at])[at].result(SECONDS)

    def lander(self, isolation_level: IsolationLevel = "read_committed") -> Lander:
        return ReadingLander(self.source(isolation_level), self.landing, SystemClock(), 20_000)

    def source(self, isolation_level: IsolationLevel) -> KafkaSource:
        source = KafkaSource({"bootstrap.servers": self.servers}, isolation_level=isolation_level, timeout=SECONDS)
        self._stack.callback(source.close)
        return source

    def rows(self, landed: Landed) -> list[Row]:
        tables = []
        for file in landed.files:
            system, path = locate(file.uri)
            assert system.get_file_info(path).size == file.bytes
            table = pq.ParquetFile(path, filesystem=system).read()
            assert table.num_rows == file.records
            tables.append(table)
        return sorted(_row(one) for table in tables for one in table.to_pylist())

    def _send(self, producer: Producer, topic: str, records: Sequence[Record], partition: int) -> None:
        for one in records:
            headers = list(one.headers) or None
            producer.produce(topic, one.value, one.key, partition, timestamp=one.timestamp, headers=headers)
        assert producer.flush(SECONDS) == 0

    def _end(self, topic: str) -> int:
        at = TopicPartition(topic, 0)
        return self.source("read_uncommitted").watermarks([at])[at].end


class SparkWorld(KafkaWorld):
    """The same broker and files; Spark's executors read and write them."""

    def __init__(self, spark: SparkSession, *parts: Any) -> None:
        super().__init__(*parts)
        self.spark = spark

    def lander(self, isolation_level: IsolationLevel = "read_committed") -> Lander:
        client = {"bootstrap.servers": self.servers, "isolation.level": isolation_level}
        job = SessionProcessor(self.spark, client)
        return SparkLander(ParquetLandingRequests(self.uri), lambda: job, self.source(isolation_level), 20_000, 120)


class SessionProcessor:
    """Runs the landing job in this process, on a session that is there already."""

    def __init__(self, spark: SparkSession, client: dict[str, str]) -> None:
        self._spark = spark
        self._client = client

    def check(self) -> None:
        """The session is there."""

    def run(
        self,
        manifest_uri: str,
        timeout: float | None,  # noqa: ARG002 - the port's
        said: Callable[[str], None],  # noqa: ARG002 - the port's
        watch: Callable[[], None],  # noqa: ARG002 - the port's
    ) -> None:
        try:
            land_batch.land(self._spark, manifest_uri, self._client)
        except Exception as error:
            raise BatchFailedError(str(error)) from error


def _row(found: dict[str, Any]) -> Row:
    headers = None if found["headers"] is None else [(one["key"], one["value"]) for one in found["headers"]]
    place = (found["topic"], found["partition"], found["offset"])
    milliseconds = round(found["timestamp"].timestamp() * 1000)
    return (*place, found["key"], found["value"], milliseconds, found["timestampType"], headers)


@pytest.fixture(scope="module")
def connected(spark_connect: SparkConnect) -> SparkSession:
    return spark_connect.session()


@pytest.fixture(
    params=[
        "memory",
        pytest.param("kafka", marks=pytest.mark.broker),
        pytest.param("spark", marks=[pytest.mark.broker, pytest.mark.spark]),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    with ExitStack() as stack:
        broker, admin, topic = (request.getfixturevalue(name) for name in ("broker", "admin", "topic"))
        parts = (broker, admin, topic, tmp_path / "a landing %20", stack)
        if request.param == "kafka":
            yield KafkaWorld(*parts)
        else:
            monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
            yield SparkWorld(request.getfixturevalue("connected"), *parts)


def batch_of(*ranges: Range) -> Batch:
    return Batch(
        id="b1",
        subscription="flights",
        group="flights-lake",
        receipt=Receipt("incarnation"),
        ranges=ranges,
        shares=(tuple(r.at for r in ranges),),
        output="file:///lake/flights",
    )


RECORDS = (
    Record(b"value", b"key", WHEN, (("a", b"1"), ("b", None), ("a", b""), ("a", b"1"))),
    Record(None, b"tombstone", WHEN + 1),
    Record(b"", b"", WHEN + 2),
    Record(b"no key", None, WHEN + 3, (("", b"nameless"),)),
    Record("ä€𝄞".encode(), b"\x00\xff", 1),
)


def rows_of(topic: str, partition: int, first: int, records: Sequence[Record]) -> list[Row]:
    return [
        (topic, partition, first + n, r.key, r.value, r.timestamp, 0, list(r.headers) or None)
        for n, r in enumerate(records)
    ]


def test_exactly_the_planned_records_land_as_they_were_received(world: World) -> None:
    one, two = world.topic(), world.topic(3)
    world.produce(one, *RECORDS)
    world.produce(two, *RECORDS, partition=1)
    world.produce(two, Record(b"unplanned", timestamp=1), partition=2)
    planned = (Range(one, 0, 1, 4), Range(two, 0, 0, 0), Range(two, 1, 0, 5))
    landed = world.lander().land(batch_of(*planned), 0)
    assert landed.ranges == (planned[0], planned[2])
    assert landed.records == {planned[0].at: 3, planned[2].at: 5}
    assert world.rows(landed) == sorted(rows_of(one, 0, 1, RECORDS[1:4]) + rows_of(two, 1, 0, RECORDS))
    assert sum(file.records for file in landed.files) == 8


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_range_ends_behind_markers_and_what_was_aborted(world: World, end: str) -> None:
    topic = world.topic()
    world.produce(topic, Record(b"plain", timestamp=1))
    world.transaction(topic, Record(b"in", timestamp=1), Record(b"side", timestamp=1), end=end)
    planned = Range(topic, 0, 0, 4)
    landed = world.lander().land(batch_of(planned), 0)
    values = [b"plain", b"in", b"side"] if end == "commit" else [b"plain"]
    assert [row[4] for row in world.rows(landed)] == values
    assert (landed.ranges, landed.records) == ((planned,), {planned.at: len(values)})


def test_where_there_is_nothing_but_aborted_records_no_file_lands_and_the_positions_move(world: World) -> None:
    topic = world.topic()
    world.transaction(topic, Record(b"in", timestamp=1), end="abort")
    planned = Range(topic, 0, 0, 2)
    landed = world.lander().land(batch_of(planned), 0)
    assert (landed.ranges, landed.records, landed.files) == ((planned,), {planned.at: 0}, ())


def test_read_uncommitted_lands_aborted_records(world: World) -> None:
    topic = world.topic()
    world.transaction(topic, Record(b"aborted", timestamp=1), end="abort")
    landed = world.lander("read_uncommitted").land(batch_of(Range(topic, 0, 0, 1)), 0)
    assert [row[4] for row in world.rows(landed)] == [b"aborted"]


def test_attempts_have_files_of_their_own_and_all_are_listed(world: World) -> None:
    topic = world.topic()
    world.produce(topic, *RECORDS)
    batch = batch_of(Range(topic, 0, 0, 5))
    first, second = (world.lander().land(batch, 0) for _ in range(2))
    assert not {file.uri for file in first.files} & {file.uri for file in second.files}
    assert world.rows(first) == world.rows(second) == rows_of(topic, 0, 0, RECORDS)
    named = {file.uri for file in (*first.files, *second.files)}
    assert all("/flights/b1/member-0/" in uri for uri in named)
    assert named <= world.landing.data_files("flights", "b1")


def test_what_landed_is_read_again_by_whoever_needs_its_records(world: World) -> None:
    topic = world.topic()
    world.produce(topic, Record(b"\x00\x00\x00\x00\x07x", timestamp=1), *RECORDS)
    planned = Range(topic, 0, 0, 6)
    landed = world.lander().land(batch_of(planned), 0)
    uris = [file.uri for file in landed.files]
    again = list(world.landing.records(uris, Failure("java.lang.Exception", "no", "cause", "why")))
    assert [(one.value, one.headers) for one in again[1:]] == [(r.value, r.headers) for r in RECORDS]
    assert [one.timestamp for one in again] == [1, *(r.timestamp for r in RECORDS)]
    assert dict(world.landing.framings(uris, "value", indexed=False)) == {b"\x00\x00\x00\x00\x07": 1}
    whole = replace(batch_of(planned), records=landed.records, files=landed.files)
    assert world.landing.pending_acks(whole)[planned.at].now().records(planned) == 6


def test_records_that_are_gone_are_lost_data_and_nothing_is_left(world: World) -> None:
    topic = world.topic()
    world.produce(topic, *RECORDS)
    world.expire(topic, 3)
    with pytest.raises(LostDataError, match=rf"\[3, 5\).*topic {topic}, partition 0, offset 1\)"):
        world.lander().land(batch_of(Range(topic, 0, 1, 5)), 0)
    assert world.landing.data_files("flights", "b1") == frozenset()
