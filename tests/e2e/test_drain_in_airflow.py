"""A backlog in a real Airflow: runs follow one another while a full batch waits, so many and no more."""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from hooks import Hook, hooked, say

from tidegate_local.airflow_client import OVER, POLL_SECONDS, AirflowClient
from tidegate_local.airflow_home import AirflowHome
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[2]
WAIT = 120
FULL = 10  # records of a full batch
MOST = 2


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Open, unless a test closes it: no request is answered then."""
    made = threading.Event()
    made.set()
    yield made
    made.set()


@pytest.fixture
def hook(gate: threading.Event) -> Iterator[Hook]:
    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        gate.wait(WAIT)
        say(handler, 200)

    with hooked(answer) as server:
        yield server


@pytest.fixture
def topic_name(topic: Callable[..., str]) -> str:
    return topic(1, name=f"backlog-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def airflow(tmp_path: Path, broker: Broker, hook: Hook, topic_name: str) -> Iterator[AirflowServer]:
    definitions = tmp_path / "project/include/subscriptions"
    definitions.mkdir(parents=True)
    definition = {
        "topics": [topic_name],
        "consumer": {"group.id": f"{topic_name}-hook", "auto.offset.reset": "earliest", "max.poll.records": FULL},
        "poll-timeout.ms": 500,
        "drain": {"max-runs": MOST},
        "processing": {"kind": "http", "uri": hook.uri, "output": "data/lake/backlog"},
    }
    (definitions / "backlog.yaml").write_text(yaml.safe_dump(definition))
    home = AirflowHome(tmp_path / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
    around = os.environ | {"TIDEGATE_HOME": str(tmp_path / "project"), "TIDEGATE_HTTP_ALLOWED": "127.0.0.1"}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    server = AirflowServer(home, connections={"kafka_default": kafka}, folder=tmp_path / "project", around=around)
    with server:
        yield server


def test_runs_follow_while_a_full_batch_waits_no_more_than_allowed_and_none_while_paused(
    airflow: AirflowServer, broker: Broker, hook: Hook, gate: threading.Event, topic_name: str
) -> None:
    produce(broker, topic_name, 4 * FULL + 3)
    with airflow.client() as client:
        client.wait_for_dag("backlog", seconds=WAIT)
        client.unpause("backlog")
        first = client.trigger("backlog")
        ended = runs_at_their_end(client, 1 + MOST)
        assert [run.partition("__")[0] for run in ended] == [first.partition("__")[0], "drain", "drain"]
        assert [run.split("__")[1] for run in ended[1:]] == ["1", "2"]
        assert len(hook.begun) == 3 * FULL

        second = client.trigger("backlog")  # one full batch and three records are left: one run, and none follows
        client.wait_for_run("backlog", second, seconds=WAIT)
        assert len(hook.begun) == 4 * FULL
        assert len(runs_at_their_end(client, 2 + MOST)) == 2 + MOST
        assert sorted(offset for _, offset in hook.begun) == list(range(4 * FULL))

        produce(broker, topic_name, 2 * FULL)
        gate.clear()  # the run is in the midst of its batch when somebody pauses the DAG
        client.trigger("backlog")
        wait_for(lambda: len(hook.begun) > 4 * FULL)
        client.pause("backlog")
        gate.set()
        wait_for(lambda: len(hook.begun) == 5 * FULL)
        assert len(client.runs("backlog")) == 3 + MOST
        client.unpause("backlog")
        assert len(runs_at_their_end(client, 4 + MOST)) == 4 + MOST
    assert sorted(offset for _, offset in hook.begun) == list(range(6 * FULL))


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def produce(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"v%d" % number, partition=0)
    assert producer.flush(30) == 0


def runs_at_their_end(client: AirflowClient, number: int) -> list[str]:
    """The ids of the runs in the order in which they ended, once so many have and none is under way."""
    deadline = time.monotonic() + WAIT
    while True:
        runs = client.runs("backlog")
        if len(runs) >= number and all(run.state in OVER for run in runs):
            assert {run.state for run in runs} == {"success"}
            return [run.run_id for run in sorted(runs, key=lambda run: str(run.ended))]
        assert time.monotonic() < deadline, runs
        time.sleep(POLL_SECONDS)
