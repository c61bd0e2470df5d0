"""The three servers of the local stack, started side by side, and how each finds the others."""

import json
import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate_local.airflow_home import AirflowHome, Connection
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.kafka_jars import KAFKA_VERSION, kafka_jars
from tidegate_local.loopback import HOST, SPARK_HOST
from tidegate_local.preflight import Preflight
from tidegate_local.progress import Display
from tidegate_local.samples import ParquetSample
from tidegate_local.secret_files import drawn_once, write_secret
from tidegate_local.spark_connect import SparkConnect, new_token
from tidegate_local.spark_jars import SPARK_VERSION, spark_jars
from tidegate_local.spark_kafka_jars import spark_kafka_jars


def write_exports(path: Path, connections: Mapping[str, Connection], homes: Mapping[str, Path]) -> None:
    """Write connections and homes as a shell script, by which its owner's terminal finds this stack as tasks do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {name: str(folder) for name, folder in homes.items()}
    said |= {f"AIRFLOW_CONN_{name.upper()}": json.dumps(connection) for name, connection in connections.items()}
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in said.items())
    write_secret(path, "".join(lines))


class Stack:
    """Kafka, Spark Connect and Airflow for the sample of a project, below whose `data` and `.cache` all is written.

    `start` returns when Kafka answers, while Spark and Airflow may still be starting; `wait` when all of them do.
    As a context manager it stops whatever was started, however far it came.
    """

    def __init__(self, sample: ParquetSample, checked: Preflight, show: Display) -> None:
        self._sample = sample
        self._project = sample.project
        self._checked = checked
        self._show = show
        self._started: list[Broker | SparkConnect | AirflowServer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Airflow's tasks and the `tidegate` command find this stack."""
        return self.airflow.environment

    @property
    def token_file(self) -> Path:
        """Where the token of this folder's Spark Connect servers is; only its owner can read it."""
        return self._project / "data" / "spark" / "connect-token"

    def start(self) -> None:
        """Start everything; raises LocalStackError."""
        data = self._project / "data"
        home = AirflowHome(
            folder=data / "airflow",
            dags=self._project / "dags",
            plugins=self._project / "plugins",
            port=self._checked.airflow_port,
        )
        homes = {
            **self._sample.homes(),
            "AIRFLOW_HOME": home.folder,
            "AIRFLOW__CORE__DAGS_FOLDER": home.dags,
            "AIRFLOW__CORE__PLUGINS_FOLDER": home.plugins,
        }
        around = dict(os.environ) | {name: str(folder) for name, folder in homes.items()}
        token = drawn_once(self.token_file, new_token)
        connections = {**self._connections(token), **self._sample.connections()}
        write_exports(data / "connections.sh", connections, homes)
        self.airflow = AirflowServer(home, connections=connections, folder=self._project, around=around, triggerer=True)
        self._started.append(self.airflow)
        java = self._checked.java
        with self._show.step(f"Spark {SPARK_VERSION}: jars"):
            cache = self._project / ".cache"
            jars_of_spark = (
                *spark_jars(java, cache),
                *spark_kafka_jars(java, cache),
                *self._sample.spark_jars(java, cache),
            )
        self.spark = SparkConnect(
            java=java,
            data=data / "spark",
            port=self._checked.spark_port,
            token=token,
            settings=self._sample.spark_settings(),
            jars=jars_of_spark,
        )
        self._started.append(self.spark)
        with self._show.step(f"Kafka {KAFKA_VERSION}: jars"):
            jars = kafka_jars(java, self._project / ".cache")
        with self._show.step(f"Kafka {KAFKA_VERSION}: broker"):
            self.broker = Broker(java=java, jars=jars, data=data / "kafka", port=self._checked.kafka_port)
            self._started.append(self.broker)
            self.broker.wait()
        with self._show.step("Airflow: database"):
            self.airflow.start_parts()

    def wait(self) -> None:
        """Return when Spark and Airflow are ready too; raises ServerFailedError."""
        with self._show.step("Spark Connect"):
            self.spark.wait()
        with self._show.step("Airflow"):
            self.airflow.wait()

    def check(self) -> None:
        """Raise ServerFailedError, with the last lines of its log, if any server has ended that was started."""
        for server in self._started:
            server.check()

    def stop(self) -> None:
        """Stop everything, the readers before what they read from; a second Ctrl-C doesn't cut it short."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for server in sorted(self._started, key=lambda each: isinstance(each, Broker)):
                server.stop()
            self._started = []
        finally:
            signal.signal(signal.SIGINT, before)

    def _connections(self, token: str) -> dict[str, Connection]:
        bootstrap = f"{HOST}:{self._checked.kafka_port}"
        return {
            "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}},
            "spark_default": {
                "conn_type": "spark_connect",
                "host": SPARK_HOST,
                "port": self._checked.spark_port,
                "password": token,
            },
        }
