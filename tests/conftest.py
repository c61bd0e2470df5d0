"""The real servers of the tests (see `shared_servers`), and what each test has of its own on them."""

import gc
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from pathlib import Path

import pytest
from broker_topics import make_topic
from class_data import SHORT_LIVED, VARIABLES, options
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, settings
from postgres import Postgres

from tidegate.config.airflow_cfg import PREFIX, SECTION
from tidegate.config.settings import DEFAULTS, variable
from tidegate.ledger.sql import SqlLedger
from tidegate.spark.fork_server import ForkServer
from tidegate_local.broker import Broker

pytest.register_assert_rewrite("broker_world", "crash_cases", "crash_plays")  # whose audits show what they compared
pytest_plugins = ("shared_servers", "suite_times", "file_order", "wheel")

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # cores are shared
settings.load_profile("here")

for program, name in VARIABLES.items():
    os.environ.setdefault(name, options(program))
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each process that imports NumPy has threads that spin for work

OF_AIRFLOW = Path("~/airflow/airflow.cfg").expanduser()
AIRFLOW_CFG = ConfigParser(interpolation=None)
AIRFLOW_CFG.read(OF_AIRFLOW, encoding="utf-8")
if AIRFLOW_CFG.has_section(SECTION) and AIRFLOW_CFG.options(SECTION):  # Airflow itself writes one with comments alone
    pytest.exit(f"{OF_AIRFLOW} has settings of Tidegate, whose ledger the tests would use: run them as another user", 2)
for name in (
    "AIRFLOW_HOME",
    "AIRFLOW_CONFIG",
    *map(variable, DEFAULTS),
    *(each for each in os.environ if each.startswith(PREFIX)),
):
    os.environ.pop(name, None)  # of whoever runs the tests

MakeTopic = Callable[..., str]


def pytest_collection_finish() -> None:
    """Keep Python from looking for garbage in all that was collected, again and again: a fifteenth of `make check`."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def admin(broker: Broker) -> AdminClient:
    """One that says nothing of the broker's end, which it may live to see."""
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})


@pytest.fixture
def topic(admin: AdminClient) -> MakeTopic:
    """Makes a fresh topic and gives its name: `topic(partitions=3, config={"cleanup.policy": "compact"})`."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None) -> str:
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        make_topic(admin, name, partitions, config)
        return name

    return make


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Starts jobs over Spark Connect as forks, as in Airflow: a process would take a second for what it imports."""
    server = ForkServer()
    yield server
    server.end()
    server.process.wait(60)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the ledger's tables, to be copied: making them takes ten times as long."""
    file = tmp_path_factory.mktemp("ledger") / "template.db"
    SqlLedger(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_ledger(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a ledger of the test's own, without batches, in a file."""
    file = tmp_path / "ledger.db"
    shutil.copyfile(sqlite_template, file)
    return f"sqlite:///{file}"


@pytest.fixture(scope="session")
def ledger_template(postgres: Postgres) -> str:
    """The name of a database with the ledger's tables, to be copied by this worker."""
    name = f"ledger_template_{uuid.uuid4().hex}"
    SqlLedger(postgres.create_database(name))
    return name


@pytest.fixture
def postgres_ledger(postgres: Postgres, ledger_template: str) -> Iterator[str]:
    """The URL of a ledger of the test's own, without batches, in a real PostgreSQL."""
    name = f"ledger_{uuid.uuid4().hex}"
    yield postgres.create_database(name, like=ledger_template)
    postgres.drop_database(name)


@pytest.fixture
def postgres_database(postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database of the test's own, in a real PostgreSQL."""
    name = f"empty_{uuid.uuid4().hex}"
    yield postgres.create_database(name)
    postgres.drop_database(name)
