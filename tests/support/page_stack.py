"""A real Airflow for the page, with subscriptions in broken states among healthy ones, on a real broker.

Two batches are stopped by runs of Airflow, whose Spark job fails. The other states need no run of Airflow: they are set
up while it starts, by deliveries that copy.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from broker_topics import make_topic
from checkout import PROJECT
from command_line import CommandLine
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from quiet_airflow import QuietHome

from tidegate.config.settings import Settings
from tidegate.monitoring.observing import observe_all
from tidegate.ports import Processor
from tidegate.runtime.connections import AirflowConnections
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.airflow_client import OVER, POLL_SECONDS, AirflowClient
from tidegate_local.airflow_home import USER
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

PASSWORDS = {USER: "of-the-admin", "opal": "of-opal", "vera": "of-vera"}
"""By user: an administrator, who is one of Tidegate's operators; an operator of Airflow's who isn't; a viewer."""
ROLES = f"{USER}:admin,opal:op,vera:viewer"
AWAY = "kafka_warehouse"
NO_BROKER = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9", "socket.timeout.ms": "3000"}}
"""A connection to a port where nobody listens."""
CORRECTION = "corrected"
"""The file in the project's folder by which the Spark job of all subscriptions takes what it refused."""
_WAIT = 180
_QUICK = {"poll-timeout.ms": 60_000, "unavailable-after.ms": 0, "max-retries": 0, "schedule": None}
_JOB = """\
#!/bin/sh
PYTHONPATH={path} exec {python} {program} {correction} "$@"
"""


class _SomeUsers(QuietHome):
    def settings(self) -> dict[str, str]:
        return super().settings() | {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ROLES}


@dataclass
class PageStack:
    """What the tests of the page look at; `mark` ends the names of topics and groups."""

    line: CommandLine
    broker: Broker
    admin: AdminClient
    mark: str
    server: AirflowServer

    @property
    def url(self) -> str:
        """The address of Airflow's UI."""
        return self.server.url

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(self.line.environment)

    def topic(self, name: str) -> str:
        return f"{name}{self.mark}"

    def group(self, name: str) -> str:
        return f"{self.topic(name)}-lake"

    def make_topic(self, name: str, partitions: int = 3) -> None:
        make_topic(self.admin, self.topic(name), partitions)

    def produce(self, name: str, values: Sequence[bytes], headers: Mapping[str, bytes] | None = None) -> None:
        """One record a value, on all partitions in turn."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "message.timeout.ms": 60_000})
        count = len(producer.list_topics(self.topic(name), 30).topics[self.topic(name)].partitions)
        for number, value in enumerate(values):
            producer.produce(
                self.topic(name), value, b"key-%d" % number, number % count, headers=[*(headers or {}).items()]
            )
        assert producer.flush(120) == 0

    def define(self, name: str, **properties: Any) -> None:
        consumer = {"group.id": self.group(name), "max.poll.records": 100, **properties.pop("consumer", {})}
        self.line.define(name, self.topic(name), consumer=consumer, **{**_QUICK, **properties})

    def deliver(self, name: str, *failures: str) -> None:
        """One run, by a job that copies, or fails for these reasons."""
        job = CopyingProcessor()
        job.failures = [*failures]
        with self._pipeline(name, job) as pipeline:
            run = run_batch(pipeline, lambda _: None)
        assert failures or run.error is None, run.error

    def clear(self, name: str, note: str) -> None:
        """Let the batch that is stopped be delivered again."""
        with self._pipeline(name, CopyingProcessor()) as pipeline:
            pipeline.clear("somebody", note)

    def _pipeline(self, name: str, job: Processor) -> AbstractContextManager[Pipeline]:
        subscription = AllDefinitions(self.settings).load(name)
        return open_pipeline(subscription, self.settings, AirflowConnections(self.line.environment), job)

    def run_in_airflow(self, *names: str) -> None:
        """A run of each, at the same time, to its end."""
        self.unpause(*names)
        with self.server.client() as client:
            runs = {name: client.trigger(name) for name in names}
            for name, run_id in runs.items():
                _wait_for_task(client, name, run_id)

    def correct_the_job(self) -> None:
        """From here on deliveries succeed."""
        (self.line.home / CORRECTION).touch()

    def unpause(self, *names: str) -> None:
        """As somebody does in Airflow's list of DAGs."""
        with self.server.client() as client:
            for name in names:
                client.wait_for_dag(name, seconds=_WAIT)
                client.unpause(name)

    def observe(self) -> None:
        """What the page does in the background, for all, now."""
        names, connections = AllDefinitions(self.settings).names(), AirflowConnections(self.line.environment)
        for _ in observe_all(names, self.settings, connections):
            pass

    def note_lag(self, name: str, lags: Sequence[int]) -> None:
        """The lag of the last hours, one sample every ten minutes, the newest last."""
        now = datetime.now(UTC).replace(microsecond=0)
        samples = [(now - timedelta(minutes=10 * back), lag) for back, lag in enumerate(reversed(lags), start=1)]
        with sqlite3.connect(self.line.home / "data/ledger.db") as connection:
            connection.executemany(
                "INSERT INTO tidegate_lag_samples (subscription, observed_at, lag, lag_seconds) VALUES (?, ?, ?, ?)",
                [(name, at.strftime("%Y-%m-%d %H:%M:%S.%f"), lag, lag * 0.4) for at, lag in samples],
            )


@contextmanager
def page_stack(folder: Path, broker: Broker, mark: str) -> Iterator[PageStack]:
    """The stack once Airflow's database is being made; whoever sets up states does so meanwhile, then waits for it."""
    line = CommandLine(folder / "project", broker.bootstrap_servers)
    line.connect("spark_default", "spark", "local[1]")
    line.set("TIDEGATE_OPERATORS", USER)
    line.set("PATH", f"{_spark_submit(folder / 'bin', line.home / CORRECTION)}{os.pathsep}{os.environ['PATH']}")
    home = _SomeUsers(folder / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
    home.folder.mkdir()
    (home.folder / "passwords.json").write_text(json.dumps(PASSWORDS))
    server = AirflowServer(home, connections={AWAY: NO_BROKER}, folder=line.home, around=line.environment)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    try:
        yield PageStack(line, broker, admin, mark, server)
    finally:
        server.stop()


def _spark_submit(folder: Path, correction: Path) -> Path:
    """A folder with a spark-submit that runs the strict job in place of each."""
    folder.mkdir()
    program = Path(__file__).with_name("strict_job.py")
    job = _JOB.format(path=PROJECT / "include", python=sys.executable, program=program, correction=correction)
    (folder / "spark-submit").write_text(job)
    (folder / "spark-submit").chmod(0o755)
    return folder


def _wait_for_task(client: AirflowClient, name: str, run_id: str) -> None:
    """Until the run is over, or asks."""
    deadline = monotonic() + _WAIT
    while True:
        asks = any(task.state == "awaiting_input" for task in client.task_instances(name, run_id))
        if asks or client.run(name, run_id).state in OVER:
            return
        assert monotonic() < deadline, f"the run of {name} isn't over"
        sleep(POLL_SECONDS)
