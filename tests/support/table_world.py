"""A subscription of a table whose runs are struck: the real steps, ledger, landing and log; Kafka and Spark doubled.

Topics are made anew in each process from a file that says how many records there are, and positions are kept in a
database beside the ledger, so that both outlive a run that is killed, and a ledger that is lost.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGSTOP, Signals

import pyarrow as pa
from crashing import Child, Point, Task, catalog_connection, catalog_uri
from definitions import subscription

from chaos.kinds import as_written
from chaos.outputs import Output, Where, output_at
from chaos.table_rows import TableRowsProcessor
from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings
from tidegate.kafka.columns import SCHEMA
from tidegate.lake.staged_files import StagedFiles
from tidegate.landing.parquet import ParquetLanding
from tidegate.ledger.offsets import SqlOffsets
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.output_uri import OutputFormat
from tidegate.model.subscription import DeadLetterQueue, Processing, Subscription, TopicNames
from tidegate.ports import Processor, Reader
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.lakes import lakes
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.source import MemorySource, ReadRecord
from tidegate.testing.topics import MemoryTopics, Record

TOPIC = "orders"
DEAD = "orders-dead"
_MOST_RUNS = 20


class ArrowSource(MemorySource):
    """Topics in memory, whose records come as they do from a broker."""

    @contextmanager
    def read(self, ranges: Sequence[Range], deadline: float) -> Iterator["Reader"]:
        """See `tidegate.ports.RecordSource`."""
        with super().read(ranges, deadline) as reader:
            yield _ArrowReader(reader)


@dataclass
class _ArrowReader:
    reader: Reader

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return map(_chunk, self.reader)

    def progress(self) -> tuple[tuple[Range, int], ...]:
        return self.reader.progress()


def _chunk(records: Sequence[ReadRecord]) -> pa.RecordBatch:
    rows = [
        {
            "key": None,
            "value": each.record.value,
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "timestamp": each.record.timestamp,
            "timestampType": 0,
            "headers": [],
        }
        for each in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@contextmanager
def opened_in_memory(described: Subscription, settings: Settings, records: str, job: Processor) -> Iterator[Pipeline]:
    """The pipeline of a subscription of topics that hold what a file of records says."""
    topics = MemoryTopics()
    for topic, ends in {TOPIC: json.loads(Path(records).read_text()), DEAD: [0]}.items():
        topics.create(topic, len(ends))
        topics.ids[topic] = topic
        for partition, end in enumerate(ends):
            produced = [Record(f"{partition}/{number}".encode(), timestamp=number) for number in range(end)]
            topics.produce(topic, *produced, partition=partition)
    clock = SystemClock()
    group = described.consumer.group_id
    yield Pipeline(
        subscription=described,
        output=output_uri(settings.home, described.processing),
        source=ArrowSource(topics, clock=clock),
        offsets=SqlOffsets(f"sqlite:///{_positions(settings)}", described.name, group, MemoryOutbox(topics)),
        landing=ParquetLanding(settings.landing),
        lake=lakes(MemoryConnections(catalog_connection(settings))),
        staged=StagedFiles(),
        ledger=SqlLedger(settings.ledger),
        run_log=SqlRunLog(settings.ledger),
        processor=job,
        clock=clock,
    )


def _positions(settings: Settings) -> Path:
    return Path(settings.home) / "data" / "positions.db"


@dataclass
class TableScene:
    """A subscription whose output is a table of this format, in a folder of its own; `template` is an empty ledger."""

    folder: Path
    format: OutputFormat
    template: Path
    ends: list[int] = field(default_factory=lambda: [6, 4])
    job: Processor = field(default_factory=TableRowsProcessor)
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = Settings.from_environment({"TIDEGATE_HOME": str(self.folder)})
        (self.folder / "data").mkdir()
        for database in (self._ledger, _positions(self.settings)):
            shutil.copyfile(self.template, database)
        self.place = Where(self.folder, "lake/orders", catalog_uri(self.settings))
        self.subscription = subscription(
            topics=TopicNames((TOPIC,)),
            poll_timeout_ms=5000,
            commit_strategy="checkpoint",
            failure_strategy="dead-letter-queue",
            dead_letter_queue=DeadLetterQueue(DEAD),
            max_retries=2,
            processing=Processing(
                as_written(self.place.name, self.format), "spark_default", None, (), format=self.format
            ),
            consumer={"max_poll_records": 8},
        )
        self.send(0, 0)

    @property
    def output(self) -> Output:
        """What a reader finds, and what others do there."""
        return output_at(self.place, self.format)

    def send(self, partition: int, count: int) -> None:
        """More records."""
        self.ends[partition] += count
        self._records.write_text(json.dumps(self.ends))

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """A pipeline that nothing happens to."""
        with opened_in_memory(self.subscription, self.settings, str(self._records), self.job) as pipeline:
            yield pipeline

    def kill(self, point: Point) -> None:
        """A run that is killed at this point."""
        self._start(point, SIGKILL).was_killed()

    def stop(self, point: Point) -> Child:
        """A run that stopped at this point and can be woken."""
        child = self._start(point, SIGSTOP)
        child.is_asleep()
        return child

    def run(self) -> Batch | None:
        """One run; raises what it ends with."""
        with self.pipeline() as pipeline:
            done = run_batch(pipeline, lambda _: None)
        if done.error is not None:
            raise done.error
        return done.batch

    def go_on(self, *expected: type[TidegateError]) -> None:
        """Plain next runs, until nothing is left; they may end with the errors that are expected."""
        for _ in range(_MOST_RUNS):
            if self.is_settled():
                return
            with suppress(*expected):
                self.run()
        raise AssertionError("there is always more to do")

    def is_settled(self) -> bool:
        """Whether there is nothing left to read, and no batch open."""
        ends = {TopicPartition(TOPIC, partition): end for partition, end in enumerate(self.ends)}
        with self.pipeline() as pipeline:
            stored = {at: each.offset for at, each in pipeline.offsets.committed(ends).items()}
            return stored == ends and pipeline.ledger.look(self.subscription.name).open is None

    def every(self) -> list[tuple[int, int]]:
        """(partition, offset) of all records."""
        return [(partition, offset) for partition, end in enumerate(self.ends) for offset in range(end)]

    def delivered(self) -> list[tuple[int, int]]:
        """(partition, offset) of all rows that a reader finds, in order."""
        rows = self.output.rows(["partition", "offset"])
        return [] if rows is None else sorted((row["partition"], row["offset"]) for row in rows.to_pylist())

    def audit(self, without: Sequence[tuple[int, int]] = ()) -> None:
        """Each record is in the table once, and nothing is left to do, or lies beside the table."""
        assert self.delivered() == [each for each in self.every() if each not in without]
        assert self.is_settled()
        assert self.output.staged() == []

    def lose_ledger(self) -> None:
        """The database's file is gone, and there is an empty one."""
        shutil.copyfile(self.template, self._ledger)

    def end(self) -> None:
        """Make sure that no child is left."""
        for child in self.children:
            child.end()

    @property
    def _ledger(self) -> Path:
        return self.folder / "data" / "ledger.db"

    @property
    def _records(self) -> Path:
        return self.folder / "records.json"

    def _start(self, point: Point, strike: Signals) -> Child:
        folder = self.folder / f"child-{len(self.children)}"
        task = Task(
            self.subscription,
            self.settings,
            str(self._records),
            point,
            strike,
            folder,
            self.job,
            open=opened_in_memory,
        )
        self.children.append(Child(task))
        return self.children[-1]
