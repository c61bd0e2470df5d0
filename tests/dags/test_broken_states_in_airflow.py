"""What a person sees of broken states in Airflow: which task failed, and what its log says first.

Each is a real run of the DAG against a real broker, and a real Spark where it comes to that. The log has one
error for each failed task and no trace; one of them has fact, place and remedy in its first 400 characters.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from airflow_runs import dag_of, run_dag
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port
from tidegate_local.spark_connect import SparkConnect

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.usefixtures("airflow_database"),
]

SEEN = 400  # characters: what a person reads before scrolling
TRACE = re.compile(r"Traceback|^\s+File \"|^\s+at (org|java|scala)[.]", re.MULTILINE)
ERROR = re.compile(r"^\S+ \[error\s*\] ", re.MULTILINE)
NEXT_LINE = re.compile(r"^\S+ \[(info|warning|error|debug)\s*\] |^\S+ ::", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TRANSFORMS = "def python(records): raise ValueError('no rate for XYZ')\n"

Define = Callable[..., Path]


@dataclass
class Scene:
    """A subscription `walk` that would run, with ten records in its topic; a state breaks it."""

    define_file: Define
    connect: Callable[..., None]
    admin: AdminClient
    broker: Broker
    topic: str
    capfd: pytest.CaptureFixture[str]
    dag: str = "walk"
    conf: dict[str, object] = field(default_factory=dict)

    def define(self, name: str = "walk", *, transform: str | None = None, **values: object) -> Path:
        text = {"topic": self.topic, "group": "walk-" + self.topic, "retries": "0\nunavailable-after.ms: 0", **values}
        path = self.define_file(name, **text)
        if transform is not None:
            path.write_text(path.read_text("utf-8") + f"  transform: {transform}\n", "utf-8")
        return path

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number in range(10):
            producer.produce(self.topic, str(number).encode())
        assert producer.flush(120) == 0

    def run(self) -> tuple[dict[str, str], str]:
        """One run: the state of each task, and what Airflow's log has of it."""
        self.capfd.readouterr()
        done = run_dag(dag_of(self.dag), self.conf)
        log = COLOURS.sub("", "".join(self.capfd.readouterr()))
        return {each.task_id: str(each.state) for each in done.get_task_instances()}, log


@dataclass(frozen=True)
class State:
    """How it is broken, the tasks that fail of it, and words of the fact, the place and the remedy."""

    broken: Callable[[Scene], object]
    fact: str
    place: str
    remedy: str
    failed: tuple[str, ...] = ("plan", "commit")


def wrong_servers(scene: Scene) -> None:
    scene.define()
    extra = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    scene.connect("kafka_default", conn_type="kafka", extra=extra)


def no_kafka_connection(scene: Scene) -> None:
    path = scene.define()
    path.write_text(path.read_text("utf-8").replace("kafka_default", "kafka_of_ada"), "utf-8")


def unknown_param(scene: Scene) -> None:
    scene.define()
    scene.conf["max.poll.record"] = 7


def records_gone(scene: Scene) -> None:
    scene.define()
    assert set(scene.run()[0].values()) == {"success"}
    scene.produce()
    at = TopicPartition(scene.topic, 0, 15)
    scene.admin.delete_records([at])[at].result()


def spark_away(scene: Scene) -> None:
    scene.define()
    scene.connect("spark_default", conn_type="spark_connect", host="sc://127.0.0.1", port=free_port())


def no_spark_connection(scene: Scene) -> None:
    scene.define(spark="spark_of_ada")


def raising(scene: Scene) -> None:
    scene.define(transform="broken:python")


def stopped(scene: Scene) -> None:
    raising(scene)
    scene.run()


def cleared_with_another_batch_id(scene: Scene) -> None:
    stopped(scene)
    scene.dag, scene.conf = "tidegate_clear", {"subscription": "walk", "batch": "b404"}


def committed_with_another_batch_id(scene: Scene) -> None:
    stopped(scene)
    scene.dag, scene.conf = "tidegate_commit", {"subscription": "walk", "batch": "b404"}


def no_ledger(scene: Scene) -> None:
    home = scene.define().parents[2]
    (home / "data" / "ledger.db").write_text("no database at all, " * 100)


STATES = {
    "wrong bootstrap.servers": State(wrong_servers, "no broker has ever answered", "walk", "bootstrap.servers"),
    "no Kafka connection": State(
        no_kafka_connection, "there is no Airflow connection", "kafka_of_ada", "set AIRFLOW_CONN_"
    ),
    "an unknown param": State(
        unknown_param, "'max.poll.record', which isn't a param", "this run's conf", "did you mean max.poll.records?"
    ),
    "records gone": State(records_gone, "outside of what the partition holds", "walk", "on-data-loss: reset"),
    "Spark away": State(spark_away, "can't be reached", "spark_default", "run again", ("process", "commit")),
    "no Spark connection": State(
        no_spark_connection,
        "there is no Airflow connection",
        "spark_of_ada",
        "set AIRFLOW_CONN_",
        ("process", "commit"),
    ),
    "a transform that raises": State(
        raising, "no rate for XYZ", "subscription walk, batch", "tidegate clear walk", ("process", "commit")
    ),
    "a stopped subscription": State(stopped, "no rate for XYZ", "subscription walk", "tidegate clear walk"),
    "another batch to clear": State(
        cleared_with_another_batch_id, "another batch than b404", "subscription walk", "then clear that one", ("clear",)
    ),
    "another batch to commit": State(
        committed_with_another_batch_id,
        "another batch than b404",
        "subscription walk",
        "then commit that one",
        ("commit",),
    ),
    "a file that is no ledger": State(no_ledger, "can't be used", "ledger.db", "TIDEGATE_LEDGER"),
}


@pytest.fixture
def scene(
    broker: Broker,
    admin: AdminClient,
    spark_connect: SparkConnect,
    topic: Callable[..., str],
    define: Define,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Scene:
    def connect(connection: str, **values: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{connection.upper()}", json.dumps(values))

    (home / "spark_jobs").mkdir()
    (home / "spark_jobs" / "broken.py").write_text(TRANSFORMS)
    connect("kafka_default", conn_type="kafka", extra={"bootstrap.servers": broker.bootstrap_servers})
    connect("spark_default", **spark_connect.connection)
    made_scene = Scene(define, connect, admin, broker, topic(), capfd)
    made_scene.produce()
    return made_scene


@pytest.mark.parametrize("case", STATES)
def test_the_log_says_what_happened_where_and_what_to_do(scene: Scene, case: str) -> None:
    state = STATES[case]
    state.broken(scene)
    tasks, log = scene.run()
    assert {task for task in tasks if tasks[task] == "failed"} == set(state.failed), tasks
    assert TRACE.search(log) is None, log
    errors = [NEXT_LINE.split(text, maxsplit=1)[0] for text in ERROR.split(log)[1:]]
    said = [text for text in errors if not text.startswith(("Task exited", "Error loading DAG"))]  # of other files
    assert len(said) == len(state.failed), said
    words = (state.fact, state.place, state.remedy)
    assert any(all(word in " ".join(text.split())[:SEEN] for word in words) for text in said), said
