"""A batch that asks, brokers that are away, and a paused DAG in a real Airflow: who is told, and what its pages say."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from shared_airflow import WAIT, SharedAirflow, produce, wait_for

from tidegate.config.settings import Settings
from tidegate.ledger.observations import Observations
from tidegate_local.airflow_client import OVER, AirflowClient, DagRun, TaskInstance
from tidegate_local.airflow_home import USER
from tidegate_local.broker import Broker

pytestmark = [
    *(pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.nightly),
    pytest.mark.timeout(600),
]

MARK = uuid.uuid4().hex[:8]
MONITOR = "tidegate_monitor"
RECORDS = 5
NOTIFIER = """\
import json

def mail(context):
    alert, ti = context["alert"], context["ti"]
    said = {{"subject": alert.subject, "text": alert.text, "dag": ti.dag_id, "task": ti.task_id}}
    with open({told!r}, "a") as told:
        told.write(json.dumps(said) + chr(10))
"""


def definition(name: str, **more: Any) -> dict[str, Any]:
    return {
        "topics": [f"{name}-{MARK}"],
        "consumer": {"group.id": f"{name}-{MARK}-lake", "auto.offset.reset": "earliest"},
        "max-retries": 0,
        "processing": {"connection": "spark_default", "output": f"data/lake/{name}"},
        "alerts": {"notify": ["notifiers_in_airflow:mail"]},
        **more,
    }


DEFINITIONS = {
    "asks": definition("asks", **{"failure-strategy": "ask"}),
    "away": definition("away", connection="kafka_away", **{"poll-timeout.ms": 500, "unavailable-after.ms": 0}),
    "rests": definition("rests", alerts={"notify": ["notifiers_in_airflow:mail"], "lag.records": 1}),
}


@dataclass
class Told:
    """The file to which the notifier writes."""

    file: Path

    def lines(self) -> list[dict[str, str]]:
        text = self.file.read_text("utf-8") if self.file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def of(self, name: str) -> list[dict[str, str]]:
        return [each for each in self.lines() if each["subject"].startswith(name)]


@pytest.fixture
def told(airflow: SharedAirflow, tmp_path: Path) -> Iterator[Told]:
    module = airflow.server.home.folder / "config/notifiers_in_airflow.py"
    module.write_text(NOTIFIER.format(told=str(tmp_path / "told")))
    yield Told(tmp_path / "told")
    module.unlink()


@pytest.fixture
def client(airflow: SharedAirflow, told: Told) -> Iterator[AirflowClient]:  # noqa: ARG001 (the notifier comes first)
    with airflow.defined(**DEFINITIONS) as client:
        yield client


@contextmanager
def monitoring(client: AirflowClient) -> Iterator[Callable[[], DagRun]]:
    """The monitor runs by its schedule; a call waits for the oldest run that no call has given, and gives it."""
    before: set[str] = set()

    def over() -> list[DagRun]:
        return [run for run in client.runs(MONITOR) if run.state in OVER and run.run_id not in before]

    def next_run() -> DagRun:
        wait_for(over, "the schedule starts no run of the monitor")
        *_, run = over()
        before.add(run.run_id)
        return run

    before |= {run.run_id for run in over()}
    client.unpause(MONITOR)
    try:
        yield next_run
    finally:
        client.pause(MONITOR)


def returned(airflow: SharedAirflow, run: DagRun) -> Any:
    path = f"/api/v2/dags/{MONITOR}/dagRuns/{run.run_id}/taskInstances/look/xcomEntries/return_value"
    value = airflow.ask("GET", path).json()["value"]
    return json.loads(value) if isinstance(value, str) else value


def task_of(client: AirflowClient, run_id: str, task_id: str) -> TaskInstance:
    return next(task for task in client.task_instances("asks", run_id) if task.task_id == task_id)


def test_a_batch_that_asks_is_told_at_once_and_the_monitor_tells_the_rest_once(
    airflow: SharedAirflow, client: AirflowClient, told: Told, broker: Broker, topic: Callable[..., str]
) -> None:
    for name in ("asks", "rests"):
        produce(broker, topic(name=f"{name}-{MARK}"), RECORDS)
    client.unpause("asks")
    run_id = client.trigger("asks")
    wait_for(lambda: task_of(client, run_id, "ask").state == "awaiting_input", "the batch doesn't ask")
    assert told.lines(), client.log("asks", run_id, task_of(client, run_id, "ask"))
    (alert,) = told.lines()
    assert (alert["subject"], alert["dag"], alert["task"]) == ("asks asks how to go on", "asks", "ask")
    assert "no such column: amount" in alert["text"]
    assert f"Page: {airflow.server.url}/tidegate/page/subscriptions/asks" in alert["text"]

    with monitoring(client) as next_run:
        runs = [next_run()]
        while not (told.of("away") and told.of("rests")):
            runs.append(next_run())
        assert {run.run_id.partition("__")[0] for run in runs} == {"scheduled"}
        runs.append(client.wait_for_run(MONITOR, client.trigger(MONITOR), seconds=WAIT))
    assert {run.state for run in runs} == {"success"}
    (away,) = told.of("away")
    assert (away["subject"], away["dag"], away["task"]) == ("away can't reach its brokers", MONITOR, "look")
    (rests,) = told.of("rests")
    assert rests["subject"] == f"rests lags by {RECORDS} records"
    assert "\nWhat to do: unpause its DAG: no run begins while it is paused\n" in rests["text"]
    assert len(told.lines()) == len([alert, away, rests])
    assert sorted(each for run in runs for each in returned(airflow, run)["told"]) == [
        "away can't reach its brokers",
        "rests lags by 5 records",
    ]
    seen = Observations(Settings.from_environment(airflow.server.environment).ledger).newest()
    assert {name: seen[name].verdict for name in DEFINITIONS} == {
        "asks": "STOPPED",
        "away": "UNREACHABLE",
        "rests": "OK",
    }

    airflow_pages_lead_to_the_batch(airflow, client, run_id)


def airflow_pages_lead_to_the_batch(airflow: SharedAirflow, client: AirflowClient, run_id: str) -> None:
    """Once the operator has answered, the run's note says what it came to, and its tasks link to the page."""
    of_run = f"/api/v2/dags/asks/dagRuns/{run_id}"
    answer = {"chosen_options": ["skip"], "params_input": {"note": "test data"}}

    def is_over() -> bool:
        airflow.ask("PATCH", f"{of_run}/taskInstances/ask/-1/hitlDetails", USER, answer)
        return client.run("asks", run_id).state in OVER

    wait_for(is_over, "the run doesn't take the answer")
    client.wait_for_run("asks", run_id, seconds=WAIT)
    batch = airflow.ledger.history("asks", 1)[0].batch
    assert airflow.ask("GET", of_run).json()["note"].startswith(f"batch {batch.id}: ")
    page = f"{airflow.server.url}/tidegate/page/subscriptions/asks"
    for task in ("plan", "process", "commit"):
        links = airflow.ask("GET", f"{of_run}/taskInstances/{task}/links").json()["extra_links"]
        assert links == {"Subscription": page, "Batch": f"{page}/batches/{batch.id}"}, task
        for link in links.values():
            shown = airflow.ask("GET", link)
            assert (shown.status_code, batch.id in shown.text) == (200, True), link
