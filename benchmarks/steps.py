"""What plan, land and commit cost: seconds of a step in a fresh pipeline, whose clients connect as each task's do.

On a broker of its own, with a ledger in SQLite and a lake on this machine's disk; a shipped double copies in place of
Spark.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from records import Topic, publish
from tidegate.config.reading import load
from tidegate.config.settings import Settings
from tidegate.model.subscription import Subscription
from tidegate.ports import Connection
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.testing.clock import MemoryClock
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate.testing.lake import MemoryLake
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.processor import MemoryProcessor
from tidegate.testing.run_log import MemoryRunLog
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics, Record
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

Seconds = dict[str, float]
"""Of plan, land and commit, by these names."""


@dataclass(frozen=True)
class Bench:
    """A broker, and a folder for all else."""

    bootstrap: str
    folder: Path

    def partitions(self, number: int, rounds: int) -> list[Seconds]:
        """So many batches of one record of each partition; the first one, which warms the coordinators, left out."""
        topic = f"partitions-{number}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, number, 1)])[topic].result(60)
        subscription = _definition(self.folder, topic)
        found = []
        for _ in range(rounds + 1):
            producer = Producer({"bootstrap.servers": self.bootstrap})
            for partition in range(number):
                producer.produce(topic, b"value", partition=partition)
            producer.flush(60)
            found.append(self._batch(subscription))
        print(f"{number:,} partitions: {found}", file=sys.stderr)
        return found[1:]

    def records(self, number: int, rounds: int) -> list[Seconds]:
        """So many batches of the same records, of 110 bytes, each read by a group of its own."""
        topic = Topic(f"records-{number}", 110, number)
        publish(topic, self.bootstrap)
        groups = [f"{topic.name}-{one}" for one in range(rounds + 1)]
        found = [self._batch(_definition(self.folder, topic.name, group, number)) for group in groups]
        print(f"{number:,} records: {found}", file=sys.stderr)
        return found[1:]

    def _batch(self, subscription: Subscription) -> Seconds:
        with self._open(subscription) as pipeline:
            planning, plan = _timed(pipeline.plan)
        if plan.batch is None:
            raise RuntimeError(f"nothing was planned: {plan.why}")
        with self._open(subscription) as pipeline:
            landing, _ = _timed(lambda: [pipeline.land(plan.batch.id, member) for member in plan.members])
            pipeline.process(plan.batch.id)
        with self._open(subscription) as pipeline:
            committing, _ = _timed(lambda: pipeline.settle(plan.batch.id))
        return {"plan": planning, "land": landing, "commit": committing}

    @contextmanager
    def _open(self, subscription: Subscription) -> Iterator[Pipeline]:
        extra = {"bootstrap.servers": self.bootstrap}
        connection = Connection("kafka_default", "kafka", None, None, None, None, extra)
        settings = Settings.from_environment({"TIDEGATE_HOME": str(self.folder)})
        with open_pipeline(subscription, settings, MemoryConnections(connection), CopyingProcessor()) as pipeline:
            yield pipeline


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """A broker that runs as long as the block."""
    java = find_java()
    jars = kafka_jars(java, Path(__file__).resolve().parents[1] / ".cache")
    settings: Mapping[str, str] = {"log.cleaner.enable": "false"}
    with Broker(java=java, jars=jars, data=folder / "kafka", properties=settings) as broker:
        yield Bench(broker.bootstrap_servers, folder)


def in_memory(partitions: int) -> Seconds:
    """A batch of one record of each partition against the shipped doubles: what the steps themselves cost."""
    with tempfile.TemporaryDirectory() as folder:
        subscription = replace(_definition(Path(folder), "steps"), poll_timeout_ms=1_000)
    clock, topics, lake, landing = MemoryClock(), MemoryTopics(), MemoryLake(), MemoryLanding()
    topics.create("steps", partitions)
    pipeline = Pipeline(
        subscription=subscription,
        output="file:///lake/steps",
        source=MemorySource(topics, clock=clock),
        offsets=MemoryOffsets("steps", fencing=True),
        landing=landing,
        lake=lake,
        staged=lake,
        ledger=MemoryLedger(clock.now),
        run_log=MemoryRunLog(clock.now),
        processor=MemoryProcessor(landing, lake, clock),
        clock=clock,
    )
    pipeline.plan()
    for partition in range(partitions):
        topics.produce("steps", Record(b"value"), partition=partition)
    planning, plan = _timed(pipeline.plan)
    if plan.batch is None:
        raise RuntimeError(f"nothing was planned: {plan.why}")
    landing_took, _ = _timed(lambda: pipeline.land(plan.batch.id, 0))
    pipeline.process(plan.batch.id)
    return {"plan": planning, "land": landing_took, "commit": _timed(lambda: pipeline.settle(plan.batch.id))[0]}


def _definition(folder: Path, topic: str, group: str | None = None, records: int = 100_000) -> Subscription:
    name = group or topic
    file = folder / f"{name}.yaml"
    lines = [
        "schedule: null",
        f"topics: [{topic}]",
        f"consumer: {{group.id: {name}, auto.offset.reset: earliest, max.poll.records: {records}}}",
        f"processing: {{output: lake/{name}}}",
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return load(file)


def _timed(step: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = step()
    return time.perf_counter() - began, answer
