"""A subscription with `landing-engine: spark` on a real broker: what its executors land is what this process lands."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from broker_world import Feed, Producers, connection_to, deliver, in_lake
from checkout import PROJECT
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from definitions import subscription
from test_topics_of_all_kinds import COMPACTED, SECONDS, compacting, first_message

from tidegate.config import consumer_properties
from tidegate.config.settings import Settings
from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import TidegateError, UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Processing, TopicNames
from tidegate.ports import Connection
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.spark.connect import ConnectProcessor
from tidegate.spark.landing import client_environment
from tidegate.spark.scripts import landing_job
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.spark_connect import SparkConnect
from tidegate_local.spark_kafka_jars import spark_kafka_jars

pytestmark = [pytest.mark.broker, pytest.mark.spark]

HEADERS: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("a", b"")]
SECRET = "hush-hush-5f1c"
_PAUSE = Event()

Open = Callable[..., Pipeline]


@dataclass(frozen=True)
class Opening:
    """Opens subscriptions of a topic, each with a group of its own; a double copies in place of the processing job."""

    broker: Broker
    folder: Path
    stack: ExitStack

    def __call__(self, topic: str, spark: Connection | None, **values: Any) -> Pipeline:
        engine = "python" if spark is None else "spark"
        name = f"{topic}-{engine}"
        given = {"group.id": f"{name}-lake", "fetch.max.wait.ms": 50, **values.pop("given", {})}
        definition = subscription(
            name=name,
            topics=TopicNames((topic,)),
            poll_timeout_ms=20_000,
            landing_engine=engine,
            processing=Processing(f"lake/{name}", "spark_default", None, ()),
            consumer={
                "group_id": f"{name}-lake",
                "max_poll_records": 100_000,
                "max_poll_interval_ms": 500_000,
                "librdkafka": consumer_properties.translate(given),
                "java": consumer_properties.for_java(given),
            },
            **values,
        )
        settings = Settings.from_environment({"TIDEGATE_HOME": str(self.folder)})
        kafka = {"bootstrap.servers": self.broker.bootstrap_servers}
        connections = [Connection("kafka_default", "kafka", None, None, None, None, kafka)]
        known = MemoryConnections(*connections, *([spark] if spark else []))
        return self.stack.enter_context(open_pipeline(definition, settings, known, CopyingProcessor()))


@pytest.fixture
def opening(broker: Broker, tmp_path: Path) -> Iterator[Opening]:
    with ExitStack() as stack:
        yield Opening(broker, tmp_path, stack)


@pytest.fixture
def connect(spark_connect: SparkConnect) -> Connection:
    return connection_to(spark_connect)


def submit(master: str) -> Connection:
    jars = spark_kafka_jars(find_java(), PROJECT / ".cache")
    return Connection("spark_default", "spark", master, None, None, None, {"jars": ",".join(map(str, jars))})


@pytest.fixture
def spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit is on PATH and starts on loopback alone."""
    monkeypatch.setenv("PATH", f"{PROJECT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")


def rows(batch: Batch) -> list[dict[str, Any]]:
    """What landed, by partition and offset."""
    tables = [pq.ParquetFile(file.uri.removeprefix("file://")).read() for file in batch.files]
    found = [row for table in tables for row in table.to_pylist()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def types(batch: Batch) -> set[str]:
    return {str(pq.ParquetFile(f.uri.removeprefix("file://")).schema_arrow.remove_metadata()) for f in batch.files}


def land(pipeline: Pipeline) -> Batch:
    plan = pipeline.plan()
    assert plan.batch is not None
    assert plan.members == (0,)
    return pipeline.land(plan.batch.id, 0)


def test_both_engines_land_the_same_rows_whatever_a_topic_holds(
    broker: Broker,
    admin: AdminClient,
    producers: Producers,
    topic: Callable[..., str],
    opening: Opening,
    connect: Connection,
) -> None:
    name = topic(3, config=COMPACTED)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    deadline, first = time.monotonic() + 60, 0
    with compacting(admin, name):
        while first < 50:
            assert time.monotonic() < deadline, "nothing was compacted"
            for number in range(60):
                producer.produce(name, b"v%d" % number, b"same", 0)
            assert producer.flush(SECONDS) == 0
            first = first_message(broker.bootstrap_servers, name).offset()
    for value, key, headers in ((None, b"t", None), (b"", b"", HEADERS), (b"v", b"\x00\xff", [("ä", b"\x80")])):
        producer.produce(name, value, key, 0, timestamp=1_500_000_000_123, headers=headers)
        producer.produce(name, value, key, 1, headers=headers)
    assert producer.flush(SECONDS) == 0
    Feed(name, producers, admin).send_aborted(1, 3)
    landed = [land(opening(name, spark)) for spark in (None, connect)]
    assert landed[0].records[TopicPartition(name, 0)] < landed[0].ranges[0].end - 50  # what was compacted away
    assert landed[0].records[TopicPartition(name, 1)] == landed[0].ranges[1].end - 4  # what was aborted, and its marker
    assert landed[0].ranges == landed[1].ranges
    assert landed[0].records == landed[1].records
    assert rows(landed[0]) == rows(landed[1])
    assert types(landed[0]) == types(landed[1])


def test_a_run_lands_by_spark_and_commits_to_the_end(
    topic: Callable[..., str], produce: Callable[..., None], opening: Opening, connect: Connection
) -> None:
    name = topic(2)
    produce(name, 30)
    produce(name, 20, 1)
    pipeline = opening(name, connect)
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.condition, batch.landed_records) == (Outcome.COMMITTED, 50)
    assert in_lake(pipeline) == [(0, n) for n in range(30)] + [(1, n) for n in range(20)]
    assert pipeline.landing.data_files(batch.subscription, batch.id) == {file.uri for file in batch.files}
    produce(name, 3)
    again = deliver(pipeline)
    assert again is not None
    assert [(r.start, r.end) for r in again.ranges] == [(30, 33), (20, 20)]
    assert len(in_lake(pipeline)) == 53


@pytest.mark.nightly
@pytest.mark.timeout(600)  # it starts five Java processes
@pytest.mark.usefixtures("spark_submit")
def test_two_executors_of_a_cluster_share_a_landing(
    topic: Callable[..., str], produce: Callable[..., None], opening: Opening
) -> None:
    name = topic(4)
    for partition in range(4):
        produce(name, 1_000, partition)
    pipeline = opening(name, submit("local-cluster[2,1,1024]"))
    batch = land(pipeline)
    assert (batch.state, batch.landed_records, len(batch.files)) == (State.LANDED, 4_000, 4)
    assert [(row["partition"], row["offset"]) for row in rows(batch)] == [
        (p, n) for p in range(4) for n in range(1_000)
    ]


def test_a_killed_job_whose_query_lives_on_lands_nothing_twice(
    topic: Callable[..., str], produce: Callable[..., None], opening: Opening, connect: Connection
) -> None:
    name = topic(4)
    for partition in range(4):
        produce(name, 20_000, partition)
    pipeline = opening(name, connect)
    plan = pipeline.plan()
    assert plan.batch is not None
    failed: list[TidegateError] = []

    def first() -> None:
        try:
            pipeline.land(plan.batch.id, 0)
        except TidegateError as error:
            failed.append(error)

    attempt = Thread(target=first)
    attempt.start()
    below = opening.folder / "data" / "landing" / pipeline.subscription.name / plan.batch.id
    until(lambda: any(below.glob("member-0/*/_temporary")), "the query writes")
    kill_job()
    attempt.join(120)
    (error,) = failed
    assert isinstance(error, UnavailableError)
    assert pipeline.ledger.batch(plan.batch.id).state is State.PLANNED
    batch = pipeline.land(plan.batch.id, 0)
    assert batch.landed_records == 80_000
    pipeline.process(batch.id)
    committed = pipeline.settle(batch.id)
    assert committed is not None
    assert committed.outcome is Outcome.COMMITTED
    assert in_lake(pipeline) == [(partition, n) for partition in range(4) for n in range(20_000)]
    assert {file.uri for file in batch.files} <= pipeline.landing.data_files(batch.subscription, batch.id)


def until(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        _PAUSE.wait(0.02)


def commands() -> Iterator[tuple[psutil.Process, list[str]]]:
    """Each process that this one has started, and its command."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # or one that has ended
            yield child, child.cmdline()


def kill_job() -> None:
    """SIGKILL to the landing job, a child of this process."""
    (job,) = [child for child, command in commands() if any("land_batch.py" in part for part in command)]
    job.kill()


def test_no_secret_shows_in_what_spark_keeps_of_a_landing(
    broker: Broker,
    topic: Callable[..., str],
    produce: Callable[..., None],
    opening: Opening,
    connect: Connection,
    spark_connect: SparkConnect,
) -> None:
    name = topic()
    produce(name, 3)
    pipeline = opening(name, connect)
    plan = pipeline.plan()
    assert plan.batch is not None
    secrets = dict.fromkeys(
        ("sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"), SECRET
    )  # not used in PLAINTEXT
    client = {"bootstrap.servers": broker.bootstrap_servers, **secrets}
    said: list[str] = []
    begun: list[tuple[psutil.Process, list[str]]] = []
    lander: Any = pipeline.lander
    order = lander.requests.submit(plan.batch, 0, 20_000)
    job = ConnectProcessor(spark_connect.url, landing_job(), client_environment(client))
    job.run(order.uri, 120, said.append, lambda: begun.extend(commands()))
    assert lander.requests.result(order).said == 3
    assert SECRET not in "".join(said)
    assert any("land_batch.py" in str(command) for _, command in begun)
    assert SECRET not in str(begun)
    assert SECRET not in repr(job)
    kept = [path for path in spark_connect.log.parent.rglob("*") if path.is_file() and "scratch" not in path.parts]
    texts = [path.read_text("utf-8", "replace") for path in kept]
    assert any("SparkListenerConnectOperationStarted" in text for text in texts)
    assert not any(SECRET in text for text in texts)
