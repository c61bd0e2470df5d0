"""Many subscriptions on one broker, for measurements of what each more of them costs."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

PROJECT = Path(__file__).resolve().parents[1]
PARTITIONS = 3
_DEFINITION = "topics: [{name}]\nconsumer: {{group.id: {name}-lake}}\nprocessing: {{output: data/lake/{name}}}\n"


@contextmanager
def broker_with_topics(data: Path, names: Sequence[str]) -> Iterator[str]:
    """A broker with these topics, of three partitions each, which are empty; yields its bootstrap servers."""
    java = find_java()
    with Broker(java=java, jars=kafka_jars(java, PROJECT / ".cache"), data=data) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            made.result(60)
        yield broker.bootstrap_servers


def home_of(folder: Path, topics: Sequence[str], bootstrap_servers: str) -> dict[str, str]:
    """Define a subscription for each topic, all by one connection; the environment in which commands find them."""
    definitions = folder / "include/subscriptions"
    definitions.mkdir(parents=True)
    for name in topics:
        (definitions / f"{name}.yaml").write_text(_DEFINITION.format(name=name))
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers}})
    return os.environ | {"TIDEGATE_HOME": str(folder), "AIRFLOW_CONN_KAFKA_DEFAULT": kafka}
