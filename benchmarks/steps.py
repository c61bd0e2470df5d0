"""What plan and commit cost: seconds of a step in a fresh pipeline, whose clients connect anew as each task's do.

`make bench`, or `python benchmarks/steps.py [--rounds N] [--json] [--write]`. On a broker of its own, with a ledger in
SQLite and a lake on this machine's disk; a shipped double copies in place of Spark. Figures are medians.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from page import Table, show, write
from tidegate.definition.reading import load
from tidegate.pipeline import Pipeline, open_pipeline
from tidegate.ports import Connection
from tidegate.settings import Settings
from tidegate.subscription import Subscription
from tidegate.testing.clock import MemoryClock
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate.testing.lake import MemoryLake
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.processor import MemoryProcessor
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics, Record
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

PARTITIONS = (1, 10, 100, 1_000)
IN_MEMORY = 10_000
HEADINGS = ["partitions", "plan", "commit", "slowest commit"]


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure what plan and commit cost.")
    parser.add_argument("--rounds", type=int, default=9, help="batches of each kind (default 9)")
    parser.add_argument("--json", action="store_true", help="print every single measurement as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/performance.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _bench(Path(folder)) as bench:
        found = {f"{number:,}": bench.measure(number, arguments.rounds) for number in PARTITIONS}
    found[f"{IN_MEMORY:,}, in memory"] = [_in_memory() for _ in range(arguments.rounds)]
    tables = [Table("Seconds of a step, clients connecting anew", HEADINGS, [_row(*one) for one in found.items()])]
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        show(tables)
    if arguments.write:
        write("plan and commit", f"python benchmarks/steps.py --rounds {arguments.rounds}", tables)


def _row(name: str, seconds: list[dict[str, float]]) -> list[str]:
    commits = [one["commit"] for one in seconds]
    return [
        name,
        f"{median(one['plan'] for one in seconds):.3f} s",
        f"{median(commits):.3f} s",
        f"{max(commits):.3f} s",
    ]


@dataclass(frozen=True)
class Bench:
    """A broker, and a folder for all else."""

    bootstrap: str
    folder: Path

    def measure(self, partitions: int, rounds: int) -> list[dict[str, float]]:
        """So many batches of one record of each partition; the first one, which warms the coordinators, left out."""
        topic = f"steps-{partitions}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
        subscription = self._subscription(topic)
        found = [self._batch(subscription, topic, partitions) for _ in range(rounds + 1)]
        print(f"{partitions} partitions: {found}", file=sys.stderr)
        return found[1:]

    def _batch(self, subscription: Subscription, topic: str, partitions: int) -> dict[str, float]:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for partition in range(partitions):
            producer.produce(topic, b"value", partition=partition)
        producer.flush(60)
        with self._open(subscription) as pipeline:
            seconds, plan = _timed(pipeline.plan)
            if plan.batch is None:
                raise RuntimeError(f"nothing was planned: {plan.why}")
            for member in plan.members:
                pipeline.land(plan.batch.id, member)
            pipeline.process(plan.batch.id)
        with self._open(subscription) as pipeline:
            return {"plan": seconds, "commit": _timed(lambda: pipeline.commit(plan.batch.id))[0]}

    @contextmanager
    def _open(self, subscription: Subscription) -> Iterator[Pipeline]:
        extra = {"bootstrap.servers": self.bootstrap}
        connection = Connection("kafka_default", "kafka", None, None, None, None, extra)
        settings = Settings.from_environment({"TIDEGATE_HOME": str(self.folder)})
        with open_pipeline(subscription, settings, MemoryConnections(connection), CopyingProcessor()) as pipeline:
            yield pipeline

    def _subscription(self, topic: str) -> Subscription:
        return _definition(self.folder, topic)


def _definition(folder: Path, topic: str) -> Subscription:
    file = folder / f"{topic}.yaml"
    lines = [
        "schedule: null",
        f"topics: [{topic}]",
        f"consumer: {{group.id: {topic}, auto.offset.reset: earliest, max.poll.records: 100000}}",
        f"processing: {{output: lake/{topic}}}",
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return load(file)


def _in_memory() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        subscription = replace(_definition(Path(folder), "steps"), poll_timeout_ms=1_000)
    clock, topics, lake, landing = MemoryClock(), MemoryTopics(), MemoryLake(), MemoryLanding()
    topics.create("steps", IN_MEMORY)
    pipeline = Pipeline(
        subscription=subscription,
        output="file:///lake/steps",
        source=MemorySource(topics, clock=clock),
        offsets=MemoryOffsets("steps", fencing=True),
        landing=landing,
        lake=lake,
        ledger=MemoryLedger(clock.now),
        processor=MemoryProcessor(landing, lake, clock),
        clock=clock,
    )
    pipeline.plan()
    for partition in range(IN_MEMORY):
        topics.produce("steps", Record(b"value"), partition=partition)
    seconds, plan = _timed(pipeline.plan)
    if plan.batch is None:
        raise RuntimeError(f"nothing was planned: {plan.why}")
    pipeline.land(plan.batch.id, 0)
    pipeline.process(plan.batch.id)
    return {"plan": seconds, "commit": _timed(lambda: pipeline.commit(plan.batch.id))[0]}


def _timed(step: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = step()
    return time.perf_counter() - began, answer


@contextmanager
def _bench(folder: Path) -> Iterator[Bench]:
    java = find_java()
    jars = kafka_jars(java, Path(__file__).resolve().parents[1] / ".cache")
    settings: Mapping[str, str] = {"log.cleaner.enable": "false"}
    with Broker(java=java, jars=jars, data=folder / "kafka", properties=settings) as broker:
        yield Bench(broker.bootstrap_servers, folder)


if __name__ == "__main__":
    main()
