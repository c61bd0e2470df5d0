"""The private Airflow shares nothing with any other, and its password is its owner's."""

import json
import stat
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from tidegate_local.airflow_home import USER, AirflowHome


@pytest.fixture
def home(tmp_path: Path) -> AirflowHome:
    return AirflowHome(folder=tmp_path / "airflow", dags=tmp_path / "dags", plugins=tmp_path / "plugins", port=8123)


def test_the_password_is_drawn_once_and_only_its_owner_can_read_it(home: AirflowHome):
    password = home.password()
    assert home.password() == password
    file = home.folder / "passwords.json"
    assert json.loads(file.read_text()) == {USER: password}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700


def test_settings_of_another_airflow_do_not_leak_in(home: AirflowHome):
    around = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://prod", "AIRFLOW__CORE__X": "1", "PATH": "/bin"}
    around["AIRFLOW__TIDEGATE__MONITOR_SCHEDULE"] = "@hourly"
    environment = home.environment(around, {})
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == f"sqlite:///{home.folder}/airflow.db?timeout=60"
    assert "AIRFLOW__CORE__X" not in environment
    assert environment["AIRFLOW__TIDEGATE__MONITOR_SCHEDULE"] == "@hourly"
    assert environment["PATH"] == "/bin"


def test_a_part_waits_for_the_database_as_long_as_a_busy_machine_takes(home: AirflowHome):
    url = make_url(home.settings()["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    home.folder.mkdir()
    with create_engine(url).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000
    assert url.database == f"{home.folder}/airflow.db"


def test_connections_are_given_as_json_and_overrule_those_around(home: AirflowHome):
    spark = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 15002}
    around = {"AIRFLOW_CONN_SPARK_DEFAULT": "spark://prod", "AIRFLOW_CONN_OTHER": "kept"}
    environment = home.environment(around, {"spark_default": spark})
    assert json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"]) == spark
    assert environment["AIRFLOW_CONN_OTHER"] == "kept"


def test_it_listens_on_loopback_only(home: AirflowHome):
    settings = home.settings()
    assert settings["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert settings["AIRFLOW__API__BASE_URL"] == home.url == "http://127.0.0.1:8123"
