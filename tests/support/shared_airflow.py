"""The Airflow that all tests of tests/e2e/in_airflow share: one that starts takes 20 s of a core.

One worker has the whole folder (see `file_order`), a test after the other: each may define subscriptions, restart
parts, and change what lies in the project, as long as it leaves the Airflow running and the project as it was.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml
from checkout import PROJECT
from confluent_kafka import Producer
from quiet_airflow import QuietHome

from tidegate.config.settings import Settings
from tidegate.ledger.sql import SqlLedger
from tidegate_local.airflow_client import ANSWER_SECONDS, POLL_SECONDS, AirflowClient, health
from tidegate_local.airflow_home import USER, Connection
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.loopback import HOST, free_port
from tidegate_local.servers import Server

WAIT = 240
"""Seconds within which anything that Airflow does has happened."""
OTHER_USER = "eve"
PASSWORDS = {USER: "of-the-admin", OTHER_USER: "of-eve"}
_SUBSCRIPTIONS = "include/subscriptions"
_RESIDENT = "resident"
_MONITOR = "tidegate_monitor"
_NOBODYS_PORT = 1  # a free one might be somebody's in some minutes
_NEVER_RUN = """\
topics: [none]
consumer: {group.id: none}
processing: {output: data/lake/none}
"""
_SOON = {  # what takes a minute by default: that a triggerer is dead, and that a DAG has changed
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_FETCH_INTERVAL": "0",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
}


class TwoUsers(QuietHome):
    """Eve may do in Airflow what operators may, and isn't one of Tidegate's."""

    def settings(self) -> dict[str, str]:
        users = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{OTHER_USER}:op"}
        return super().settings() | _SOON | users


class ForgetfulWorkers(AirflowServer):
    """The scheduler, and so the tasks that it starts, lack the variable that the DAG processor has."""

    def _begin(self, name: str, command: tuple[str, ...]) -> Server:
        everything = self.environment
        if name == "scheduler":
            self.environment = {key: value for key, value in everything.items() if key != "TIDEGATE_OPERATORS"}
        try:
            return super()._begin(name, command)
        finally:
            self.environment = everything


@dataclass(frozen=True)
class SharedAirflow:
    """A real Airflow with one paused subscription, and so with the operators' DAGs; its Spark jobs all fail at once.

    Its connections are `kafka_default` to the broker, `kafka_away` to where nobody listens, and
    `spark_default`. It has no triggerer, unless a test asks for it. tidegate_monitor is paused; its schedule is each
    minute.
    """

    server: AirflowServer
    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def ledger(self) -> SqlLedger:
        return SqlLedger(Settings.from_environment(self.server.environment).ledger)

    def ask(self, method: str, path: str, user: str = USER, body: Any = None) -> httpx.Response:
        """Airflow's answer to this user, who has just logged in: `ask("GET", "/api/v2/dags")`."""
        with httpx.Client(base_url=self.server.url, timeout=ANSWER_SECONDS, trust_env=False) as http:
            login = {"username": user, "password": PASSWORDS[user]}
            token = http.post("/auth/token", json=login).json()["access_token"]
            return http.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

    @contextmanager
    def defined(self, **definitions: Mapping[str, Any]) -> Iterator[AirflowClient]:
        """A client of an Airflow that has these definitions, their DAGs paused; `_defaults` is one too."""
        files = {name: self.project / _SUBSCRIPTIONS / f"{name}.yaml" for name in definitions}
        with self.server.client() as client:
            try:
                for name, definition in definitions.items():
                    files[name].write_text(yaml.safe_dump(dict(definition)))
                self.parse()
                for name in (name for name in definitions if not name.startswith("_")):
                    client.wait_for_dag(name, seconds=WAIT)
                    wait_for(partial(self._operators_know, name), f"operators' DAGs don't offer {name}")
                yield client
            finally:
                for file in files.values():
                    file.unlink(missing_ok=True)

    def _operators_know(self, name: str) -> bool:
        """Whether the DAGs that there always are have been parsed again, too."""
        return f'"{name}"' in self.ask("GET", "/api/v2/dags/tidegate_clear/details").text

    def parse(self) -> None:
        """Have Airflow look at once at the definitions and at which DAGs are paused, as it does every 30 seconds."""
        token = self.ask("GET", f"/api/v2/dags/{_RESIDENT}").json()["file_token"]
        answer = self.ask("PUT", f"/api/v2/parseDagFile/{token}")
        assert answer.status_code in {httpx.codes.CREATED, httpx.codes.CONFLICT}, answer.text

    @contextmanager
    def triggerer(self) -> Iterator[Callable[[], None]]:
        """Airflow has a triggerer meanwhile; a call of what this gives kills it, and starts another."""
        current = self._begin_triggerer()

        def replace() -> None:
            nonlocal current
            current.kill()
            current = self._begin_triggerer()

        try:
            wait_for(self._is_deferring, "the triggerer doesn't come up")
            yield replace
        finally:
            current.stop()
            wait_for(lambda: not self._is_deferring(), "tasks would still be deferred")

    def _begin_triggerer(self) -> Server:
        command = [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"]
        log = self.server.home.folder / "triggerer.log"
        around = self.server.environment
        return Server("Airflow's triggerer", command, log=log, environment=around, folder=self.project)

    def _is_deferring(self) -> bool:
        return health(self.server.url).get("triggerer") == "healthy"


@contextmanager
def running(folder: Path, broker: Broker) -> Iterator[SharedAirflow]:
    """An Airflow below this folder, until the end."""
    definitions = folder / "project" / _SUBSCRIPTIONS
    definitions.mkdir(parents=True)
    (definitions / f"{_RESIDENT}.yaml").write_text(_NEVER_RUN)
    home = TwoUsers(folder / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
    (home.folder / "config").mkdir(parents=True)  # a folder that isn't there when Python first looks is never seen
    (home.folder / "passwords.json").write_text(json.dumps(PASSWORDS))
    around = os.environ | {
        "TIDEGATE_HOME": str(folder / "project"),
        "TIDEGATE_OPERATORS": USER,
        "TIDEGATE_HTTP_ALLOWED": HOST,
        "TIDEGATE_MONITOR_SCHEDULE": "* * * * *",
        "PATH": f"{_failing_submit(folder / 'bin')}{os.pathsep}{os.environ['PATH']}",
    }
    connections: dict[str, Connection] = {
        "kafka_default": _kafka(broker.bootstrap_servers),
        "kafka_away": _kafka(f"{HOST}:{_NOBODYS_PORT}"),
        "spark_default": {"conn_type": "spark", "host": "local[1]"},
    }
    server = ForgetfulWorkers(home, connections=connections, folder=folder / "project", around=around)
    try:
        server.wait()
        with server.client() as client:
            client.wait_for_dag(_RESIDENT, seconds=WAIT)
            client.wait_for_dag(_MONITOR, seconds=WAIT)
            client.pause(_MONITOR)
            wait_for(lambda: not _works(client, _MONITOR), "a run of the monitor from before doesn't end")
        yield SharedAirflow(server, folder)
    finally:
        server.stop()


def _works(client: AirflowClient, dag_id: str) -> bool:
    """Whether a worker has a task of this DAG, or is about to."""
    tasks = (task for run in client.runs(dag_id) for task in client.task_instances(dag_id, run.run_id))
    return any(task.state in {"queued", "running"} for task in tasks)


def _kafka(servers: str) -> Connection:
    return {"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}


def _failing_submit(folder: Path) -> Path:
    submit = folder / "spark-submit"
    folder.mkdir()
    submit.write_text("#!/bin/sh\necho 'no such column: amount'\nexit 1\n")
    submit.chmod(0o755)
    return folder


def wait_for(holds: Callable[[], object], why: str = "") -> None:
    """Return once it holds."""
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, why
        time.sleep(POLL_SECONDS)


def produce(broker: Broker, topic: str, count: int) -> None:
    """So many records, numbered in their values."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"v%d" % number, partition=0)
    assert producer.flush(120) == 0
