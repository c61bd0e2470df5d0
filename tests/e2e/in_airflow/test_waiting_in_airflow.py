"""Waiting in a real Airflow: a plan that finds nothing defers, and runs start by what waits."""

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from hooks import Hook, hooked
from shared_airflow import WAIT, SharedAirflow, produce, wait_for

from tidegate_local.airflow_client import OVER, AirflowClient, DagRun
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

ENOUGH = 5  # records that wait
LONGEST = 10  # seconds for which one waits


@pytest.fixture
def hook() -> Iterator[Hook]:
    with hooked() as server:
        yield server


@pytest.fixture
def topics(topic: Callable[..., str]) -> dict[str, str]:
    """The topic of each subscription."""
    return {name: topic(1, name=f"{name}-{uuid.uuid4().hex[:8]}") for name in ("patient", "counted")}


@pytest.fixture
def client(airflow: SharedAirflow, hook: Hook, topics: dict[str, str]) -> Iterator[AirflowClient]:
    schedules = {"patient": None, "counted": {"records": ENOUGH, "or-after.ms": LONGEST * 1000}}
    definitions = {
        name: {
            "schedule": schedules[name],
            "topics": [topic],
            "consumer": {"group.id": f"{topic}-hook", "auto.offset.reset": "earliest"},
            "poll-timeout.ms": 180_000,
            "processing": {"kind": "http", "uri": f"{hook.uri}/{name}", "output": f"data/lake/{name}"},
        }
        for name, topic in topics.items()
    }
    with airflow.defined(**definitions) as client:
        yield client


@pytest.fixture
def replace_triggerer(airflow: SharedAirflow) -> Iterator[Callable[[], None]]:
    with airflow.triggerer() as replace:
        yield replace


@pytest.mark.nightly
def test_a_wait_is_the_triggerers_and_runs_start_by_what_waits_whoever_is_killed_or_paused(
    airflow: SharedAirflow,
    client: AirflowClient,
    replace_triggerer: Callable[[], None],
    broker: Broker,
    hook: Hook,
    topics: dict[str, str],
) -> None:
    client.unpause("patient")
    waits = client.trigger("patient")
    wait_for(lambda: state_of_plan(client, waits) == "deferred")
    client.unpause("counted")
    airflow.parse()
    produce(broker, topics["counted"], ENOUGH)
    assert ended_runs(client, 1)[0].startswith("asset_triggered")

    produce(broker, topics["counted"], 1)
    began = time.monotonic()
    assert len(ended_runs(client, 2)) == 2
    assert time.monotonic() - began > LONGEST / 2, "it started before the record had waited"

    produce(broker, topics["counted"], 1)
    replace_triggerer()
    produce(broker, topics["patient"], 3)
    assert len(ended_runs(client, 3)) == 3
    assert client.wait_for_run("patient", waits, seconds=WAIT).state == "success"

    client.pause("counted")
    airflow.parse()
    produce(broker, topics["counted"], ENOUGH)
    client.trigger("patient")  # as long as it takes to end, the other one has time to start what it may not
    produce(broker, topics["patient"], 1)
    wait_for(lambda: all(run.state in OVER for run in client.runs("patient")))
    assert len(client.runs("counted")) == 3
    client.unpause("counted")
    airflow.parse()
    assert len(ended_runs(client, 4)) == 4
    client.pause("counted")
    assert len(hook.begun) == 4 + 2 * ENOUGH + 2, "some were delivered twice, or never"


def ended_runs(client: AirflowClient, number: int) -> list[str]:
    """The ids of the runs of `counted`, the oldest first, once so many have ended and none is under way."""
    runs: tuple[DagRun, ...] = ()

    def are_over() -> bool:
        nonlocal runs
        runs = client.runs("counted")
        return len(runs) >= number and all(run.state in OVER for run in runs)

    wait_for(are_over)
    assert {run.state for run in runs} == {"success"}
    return [run.run_id for run in reversed(runs)]


def state_of_plan(client: AirflowClient, run: str) -> str | None:
    return next((task.state for task in client.task_instances("patient", run) if task.task_id == "plan"), None)
