"""A backlog in a real Airflow: runs follow one another while a full batch waits, so many and no more."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from hooks import Hook, hooked, say
from shared_airflow import WAIT, SharedAirflow, produce, wait_for

from tidegate_local.airflow_client import OVER, POLL_SECONDS, AirflowClient
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

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
def client(airflow: SharedAirflow, hook: Hook, topic_name: str) -> Iterator[AirflowClient]:
    definition = {
        "topics": [topic_name],
        "consumer": {"group.id": f"{topic_name}-hook", "auto.offset.reset": "earliest", "max.poll.records": FULL},
        "poll-timeout.ms": 3000,
        "drain": {"max-runs": MOST},
        "processing": {"kind": "http", "uri": hook.uri, "output": "data/lake/backlog"},
    }
    with airflow.defined(backlog=definition) as client:
        yield client


@pytest.mark.nightly
def test_runs_follow_while_a_full_batch_waits_no_more_than_allowed_and_none_while_paused(
    client: AirflowClient, broker: Broker, hook: Hook, gate: threading.Event, topic_name: str
) -> None:
    produce(broker, topic_name, 4 * FULL + 3)
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
