"""The servers that all workers of a test run share: each is started when the first test asks, and stopped at the end.

A process of their own keeps them (see `keeper`). The pytest that collects the run starts it: under xdist the
controller, which outlives every worker, so a worker that dies takes no server with it. When that pytest ends, be it
by SIGKILL, the keeper and its servers end too.
"""

import json
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn

import pytest
from postgres import Postgres

from tidegate_local.broker import Broker
from tidegate_local.errors import ServerFailedError
from tidegate_local.loopback import HOST, spark_url
from tidegate_local.servers import Server
from tidegate_local.spark_connect import SparkConnect

ANSWER_SECONDS = 550  # a Spark on a busy machine takes minutes, and a test's own limit is 600 s
STOP_SECONDS = 60
_POLL_SECONDS = 0.05
_KEEPER = pytest.StashKey["KeeperProcess"]()
_WORKERINPUT = "server_keeper"


class KeeperProcess:
    """The keeper of a run's servers, as the one who starts it sees it."""

    def __init__(self) -> None:
        folder = Path(mkdtemp(prefix="tidegate-keeper-"))  # a socket's path has 107 characters at most
        self.door = folder / "door"
        program = Path(__file__).with_name("keeper.py")
        command = [sys.executable, str(program), str(self.door)]
        self._server = Server("the keeper of the tests' servers", command, log=folder / "keeper.log")

    def stop(self) -> None:
        """End the keeper, and with it every server."""
        self._server.stop(seconds=STOP_SECONDS)
        shutil.rmtree(self.door.parent, ignore_errors=True)


@dataclass(frozen=True)
class Shared:
    """Asks the keeper for servers, whose data goes below `folder`."""

    door: Path
    folder: Path

    def broker(self) -> "SharedBroker":
        return SharedBroker(**self._ask("broker"))

    def spark_connect(self) -> "SharedSparkConnect":
        return SharedSparkConnect(**self._ask("spark_connect"))

    def table_spark(self) -> "SharedTableSpark":
        return SharedTableSpark(**self._ask("table_spark"))

    def postgres(self) -> "SharedPostgres":
        return SharedPostgres(**self._ask("postgres"))

    def _ask(self, kind: str) -> dict[str, Any]:
        """What the keeper says of a server that answers; raises ServerFailedError if there will be none."""
        with self._connected() as asking:
            asking.settimeout(ANSWER_SECONDS)
            asking.sendall(json.dumps({"server": kind, "folder": str(self.folder)}).encode() + b"\n")
            line = asking.makefile().readline()
        if not line:
            log = self.door.with_name("keeper.log")
            raise ServerFailedError(f"the keeper of the tests' servers ended: {log.read_text('utf-8')}")
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise ServerFailedError(said["error"])
        return said

    def _connected(self) -> socket.socket:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            asking = socket.socket(socket.AF_UNIX)
            try:
                asking.connect(str(self.door))
            except (FileNotFoundError, ConnectionRefusedError):  # it has just been started
                asking.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return asking


class _NotOurs:
    """A server that other tests use at the same time."""

    _pid: int

    @property
    def pid(self) -> int:
        """The server's process id: to look at it, never to signal it."""
        return self._pid

    def stop(self) -> NoReturn:
        self._refuse()

    def kill(self) -> NoReturn:
        self._refuse()

    def restart(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RuntimeError(f"all tests of the run share this {type(self).__name__}: start one of the test's own")


class SharedBroker(_NotOurs, Broker):
    def __init__(self, *, port: int, log: str, pid: int) -> None:
        self.port, self.log, self._pid = port, Path(log), pid
        self.bootstrap_servers = f"{HOST}:{port}"


class SharedSparkConnect(_NotOurs, SparkConnect):
    def __init__(self, *, port: int, token: str, log: str, pid: int) -> None:
        self.port, self.token, self.log, self._pid = port, token, Path(log), pid
        self.url = spark_url(port, token)
        self._sessions = []

    def end_sessions(self) -> None:
        """End those that a test forgot: one that is left would hold up the end of this process."""
        for session in self._sessions:
            if not session.is_stopped:
                session.stop()


class SharedTableSpark(SharedSparkConnect):
    def __init__(self, *, port: int, token: str, log: str, pid: int, store: str) -> None:
        super().__init__(port=port, token=token, log=log, pid=pid)
        self.store = store


class SharedPostgres(_NotOurs, Postgres):
    def __init__(self, *, port: int, password: str, log: str, pid: int) -> None:
        self.port, self.password, self.log, self._pid = port, password, Path(log), pid


@pytest.fixture(scope="session")
def shared_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Those of the whole run, whichever worker asks."""
    folder = tmp_path_factory.getbasetemp()
    workerinput = getattr(request.config, "workerinput", None)
    if workerinput is not None:
        return Shared(Path(workerinput[_WORKERINPUT]), folder.parent / "servers")
    return Shared(_keeper(request.config).door, folder / "servers")


@pytest.fixture(scope="session")
def broker(shared_servers: Shared) -> SharedBroker:
    """A real Kafka broker that all tests of a run share; whoever stops or halts one has another."""
    return shared_servers.broker()


@pytest.fixture(scope="session")
def spark_connect(shared_servers: Shared) -> Iterator[SharedSparkConnect]:
    """A real Spark Connect server that all tests of a run share, with Kafka's source, Avro and a log of events."""
    server = shared_servers.spark_connect()
    yield server
    server.end_sessions()


@pytest.fixture(scope="session")
def table_spark(shared_servers: Shared) -> Iterator[SharedTableSpark]:
    """A real Spark Connect server that all tests of a run share, with Delta, Iceberg and s3a:// on a store of its own.

    The store, which speaks S3 and takes every key, answers at `table_spark.store`.
    """
    server = shared_servers.table_spark()
    yield server
    server.end_sessions()


@pytest.fixture(scope="session")
def postgres(shared_servers: Shared) -> SharedPostgres:
    """A real PostgreSQL server that all tests of a run share, whose time zone isn't ours."""
    return shared_servers.postgres()


def _keeper(config: pytest.Config) -> KeeperProcess:
    if _KEEPER not in config.stash:
        config.stash[_KEEPER] = KeeperProcess()
    return config.stash[_KEEPER]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where the keeper is."""
    node.workerinput[_WORKERINPUT] = str(_keeper(node.config).door)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run's servers, once no worker is left."""
    if _KEEPER in config.stash:
        config.stash[_KEEPER].stop()
        del config.stash[_KEEPER]
