"""What a person sees of forty broken states: what happened, where, and what to do, before anything else.

Each is set up from outside. What `tidegate run` prints and what `tidegate status` says of the subscription have all
three within their first 400 characters, and no stack trace; the exit statuses are those that a script goes by.
"""

import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from broker_topics import delete_topic
from by_night import one_in
from command_line import CommandLine
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from sqlalchemy import create_engine

from chaos.disk import Disk, can_mount
from tidegate.runtime.run import run_batch
from tidegate_local.broker import Broker
from tidegate_local.loopback import SPARK_HOST, free_port
from tidegate_local.spark_connect import SparkConnect

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SEEN = 400  # characters: what a person reads before scrolling
TRACE = re.compile(r"Traceback|^\s+File \"|^\s+at (org|java|scala)[.]|JVM stacktrace", re.MULTILINE)
TRANSFORMS = """
from pyspark.sql import functions as F
from tidegate_spark import Outcome

def mistyped(records): return records.select("valeu")
def raising(records): return records.select(F.raise_error(F.lit("order 17 has no country")))
def python(records): raise ValueError("no rate for XYZ")
def nothing(records): return None
def rejecting(records): return Outcome(rows=records, rejected=records.select("offset"))
def all_rejected(records): return Outcome(rows=records.limit(0), rejected=records.withColumn("reason", F.lit("no")))
"""


@dataclass
class Scene:
    """A definition that would run, with ten records in its topic; a state breaks it."""

    line: CommandLine
    broker: Broker
    admin: AdminClient
    make_topic: Callable[..., str]
    produce: Callable[..., None]
    name: str
    topic: str
    environment: dict[str, str] = field(default_factory=dict)
    at_end: ExitStack = field(default_factory=ExitStack)
    new_database: Callable[[], str] | None = None

    @property
    def group(self) -> str:
        return f"{self.name}-lake"

    def define(self, name: str | None = None, **properties: Any) -> None:
        quick = {"poll-timeout.ms": 2000, "unavailable-after.ms": 0, "max-retries": 0}
        topic = properties.pop("topic", self.topic)
        consumer = {"group.id": self.group, **properties.pop("consumer", {})}
        self.line.define(name or self.name, topic, consumer=consumer, **{**quick, **properties})

    def transform(self, name: str, **properties: Any) -> None:
        self.define(processing={"transform": name, "output": f"lake/{self.name}"}, **properties)

    def delivered(self) -> None:
        """A batch is delivered, by a job that copies."""
        with self.line.pipeline(self.name) as pipeline:
            assert run_batch(pipeline, lambda _: None).error is None

    def database(self) -> str:
        """The URL of an empty database in PostgreSQL."""
        assert self.new_database is not None
        return self.new_database()

    def failed(self) -> None:
        self.tidegate("run", self.name)

    def ledger(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.line.home / "data" / "ledger.db") as connection:
            connection.execute(statement, values)

    def tidegate(self, *arguments: str) -> tuple[int, str]:
        done = self.line.run(*arguments, **self.environment)
        return done.returncode, done.stdout or done.stderr


@dataclass(frozen=True)
class State:
    """How it is broken, and what is to be read of it: words of the fact, the place and the remedy.

    `run` is what a run ends with; None where there is none to look at. `status` are the words there, if they aren't
    those of the run, `verdict` and `check` what `status --check` says and ends with; None where it isn't asked, and
    nothing where nobody can tell how a subscription is.
    """

    broken: Callable[[Scene], object]
    fact: str
    remedy: str
    place: str = "{name}"
    run: int | None = 1
    verdict: str | None = "STALLED"
    check: int = 2
    status: tuple[str, ...] | None = None


def mistyped_topic(scene: Scene) -> None:
    scene.define(topic="ordres")


def wrong_servers(scene: Scene) -> None:
    scene.define()
    scene.line.connect("kafka_default", "kafka", **{"bootstrap.servers": f"127.0.0.1:{free_port()}"})


def tls_against_plain(scene: Scene) -> None:
    scene.define()
    extra: dict[str, Any] = {"bootstrap.servers": scene.broker.bootstrap_servers, "security.protocol": "SSL"}
    scene.line.connect("kafka_default", "kafka", **extra)


def recreated_topic(scene: Scene) -> None:
    scene.define()
    scene.delivered()
    delete_topic(scene.admin, scene.topic)
    scene.make_topic(1, name=scene.topic)
    scene.produce(scene.topic, 10)


def another_cluster(scene: Scene) -> None:
    scene.define()
    scene.delivered()
    scene.ledger("UPDATE tidegate_groups SET cluster_id = 'of-last-year'")


def positions_in_kafka(scene: Scene) -> None:
    scene.define()
    scene.delivered()
    scene.define(**{"commit-strategy": "checkpoint"})


def shared_group(scene: Scene) -> None:
    scene.define("owner", consumer={"group.id": scene.group})
    with scene.line.pipeline("owner") as pipeline:
        assert run_batch(pipeline, lambda _: None).error is None
    scene.define()


def lost_offsets(scene: Scene) -> None:
    scene.define()
    scene.delivered()
    scene.produce(scene.topic, 10)
    at = TopicPartition(scene.topic, 0, 15)
    scene.admin.delete_records([at])[at].result()


def group_moved_forward(scene: Scene) -> None:
    scene.define()
    scene.delivered()
    scene.produce(scene.topic, 10)
    moved = ConsumerGroupTopicPartitions(scene.group, [TopicPartition(scene.topic, 0, 18)])
    scene.admin.alter_consumer_group_offsets([moved])[scene.group].result()


def live_consumer(scene: Scene) -> None:
    scene.define()
    consumer = Consumer(
        {"bootstrap.servers": scene.broker.bootstrap_servers, "group.id": scene.group, "client.id": "intruder"}
    )
    scene.at_end.callback(consumer.close)
    consumer.subscribe([scene.topic])
    while not consumer.assignment():
        consumer.poll(0.2)
    scene.failed()


def spark_away(scene: Scene) -> None:
    scene.define()
    scene.line.connect("spark_default", "spark_connect", "sc://127.0.0.1", free_port())
    scene.failed()


def no_spark_submit(scene: Scene) -> None:
    scene.define()
    extra = {"spark-binary": "/no/such/spark-submit"}
    scene.line.connect("spark_default", "spark", "local[1]", **extra)
    scene.failed()


def spark_of_a_wrong_type(scene: Scene) -> None:
    scene.define()
    scene.line.connect("spark_default", "http", "localhost")
    scene.failed()


def no_connection(scene: Scene, which: str) -> None:
    scene.define(**({"connection": "kafka_of_ada"} if which == "kafka" else {}))
    if which == "spark":
        scene.define(processing={"connection": "spark_of_ada", "output": f"lake/{scene.name}"})
        scene.failed()


def no_registry(scene: Scene) -> None:
    scene.line.connect("schema_registry_default", "http", "127.0.0.1", free_port())
    scene.define(consumer={"value.deserializer": "json-schema"})
    scene.failed()


def a_file_in_place_of(folder: str) -> Callable[[Scene], None]:
    def broken(scene: Scene) -> None:
        scene.define()
        path = scene.line.home / folder.format(name=scene.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("no folder")
        scene.failed()

    return broken


def ledger_away(scene: Scene) -> None:
    scene.define()
    scene.environment["TIDEGATE_LEDGER"] = f"postgresql://u:secret@127.0.0.1:{free_port()}/ledger"


def newer_ledger(scene: Scene) -> None:
    scene.define()
    scene.delivered()
    scene.ledger("UPDATE tidegate_schema SET version_num = '9999'")


def ledger_without(statement: str) -> Callable[[Scene], None]:
    """A ledger in PostgreSQL that knew the subscription, and then somebody ran this statement in it."""

    def broken(scene: Scene) -> None:
        url = scene.environment["TIDEGATE_LEDGER"] = scene.database()
        scene.define()
        assert scene.tidegate("run", scene.name)[0] == 0
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    return broken


def full_disk(scene: Scene, folder: str, *, processed: bool) -> None:
    """The disk of this folder fills up, once the batch is processed or before it has landed."""
    if not can_mount():
        pytest.skip("no disk can be mounted here")
    scene.define()
    path = scene.line.home / folder
    path.parent.mkdir(exist_ok=True)
    disk = Disk(path)
    scene.at_end.callback(disk.close)
    if processed:
        with scene.line.pipeline(scene.name) as pipeline:
            batch = pipeline.plan().batch
            assert batch is not None
            pipeline.land(batch.id, 0)
            pipeline.process(batch.id)
    with (path / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, shutil.disk_usage(path).free)


def file_that_is_no_ledger(scene: Scene) -> None:
    scene.define()
    (scene.line.home / "data").mkdir()
    (scene.line.home / "data" / "ledger.db").write_text("no database at all, " * 100)


def stopped(scene: Scene, **properties: Any) -> None:
    scene.transform("broken:python", **properties)
    scene.failed()


def failing(transform: str, **properties: Any) -> Callable[[Scene], None]:
    def broken(scene: Scene) -> None:
        scene.transform(transform, **properties)

    return broken


def written(text: str) -> Callable[[Scene], None]:
    def broken(scene: Scene) -> None:
        scene.define()
        path = scene.line.subscriptions / f"{scene.name}.yaml"
        path.write_text(path.read_text() + text)

    return broken


def no_folder(scene: Scene) -> None:
    scene.define()
    scene.environment["TIDEGATE_SUBSCRIPTIONS"] = "/no/such/folder"


def strategy_changed(scene: Scene) -> None:
    scene.define(**{"commit-strategy": "checkpoint"})
    with scene.line.pipeline(scene.name) as pipeline:
        assert pipeline.plan().batch is not None
    scene.define()
    scene.failed()


def group_changed(scene: Scene) -> None:
    scene.define()
    with scene.line.pipeline(scene.name) as pipeline:
        assert pipeline.plan().batch is not None
    scene.define(consumer={"group.id": f"{scene.name}-new"})
    scene.failed()


def damaged_landing(scene: Scene) -> None:
    scene.define()
    with scene.line.pipeline(scene.name) as pipeline:
        plan = pipeline.plan()
        assert plan.batch is not None
        batch = pipeline.land(plan.batch.id, 0)
    Path(batch.files[0].uri.removeprefix("file://")).write_bytes(b"nothing that was landed")


MEND = "tidegate clear {name}"
STATES = {
    "a mistyped topic": State(
        mistyped_topic,
        "none of the topics exists yet",
        "create it",
        place="ordres",
        run=0,
        verdict="WARN",
        check=1,
        status=("not there: ordres",),
    ),
    "wrong bootstrap.servers": State(
        wrong_servers,
        "no broker has ever answered",
        "bootstrap.servers",
        verdict="UNREACHABLE",
        status=("look at the",),
    ),
    "TLS against a plain port": State(
        tls_against_plain, "no broker has ever answered", "security.protocol", verdict="UNREACHABLE", status=("broker",)
    ),
    "a topic created again": State(recreated_topic, "deleted and created again", "on-data-loss: reset"),
    "another cluster": State(
        another_cluster,
        "another Kafka cluster",
        "accept-cluster {name}",
        run=2,
        status=("another Kafka cluster", "To do: ", "accept-cluster {name}"),
    ),
    "positions in another store": State(
        positions_in_kafka,
        "Kafka has the group's positions",
        "offsets move {name}",
        run=2,
        status=("Kafka has the group's positions", "To do: ", "offsets move {name}"),
    ),
    "two definitions of one group": State(
        shared_group,
        "is subscription owner's",
        "consumer.group.id of its own",
        run=2,
        status=("is the group that owner reads with", "give {name} a group of its own"),
    ),
    "records gone": State(lost_offsets, "outside of what the partition holds", "on-data-loss: reset"),
    "a group moved forward": State(
        group_moved_forward,
        "",
        "",
        run=None,
        verdict="REWOUND",
        check=1,
        status=("somebody moved the group", "forward"),
    ),
    "a live consumer": State(live_consumer, "live members", "stop them", place="intruder"),
    "Spark Connect away": State(
        spark_away, "can't be reached", "then run again", place="spark_default", verdict="WARN", check=1
    ),
    "no spark-submit": State(
        no_spark_submit, "isn't on PATH", "put the bin folder of a Spark on the PATH", place="spark_default", run=2
    ),
    "a Spark connection of a wrong type": State(
        spark_of_a_wrong_type, "has type http", "must name one of type spark", place="spark_default", run=2
    ),
    "no Spark connection": State(
        lambda scene: no_connection(scene, "spark"),
        "there is no Airflow connection",
        "airflow connections add",
        place="spark_of_ada",
        run=2,
    ),
    "no Kafka connection": State(
        lambda scene: no_connection(scene, "kafka"),
        "there is no Airflow connection",
        "airflow connections add",
        place="kafka_of_ada",
        run=2,
    ),
    "no dead-letter topic": State(
        failing("broken:python", **{"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": "lost"}),
        "topic lost isn't there",
        "creates what is missing",
        run=2,
        status=("topic lost isn't there",),
    ),
    "no retry topic": State(
        failing(
            "broken:python",
            **{"failure-strategy": "delayed-retry-topic", "delayed-retry-topic.topics": ["later_10000"]},
        ),
        "topic later_10000 isn't there",
        "creates what is missing",
        run=2,
        status=("topic later_10000 isn't there",),
    ),
    "no Schema Registry": State(
        no_registry, "can't be reached", "see that it is up", place="schema_registry_default", verdict="WARN", check=1
    ),
    "no output folder": State(
        a_file_in_place_of("lake"), "can't be a folder", "name another folder", place="lake", run=2
    ),
    "no landing": State(
        a_file_in_place_of("data/landing"), "can't be written", "see that", place="landing", verdict="WARN", check=1
    ),
    "a ledger that is away": State(
        ledger_away, "the ledger", "see that the database runs", place="127.0.0.1", verdict="UNKNOWN", check=3
    ),
    "a ledger of a newer Tidegate": State(
        newer_ledger, "has schema 9999", "put back the copy of it", place="ledger.db", run=2, verdict="UNREACHABLE"
    ),
    "a file that is no ledger": State(
        file_that_is_no_ledger, "can't be used", "TIDEGATE_LEDGER", place="ledger.db", run=2, verdict="UNREACHABLE"
    ),
    "a ledger whose tables were dropped": State(
        ledger_without("DROP SCHEMA public CASCADE; CREATE SCHEMA public"), "", "", run=0, verdict="OK", check=0
    ),
    "a ledger that lacks a table": State(
        ledger_without("DROP TABLE tidegate_batches CASCADE"),
        "can't be used",
        "TIDEGATE_LEDGER",
        place="127.0.0.1",
        run=2,
        verdict="UNREACHABLE",
    ),
    "a full disk while landing": State(
        lambda scene: full_disk(scene, "data/landing", processed=False),
        "No space left on device",
        "has room",
        place="landing",
        verdict="WARN",
        check=1,
    ),
    "a full disk while the job writes": State(
        lambda scene: full_disk(scene, "lake", processed=False), "No space left on device", MEND, verdict="STOPPED"
    ),
    "a full disk while publishing": State(
        lambda scene: full_disk(scene, "lake", processed=True),
        "No space left on device",
        "has room",
        place="lake",
        verdict="WARN",
        check=1,
    ),
    "a mistyped column": State(failing("broken:mistyped"), "valeu", MEND, verdict="STOPPED"),
    "raise_error": State(failing("broken:raising"), "order 17 has no country", MEND, verdict="STOPPED"),
    "a transform that raises": State(failing("broken:python"), "no rate for XYZ", MEND, verdict="STOPPED"),
    "no such module": State(failing("broken_too:f"), "there is no module broken_too", "put it there", run=2),
    "no such function": State(failing("broken:pyton"), "has no function pyton", "did you mean python?", run=2),
    "a transform that returns nothing": State(
        failing("broken:nothing"), "returned None", "return a Spark DataFrame", verdict="STOPPED"
    ),
    "a rejected frame without its columns": State(failing("broken:rejecting"), "rejected", "reason", verdict="STOPPED"),
    "records rejected": State(
        failing("broken:all_rejected"), "rejected 10 of 10 records", "failure-strategy: ignore", verdict="STOPPED"
    ),
    "a stopped subscription": State(stopped, "no rate for XYZ", "tidegate clear {name}", verdict="STOPPED"),
    "a question": State(
        lambda scene: stopped(scene, **{"failure-strategy": "ask"}),
        "no rate for XYZ",
        "tidegate clear {name} --answer",
        verdict="STOPPED",
    ),
    "an unknown property": State(written("polltimeout.ms: 5\n"), "polltimeout.ms", "poll-timeout.ms", run=2),
    "broken YAML": State(written("topics: [a\n"), ".yaml:", "", run=2),
    "no folder": State(no_folder, "/no/such/folder", "", place="", run=2, verdict=None),
    "another strategy with an open batch": State(
        strategy_changed, "was planned with commit-strategy: checkpoint", "set checkpoint again", run=2
    ),
    "another group with an open batch": State(group_changed, "a batch of group", "set consumer.group.id back", run=2),
    "damaged landed files": State(
        damaged_landing, "landed files were damaged", "lands its records again", verdict="WARN", check=1
    ),
}


HEAD = r"\A{name}, group {name}-lake, lag "
WAITED = r"(?: \(the oldest record has waited [^)]+\))?\n  "
BLOCKS = {
    "a mistyped topic": (
        HEAD + r"0" + WAITED + r"WARN: not there: ordres[.] To do: create it",
        "last run .*: none of the topics",
    ),
    "wrong bootstrap.servers": (
        HEAD + r"unknown" + WAITED + r"UNREACHABLE: .*To do: look at the brokers",
        "last run .*: no broker",
    ),
    "a topic created again": (
        HEAD + r"\d+" + WAITED + r"STALLED: records are gone: .*To do: set on-data-loss",
        "committed",
    ),
    "another cluster": (
        HEAD + r"\d+" + WAITED + r"STALLED: no run begins: .*accept-cluster {name}",
        "last run .*another Kafka",
    ),
    "records gone": (
        HEAD + r"\d+" + WAITED + r"STALLED: .*To do: set on-data-loss: reset",
        "last run .*records are lost",
    ),
    "a group moved forward": (HEAD + r"2" + WAITED + r"REWOUND: somebody moved the group: ", "moved .*from 10 to 18"),
    "Spark Connect away": (
        HEAD + r"10" + WAITED + r"WARN: the last run failed: ",
        "open: batch b[0-9a-f]+ is landed since",
    ),
    "a transform that raises": (
        HEAD + r"10" + WAITED + r"STOPPED: batch b[0-9a-f]+ is stopped: .*no rate for XYZ",
        "To do: mend what failed it, then `tidegate clear {name}`",
        "open: batch b[0-9a-f]+ is stopped since",
    ),
    "a question": (
        HEAD + r"10" + WAITED + r"STOPPED: batch b[0-9a-f]+ waits for an answer: ",
        "open: batch b[0-9a-f]+ is asking",
    ),
    "damaged landed files": (
        HEAD + r"10" + WAITED + r"WARN: the last run failed: ",
        "batch b[0-9a-f]+ is abandoned: landed",
    ),
    "a full disk while publishing": (
        HEAD + r"10" + WAITED + r"WARN: the last run failed: ",
        "open: batch b[0-9a-f]+ is processed",
    ),
    "another group with an open batch": (r"\A{name}, group {name}-new, lag ", "STALLED: .*To do: correct"),
}
"""What `tidegate status NAME` prints of these, as regular expressions: verdict first, then what it stands on."""


@pytest.fixture
def scene(
    broker: Broker,
    admin: AdminClient,
    spark_connect: SparkConnect,
    topic: Callable[..., str],
    produce: Callable[..., None],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Scene]:
    name = f"s{uuid.uuid4().hex[:8]}"
    line = CommandLine(tmp_path, broker.bootstrap_servers)
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "broken.py").write_text(TRANSFORMS)
    made = topic()
    produce(made, 10)
    scene = Scene(line, broker, admin, topic, produce, name, made)
    scene.new_database = lambda: request.getfixturevalue("postgres_database")
    line.connect("spark_default", "spark_connect", SPARK_HOST, spark_connect.port, password=spark_connect.token)
    with scene.at_end:
        yield scene


@pytest.mark.parametrize("case", one_in(2, STATES))
def test_a_person_reads_what_happened_where_and_what_to_do(scene: Scene, case: str) -> None:
    state = STATES[case]
    state.broken(scene)
    if state.run is not None:
        code, said = scene.tidegate("run", scene.name)
        wanted = [text.format(name=scene.name) for text in (state.fact, state.place, state.remedy)]
        assert [text for text in wanted if text not in _seen(said)] == [], said
        assert (code, TRACE.search(said)) == (state.run, None), said
    if state.verdict is None:
        return
    code, said = scene.tidegate("status", "--check")
    words = (state.fact,) if state.status is None else state.status
    wanted = [state.verdict, *(text.format(name=scene.name) for text in words)]
    assert [text for text in wanted if text not in _seen(said)] == [], said
    assert (code, TRACE.search(said)) == (state.check, None), said
    if case in BLOCKS:
        _, block = scene.tidegate("status", scene.name)
        lacks = [text for text in BLOCKS[case] if not re.search(text.replace("{name}", scene.name), block)]
        assert (lacks, TRACE.search(block)) == ([], None), block


def _seen(said: str) -> str:
    """What a person reads of it without scrolling, however its lines were broken."""
    return " ".join(said.split())[:SEEN]
