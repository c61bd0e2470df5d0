"""A client of Queue-Over-Http, written against that service's own text, talks to a real Airflow.

Only the base URL and the Authorization header are Tidegate's; there is no definition in a file, and no Spark.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from hooks import Hook, hooked
from quiet_airflow import QuietHome

from tidegate_local.airflow_client import POLL_SECONDS
from tidegate_local.airflow_home import USER
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[2]
RECORDS = 20
WAIT = 120
DAG_WITHIN = 15  # 5 where the cores have nothing else to do
GONE_WITHIN = 20


@dataclass
class Client:
    """What a client of Queue-Over-Http does, all of it."""

    base_url: str
    authorization: str

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        with httpx.Client(base_url=self.base_url, timeout=60, trust_env=False) as http:
            return http.request(method, path, json=body, headers={"Authorization": self.authorization})

    def subscribe(self, consumer: dict[str, Any]) -> Any:
        return self.ask("POST", "/broker/subscription", consumer).json()

    def subscriptions(self) -> Any:
        return self.ask("GET", "/broker/subscription").json()

    def unsubscribe(self, consumer: dict[str, Any]) -> Any:
        return self.ask("POST", "/broker/unsubscribe", consumer).json()


@dataclass
class Airflow:
    """An Airflow that can be started again, with the database that it had."""

    folder: Path
    broker: Broker
    server: AirflowServer | None = None

    def start(self) -> None:
        home = QuietHome(self.folder / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
        around = os.environ | {"TIDEGATE_HOME": str(self.folder / "project"), "TIDEGATE_HTTP_ALLOWED": "127.0.0.1"}
        connections = {"Kafka": {"conn_type": "kafka", "extra": {"bootstrap.servers": self.broker.bootstrap_servers}}}
        self.server = AirflowServer(home, connections=connections, folder=self.folder / "project", around=around)
        self.server.wait()

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()

    def client(self) -> Client:
        assert self.server is not None
        login = {"username": USER, "password": self.server.home.password()}
        with httpx.Client(base_url=self.server.url, timeout=30, trust_env=False) as http:
            token = http.post("/auth/token", json=login).json()["access_token"]
        return Client(f"{self.server.url}/tidegate", f"Bearer {token}")

    def has_dag(self, dag_id: str) -> bool:
        assert self.server is not None
        client = self.client()
        client.base_url = self.server.url
        found = client.ask("GET", "/api/v2/dags?exclude_stale=true").json()["dags"]
        return dag_id in [dag["dag_id"] for dag in found]


@pytest.fixture
def airflow(tmp_path: Path, broker: Broker) -> Iterator[Airflow]:
    (tmp_path / "project/include/subscriptions").mkdir(parents=True)
    (tmp_path / "airflow").mkdir()
    found = Airflow(tmp_path, broker)
    try:
        found.start()
        yield found
    finally:
        found.stop()


def produce(broker: Broker, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(first, first + RECORDS):
        producer.produce(topic, value=b'{"text": "%d"}' % number)
    assert producer.flush(120) == 0


def wait_until(condition: Callable[[], bool], seconds: float, why: str) -> float:
    """How long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, why
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def has_position(broker: Broker, topic: str, group: str) -> bool:
    """Whether the group has one: it reads from the end, as a new group does."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        (at,) = reader.committed([TopicPartition(topic, 0)], timeout=30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_COORDINATOR:  # which a new broker doesn't have at once
            raise
        return False
    finally:
        reader.close()
    return at.offset >= 0


def received(hook: Hook) -> list[int]:
    return [int(body.split(b'"')[3]) for body in hook.bodies]


@pytest.mark.nightly
def test_a_client_subscribes_receives_restarts_and_unsubscribes(
    airflow: Airflow, broker: Broker, topic: Callable[..., str]
) -> None:
    messages = topic()
    mark = uuid.uuid4().hex[:8]
    with hooked() as hook:
        consumer = {
            "id": f"my-consumer-{mark}",
            "group": {"id": f"consumers-{mark}"},
            "broker": "Kafka",
            "topics": [{"name": messages, "config": {"concurrencyFactor": 10, "autoCommitPeriodMs": 100}}],
            "subscriptionMethod": {
                "type": "http",
                "delayOnErrorMs": 1000,
                "retryBeforeCommit": 10,
                "uri": hook.uri,
                "additionalHeaders": {"Content-Type": "application/json"},
            },
        }
        client = airflow.client()
        assert client.subscribe(consumer) == {"data": consumer, "success": True}
        took = wait_until(lambda: airflow.has_dag(consumer["id"]), WAIT, "no DAG")
        assert took <= DAG_WITHIN
        assert client.subscribe(consumer)["success"] is False, "it is there already"

        wait_until(lambda: has_position(broker, messages, f"consumers-{mark}"), WAIT, "nothing runs")
        produce(broker, messages, 0)
        wait_until(lambda: len(hook.bodies) >= RECORDS, WAIT, "records don't come")

        airflow.stop()
        produce(broker, messages, RECORDS)
        airflow.start()
        client = airflow.client()
        assert client.subscriptions() == {"data": [consumer], "success": True}
        wait_until(lambda: len(hook.bodies) >= 2 * RECORDS, WAIT, "records don't come after a restart")

        began = time.monotonic()
        assert client.unsubscribe(consumer) == {"data": consumer, "success": True}
        assert time.monotonic() - began <= GONE_WITHIN + DAG_WITHIN
        assert client.subscriptions() == {"data": [], "success": True}
        assert not airflow.has_dag(consumer["id"])
        assert sorted(set(received(hook))) == list(range(2 * RECORDS))
