"""Subscriptions on the real broker, with a real landing, lake and ledger; a shipped double copies in place of Spark."""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from broker_topics import make_topic
from broker_world import Feed, Producers, Scene, connection_to
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from crash_cases import Case, CaseScene
from crash_plays import Scenario, playing
from definitions import subscription
from desk import Desk
from documents import ROOT
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate.config import consumer_properties
from tidegate.config.settings import Settings
from tidegate.model.subscription import Processing, TopicNames
from tidegate.ports import Connection
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.spark.fork_server import ForkServer
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

CLIENT = consumer_properties.translate({})  # what a definition that says nothing of its client comes to

JOBS = Path(__file__).parent / "jobs"

OpenSubscription = Callable[..., Pipeline]
OpenInSpark = Callable[..., Pipeline]
MakeScene = Callable[..., Scene]
Invoke = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def processor() -> CopyingProcessor:
    return CopyingProcessor()


@pytest.fixture
def settings(tmp_path: Path, sqlite_template: Path) -> Settings:
    (tmp_path / "data").mkdir()
    shutil.copyfile(sqlite_template, tmp_path / "data" / "ledger.db")
    return Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})


@pytest.fixture
def open_subscription(broker: Broker, settings: Settings, processor: CopyingProcessor) -> Iterator[OpenSubscription]:
    """`open_subscription(topic, members=2, consumer={...})` gives a pipeline on the broker, of a group of its own."""
    with ExitStack() as stack:

        def begin(
            topic: str, *, consumer: dict[str, Any] | None = None, bootstrap: str | None = None, **values: Any
        ) -> Pipeline:
            name = values.pop("name", topic)
            chosen = values.pop("settings", settings)
            definition = subscription(
                name=name,
                topics=values.pop("topics", TopicNames((topic,))),
                poll_timeout_ms=values.pop("poll_timeout_ms", 5000),
                processing=Processing(f"lake/{name}", "spark_default", None, ()),
                consumer={"group_id": f"{name}-lake", "librdkafka": CLIENT, **(consumer or {})},
                **values,
            )
            extra = {"bootstrap.servers": bootstrap or broker.bootstrap_servers}
            kafka = Connection("kafka_default", "kafka", None, None, None, None, extra)
            return stack.enter_context(open_pipeline(definition, chosen, MemoryConnections(kafka), processor))

        yield begin


@pytest.fixture
def open_in_spark(
    broker: Broker,
    spark_connect: SparkConnect,
    fork_server: ForkServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OpenInSpark]:
    """A subscription of a topic, whose Spark job runs over Spark Connect with the transforms in `jobs`."""
    monkeypatch.setattr("tidegate.spark.fork_server._server", fork_server)
    monkeypatch.syspath_prepend(str(JOBS))
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    connections = MemoryConnections(
        Connection("kafka_default", "kafka", None, None, None, None, kafka),
        connection_to(spark_connect),
    )
    with ExitStack() as stack:

        def begin(
            topic: str, transform: str | None, *, consumer: dict[str, Any] | None = None, **values: Any
        ) -> Pipeline:
            definition = subscription(
                name=topic,
                topics=TopicNames((topic,)),
                poll_timeout_ms=5000,
                processing=Processing(f"lake/{topic}", "spark_default", transform, ()),
                consumer={"group_id": f"{topic}-lake", "librdkafka": CLIENT, **(consumer or {})},
                **{"max_retries": 0} | values,
            )
            settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})
            return stack.enter_context(open_pipeline(definition, settings, connections))

        yield begin


@pytest.fixture
def produce(broker: Broker) -> Callable[..., None]:
    """`produce(topic, 5, partition=0)`: records with their number as value."""

    def send(topic: str, count: int, partition: int = 0, **settings: Any) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **settings})
        for number in range(count):
            producer.produce(topic, str(number).encode(), str(number).encode(), partition)
        assert producer.flush(120) == 0

    return send


@pytest.fixture(scope="session")
def producers(broker: Broker) -> Producers:
    """They say nothing of the broker's end, which they may live to see."""
    client = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "log_level": 2}
    transactional = Producer({**client, "transactional.id": f"feed-{uuid.uuid4().hex[:8]}"})
    transactional.init_transactions(60)
    return Producers(Producer(client), transactional)


@pytest.fixture(scope="session")
def scene(
    broker: Broker,
    admin: AdminClient,
    producers: Producers,
    sqlite_template: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MakeScene]:
    """`scene(partitions=2, members=2, consumer={...})`: a subscription on a topic of its own; any thread may call it.

    Its client waits for 50 ms at most where there is nothing to fetch.
    """
    folder = tmp_path_factory.mktemp("scenes")
    with ExitStack() as stack:

        def begin(*, partitions: int = 1, consumer: dict[str, Any] | None = None, **values: Any) -> Scene:
            name = f"scene-{uuid.uuid4().hex[:12]}"
            make_topic(admin, name, partitions)
            home = folder / name
            (home / "data").mkdir(parents=True)
            shutil.copyfile(sqlite_template, home / "data" / "ledger.db")
            client = consumer_properties.translate({"fetch.max.wait.ms": 50})
            definition = subscription(
                name=name,
                topics=TopicNames((name,)),
                poll_timeout_ms=10_000,
                commit_timeout_ms=10_000,
                processing=Processing(f"lake/{name}", "spark_default", None, ()),
                consumer={"group_id": f"{name}-lake", "librdkafka": client, **(consumer or {})},
                **values,
            )
            settings = Settings.from_environment({"TIDEGATE_HOME": str(home)})
            made = Scene(definition, settings, broker, Feed(name, producers, admin), home)
            stack.callback(made.end)
            return made

        yield begin


@pytest.fixture(scope="module")
def begin(scene: Callable[..., Scene], admin: AdminClient) -> Callable[[Case], CaseScene]:
    return lambda case: case.begin(scene, admin)


@pytest.fixture(scope="module")
def under_way(
    request: pytest.FixtureRequest, begin: Callable[[Case], CaseScene]
) -> Iterator[dict[Scenario, Future[None]]]:
    with playing(request, begin) as futures:
        yield futures


@pytest.fixture
def tidegate(broker: Broker, spark_connect: SparkConnect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """`tidegate("run", name)`: the exit status and the JSON of a command in a project of the test's own."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark_connect.connection))
    monkeypatch.syspath_prepend(str(JOBS))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path))

    def invoke(*arguments: str) -> tuple[int, dict[str, Any]]:
        done = CliRunner().invoke(app, [*arguments, "--json"])
        return done.exit_code, json.loads(done.stdout)

    return invoke


@pytest.fixture
def desk(
    tmp_path: Path, broker: Broker, admin: AdminClient, topic: Callable[..., str], spark_connect: SparkConnect
) -> Desk:
    """A folder of the test's own, with the project's transforms."""
    made = Desk(tmp_path, broker, admin, topic)
    shutil.copytree(ROOT / "spark_jobs" / "transforms", tmp_path / "spark_jobs" / "transforms")
    made.connect("spark_default", **spark_connect.connection)
    return made
