"""The DAG of a subscription whose output is a table, run against a real broker and a real Spark."""

import json
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from airflow_runs import dag_of, run_dag
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.usefixtures("airflow_database"),
]

RECORDS = 30

DEFINITION = """\
topics: [{topic}]
consumer: {{group.id: {topic}, auto.offset.reset: earliest}}
poll-timeout.ms: 2000
processing: {{format: {format}, output: {output}}}
"""


@pytest.fixture
def records(
    broker: Broker, topic: Callable[..., str], spark_connect: SparkConnect, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A topic with records; the connections to Kafka and Spark are set."""
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark_connect.connection))
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(name, value=str(number).encode(), partition=number % 2)
    assert producer.flush(120) == 0
    return name


def run() -> tuple[str, Collection[str]]:
    """Run the DAG once; its state, and those of its tasks."""
    done = run_dag(dag_of("walk"))
    return str(done.state), {str(instance.state) for instance in done.get_task_instances()}


def test_runs_publish_into_a_delta_table(records: str, define: Callable[..., Path]) -> None:
    home = define("walk", DEFINITION.format(topic=records, format="delta", output="data/tables/walk")).parents[2]
    assert run() == ("success", {"success"})
    assert run() == ("success", {"skipped"})
    rows = DeltaTable(home / "data/tables/walk").to_pyarrow_table()
    assert sorted(int(value) for value in rows["value"].to_pylist()) == list(range(RECORDS))


@pytest.mark.nightly
def test_runs_publish_into_an_iceberg_table(
    records: str, define: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": catalog}))
    load_catalog("lake", **catalog).create_namespace("shop")
    define("walk", DEFINITION.format(topic=records, format="iceberg", output="lake.shop.walk"))
    assert run() == ("success", {"success"})
    assert run() == ("success", {"skipped"})
    rows = load_catalog("lake", **catalog).load_table("shop.walk").scan().to_arrow()
    assert sorted(int(value) for value in rows["value"].to_pylist()) == list(range(RECORDS))
