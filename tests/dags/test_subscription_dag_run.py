"""The DAG of a subscription, run against a real broker and a real Spark, by both ways of processing."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest
from airflow_runs import dag_of, run_dag
from confluent_kafka import Consumer, Producer, TopicPartition
from hooks import hooked

from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.usefixtures("airflow_database"),
]

PARTITIONS = 3
RECORDS = 60

Define = Callable[..., Path]
Connect = Callable[..., None]


@pytest.fixture
def connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Sets the Airflow connection to Spark; that to Kafka is set already."""
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")

    def set_to(**values: object) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(values))

    return set_to


@pytest.fixture
def filled(broker: Broker, topic: Callable[..., str]) -> str:
    """A topic with records in each of its partitions."""
    name = topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(name, key=b"k", value=str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    return name


def run(dag: str = "walk", **params: str) -> tuple[str, dict[str, set[str]]]:
    """Run a DAG once; its state, and the states of each task."""
    done = run_dag(dag_of(dag), params)
    tasks: dict[str, set[str]] = {}
    for instance in done.get_task_instances():
        tasks.setdefault(instance.task_id, set()).add(str(instance.state))
    return str(done.state), tasks


def committed(broker: Broker, group: str, topic: str) -> list[int]:
    client = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        return [each.offset for each in client.committed([TopicPartition(topic, p) for p in range(PARTITIONS)])]
    finally:
        client.close()


def rows(home: Path, group: str) -> list[int]:
    table = pyarrow.dataset.dataset(home / "data/lake" / group, format="parquet").to_table(columns=["value"])
    return sorted(int(value) for value in table["value"].to_pylist())


def landed(home: Path) -> set[Path]:
    return set((home / "data/landing").rglob("*.parquet"))


def test_over_spark_connect(
    broker: Broker, spark_connect: SparkConnect, filled: str, connection: Connect, define: Define
) -> None:
    connection(**spark_connect.connection)
    home = define("walk", topic=filled, group=filled).parents[2]
    assert run() == ("success", {task: {"success"} for task in ("plan", "land", "process", "commit")})
    assert rows(home, filled) == list(range(RECORDS))
    assert committed(broker, filled, filled) == [RECORDS // PARTITIONS] * PARTITIONS
    assert run() == ("success", {task: {"skipped"} for task in ("plan", "land", "process", "commit")})
    assert rows(home, filled) == list(range(RECORDS))


def test_landed_by_spark_too(
    broker: Broker, spark_connect: SparkConnect, filled: str, connection: Connect, define: Define
) -> None:
    connection(**spark_connect.connection)
    path = define("walk", topic=filled, group=filled)
    path.write_text(path.read_text("utf-8").replace("members: 2", "landing-engine: spark"), "utf-8")
    assert run() == ("success", {task: {"success"} for task in ("plan", "land", "process", "commit")})
    home = path.parents[2]
    assert len(landed(home)) == PARTITIONS
    assert rows(home, filled) == list(range(RECORDS))
    assert committed(broker, filled, filled) == [RECORDS // PARTITIONS] * PARTITIONS


@pytest.mark.nightly
def test_by_spark_submit_after_a_failure_that_moved_nothing_and_was_cleared_in_airflow(
    broker: Broker, filled: str, connection: Connect, define: Define
) -> None:
    home = define("walk", topic=filled, group=filled).parents[2]
    connection(conn_type="spark", host="no-such-master")
    state, tasks = run()
    assert (state, tasks["process"], tasks["commit"]) == ("failed", {"failed"}, {"failed"})
    assert committed(broker, filled, filled) == [0] * PARTITIONS
    as_received = landed(home)
    connection(conn_type="spark", host="local[2]")
    assert run()[1]["plan"] == {"failed"}, "max-retries is 0, and nobody has cleared it"
    assert run("tidegate_clear", subscription="walk") == ("success", {"clear": {"success"}})
    assert run() == ("success", {task: {"success"} for task in ("plan", "land", "process", "commit")})
    assert landed(home) == as_received
    assert rows(home, filled) == list(range(RECORDS))
    assert committed(broker, filled, filled) == [RECORDS // PARTITIONS] * PARTITIONS


def test_over_http_and_without_any_spark(
    broker: Broker, filled: str, connection: Connect, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`connection` sets the one to Kafka; that to Spark isn't there."""
    del connection
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_HOOK", json.dumps({"conn_type": "http", "password": "t0ken"}))
    monkeypatch.setenv("TIDEGATE_HTTP_ALLOWED", "127.0.0.1")
    with hooked() as hook:
        processing = f"{{kind: http, uri: '{hook.uri}', connection: hook, output: data/lake/{filled}}}"
        consumer = f"{{group.id: {filled}, auto.offset.reset: earliest}}"
        define("walk", f"topics: [{filled}]\nconsumer: {consumer}\npoll-timeout.ms: 2000\nprocessing: {processing}\n")
        assert run() == ("success", {task: {"success"} for task in ("plan", "land", "process", "commit")})
    assert sorted(int(body) for body in hook.bodies) == list(range(RECORDS))
    assert {each["Authorization"] for each in hook.headers} == {"Bearer t0ken"}
    assert committed(broker, filled, filled) == [RECORDS // PARTITIONS] * PARTITIONS
