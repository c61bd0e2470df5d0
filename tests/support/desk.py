"""A reader's own folder, with the real command line, broker and Spark."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset
import yaml
from broker_topics import is_there
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from forking import run_tidegate

from tidegate.config.reading import load
from tidegate_local.broker import Broker

TIDEGATE = str(Path(sys.executable).with_name("tidegate"))
PARTITIONS = 4
_SECONDS = 240
FEBRUARY = 1_769_904_000_000  # of 2026, in ms: behind the instants that cursors in the pages name


@dataclass
class Desk:
    """A reader's own folder, with the real command line, broker and Spark."""

    home: Path
    broker: Broker
    admin: AdminClient
    make_topic: Callable[..., str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, status: int = 0, typed: str = "") -> str:
        """What a command prints, once it has ended so; `typed` is typed at its terminal."""
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        done = self._done(command, theirs)
        os.close(ours)
        os.close(theirs)
        assert done.returncode == status, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def _done(self, command: Sequence[str], terminal: int) -> "subprocess.CompletedProcess[str]":
        """The command at its end; `tidegate` is forked, unless the test has installed something of its own."""
        if command[0] == TIDEGATE and "PYTHONPATH" not in self.environment:
            stdin = Path(os.ttyname(terminal))
            return run_tidegate(
                command[1:], environment=self._everything, folder=self.home, timeout=_SECONDS, stdin=stdin
            )
        with self.start(*command, stdin=terminal) as started:
            out, err = started.communicate(timeout=_SECONDS)
        return subprocess.CompletedProcess(command, started.returncode, out, err)

    def start(self, *command: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        """A command that runs; its output is kept."""
        return subprocess.Popen(
            command,
            cwd=self.home,
            env=self._everything,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def connect(self, connection_id: str, **connection: Any) -> None:
        self.environment[f"AIRFLOW_CONN_{connection_id.upper()}"] = json.dumps(connection)

    def define(self, name: str, document: dict[str, Any]) -> Path:
        """Write a definition, with its topics, those that its failed records go to, and its connections."""
        file = self.home / "include" / "subscriptions" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        subscription = load(file)
        self.connect(subscription.connection, conn_type="kafka", extra=self.client)
        for topic in document["topics"]:
            self.make_topic(PARTITIONS, name=topic)
        for topic in {*subscription.retry_topics, subscription.dead_letter_queue.of(name)}:
            if not is_there(self.admin, topic):
                self.make_topic(1, name=topic)
        return file

    @property
    def _everything(self) -> dict[str, str]:
        """The environment of its commands, with an Airflow of its own, which writes where it is asked."""
        own = {"TIDEGATE_HOME": str(self.home), "AIRFLOW_HOME": str(self.home / "airflow")}
        known = [each["PYTHONPATH"] for each in (self.environment, os.environ) if each.get("PYTHONPATH")]
        found = {"PYTHONPATH": os.pathsep.join(known)} if known else {}
        return {**os.environ, **own, **self.environment, **found}

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def produce(self, topic: str, values: list[bytes | None], partitions: int = PARTITIONS, **more: Any) -> None:
        producer = Producer(self.client)
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions, timestamp=FEBRUARY + number, **more)
        assert producer.flush(120) == 0

    def stand_at_the_beginning(self, group: str, topics: list[str]) -> None:
        """As Kafka's own tool puts a group there: with the default `latest` these records would never be read."""
        at = [TopicPartition(topic, partition, 0) for topic in topics for partition in range(PARTITIONS)]
        deadline = time.monotonic() + 60
        while not self._moved(ConsumerGroupTopicPartitions(group, at)):  # its coordinator may still be chosen
            assert time.monotonic() < deadline, f"group {group} can't be moved"

    def _moved(self, group: ConsumerGroupTopicPartitions) -> bool:
        (done,) = self.admin.alter_consumer_group_offsets([group]).values()
        try:
            return all(one.error is None for one in done.result(120).topic_partitions)
        except KafkaException:
            return False

    def rows(self, output: str) -> list[dict[str, Any]]:
        files = [str(path) for path in (self.home / output).rglob("*.parquet") if "_rejected" not in path.parts]
        rows: list[dict[str, Any]] = pyarrow.dataset.dataset(files).to_table().to_pylist() if files else []
        return rows
