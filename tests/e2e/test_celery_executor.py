"""CeleryExecutor for real: two workers share what docs/executors.md says and nothing else; each step loses one of them.

Each worker has an AIRFLOW_HOME, a working folder and temporary files of its own, with a copy of the DAG file and the
definition, and doesn't see those of another, as on a machine of its own. Redis is the message broker, PostgreSQL has
Airflow's metadata and the ledger.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset
import pytest
import yaml
from cells import Cell
from confluent_kafka import Consumer, Producer, TopicPartition
from debian_packages import NoPackageError
from documents import ROOT
from installed import PAGE, Installed, installed_by_pip
from ledger_gate import LedgerGate
from redis_server import Redis

from tidegate_local.airflow_client import AirflowClient, health
from tidegate_local.airflow_home import USER, AirflowHome
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port
from tidegate_local.servers import Server
from tidegate_local.spark_connect import SparkConnect

pytestmark = [
    *(pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.spark, pytest.mark.postgres),
    *(pytest.mark.nightly, pytest.mark.timeout(1800)),
]

EXECUTORS = ROOT / "docs/executors.md"
WAIT = 240
RECORDS = 20  # of a run
QUEUE = "lake"
MACHINES = ("first", "second", "third")
HIDING = 'while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done; shift; exec "$@"'
MAPPED = () if os.geteuid() == 0 else ("--map-root-user",)
HEALTHY = ("metadatabase", "scheduler", "dag_processor")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    try:
        server = Redis(tmp_path / "redis")
    except NoPackageError as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    (more,) = re.findall(r"`pip install ([^`]*)`", EXECUTORS.read_text("utf-8"))
    folder = tmp_path_factory.mktemp("installed")
    yield installed_by_pip(Cell(), sys.executable, folder, "airflow,connect,postgres", shlex.split(more))
    shutil.rmtree(folder)


@dataclass
class Machine:
    """Where a part of Airflow has its own files; what it shares is in `environment` and in airflow.cfg."""

    name: str
    folder: Path
    programs: Path
    environment: dict[str, str]

    def start(self, name: str, *command: str) -> Server:
        others = [str(self.folder.with_name(other)) for other in MACHINES if other != self.name]
        alone = ["unshare", "--mount", *MAPPED, "sh", "-ec", HIDING, "sh", *others, "--"]
        arguments = [*alone, str(self.programs / "airflow"), *command]
        log = self.folder / f"{name}.log"
        return Server(name, arguments, log=log, environment=self.environment, folder=self.folder / "elsewhere")

    def worker(self) -> Server:
        own = ("--queues", QUEUE, "--celery-hostname", f"{self.name}@%h")
        return self.start("worker", "celery", "worker", "--skip-serve-logs", "--concurrency", "2", *own)

    def has_run(self, run: str, task: str, attempt: int) -> bool:
        """Whether it ran this try of a task: its log is here."""
        folder = self.folder / f"airflow/logs/dag_id=orders/run_id={run}/task_id={task}"
        return any(folder.rglob(f"attempt={attempt}.log"))


class World:
    """The machines of one Airflow: the first one has API server, scheduler and DAG processor, the others a worker."""

    def __init__(self, installed: Installed, folder: Path, around: dict[str, str], cfg: str, definition: str) -> None:
        self._installed = installed
        self._folder = folder
        self._cfg = cfg
        self._definition = definition
        self.home = AirflowHome(folder / "first/airflow", Path(), Path(), free_port())
        self._around = installed.around | self.home.settings() | around
        self.first, *workers = map(self.machine, MACHINES)
        self.workers = {each.name: each for each in workers}

    def machine(self, name: str) -> Machine:
        folder = self._folder / name
        home = folder / "airflow"
        (dag,) = [block.text for block in PAGE if block.file == "tidegate_subscriptions.py"]
        for place, text in {
            home / "airflow.cfg": self._cfg,
            home / "dags/tidegate_subscriptions.py": dag,
            home / "tidegate/include/subscriptions/orders.yaml": self._definition,
            folder / "elsewhere/none": "",
            folder / "temporary/none": "",
        }.items():
            self._installed.write(place, text)
        own = {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
            "TMPDIR": str(folder / "temporary"),
        }
        return Machine(name, folder, self._installed.programs, self._around | own)


@pytest.fixture
def topic_name(topic: Callable[..., str]) -> str:
    return topic(2, name=f"orders-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def world(
    redis: Redis,
    installed: Installed,
    broker: Broker,
    spark_connect: SparkConnect,
    postgres_database: str,
    postgres_ledger: str,
    topic_name: str,
    tmp_path: Path,
) -> World:
    shared = tmp_path / "shared"
    kafka = {"conn_type": "tidegate_kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    around = {
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(24),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres_database,
        "AIRFLOW__CELERY__BROKER_URL": redis.url,
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{postgres_database}",
        # a worker that is lost is noticed soon, and what it had taken from the queue is handed out once more
        "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "60",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "35",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark_connect.connection),
    }
    definition = {
        "topics": [topic_name],
        "consumer": {"group.id": topic_name, "auto.offset.reset": "earliest"},
        "poll-timeout.ms": 3000,
        "processing": {"output": str(shared / "lake")},
        "airflow": {"queue": QUEUE},
    }
    cfg = f"[tidegate]\nledger = {postgres_ledger}\nlanding = {shared}/landing\n"
    return World(installed, tmp_path, around, cfg, yaml.safe_dump(definition))


@pytest.fixture
def client(world: World) -> Iterator[AirflowClient]:
    world.home.password()
    with ExitStack() as stack:
        first = world.first
        stack.enter_context(first.start("migration", "db", "migrate")).wait_until_done(seconds=WAIT)
        parts = [first.start(name, name) for name in ("api-server", "scheduler", "dag-processor")]
        for part in parts:
            stack.callback(part.stop, seconds=8)
        parts[0].wait_until(lambda: is_healthy(world.home.url, parts), seconds=WAIT)
        yield stack.enter_context(AirflowClient(world.home.url, user=USER, password=world.home.password()))


@pytest.fixture
def workers(world: World, client: AirflowClient) -> Iterator[dict[str, Server]]:  # noqa: ARG001 (what they ask is up)
    """The servers by their machines; a test may put another one in the place of a dead one."""
    started = {name: machine.worker() for name, machine in world.workers.items()}
    try:
        for server in started.values():
            wait_until_ready(server)
        yield started
    finally:
        for server in started.values():
            server.kill()


def test_a_worker_is_lost_in_each_step_and_the_other_one_goes_on(
    world: World,
    client: AirflowClient,
    workers: dict[str, Server],
    broker: Broker,
    postgres_ledger: str,
    topic_name: str,
) -> None:
    gate = LedgerGate(postgres_ledger)
    client.wait_for_dag("orders", seconds=WAIT)
    client.unpause("orders")
    steps = {"plan": "planned", "land": "landed", "process": "processed", "commit": "closed"}
    for number, (step, state) in enumerate(steps.items(), start=1):
        produce(broker, topic_name, (number - 1) * RECORDS)
        with gate.closed(state):
            run = client.trigger("orders")
            writer = gate.held(WAIT)
            assert [task.task_id for task in client.task_instances("orders", run) if task.state == "running"] == [step]
            (lost,) = [name for name, server in workers.items() if server.pid in ancestors(writer)]
            workers[lost].kill()
        assert client.wait_for_run("orders", run, seconds=WAIT).state == "success", step
        tries = {task.task_id: task.try_number for task in client.task_instances("orders", run)}
        assert tries == dict.fromkeys(steps, 1) | {step: 2}
        (other,) = world.workers.keys() - {lost}
        assert world.workers[lost].has_run(run, step, 1)
        assert world.workers[other].has_run(run, step, 2)
        workers[lost] = world.workers[lost].worker()
        wait_until_ready(workers[lost])

    produced = len(steps) * RECORDS
    lake = pyarrow.dataset.dataset(str(world.workers["second"].folder.parent / "shared/lake"), format="parquet")
    values = sorted(int(row["value"]) for row in lake.to_table(columns=["value"]).to_pylist())
    assert values == list(range(produced))
    assert committed(broker, topic_name) == [produced // 2, produced // 2]
    said = json.loads(tidegate(world, "status", "orders", "--json"))
    assert (said["verdict"], said["lag"]) == ("OK", 0)


def tidegate(world: World, *command: str) -> str:
    return world._installed.run("tidegate", *command, around=world.workers["third"].environment)


def is_healthy(url: str, parts: list[Server]) -> bool:
    for part in parts:
        part.check()
    status = health(url)
    return all(status.get(each) == "healthy" for each in HEALTHY)


def wait_until_ready(worker: Server) -> None:
    worker.wait_until(lambda: " ready." in worker.log.read_text("utf-8"), seconds=WAIT)


def ancestors(process: psutil.Process) -> set[int]:
    return {each.pid for each in process.parents()}


def produce(broker: Broker, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(first, first + RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(120) == 0


def committed(broker: Broker, topic: str) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic})
    try:
        found = consumer.committed([TopicPartition(topic, each) for each in (0, 1)], timeout=30)
        return [each.offset for each in found]
    finally:
        consumer.close()
