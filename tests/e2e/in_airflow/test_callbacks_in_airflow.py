"""Runs that fail in a real Airflow, where no broker answers: it calls what the defaults name, once for each."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_airflow import WAIT, SharedAirflow, wait_for

from tidegate_local.airflow_client import AirflowClient

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

ALERTS = """\
import json

def failed(context):
    said = {{"dag": context["dag"].dag_id, "run": context["run_id"], "task": context["ti"].task_id}}
    with open({told!r}, "a") as told:
        told.write(json.dumps(said) + chr(10))
"""
DEFAULTS = {"airflow": {"on_failure_callback": "alerts:failed", "tags": ["prod"]}}
DEFINITION = {
    "topics": ["flights"],
    "connection": "kafka_away",
    "consumer": {"group.id": "flights-lake"},
    "max-retries": 0,
    "poll-timeout.ms": 500,
    "unavailable-after.ms": 0,
    "processing": {"output": "data/lake/flights"},
    "airflow": {"owner": "data team"},
}


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """The file to which the callback writes."""
    return tmp_path / "told"


@pytest.fixture
def client(airflow: SharedAirflow, told: Path) -> Iterator[AirflowClient]:
    alerts = airflow.server.home.folder / "config/alerts.py"
    alerts.write_text(ALERTS.format(told=str(told)))
    with airflow.defined(_defaults=DEFAULTS, flights=DEFINITION) as client:
        yield client


@pytest.mark.nightly
def test_each_failed_run_is_told_once(client: AirflowClient, told: Path) -> None:
    runs: list[str] = []
    client.unpause("flights")
    for _ in range(2):
        runs.append(client.trigger("flights"))
        assert client.wait_for_run("flights", runs[-1], seconds=WAIT).state == "failed"
        wait_for(lambda: lines(told) >= len(runs), f"no line of {runs[-1]}")
    said = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(each["dag"], each["run"]) for each in said] == [("flights", run) for run in runs]
    assert {each["task"] for each in said} <= {"plan", "commit"}


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0
