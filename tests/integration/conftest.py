"""Subscriptions on the real broker, with a real landing, lake and ledger; a shipped double copies in place of Spark."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from definitions import subscription

from tidegate import properties
from tidegate.pipeline import Pipeline, open_pipeline
from tidegate.ports import Connection
from tidegate.settings import Settings
from tidegate.subscription import Processing, TopicNames
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker

CLIENT = properties.translate({})  # what a definition that says nothing of its client comes to

OpenSubscription = Callable[..., Pipeline]


@pytest.fixture
def processor() -> CopyingProcessor:
    return CopyingProcessor()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})


@pytest.fixture
def open_subscription(broker: Broker, settings: Settings, processor: CopyingProcessor) -> Iterator[OpenSubscription]:
    """`open_subscription(topic, members=2, consumer={...})` gives a pipeline on the broker, of a group of its own."""
    with ExitStack() as stack:

        def begin(
            topic: str, *, consumer: dict[str, Any] | None = None, bootstrap: str | None = None, **values: Any
        ) -> Pipeline:
            name = values.pop("name", topic)
            chosen = values.pop("settings", settings)
            definition = subscription(
                name=name,
                topics=values.pop("topics", TopicNames((topic,))),
                poll_timeout_ms=values.pop("poll_timeout_ms", 5000),
                processing=Processing(f"lake/{name}", "spark_default", None, ()),
                consumer={"group_id": f"{name}-lake", "librdkafka": CLIENT, **(consumer or {})},
                **values,
            )
            extra = {"bootstrap.servers": bootstrap or broker.bootstrap_servers}
            kafka = Connection("kafka_default", "kafka", None, None, None, None, extra)
            return stack.enter_context(open_pipeline(definition, chosen, MemoryConnections(kafka), processor))

        yield begin


@pytest.fixture
def produce(broker: Broker) -> Callable[..., None]:
    """`produce(topic, 5, partition=0)`: records with their number as value."""

    def send(topic: str, count: int, partition: int = 0, **settings: Any) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **settings})
        for number in range(count):
            producer.produce(topic, str(number).encode(), str(number).encode(), partition)
        assert producer.flush(30) == 0

    return send
