"""A delivery over Spark Connect in a real Airflow: the job is a fork of the scheduler's server, or does without it."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from shared_airflow import WAIT, SharedAirflow, produce
from shared_servers import SharedSparkConnect

from tidegate_local.airflow_client import AirflowClient
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(600)]

MARK = uuid.uuid4().hex[:8]
TRANSFORM = """\
import os
from pathlib import Path

def transform(records):
    Path({told!r}).write_text(str(os.getpgid(os.getppid())))
    return records
"""
DEFINITION: dict[str, Any] = {
    "topics": [f"forked-{MARK}"],
    "consumer": {"group.id": f"forked-{MARK}-lake", "auto.offset.reset": "earliest"},
    "max-retries": 0,
    "processing": {"connection": "connect", "transform": "of_forked:transform", "output": "data/lake/forked"},
}


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """The file to which the job writes the process group of what started it."""
    return tmp_path / "told"


@pytest.fixture
def client(airflow: SharedAirflow, spark_connect: SharedSparkConnect, told: Path) -> Iterator[AirflowClient]:
    module = airflow.server.home.folder / "config/of_forked.py"
    module.write_text(TRANSFORM.format(told=str(told)))
    connection = {"connection_id": "connect", **spark_connect.connection}
    assert airflow.ask("POST", "/api/v2/connections", body=connection).is_success
    with airflow.defined(forked=DEFINITION) as client:
        yield client
    assert airflow.ask("DELETE", "/api/v2/connections/connect").is_success
    module.unlink()


@pytest.mark.nightly
def test_a_job_is_a_fork_of_the_schedulers_server_and_goes_on_without_it_once_that_is_killed(
    airflow: SharedAirflow, client: AirflowClient, told: Path, broker: Broker, topic: Callable[..., str]
) -> None:
    name = topic(name=f"forked-{MARK}")
    server = fork_server(airflow)
    client.unpause("forked")
    for is_forked in (True, False):
        produce(broker, name, 5)
        run_id = client.trigger("forked")
        assert client.wait_for_run("forked", run_id, seconds=WAIT).state == "success", logs(client, run_id)
        assert (int(told.read_text()) == server.pid) is is_forked
        server.kill()


def logs(client: AirflowClient, run_id: str) -> str:
    return "\n".join(client.log("forked", run_id, task) for task in client.task_instances("forked", run_id))


def fork_server(airflow: SharedAirflow) -> psutil.Process:
    schedulers = [each for each in map(psutil.Process, airflow.server.pids) if "scheduler" in each.cmdline()]
    return next(each for each in schedulers[0].children() if "fork_server.py" in " ".join(each.cmdline()))
