"""Runs that fail in a real Airflow, without a broker: its DAG processor calls what the defaults name, once for each."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate_local.airflow_client import POLL_SECONDS
from tidegate_local.airflow_home import AirflowHome
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.loopback import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[2]
WAIT = 120
ALERTS = """\
import json
import os

def failed(context):
    said = {"dag": context["dag"].dag_id, "run": context["run_id"], "task": context["ti"].task_id}
    with open(os.environ["TOLD"], "a") as told:
        told.write(json.dumps(said) + chr(10))
"""
DEFAULTS = "airflow: {on_failure_callback: 'alerts:failed', tags: [prod]}\n"
DEFINITION = """\
topics: [flights]
consumer: {group.id: flights-lake}
max-retries: 0
poll-timeout.ms: 500
unavailable-after.ms: 0
processing: {output: data/lake/flights}
airflow: {owner: data team}
"""


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[AirflowServer]:
    definitions = tmp_path / "project/include/subscriptions"
    definitions.mkdir(parents=True)
    (definitions / "_defaults.yaml").write_text(DEFAULTS)
    (definitions / "flights.yaml").write_text(DEFINITION)
    (tmp_path / "airflow/config").mkdir(parents=True)
    (tmp_path / "airflow/config/alerts.py").write_text(ALERTS)
    home = AirflowHome(tmp_path / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
    around = os.environ | {"TIDEGATE_HOME": str(tmp_path / "project"), "TOLD": str(tmp_path / "told")}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{free_port()}"}}
    server = AirflowServer(home, connections={"kafka_default": kafka}, folder=tmp_path / "project", around=around)
    with server:
        yield server


def test_each_failed_run_is_told_once(airflow: AirflowServer, tmp_path: Path) -> None:
    told = tmp_path / "told"
    runs = []
    with airflow.client() as client:
        client.wait_for_dag("flights", seconds=WAIT)
        client.unpause("flights")
        for number in (1, 2):
            runs.append(client.trigger("flights"))
            assert client.wait_for_run("flights", runs[-1], seconds=WAIT).state == "failed"
            wait_for_lines(told, number)
    said = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(each["dag"], each["run"]) for each in said] == [("flights", run) for run in runs]
    assert {each["task"] for each in said} <= {"plan", "commit"}


def wait_for_lines(file: Path, number: int) -> None:
    deadline = time.monotonic() + WAIT
    while not file.exists() or len(file.read_text().splitlines()) < number:
        assert time.monotonic() < deadline, f"no line {number}"
        time.sleep(POLL_SECONDS)
