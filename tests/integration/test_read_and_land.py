"""From a real broker into real Parquet files: exactly the planned ranges, whole and as received."""

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import ClusterMetadata

from tidegate.kafka.source import KafkaSource
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.batch import Landed
from tidegate.model.errors import LostDataError, UnavailableError
from tidegate.model.offsets import Range, TopicPartition, split_cap
from tidegate.model.subscription import TopicNames, TopicPartitions, TopicPattern
from tidegate.parquet.locations import locate
from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.broker

SECONDS = 30.0
MEMORY_MIB = 400
HEADERS: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("a", b"")]
LANDING_TYPES = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)
LAND = """
import sys, time
from pathlib import Path
from tidegate.kafka.source import KafkaSource
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.offsets import Range
servers, topic, records, folder = sys.argv[1:]
source = KafkaSource({"bootstrap.servers": servers})
with (
    ParquetLanding(f"file://{folder}").writer("s", "b0", 0) as writer,
    source.read([Range(topic, 0, 0, int(records))], time.monotonic() + 120) as reader,
):
    for chunk in reader:
        writer.write(chunk)
assert sum(file.records for file in writer.files()) == int(records)
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024)
"""


@dataclass(frozen=True)
class Bench:
    """A source and a landing, and a hand to fill topics."""

    servers: str
    source: KafkaSource
    landing: ParquetLanding

    def produce(
        self, topic: str, values: Sequence[bytes | None], partition: int = 0, key: bytes | None = None, **settings: Any
    ) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20} | settings)
        for value in values:
            producer.produce(topic, value, key, partition)
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    def land(self, ranges: Sequence[Range], seconds: float = SECONDS) -> Landed:
        """As the land step does it."""
        with (
            self.landing.writer("flights", "b1", 0) as writer,
            self.source.read(ranges, time.monotonic() + seconds) as reader,
        ):
            for chunk in reader:
                writer.write(chunk)
        progress = reader.progress()
        return Landed(tuple(r for r, _ in progress), {r.at: n for r, n in progress}, writer.files())

    def rows(self, landed: Landed) -> list[dict[str, Any]]:
        """What lies in the files, by partition and offset."""
        found: list[dict[str, Any]] = []
        for file in landed.files:
            system, path = locate(file.uri)
            found += pq.read_table(path, filesystem=system).to_pylist()
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def bench(broker: Broker, tmp_path: Path) -> Iterator[Bench]:
    with closing(KafkaSource({"bootstrap.servers": broker.bootstrap_servers}, timeout=SECONDS)) as source:
        yield Bench(broker.bootstrap_servers, source, ParquetLanding(f"file://{tmp_path}/landing"))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(bench: Bench, topic: Callable[..., str], codec: str) -> None:
    name = topic(2)
    values = [b"record %d of a batch that compresses" % n for n in range(3000)]
    for partition in range(2):
        bench.produce(name, values, partition, **{"compression.type": codec})
    landed = bench.land([Range(name, 0, 0, 3000), Range(name, 1, 0, 3000)])
    assert [row["value"] for row in bench.rows(landed)] == values * 2
    assert landed.records == {TopicPartition(name, 0): 3000, TopicPartition(name, 1): 3000}


def test_the_batch_ends_at_its_planned_end_with_no_further_traffic(bench: Bench, topic: Callable[..., str]) -> None:
    name = topic()
    bench.produce(name, [b"v"] * 100)
    began = time.monotonic()
    landed = bench.land([Range(name, 0, 0, 100)])
    assert landed.ranges == (Range(name, 0, 0, 100),)
    assert time.monotonic() - began < SECONDS / 3


def test_the_batch_ends_at_its_planned_end_whatever_arrives_behind_it(bench: Bench, topic: Callable[..., str]) -> None:
    name = topic()
    bench.produce(name, [b"%d" % n for n in range(5000)])
    landed = bench.land([Range(name, 0, 1, 500)])
    assert [row["offset"] for row in bench.rows(landed)] == list(range(1, 500))
    assert landed.records == {TopicPartition(name, 0): 499}


def test_a_cap_of_ten_takes_eight_one_and_one_of_101_11_and_1(bench: Bench, topic: Callable[..., str]) -> None:
    name = topic(3)
    for partition, count in enumerate((101, 11, 1)):
        bench.produce(name, [b"v"] * count, partition)
    partitions = bench.source.partitions(TopicNames((name,)))
    lags = {at: marks.end - marks.earliest for at, marks in bench.source.watermarks(partitions).items()}
    landed = bench.land([Range(*at, 0, share) for at, share in split_cap(10, lags).items()])
    assert [landed.records[at] for at in partitions] == [8, 1, 1]
    assert len(bench.rows(landed)) == 10


def test_one_new_record_on_one_of_many_partitions_is_taken(bench: Bench, topic: Callable[..., str]) -> None:
    name = topic(20)
    bench.produce(name, [b"new"], 13)
    ranges = [Range(name, n, 0, int(n == 13)) for n in range(20)]
    landed = bench.land(ranges)
    assert landed.ranges == tuple(ranges)
    assert [(row["partition"], row["value"]) for row in bench.rows(landed)] == [(13, b"new")]


def test_compacted_records_leave_gaps_and_the_position_still_reaches_the_end(
    bench: Bench, topic: Callable[..., str]
) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    name = topic(config=config)
    deadline = time.monotonic() + 90
    end, records = 0, 0
    while records >= end and time.monotonic() < deadline:  # until the cleaner has been there
        bench.produce(name, [b"%d" % n for n in range(100)], key=b"same")
        end += 100
        landed = bench.land([Range(name, 0, 0, end)])
        assert landed.ranges == (Range(name, 0, 0, end),)
        records = landed.records[TopicPartition(name, 0)]
    assert 0 < records < end
    assert len(bench.rows(landed)) == records


class Forgetful(Consumer):
    """A client that loses its first end-of-partition event."""

    forgot = False

    def consume(self, *args: Any) -> list[Message]:
        messages: list[Message] = super().consume(*args)
        kept = [message for message in messages if self.forgot or not message.error()]
        self.forgot = self.forgot or len(kept) < len(messages)
        return kept


def test_a_partition_that_stands_still_is_fetched_anew(
    bench: Bench, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": bench.servers, "transactional.id": name})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(name, b"v", partition=0)
    producer.commit_transaction(SECONDS)
    monkeypatch.setattr("tidegate.kafka.source.Consumer", Forgetful)
    monkeypatch.setattr("tidegate.kafka.reader._PATIENCE_SECONDS", 1.0)
    began = time.monotonic()
    landed = bench.land([Range(name, 0, 0, 2)])
    assert landed.records == {TopicPartition(name, 0): 1}
    assert landed.ranges == (Range(name, 0, 0, 2),)
    assert 1 < time.monotonic() - began < SECONDS / 2


def test_an_unreadable_record_batch_is_lost_data_at_its_position(
    bench: Bench, topic: Callable[..., str], broker: Broker
) -> None:
    name = topic()
    for value in (b"first", b"damaged", b"third"):
        bench.produce(name, [value])
    segment = broker.log.parent / "log" / f"{name}-0" / "00000000000000000000.log"
    content = segment.read_bytes()
    with segment.open("r+b") as file:
        file.seek(content.index(b"damaged"))
        file.write(b"D")
    with pytest.raises(LostDataError, match=f"CRC.*topic {name}, partition 0, offset 1"):
        bench.land([Range(name, 0, 0, 3)])


def test_a_broker_that_refuses_the_client_says_why(broker: Broker) -> None:
    credentials = {"sasl.mechanism": "PLAIN", "sasl.username": "nobody", "sasl.password": "secret"}
    client = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"} | credentials
    with closing(KafkaSource(client, timeout=SECONDS)) as source:
        with pytest.raises(UnavailableError, match=r"refuses the client: .*SASL PLAIN") as asked:
            source.partitions(TopicNames(("flights",)))
        began = time.monotonic()
        with (
            pytest.raises(UnavailableError, match=r"refuses the client: .*SASL PLAIN"),
            source.read([Range("flights", 0, 0, 1)], began + SECONDS) as reader,
        ):
            list(reader)
    assert time.monotonic() - began < SECONDS / 2
    assert "secret" not in str(asked.value)


class Asked(Consumer):
    """A client that keeps which topic it was asked for, None for all."""

    topics: ClassVar[list[str | None]] = []

    def list_topics(self, topic: str | None = None, **options: Any) -> ClusterMetadata:
        self.topics.append(topic)
        return super().list_topics(topic, **options) if topic else super().list_topics(**options)


def test_a_few_topics_are_asked_for_alone_however_many_the_cluster_has(
    bench: Bench, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with 2,000 topics of three partitions is busy for a tenth of a second with a list of them."""
    monkeypatch.setattr("tidegate.kafka.source.Consumer", Asked)
    Asked.topics.clear()
    name = topic(2)
    there = (TopicPartition(name, 0), TopicPartition(name, 1))
    assert bench.source.partitions(TopicNames((name, "nowhere"))) == there
    assert bench.source.partitions(TopicPartitions({name: (1, 7)})) == there[1:]
    assert bench.source.cluster_id()
    assert Asked.topics == ["nowhere", name, name]
    assert bench.source.partitions(TopicNames((name, *map("nowhere-{}".format, range(10))))) == there
    assert bench.source.partitions(TopicPattern(f"{name}|nowhere")) == there
    assert Asked.topics[3:] == [None, None]


def test_a_thousand_partitions_are_looked_up_at_once(bench: Bench, topic: Callable[..., str]) -> None:
    name = topic(1000)
    bench.produce(name, [b"v"], 999)
    partitions = bench.source.partitions(TopicNames((name,)))
    bench.source.watermarks(partitions)  # the leaders of a topic that is a second old may not be known yet
    began = time.monotonic()
    marks = bench.source.watermarks(partitions)
    assert time.monotonic() - began < 5
    assert len(marks) == 1000
    assert marks[TopicPartition(name, 999)].end == 1


def test_the_collector_rests_while_reading_and_runs_again_after(bench: Bench, topic: Callable[..., str]) -> None:
    name = topic()
    bench.produce(name, [b"v"])
    with bench.source.read([Range(name, 0, 0, 1)], time.monotonic() + SECONDS) as reader:
        assert [gc.isenabled() for _ in reader] == [False]
    assert gc.isenabled()


@pytest.mark.parametrize(("size", "records"), [(100, 600_000), (10_000, 30_000), (900_000, 400)])
def test_ten_times_the_records_take_the_same_memory(
    bench: Bench, topic: Callable[..., str], tmp_path: Path, size: int, records: int
) -> None:
    name = topic()
    value = bytes(range(256)) * (size // 256 + 1)
    settings = {"compression.type": "lz4", "queue.buffering.max.messages": 1_000_000}
    bench.produce(name, [value[:size]] * records, **settings)

    def peak(number: int) -> int:
        command = [sys.executable, "-c", LAND, bench.servers, name, str(number), str(tmp_path / str(number))]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert ended.returncode == 0, ended.stderr
        return int(ended.stdout)

    few, many = peak(records // 10), peak(records)
    assert many < MEMORY_MIB
    assert many < few + MEMORY_MIB // 2


@pytest.mark.spark
def test_spark_reads_the_landing_with_the_types_of_its_own_kafka_source(
    bench: Bench, topic: Callable[..., str], spark_connect: SparkConnect
) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": bench.servers})
    producer.produce(name, b"value", b"key", timestamp=1_767_225_600_123, headers=HEADERS)
    producer.produce(name, None, None, timestamp=1000)
    assert producer.flush(SECONDS) == 0
    landed = bench.land([Range(name, 0, 0, 2)])
    spark = spark_connect.session()
    frame = spark.read.parquet(*(file.uri for file in landed.files))
    assert frame.schema.simpleString() == LANDING_TYPES
    seen = frame.selectExpr("*", "unix_millis(timestamp) AS ms").drop("timestamp").sort("offset").collect()
    spark.stop()
    full, bare = (row.asDict(recursive=True) for row in seen)
    assert full == {
        "key": b"key",
        "value": b"value",
        "topic": name,
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in HEADERS],
        "ms": 1_767_225_600_123,
    }
    assert bare == full | {"key": None, "value": None, "offset": 1, "headers": None, "ms": 1000}
