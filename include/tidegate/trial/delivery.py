"""Delivers made-up records of a subscription: Kafka and the ledger are in memory, everything else is real.

The records land in Parquet files, the real Spark job processes them with the definition's transform, its output is
audited and published, and offsets are committed, all below one folder.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.config.module_search import hiding
from tidegate.config.property_types import INT_MAX
from tidegate.config.settings import Settings
from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.lake.staged_files import StagedFiles
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.batch import Batch
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import InterruptedDeliveryError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Rejected
from tidegate.model.subscription import Subscription, TopicNames, TopicPartitions
from tidegate.ports import Connection, OffsetStore
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.lakes import lakes
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.spark.job import job_file, processor_of
from tidegate.testing.clock import MemoryClock
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.run_log import MemoryRunLog
from tidegate.testing.topics import MemoryTopics
from tidegate.trial.outputs import OneCatalog, as_python, output_below, published_rows
from tidegate.trial.records import ArrowSource, GivenRecord


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a delivery made.

    `rows` are the published rows by column, in the order of topic, partition and offset if they have these columns;
    timestamps are datetimes, maps dicts. A table's are without `batch_id`; of a change feed they are all of the
    table's. `rejected` are records, each with its `reason`. `committed` has the group's offset by topic and partition,
    `state` what a transform keeps under `commit-strategy: checkpoint`.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    filtered: int = 0
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    state: Any = None


class Trial:
    """A subscription whose records are made up. Offsets, state and a batch that failed stay from delivery to delivery.

    The definition counts, but for where its very first batch starts (all records are delivered), its limits of
    records and retries, and its failure strategy: rejected records lie beside the output, as with `ignore`.
    """

    def __init__(self, name: str, settings: Settings, spark: Connection, folder: Path) -> None:
        """`spark` is asked at the first delivery; `folder` takes landing and lake.

        Raises WrongDefinitionError for a definition that is broken, or that has no Spark job or needs a registry, and
        where the jobs' folder has a module that hides another one.
        """
        for file, module in hiding(settings.spark_jobs):
            raise WrongDefinitionError(f"{file} hides {module} from all jobs: rename it")
        self._subscription = _for_trial(AllDefinitions(settings).load(name))
        self._topics = MemoryTopics()
        self._make_topics()
        processing = self._subscription.processing
        self._catalog, self._output = OneCatalog(folder), output_below(folder, processing)
        self._lake = lakes(self._catalog, processing.schema_evolution)
        self._positions = MemoryOffsets(
            self._subscription.consumer.group_id,
            fencing=True,
            topics=self._topics,
            keeps_state=self._subscription.commit_policy.keeps_state,
        )
        clock = MemoryClock()
        job = job_file(settings.home, self._subscription.processing.job)
        self._pipeline = Pipeline(
            subscription=self._subscription,
            output=str(self._output),
            source=ArrowSource(self._topics, isolation_level=self._subscription.consumer.isolation_level, clock=clock),
            offsets=self._offsets(),
            landing=ParquetLanding(f"file://{folder}/landing"),
            lake=self._lake,
            staged=StagedFiles(),
            ledger=MemoryLedger(clock.now),
            run_log=MemoryRunLog(clock.now),
            processor=processor_of(spark, job, jobs=settings.spark_jobs),
            clock=clock,
        )

    def deliver(self, given: Iterable[GivenRecord]) -> Delivered:
        """Deliver these records, after what an earlier delivery left, in one batch.

        Raises what the run fails with: RecordsFailedError where the transform or a record of it is to blame.
        """
        for each in given:
            self._topics.produce(self._topic(each), each.record, partition=self._partition(each))
        run = run_batch(self._pipeline, lambda _step: None)
        if isinstance(run.error, InterruptedDeliveryError):
            raise KeyboardInterrupt from run.error
        if run.error is not None:
            raise run.error
        made = Delivered() if run.batch is None else self._made(run.batch)
        committed = {at: position.offset for at, position in sorted(self._positions.positions.items())}
        kept = self._positions.kept
        return replace(made, committed=committed, state=None if kept is None else json.loads(kept))

    def _made(self, batch: Batch) -> Delivered:
        output, receipt = str(self._output), batch.next_receipt
        published = self._lake.published(output, receipt)
        if published is None:
            return Delivered()
        rows = published_rows(self._output, self._catalog, batch.id, self._subscription.processing)
        order = [name for name in ("topic", "partition", "offset") if name in rows.column_names]
        ordered = rows.sort_by([(name, "ascending") for name in order]) if order else rows
        return Delivered(
            rows=as_python(ordered.to_pylist(), pa.list_(pa.struct(ordered.schema))),
            rejected=sorted(self._lake.rejected(output, receipt), key=lambda record: (record.at, record.offset)),
            filtered=published.filtered or 0,
        )

    def _offsets(self) -> OffsetStore:
        if self._subscription.commit_policy.store is PositionStore.NONE:
            return NullOffsetStore(MemoryOutbox(self._topics))
        return self._positions

    def _topic(self, given: GivenRecord) -> str:
        topics = self._subscription.topics
        match topics:
            case _ if given.topic is not None:
                topic = given.topic
            case TopicNames(names):
                topic = names[0]
            case TopicPartitions(partitions):
                topic = next(iter(partitions))
            case _:
                raise WrongDefinitionError(
                    f"{self._subscription.name} reads a pattern of topics: a record must name its topic"
                )
        if not topics.takes(topic):
            raise WrongDefinitionError(f"{self._subscription.name} doesn't read topic {topic}, which a record names")
        return topic

    def _partition(self, given: GivenRecord) -> int:
        """The record's partition, which is made if it isn't there."""
        topics, topic = self._subscription.topics, self._topic(given)
        read = topics.partitions[topic] if isinstance(topics, TopicPartitions) else None
        partition = given.partition if given.partition is not None else read[0] if read else 0
        if read is not None and partition not in read:
            raise WrongDefinitionError(
                f"{self._subscription.name} doesn't read partition {partition} of {topic}, which a record names"
            )
        self._make(topic, partition)
        return partition

    def _make_topics(self) -> None:
        """Those that the definition names, with the partitions that it names."""
        match self._subscription.topics:
            case TopicNames(names):
                for topic in names:
                    self._make(topic, 0)
            case TopicPartitions(partitions):
                for topic, numbers in partitions.items():
                    self._make(topic, max(numbers))

    def _make(self, topic: str, partition: int) -> None:
        there = sum(at.topic == topic for at in self._topics.logs)
        if not there:
            self._topics.create(topic, partition + 1)
        elif partition >= there:
            self._topics.add_partitions(topic, partition + 1 - there)


def why_not_tried(subscription: Subscription) -> str | None:
    """Why there are no trials of a subscription; None if there are."""
    if subscription.processing.endpoint is not None:
        return f"{subscription.name} sends its records over HTTP: there is no Spark job to try"
    if subscription.deserialization.registry is not None:
        return f"{subscription.name} decodes by a Schema Registry, which a trial doesn't have: try it on a broker"
    return None


def _for_trial(subscription: Subscription) -> Subscription:
    """The definition without what depends on anything but its records."""
    if wrong := why_not_tried(subscription):
        raise WrongDefinitionError(wrong)
    topics = subscription.topics
    return replace(
        subscription,
        topics=TopicPartitions(topics.partitions) if isinstance(topics, TopicPartitions) else topics,
        cursor=None,
        consumer=replace(subscription.consumer, auto_offset_reset="earliest", max_poll_records=INT_MAX),
        failure_strategy="ignore",
        max_retries=INT_MAX,
    )
