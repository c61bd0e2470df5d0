"""A real Spark Connect server on this machine, from the jars that PySpark ships."""

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tidegate_local.errors import LocalStackError
from tidegate_local.java import Java
from tidegate_local.loopback import HOST, SPARK_HOST, answers, free_port, spark_url
from tidegate_local.servers import Awaited, Server

START_SECONDS = 240
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
# On two cores a batch takes a tenth less with it than with the serial one.
_COLLECTOR = "-XX:+UseParallelGC"
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 (a variable's name)
SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class SparkConnect(Awaited):
    """A Spark Connect server that starts when this object is made, and answers at `url` after `wait`.

    Only those who have the `token` are let in; without one it is drawn. `url` holds it, so it is a secret too.
    `data` is the folder for its log, scratch files and warehouse. `memory` is the heap of the one Java process that
    is driver and executors alike. `jars` are put beside Spark's own. `home` is the folder of another Spark than the
    installed one, `python` the interpreter of its workers. As a context manager it waits first and stops last.
    """

    def __init__(
        self,
        *,
        java: Java,
        data: Path,
        port: int | None = None,
        token: str | None = None,
        master: str = "local[2]",
        memory: str = "2g",
        settings: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        home: Path | None = None,
        python: str = sys.executable,
    ) -> None:
        self.port = port or free_port()
        self.token = token or new_token()
        self.url = spark_url(self.port, self.token)
        data = data.resolve()
        self.log = data / "spark-connect.log"
        (data / "scratch").mkdir(parents=True, exist_ok=True)
        home = home or spark_home()
        every = spark_settings(data, port=self.port) | dict(settings or {})
        command = [
            str(home / "bin" / "spark-submit"),
            "--master",
            master,
            "--driver-memory",
            memory,
            "--class",
            SERVER_CLASS,
            *(("--jars", ",".join(map(str, jars))) if jars else ()),
            *(part for name, value in every.items() for part in ("--conf", f"{name}={value}")),
            "spark-internal",
        ]
        environment = {_JAVA_OPTIONS: _COLLECTOR} | spark_environment(java, os.environ, home, python)
        environment[_TOKEN] = self.token  # a command line shows to everybody
        self._sessions: list[SparkSession] = []
        self._server = Server(
            "Spark Connect", command, log=self.log, environment=environment, folder=data, port=self.port
        )

    @property
    def address(self) -> str:
        """The server's URL without its token, for display."""
        return self.url.partition("/;")[0]

    @property
    def connection(self) -> Mapping[str, str | int]:
        """The Airflow connection to this server, under Airflow's names; it holds the token."""
        return {"conn_type": "spark_connect", "host": SPARK_HOST, "port": self.port, "password": self.token}

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._server.pid

    def wait(self) -> None:
        """Return when the server has run a query; raises ServerFailedError if it doesn't come up."""
        self._server.wait_until(lambda: answers(self.port), seconds=START_SECONDS)
        self._server.wait_until(self._runs_a_query, seconds=START_SECONDS)

    def session(self) -> SparkSession:
        """Return a new session on this server, which the caller stops; `stop` does it for whoever forgot."""
        session: SparkSession = SparkSession.builder.remote(self.url).create()
        self._sessions.append(session)
        return session

    def check(self) -> None:
        """Raise ServerFailedError, with the last lines of its log, if the server has ended."""
        self._server.check()

    def stop(self) -> None:
        """End the server, its sessions first: one that outlived it would hold up the end of this process."""
        for session in self._sessions:
            if self._server.running and not session.is_stopped:
                session.stop()
        self._server.stop()

    def kill(self) -> None:
        """End the server by SIGKILL, as a crash would."""
        self._server.kill()

    def _runs_a_query(self) -> bool:
        try:
            session: SparkSession = SparkSession.builder.remote(self.url).create()
            try:
                return session.sql("SELECT 1").first() is not None
            finally:
                session.stop()
        except PySparkException:
            return False


def new_token() -> str:
    """Draw a token for a server."""
    return secrets.token_urlsafe(24)


def spark_home() -> Path:
    """Return the folder of the installed PySpark, which is a whole Spark; raises LocalStackError without one."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalStackError("PySpark is not installed here: run make install.")
    return Path(spec.origin).parent


def spark_environment(
    java: Java, environment: Mapping[str, str], home: Path | None = None, python: str = sys.executable
) -> dict[str, str]:
    """Return the environment in which a Spark starts, by default PySpark's own files, whatever other one is set up."""
    kept = {name: value for name, value in environment.items() if name not in {"SPARK_REMOTE", "SPARK_CONF_DIR"}}
    return kept | {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(home or spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def spark_settings(data: Path, *, port: int) -> dict[str, str]:
    """Return the settings of a server that listens on loopback only and writes below one folder."""
    return {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.authenticate": "true",  # the ports of driver and blocks too, by a secret that Spark draws itself
        "spark.ui.enabled": "false",
        "spark.local.dir": str(data / "scratch"),
        "spark.sql.warehouse.dir": str(data / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",  # the default of 200 is for a cluster
    }
