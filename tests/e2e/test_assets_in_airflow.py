"""The example of docs/assets.md in a real Airflow: each batch is read once, whatever becomes of its event."""

import os
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from hooks import hooked
from quiet_airflow import QuietHome

from tidegate_local.airflow_client import POLL_SECONDS, AirflowClient
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[2]
WAIT = 120
RECORDS = 4  # of each batch
EXAMPLE = re.search(
    r"```python\n(# dags/order_totals\.py\n.*?)```", (PROJECT / "docs/assets.md").read_text("utf-8"), re.DOTALL
)
SUBSCRIPTIONS = """
# airflow dag
import os, signal
from pathlib import Path
from tidegate_airflow import settling, subscription_dags

announce = settling.announce

def killed_if_told_so(*args):
    told = Path(os.environ["KILL"])
    if told.exists():
        told.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return announce(*args)

settling.announce = killed_if_told_so
globals().update(subscription_dags())
"""


@pytest.fixture
def topic_name(topic: Callable[..., str]) -> str:
    return topic(1, name=f"orders-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def airflow(tmp_path: Path, broker: Broker, topic_name: str) -> Iterator[AirflowServer]:
    definitions = tmp_path / "project/include/subscriptions"
    definitions.mkdir(parents=True)
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "subscriptions.py").write_text(SUBSCRIPTIONS)
    assert EXAMPLE is not None
    (dags / "order_totals.py").write_text(EXAMPLE[1])
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    around = os.environ | {
        "TIDEGATE_HOME": str(tmp_path / "project"),
        "TIDEGATE_HTTP_ALLOWED": "127.0.0.1",
        "TOTALS": str(tmp_path / "totals.db"),
        "KILL": str(tmp_path / "kill"),
    }
    with hooked() as hook:
        definition = {
            "topics": [topic_name],
            "consumer": {"group.id": f"{topic_name}-lake", "auto.offset.reset": "earliest"},
            "poll-timeout.ms": 3000,
            "max-retries": 0,
            "processing": {"kind": "http", "uri": hook.uri, "output": "data/lake/orders"},
        }
        (definitions / "orders.yaml").write_text(yaml.safe_dump(definition))
        home = QuietHome(tmp_path / "airflow", dags, PROJECT / "plugins", free_port())
        with AirflowServer(
            home, connections={"kafka_default": kafka}, folder=tmp_path / "project", around=around
        ) as it:
            yield it


@pytest.mark.nightly
def test_a_dag_on_the_asset_reads_each_batch_once_though_events_are_lost_or_late(
    airflow: AirflowServer, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    def publish() -> str:
        produce(broker, topic_name)
        return run()

    def run() -> str:
        state = client.wait_for_run("orders", client.trigger("orders"), seconds=WAIT).state
        assert state is not None
        return state

    with airflow.client() as client:
        for dag in ("orders", "order_totals"):
            client.wait_for_dag(dag, seconds=WAIT)
            client.unpause(dag)
        assert publish() == "success"
        wait_for(lambda: len(totals(tmp_path)) == 1)

        client.pause("order_totals")
        assert publish() == "success", "its event starts no run, for the reader is paused"
        client.unpause("order_totals")
        assert len(totals(tmp_path)) == 1

        (tmp_path / "kill").touch()
        assert publish() == "failed", "its last task was killed once it had published, and sent no event"
        assert len(published(tmp_path)) == 3
        assert len(announced(client)) == 2

        assert run() == "success", "it finds nothing to read, and announces what the dead run has published"
        wait_for(lambda: len(totals(tmp_path)) == 3)
        assert sorted(announced(client)) == sorted(published(tmp_path))
        assert run() == "success", "there is nothing to read, and nothing to announce"
        assert len(announced(client)) == 3
        assert {run.state for run in client.runs("order_totals")} == {"success"}
        assert len(client.runs("order_totals")) == 2
    assert totals(tmp_path) == dict.fromkeys(published(tmp_path), RECORDS)


def produce(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(120) == 0


def published(folder: Path) -> list[str]:
    """The ids of the batches in the lake."""
    return [each.name.removeprefix("batch_id=") for each in (folder / "project/data/lake/orders").glob("batch_id=*")]


def totals(folder: Path) -> dict[str, int]:
    """What the example has counted, by batch id."""
    with closing(sqlite3.connect(folder / "totals.db")) as found:
        if not found.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchall():
            return {}
        return dict(found.execute("SELECT id, orders FROM batches").fetchall())


def announced(client: AirflowClient) -> list[str]:
    """The batches of all events, each as often as it was announced."""
    events = client._get("/assets/events?source_dag_id=orders&limit=100")["asset_events"]
    told = [batch for event in events for batch in (event["extra"], *event["extra"].get("earlier", ()))]
    return [batch["batch_id"] for batch in told]


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)
