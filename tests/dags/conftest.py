"""A temporary home for Airflow, before anything imports it, and its database, made once per session."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DAGS = PROJECT / "dags"

HOME = Path(tempfile.mkdtemp(prefix="tidegate-airflow-"))
(HOME / "airflow.cfg").write_text(
    f"""[core]
dags_folder = {DAGS}
plugins_folder = {PROJECT / "plugins"}
load_examples = False
[database]
sql_alchemy_conn = sqlite:///{HOME}/airflow.db
[logging]
base_log_folder = {HOME}/logs
"""
)
os.environ["AIRFLOW_HOME"] = str(HOME)

DEFINITION = """\
description: Departures, one row each
schedule: {schedule}
connection: kafka_default
topics: [{topic}]
members: 2
consumer: {{group.id: {group}, max.poll.records: 1000, auto.offset.reset: earliest}}
poll-timeout.ms: {poll_timeout}
max-retries: {retries}
processing:
  connection: {spark}
  output: data/lake/{group}
"""


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_database() -> None:
    from airflow.utils.db import initdb  # noqa: PLC0415 (reads the configuration made above)

    initdb()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Tidegate home of the test's own: definitions, ledger and landing are below it."""
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    for name in ("SUBSCRIPTIONS", "LEDGER", "LANDING", "OPERATORS", "OPERATOR_ROLES"):
        monkeypatch.delenv(f"TIDEGATE_{name}", raising=False)
    return tmp_path


@pytest.fixture
def define(home: Path) -> Callable[..., Path]:
    """Writes a definition: `define("flights", topic=..., group=..., spark=...)`, or its text as it is."""

    def write(name: str, text: str | None = None, **values: object) -> Path:
        defaults = {
            "schedule": "null",
            "topic": "flights",
            "group": f"{name}-lake",
            "poll_timeout": 2000,
            "retries": 0,
            "spark": "spark_default",
        }
        path = home / "include/subscriptions" / f"{name}.yaml"
        path.write_text(text if text is not None else DEFINITION.format_map({**defaults, **values}))
        return path

    return write


@pytest.fixture
def known_dag() -> Iterator[Callable[..., None]]:
    """Enters a DAG into Airflow's database: `known_dag("quays", is_paused=True)`, of a name that no real one has."""
    from airflow.models.dag import DagModel  # noqa: PLC0415 (reads the configuration made above)
    from airflow.models.dagbundle import DagBundleModel  # noqa: PLC0415 (see above)
    from airflow.utils.session import create_session  # noqa: PLC0415 (see above)
    from sqlalchemy import delete  # noqa: PLC0415 (with them)

    made: list[str] = []

    def enter(name: str, *, is_paused: bool = False, is_stale: bool = False) -> None:
        made.append(name)
        with create_session() as session:
            session.merge(DagBundleModel(name="dags-folder"))
            session.flush()
            session.merge(DagModel(dag_id=name, bundle_name="dags-folder", is_paused=is_paused, is_stale=is_stale))

    yield enter
    with create_session() as session:
        session.execute(delete(DagModel).where(DagModel.dag_id.in_(made)))
