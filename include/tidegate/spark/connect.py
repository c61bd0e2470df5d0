"""The Spark job as a client of a Spark Connect server: a Python process that hands its plans to the server."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.spark.child import run_child
from tidegate.spark.environment import python_path
from tidegate.spark.fork_server import forked
from tidegate.spark.reach import check_connect


def connect_url(connection: Connection) -> str:
    """The `sc://` URL of a `spark_connect` connection, with its user, token and TLS parameters: a secret.

    What the Spark provider's SparkConnectHook gives leads to the same; of the extras it knows `use_ssl`.
    """
    if not connection.host:
        raise WrongDefinitionError(f"connection {connection.id} of type spark_connect has no host: set it")
    host = connection.host.removeprefix("sc://").rstrip("/")
    parameters = {
        "user_id": connection.login,
        "token": connection.password,
        "use_ssl": connection.extra.get("use_ssl"),
    }
    said = "".join(f";{name}={quote(str(value))}" for name, value in parameters.items() if value not in (None, ""))
    return f"sc://{host}" + (f":{connection.port}" if connection.port else "") + (f"/{said}" if said else "")


@dataclass(frozen=True, slots=True)
class ConnectProcessor:
    """Runs the job in a child process against a connection's server.

    The URL travels in its environment, never on its command.
    `environment` holds more variables of the job's, which may be secrets. The job imports from the folder `jobs` first.
    """

    url: str = field(repr=False)
    job: Path
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    connection: str = "spark_default"
    jobs: Path | None = None

    def check(self) -> None:
        """See `tidegate.ports.Processor`."""
        check_connect(self.url, self.connection)

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; see `tidegate.ports.Processor`."""
        environment = {**python_path(self.jobs), **self.environment, "SPARK_REMOTE": self.url}
        run_child([sys.executable, str(self.job), manifest_uri], environment, timeout, said, watch, start=forked)
