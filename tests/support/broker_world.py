"""What tests on the real broker do and look at."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from signal import SIGKILL, SIGSTOP, Signals
from threading import Event, Lock
from time import monotonic
from typing import TypeVar

import pyarrow.dataset
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from crashing import Child, Point, Task, opened

from tidegate.config.settings import Settings
from tidegate.kafka.group import PASSING
from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError
from tidegate.model.subscription import Subscription
from tidegate.ports import Connection, Processor
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.steps.act import Plan
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker
from tidegate_local.loopback import SPARK_HOST
from tidegate_local.spark_connect import SparkConnect

_Answer = TypeVar("_Answer")
_PAUSE = Event()
_SECONDS = 120  # some of it goes by until a delivery that was struck counts as silent


def connection_to(server: SparkConnect) -> Connection:
    """The Airflow connection `spark_default` to this server."""
    return Connection("spark_default", "spark_connect", SPARK_HOST, server.port, None, server.token, {})


Row = tuple[int, int, bytes]
"""(partition, offset, value) of a record."""


def deliver(pipeline: Pipeline) -> Batch | None:
    """One run: plan, land, process, commit."""
    return carry_out(pipeline, pipeline.plan())


def carry_out(pipeline: Pipeline, plan: Plan) -> Batch | None:
    """What a run does with its plan: land, process, commit."""
    if plan.batch is None:
        return None
    for member in plan.members:
        pipeline.land(plan.batch.id, member)
    pipeline.process(plan.batch.id)
    return pipeline.settle(plan.batch.id)


def committed(broker: Broker, group: str, *partitions: tuple[str, int]) -> list[int]:
    """The group's committed offsets, as any Kafka client sees them, once it has a coordinator."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    asked = [TopicPartition(*at) for at in partitions]
    try:
        return [p.offset for p in coordinated(lambda: consumer.committed(asked, timeout=20))]
    finally:
        consumer.close()


def move(admin: AdminClient, topic: str, offsets: Mapping[int, int]) -> None:
    """Move the group of a topic's subscription as Kafka's own tool does, once it has a coordinator."""
    moved = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

    def ask() -> None:
        (answer,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{topic}-lake", moved)]).values()
        for partition in answer.result(120).topic_partitions:
            if partition.error is not None:
                raise KafkaException(partition.error)

    coordinated(ask)


def coordinated(ask: Callable[[], _Answer]) -> _Answer:
    """The broker's answer, once the group has a coordinator."""
    deadline = monotonic() + _SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or monotonic() > deadline:
                raise
            _PAUSE.wait(0.05)


def in_lake(pipeline: Pipeline) -> list[tuple[int, int]]:
    """(partition, offset) of every record that a reader of the lake sees, in order."""
    return [(partition, offset) for partition, offset, _ in rows_in_lake(pipeline)]


def rows_in_lake(pipeline: Pipeline) -> list[Row]:
    """Every record that a reader of the lake sees, in order of partition and offset."""
    folder = Path(pipeline.output.removeprefix("file://"))
    files = [str(path) for path in folder.glob("batch_id=*/*.parquet")]
    if not files:
        return []
    table = pyarrow.dataset.dataset(files).to_table(["partition", "offset", "value"])
    columns = [table[name].to_pylist() for name in table.column_names]
    return sorted(zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class Producers:
    """Clients that many tests share."""

    plain: Producer
    transactional: Producer
    one_transaction: Lock = field(default_factory=Lock)


@dataclass
class Feed:
    """A topic, and every record that a producer was told is there."""

    topic: str
    producers: Producers
    admin: AdminClient
    rows: list[Row] = field(default_factory=list)

    def send(self, partition: int, count: int) -> None:
        """Produce records, each with a value of its own."""
        self._send(self.producers.plain, partition, count, self.rows)

    def send_in_transactions(self, partition: int, count: int) -> None:
        """A transaction that is committed and, behind it, one that is aborted: the log ends with a marker."""
        producer = self.producers.transactional
        with self.producers.one_transaction:
            producer.begin_transaction()
            self._send(producer, partition, count, self.rows)
            producer.commit_transaction()
        self.send_aborted(partition, count)

    def send_aborted(self, partition: int, count: int) -> None:
        """A transaction that is aborted: so many offsets that hold nothing, and one for its marker.

        The broker answers before it writes the marker, and what is produced meanwhile comes before that.
        """
        producer = self.producers.transactional
        aborted: list[Row] = []
        with self.producers.one_transaction:
            producer.begin_transaction()
            self._send(producer, partition, count, aborted)
            producer.abort_transaction()
        deadline = monotonic() + _SECONDS
        while self.ends(IsolationLevel.READ_COMMITTED)[partition] <= aborted[-1][1]:
            assert monotonic() < deadline, f"the marker of {self.topic}-{partition} wasn't written"
            _PAUSE.wait(0.01)

    def add_partition(self) -> int:
        """The number of a new partition, once a producer can write to it."""
        number = len(self.ends())
        self.admin.create_partitions([NewPartitions(self.topic, number + 1)])[self.topic].result(120)
        deadline = monotonic() + _SECONDS
        while len(self.producers.plain.list_topics(self.topic, 10).topics[self.topic].partitions) <= number:
            assert monotonic() < deadline, "the new partition didn't appear"
            _PAUSE.wait(0.05)
        return number

    def ends(self, isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> dict[int, int]:
        """The end of each partition's log, transaction markers included, or of what is decided there."""
        partitions = self.admin.list_topics(self.topic, timeout=20).topics[self.topic].partitions
        asked = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in partitions}
        answers = self.admin.list_offsets(asked, isolation_level=isolation_level)
        return {at.partition: answer.result(120).offset for at, answer in answers.items()}

    def committed(self, group: str) -> dict[int, int]:
        """The group's committed offsets, as Kafka's own tool sees them."""

        def ask() -> ConsumerGroupTopicPartitions:
            (answer,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
            found: ConsumerGroupTopicPartitions = answer.result(120)
            return found

        return {p.partition: p.offset for p in coordinated(ask).topic_partitions if p.topic == self.topic}

    def reset(self, group: str, offsets: dict[int, int]) -> None:
        """Move the group as Kafka's own tool does."""
        assert group == f"{self.topic}-lake"
        move(self.admin, self.topic, offsets)

    def _send(self, producer: Producer, partition: int, count: int, told: list[Row]) -> None:
        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            told.append((partition, message.offset(), message.value()))

        for number in range(count):
            value = f"{partition}/{number}"
            producer.produce(self.topic, value, b"key", partition, on_delivery=note)
        assert producer.flush(120) == 0


class Impatient(Pipeline):
    """A pipeline whose plan doesn't wait for records."""

    __slots__ = ()

    def plan(self) -> Plan:
        """Plan at once."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Pipeline(**{**values, "subscription": replace(self.subscription, poll_timeout_ms=1)}).plan()


@dataclass
class Scene:
    """One subscription on the real broker whose runs are struck, and what is true when all is over."""

    subscription: Subscription
    settings: Settings
    broker: Broker
    feed: Feed
    folder: Path
    job: Processor = field(default_factory=CopyingProcessor)
    children: list[Child] = field(default_factory=list)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.subscription.consumer.group_id

    def pipeline(self) -> AbstractContextManager[Pipeline]:
        """A pipeline that nothing happens to."""
        return opened(self.subscription, self.settings, self.broker.bootstrap_servers, self.job)

    def kill(self, point: Point) -> None:
        """A run that is killed at this point."""
        self._start(point, SIGKILL).was_killed()

    def stop(self, point: Point) -> Child:
        """A run that stopped at this point and can be woken."""
        child = self._start(point, SIGSTOP)
        child.is_asleep()
        return child

    def go_on(self) -> list[Batch]:
        """Plain next runs, until nothing is left; the batches that they committed."""
        done: list[Batch] = []
        deadline = monotonic() + _SECONDS
        with self.pipeline() as pipeline:
            while (batch := self.next_run(pipeline)) is not None or not self.is_settled(pipeline):
                done += [batch] if batch else []
                assert monotonic() < deadline, f"still not settled: {self.feed.committed(self.group)}"
                _PAUSE.wait(0 if batch else 0.05)
        return done

    def next_run(self, pipeline: Pipeline) -> Batch | None:
        """One run that doesn't wait for records."""
        impatient = Impatient(**{each.name: getattr(pipeline, each.name) for each in fields(pipeline)})
        run = run_batch(impatient, lambda _: None)
        if run.error is not None and not self.expects(run.error):
            raise run.error
        return run.batch

    def expects(self, error: TidegateError) -> bool:  # noqa: ARG002 (a scene whose job fails has its own answer)
        """Whether a plain run may end with this error."""
        return False

    def is_settled(self, pipeline: Pipeline) -> bool:
        """Whether the group has no lag and no batch is open."""
        is_open = pipeline.ledger.look(self.subscription.name).open is not None
        return not is_open and self.feed.committed(self.group) == self.feed.ends()

    def audit(self, again: Sequence[Row] = ()) -> None:
        """Each acknowledged record is in the lake exactly once, the group has no lag, and no batch is open.

        `again` are those that somebody who reset the group asked for once more.
        """
        with self.pipeline() as pipeline:
            assert rows_in_lake(pipeline) == sorted([*self.feed.rows, *again])
            assert self.feed.committed(self.group) == self.feed.ends()
            assert pipeline.ledger.look(self.subscription.name).open is None

    def leftovers(self) -> list[str]:
        """What nobody needs: landed files that the ledger doesn't name, half manifests, and staging folders."""
        with self.pipeline() as pipeline:
            output = Path(pipeline.output.removeprefix("file://"))
            history = pipeline.ledger.history(self.subscription.name, 1000)
        named = {file.uri.removeprefix("file://") for outcome in history for file in outcome.batch.files}
        landing = Path(self.settings.landing.removeprefix("file://")) / self.subscription.name
        landed = [str(path) for found in ("*/member-*/*", "*/*/.*") for path in landing.glob(found)]
        staged = [str(path) for below in ("_staging", "_abandoned") for path in (output / below).glob("*")]
        return sorted({*landed} - named) + sorted(staged)

    def manifests(self) -> list[Path]:
        """What deliveries were handed, the newest last."""
        landing = Path(self.settings.landing.removeprefix("file://")) / self.subscription.name
        return sorted(landing.glob("*/manifests/*.json"), key=lambda path: path.stat().st_mtime_ns)

    def lose_ledger(self) -> None:
        """The database's file is gone."""
        (Path(self.settings.home) / "data" / "ledger.db").unlink()

    def end(self) -> None:
        """Make sure that no child is left."""
        for child in self.children:
            child.end()

    def _start(self, point: Point, strike: Signals) -> Child:
        subscription = replace(self.subscription, commit_fence=point.fence)
        folder = self.folder / f"child-{len(self.children)}"
        task = Task(subscription, self.settings, self.broker.bootstrap_servers, point, strike, folder, self.job)
        self.children.append(Child(task))
        return self.children[-1]
