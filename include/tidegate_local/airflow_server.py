"""A real Airflow on this machine: API server with the UI, scheduler with local tasks, DAG processor, and triggerer.

Scheduler and triggerer come without their log servers, which would listen on every address: API server and tasks share
the log folder.
"""

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from tidegate_local.airflow_client import AirflowClient, health
from tidegate_local.airflow_home import USER, AirflowHome, Connection
from tidegate_local.errors import LocalStackError
from tidegate_local.servers import Awaited, Server

START_SECONDS = 240
_STOP_SECONDS = 8  # idle parts need 6; the scheduler of a running task would wait for the task
_API_SERVER = "api-server"
_PARTS: Mapping[str, tuple[str, ...]] = {
    _API_SERVER: ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
_TRIGGERER = {"triggerer": ("triggerer", "--skip-serve-logs")}
_HEALTHY = ("metadatabase", "scheduler", "dag_processor")


class AirflowServer(Awaited):
    """An Airflow whose database is made ready from the moment of this object, and which runs after `wait`.

    `folder` is the working folder of its tasks. `around` is the environment to start from, by default this process's.
    Deferred tasks need a `triggerer`. As a context manager it waits first and stops last.
    """

    def __init__(
        self,
        home: AirflowHome,
        *,
        connections: Mapping[str, Connection],
        folder: Path,
        around: Mapping[str, str] | None = None,
        triggerer: bool = False,
    ) -> None:
        home.password()
        self._commands = {**_PARTS, **(_TRIGGERER if triggerer else {})}
        self._healthy = (*_HEALTHY, *_TRIGGERER) if triggerer else _HEALTHY
        self.home = home
        self._folder = folder
        self.environment = home.environment(os.environ if around is None else around, connections)
        self._parts: dict[str, Server] = {}
        self._servers: list[Server] = []
        self._migration = None if self._is_migrated() else self._begin("migration", ("db", "migrate"))

    @property
    def url(self) -> str:
        """The address of the UI and the REST API."""
        return self.home.url

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of Airflow's parts."""
        return tuple(part.pid for part in self._parts.values())

    def restart(self, name: str) -> None:
        """End one part by SIGKILL, as a crash would, and start it again: `scheduler`, `triggerer`."""
        self._parts[name].kill()
        self._servers.remove(self._parts[name])
        self._parts[name] = self._begin(name, self._commands[name])

    def check(self) -> None:
        """Raise ServerFailedError, with the last lines of its log, if a part has ended."""
        for part in self._parts.values():
            part.check()

    def start_parts(self) -> None:
        """Start Airflow's processes as soon as its database is ready; returns at once if they run already."""
        if self._parts:
            return
        if self._migration is not None:
            self._migration.wait_until_done(seconds=START_SECONDS)
            self._migrated.write_text(version("apache-airflow"), encoding="utf-8")
        self._parts = {name: self._begin(name, command) for name, command in self._commands.items()}

    def wait(self) -> None:
        """Return when Airflow is healthy and knows us; raises ServerFailedError if a part ends or it takes too long."""
        self.start_parts()
        self._parts[_API_SERVER].wait_until(self._is_healthy, seconds=START_SECONDS)

    def client(self) -> AirflowClient:
        """Return a logged-in client; the caller closes it."""
        return AirflowClient(self.url, user=USER, password=self.home.password())

    def stop(self) -> None:
        """End all of Airflow's processes, tasks that run included."""
        for server in self._servers:
            server.ask_to_stop()
        for server in self._servers:
            server.stop(seconds=_STOP_SECONDS)
        self._servers = []
        self._parts = {}

    def _begin(self, name: str, command: tuple[str, ...]) -> Server:
        server = Server(
            f"Airflow's {name}",
            [sys.executable, "-m", "airflow", *command],
            log=self.home.folder / f"{name}.log",
            environment=self.environment,
            folder=self._folder,
            port=self.home.port if name == _API_SERVER else None,
        )
        self._servers.append(server)
        return server

    @property
    def _migrated(self) -> Path:
        return self.home.folder / "migrated-to"

    def _is_migrated(self) -> bool:
        database = self.home.folder / "airflow.db"
        return (
            database.exists()
            and self._migrated.exists()
            and self._migrated.read_text(encoding="utf-8") == version("apache-airflow")
        )

    def _is_healthy(self) -> bool:
        self.check()
        status = health(self.url)
        return all(status.get(component) == "healthy" for component in self._healthy) and self._lets_us_in()

    def _lets_us_in(self) -> bool:
        """Whether our password is known: another Airflow that has the port has another one."""
        try:
            self.client().close()
        except LocalStackError:
            return False
        return True
