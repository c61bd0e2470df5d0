"""The Spark job by spark-submit, for the command line; in Airflow the Spark provider's own hook submits."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.spark.child import run_child
from tidegate.spark.environment import python_path, submit_environment
from tidegate.spark.reach import check_binary, check_master


def submit_command(connection: Connection, job: str) -> tuple[str, ...]:
    """spark-submit with the master, deploy mode and queue of a `spark` connection, as the Spark provider reads it.

    `job` is the path or URI of its file. Host and port make the master; extras: `deploy-mode`, `queue`, `namespace`,
    `spark-binary`, and beside the provider's own `jars` and `packages`, separated by commas. Raises as `master_of`.
    """
    extra = connection.extra
    options = {
        "--master": master_of(connection),
        "--deploy-mode": extra.get("deploy-mode"),
        "--queue": extra.get("queue"),
        "--jars": extra.get("jars"),
        "--packages": extra.get("packages"),
        "--name": "tidegate",
    }
    namespace = extra.get("namespace")
    return (
        str(extra.get("spark-binary") or "spark-submit"),
        *(part for name, value in options.items() if value for part in (name, str(value))),
        *(("--conf", f"spark.kubernetes.namespace={namespace}") if namespace else ()),
        job,
    )


def master_of(connection: Connection) -> str:
    """The master that host and port make. Raises WrongDefinitionError where Spark would go to YARN in silence."""
    if not connection.host:
        raise WrongDefinitionError(
            f"connection {connection.id} names no master (a URI can't hold one such as local[2]): write it as JSON, "
            '{"conn_type": "spark", "host": "local[2]"}'
        )
    return f"{connection.host}:{connection.port}" if connection.port else connection.host


# With either of the last two, PySpark would take the session for one of Spark Connect.
_ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable, "SPARK_REMOTE": None, "SPARK_CONNECT_MODE_ENABLED": None}


@dataclass(frozen=True, slots=True)
class SubmitProcessor:
    """Runs the job by a connection's spark-submit command, with these variables in its environment: maybe secrets.

    The driver imports from the folder `jobs` first, if it runs on this machine.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    connection: str = "spark_default"
    jobs: Path | None = None

    def check(self) -> None:
        """See `tidegate.ports.Processor`; a command that names no master is one that needs none."""
        check_binary(self.command[0], self.connection)
        if "--master" in self.command:
            check_master(self.command[self.command.index("--master") + 1], self.connection)

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; see `tidegate.ports.Processor`."""
        environment = {
            **_ENVIRONMENT,
            **submit_environment(os.environ),
            **python_path(self.jobs),
            **self.environment,
        }
        run_child([*self.command, manifest_uri], environment, timeout, said, watch)
