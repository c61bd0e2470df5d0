"""Tidegate as a provider of Airflow's: valid information, a connection type, a command, a section of airflow.cfg."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from definition_files import LEAST

from tidegate.config.settings import DEFAULTS
from tidegate_airflow.kafka_hook import KafkaHook
from tidegate_airflow.provider import get_provider_info
from tidegate_local.broker import Broker

pytestmark = pytest.mark.airflow
AIRFLOW = str(Path(sys.executable).with_name("airflow"))


def said(*command: str) -> str:
    return subprocess.run([AIRFLOW, *command], capture_output=True, text=True, check=True, timeout=500).stdout


def test_the_information_is_of_airflows_own_form() -> None:
    """Airflow refuses every `airflow providers` command while one provider's isn't."""
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)
    assert get_provider_info()["config"]["tidegate"]["options"].keys() == DEFAULTS.keys()


def test_airflow_lists_the_provider_the_plugin_and_the_options(airflow_database: None) -> None:  # noqa: ARG001
    providers = json.loads(said("providers", "list", "--output", "json"))
    assert "tidegate" in {each["package_name"] for each in providers}
    (plugin,) = [each for each in json.loads(said("plugins", "--output", "json")) if each["name"] == "tidegate"]
    assert plugin["source"].startswith("tidegate==")
    options = said("config", "list", "--section", "tidegate", "--include-descriptions", "--defaults")
    assert all(name in options for name in get_provider_info()["config"]["tidegate"]["options"])


def checked(home: Path) -> tuple[int, dict[str, Any]]:
    """The exit status of `airflow tidegate check`, and the only problem that it has."""
    given = [AIRFLOW, "tidegate", "check", "--json"]
    done = subprocess.run(given, cwd=home, capture_output=True, text=True, check=False, timeout=500)
    (problem,) = json.loads(done.stdout)
    return done.returncode, problem


def test_airflow_tidegate_is_tidegates_own_command_line(home: Path) -> None:
    status, problem = checked(home)
    assert (status, problem["rule"]) == (2, "empty")


def test_airflow_tidegate_check_refuses_an_executor_as_airflow_does(home: Path, define: Callable[..., Path]) -> None:
    """Nobody has configured one: Airflow has its default alone."""
    define("orders", f"{LEAST}airflow: {{executor: CeleryExecutor}}\n")
    status, problem = checked(home)
    assert (status, problem["rule"], problem["property"]) == (1, "no-executor", "airflow.executor")
    assert "Airflow has no executor CeleryExecutor, only LocalExecutor" in problem["message"]


def test_airflow_tidegate_check_asks_airflow_for_a_pool(
    home: Path,
    define: Callable[..., Path],
    airflow_database: None,  # noqa: ARG001
) -> None:
    define("orders", f"{LEAST}airflow: {{pool: lakepool}}\n")
    status, problem = checked(home)
    assert (status, problem["rule"], problem["property"]) == (1, "no-pool", "airflow.pool")
    assert "`airflow pools set lakepool 4 ''`" in problem["message"]


def test_airflow_tidegate_check_refuses_the_name_of_another_dag(
    home: Path,
    define: Callable[..., Path],
    airflow_database: None,  # noqa: ARG001
) -> None:
    file = define("billing-of-others", LEAST)
    theirs = DagModel(dag_id="billing-of-others", bundle_name="dags-folder", relative_fileloc="theirs.py")
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        session.add(theirs)
        session.flush()
        theirs.is_stale = False
    status, problem = checked(home)
    assert (status, problem["rule"], problem["file"]) == (1, "other-dag", str(file))
    assert problem["message"] == "billing-of-others is the id of another DAG: take another name"


@pytest.mark.broker
def test_airflow_tidegate_finds_connections_of_the_database_without_starting_another_airflow(
    home: Path,
    define: Callable[..., Path],
    airflow_database: None,  # noqa: ARG001
    broker: Broker,
) -> None:
    define("orders", f"{LEAST}connection: brokers\n")
    extra = json.dumps({"bootstrap.servers": broker.bootstrap_servers})
    said("connections", "add", "brokers", "--conn-type", "kafka", "--conn-extra", extra)
    programs, started = home / "bin", home / "started"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    (programs / "airflow").write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    (programs / "airflow").chmod(0o700)
    given = [str(programs / "python"), "-m", "airflow", "tidegate", "check", "--connect", "--json"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(given, cwd=home, env=environ, capture_output=True, text=True, check=False, timeout=500)
    rules = {each["rule"]: each["message"] for each in json.loads(done.stdout)}
    assert (sorted(rules), started.exists()) == (["no-spark", "no-topic"], False), done
    assert "there is no Airflow connection spark_default: create it under Admin, Connections" in rules["no-spark"]


@pytest.mark.broker
def test_the_button_test_asks_the_brokers(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_MINE", json.dumps({"conn_type": "tidegate_kafka", "extra": extra}))
    is_fine, text = KafkaHook("mine").test_connection()
    assert is_fine
    assert text.startswith("the brokers answer: ")


def test_the_button_test_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_MINE", json.dumps({"conn_type": "tidegate_kafka", "extra": {"bootstrap.server": "b"}})
    )
    assert KafkaHook("mine").test_connection() == (
        False,
        "connection mine: extra bootstrap.server is no property of a Kafka client: did you mean bootstrap.servers?",
    )
