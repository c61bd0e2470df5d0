"""A finished run that somebody clears in Airflow: nothing of its batch is done again, and its log says what would."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.models.taskinstance import clear_task_instances
from airflow.sdk.definitions.dag import _run_task
from airflow.utils.session import create_session
from airflow_runs import dag_of, run_dag
from confluent_kafka import Producer
from structlog.testing import capture_logs

from tidegate.ledger.sql import SqlLedger
from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.usefixtures("airflow_database"),
]

TASKS = ("plan", "land", "process", "commit")


def test_a_run_that_is_cleared_makes_nothing_again_and_names_the_command(
    broker: Broker,
    spark_connect: SparkConnect,
    topic: Callable[..., str],
    define: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark_connect.connection))
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(5):
        producer.produce(name, b"value")
    assert producer.flush(120) == 0
    home = define("walk", topic=name, group=name).parents[2]
    dag = dag_of("walk")
    finished = run_dag(dag)
    assert str(finished.state) == "success"
    ledger = SqlLedger(f"sqlite:///{home}/data/ledger.db")
    (before,) = ledger.history("walk", 5)
    written = {file: file.stat().st_mtime_ns for file in (home / "data").rglob("*.parquet")}

    caplog.set_level(logging.INFO, logger="tidegate")
    said = {}
    for task_id in (*TASKS[1:], TASKS[0]):
        with create_session() as session:
            instances = [each for each in finished.get_task_instances(session=session) if each.task_id == task_id]
            clear_task_instances(instances, session)
            for each in instances:
                each.try_number += 1
        caplog.clear()
        with capture_logs() as lines:
            for each in instances:
                _run_task(ti=each, task=dag.task_dict[task_id])
        events = [str(line["event"]) % tuple(line.get("positional_args", ())) for line in lines]
        said[task_id] = "\n".join([*events, caplog.text])
    command = f"`tidegate reprocess walk --batch {before.batch.id}` makes it once more"
    assert [command in said[task_id] for task_id in ("process", "commit")] == [True, True]
    assert "`tidegate reprocess walk --batch ID` does that" in said["plan"]
    assert ledger.history("walk", 5) == (before,)
    assert {file: file.stat().st_mtime_ns for file in (home / "data").rglob("*.parquet")} == written
