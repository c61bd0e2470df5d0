"""When Spark dies in the middle of a batch, or outlives the task that started it, the output appears once."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import psutil
import pyarrow.dataset
import pytest
from by_night import rows_one_in
from confluent_kafka import Producer
from definitions import subscription

from tidegate.config import consumer_properties
from tidegate.config.settings import Settings
from tidegate.model.batch import Batch, Outcome
from tidegate.model.errors import BatchFailedError
from tidegate.model.subscription import Processing, Subscription, TopicNames
from tidegate.ports import Connection
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.connections import MemoryConnections
from tidegate_local.broker import Broker
from tidegate_local.java import Java
from tidegate_local.loopback import SPARK_HOST
from tidegate_local.spark_connect import SparkConnect, spark_environment, spark_home

pytestmark = [pytest.mark.spark, pytest.mark.broker]

_RECORDS = 12
_SECONDS = 120
_PAUSE = Event()

_TRANSFORMS = '''
import time
from pathlib import Path
from pyspark.sql import functions as F
from tidegate_spark import Outcome

FOLDER = {folder!r}

def held(_):
    """Blocks the worker that evaluates it until the gate is open."""
    Path(FOLDER, "running").touch()
    while not Path(FOLDER, "open").exists():
        time.sleep(0.05)
    return "through"

def held_rows(records):
    """Blocks while rows are written."""
    return records.select("partition", "offset", F.udf(held, "string")("value").alias("state"))

def held_rejects(records):
    """Blocks when rows are written and rejected records aren't yet."""
    rejected = records.filter("offset = 0").select("*", F.udf(held, "string")("value").alias("reason"))
    return Outcome(rows=records.filter("offset > 0").select("partition", "offset"), rejected=rejected)
'''

_DEFAULTS = """
spark.ui.enabled false
spark.driver.memory 512m
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline = monotonic() + _SECONDS
    while not condition():
        assert monotonic() < deadline, f"{what}: not within {_SECONDS} s"
        _PAUSE.wait(0.05)


@dataclass(frozen=True)
class Stage:
    """A subscription whose job waits at a gate; over `submit` it has a Spark of its own, over `warm` the server."""

    definition: Subscription
    settings: Settings
    connections: MemoryConnections
    folder: Path

    def opened(self, connection: str) -> AbstractContextManager[Pipeline]:
        processing = replace(self.definition.processing, connection=connection)
        return open_pipeline(replace(self.definition, processing=processing), self.settings, self.connections)

    def landed(self) -> str:
        """The id of a batch that is planned and landed."""
        with self.opened("warm") as pipeline:
            plan = pipeline.plan()
            assert plan.batch is not None
            pipeline.land(plan.batch.id, 0)
        return plan.batch.id

    def process(self, batch_id: str, connection: str) -> None:
        with self.opened(connection) as pipeline:
            pipeline.process(batch_id)

    def is_held(self) -> bool:
        return (self.folder / "running").exists()

    def open_gate(self) -> None:
        (self.folder / "open").touch()

    def deliver(self) -> Batch:
        """A plain next run, with the gate open."""
        self.open_gate()
        with self.opened("warm") as pipeline:
            done = run_batch(pipeline, lambda _: None)
        assert done.error is None
        assert done.batch is not None
        return done.batch

    @property
    def output(self) -> Path:
        return self.settings.home / self.definition.processing.output

    def offsets(self, below: str = "") -> list[int]:
        """The offsets that a reader of the lake sees, or those of its rejected records."""
        files = [str(file) for file in self.output.glob(f"batch_id=*/{below}*.parquet")]
        return sorted(pyarrow.dataset.dataset(files).to_table(["offset"])["offset"].to_pylist()) if files else []

    def published_delivery(self, batch: Batch) -> int:
        document = json.loads((self.output / f"batch_id={batch.id}" / "_manifest.json").read_text())
        number: int = document["delivery"]["number"]
        return number


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[None]]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


@pytest.fixture
def stage(
    broker: Broker,
    topic: Callable[..., str],
    connect: SparkConnect,
    java: Java,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    aside: Callable[..., Future[None]],
) -> Iterator[Callable[[str], Stage]]:
    """`stage("held_rows")`: with this transform. What runs aside is let through at the end."""
    assert aside
    (tmp_path / "held_transforms.py").write_text(_TRANSFORMS.format(folder=str(tmp_path)))
    (tmp_path / "spark-defaults.conf").write_text(_DEFAULTS)
    environment = spark_environment(java, os.environ)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, value in {**environment, "SPARK_CONF_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    binary = {"spark-binary": str(spark_home() / "bin" / "spark-submit")}

    def connection(
        name: str, kind: str, host: str | None, port: int | None, extra: dict[str, Any], password: str | None = None
    ) -> Connection:
        return Connection(name, kind, host, port, None, password, extra)

    def begin(transform: str) -> Stage:
        name = topic()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(_RECORDS):
            producer.produce(name, str(number))
        assert producer.flush(120) == 0
        definition = subscription(
            name=name,
            topics=TopicNames((name,)),
            poll_timeout_ms=10_000,
            processing=Processing(f"lake/{name}", "warm", f"held_transforms:{transform}", ()),
            failure_strategy="ignore",
            consumer={"group_id": f"{name}-lake", "librdkafka": consumer_properties.translate({})},
        )
        connections = MemoryConnections(
            connection("kafka_default", "kafka", None, None, {"bootstrap.servers": broker.bootstrap_servers}),
            connection("warm", "spark_connect", SPARK_HOST, connect.port, {}, connect.token),
            connection("submit", "spark", "local[2]", None, binary),
        )
        settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})
        return Stage(definition, settings, connections, tmp_path)

    yield begin
    (tmp_path / "open").touch()


def job_of(parent: int) -> psutil.Process:
    """The job's process below a task's: of spark-submit the driver's Java, of Spark Connect the client."""
    found = [p for p in psutil.Process(parent).children(recursive=True) if is_job(p)]
    return min(found, key=lambda process: process.create_time())


def is_job(process: psutil.Process) -> bool:
    try:
        return any(part.endswith("process_batch.py") for part in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("transform", "connection", "written"),
    rows_one_in(2, [("held_rows", "submit", range(_RECORDS)), ("held_rejects", "warm", range(1, _RECORDS))]),
    ids=["a driver, while it writes", "a client, when the output is written and the result isn't"],
)
def test_spark_killed_in_a_delivery_leaves_nothing_and_the_next_run_delivers_again(
    transform: str, connection: str, written: range, stage, aside
) -> None:
    staged = stage(transform)
    batch_id = staged.landed()
    processing = aside(staged.process, batch_id, connection)
    until(lambda: staged.is_held() or processing.done(), "the job writes")
    if transform == "held_rejects":
        assert list(staged.output.glob("_staging/*/*/part-*.parquet"))
    job_of(os.getpid()).kill()
    with pytest.raises(BatchFailedError, match=f"ended with status -{signal.SIGKILL}"):
        processing.result(_SECONDS)
    assert staged.offsets() == []

    batch = staged.deliver()

    assert (batch.id, batch.condition, staged.published_delivery(batch)) == (batch_id, Outcome.COMMITTED, 2)
    assert staged.offsets() == list(written)
    assert staged.offsets("_rejected/") == [n for n in range(_RECORDS) if n not in written]


@pytest.mark.nightly
def test_a_driver_that_outlives_its_task_and_goes_on_after_the_next_commit_publishes_nothing(stage) -> None:
    staged = stage("held_rows")
    batch_id = staged.landed()
    task = multiprocessing.get_context("spawn").Process(target=staged.process, args=(batch_id, "submit"))
    task.start()
    until(lambda: staged.is_held() or not task.is_alive(), "the job writes")
    driver = job_of(task.pid or 0)
    task.kill()
    task.join(_SECONDS)
    os.killpg(driver.pid, signal.SIGSTOP)
    try:
        batch = staged.deliver()
    finally:
        os.killpg(driver.pid, signal.SIGCONT)
    assert (batch.id, batch.condition, staged.published_delivery(batch)) == (batch_id, Outcome.COMMITTED, 2)
    driver.wait(_SECONDS)

    assert staged.offsets() == list(range(_RECORDS))
    with staged.opened("warm") as pipeline:
        assert replace(pipeline, subscription=replace(staged.definition, poll_timeout_ms=1)).plan().batch is None
    assert list(staged.output.glob("_staging/*")) == []
    assert staged.offsets() == list(range(_RECORDS))
