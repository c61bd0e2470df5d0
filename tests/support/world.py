"""A world of in-memory doubles, and a pipeline in it."""

from typing import Any

from definitions import subscription

from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.model.batch import Batch
from tidegate.model.offsets import TopicPartition
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.clock import MemoryClock
from tidegate.testing.effects import Effect, Method
from tidegate.testing.lake import MemoryLake
from tidegate.testing.landing import MemoryLanding
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.processor import MemoryProcessor
from tidegate.testing.run_log import MemoryRunLog
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics, Record

OUTPUT = "file:///lake/orders"


class Crash(BaseException):
    """The process ends."""


class Before:
    """Ends the process before this method of a port is called."""

    def __init__(self, method: Method) -> None:
        self._effect = Effect.of(method)

    def before(self, effect: Effect) -> None:
        if effect == self._effect:
            raise Crash

    def after(self, effect: Effect) -> None:
        """Goes on."""


class World:
    """Everything outside of the steps; `pipeline(...)` gives them a subscription, each with the same outside."""

    def __init__(self, partitions: int = 1, topic: str | None = "orders") -> None:
        self.clock = MemoryClock()
        self.topics = MemoryTopics()
        if topic is not None:
            self.topics.create(topic, partitions)
        self.kafka = MemoryOffsets("orders-lake", fencing=True, topics=self.topics)
        self.offsets: MemoryOffsets = self.kafka
        self.landing = MemoryLanding()
        self.lake = MemoryLake()
        self.ledger = MemoryLedger(self.clock.now)
        self.run_log = MemoryRunLog(self.clock.now)
        self.processor = MemoryProcessor(self.landing, self.lake, self.clock)

    def pipeline(self, **definition: Any) -> Pipeline:
        described = subscription(**definition)
        isolation = described.consumer.isolation_level
        return Pipeline(
            subscription=described,
            output=OUTPUT,
            source=MemorySource(self.topics, isolation_level=isolation, clock=self.clock),
            offsets=self.offsets,
            landing=self.landing,
            lake=self.lake,
            staged=self.lake,
            ledger=self.ledger,
            run_log=self.run_log,
            processor=self.processor,
            clock=self.clock,
        )

    def produce(self, count: int, partition: int = 0, topic: str = "orders") -> None:
        self.topics.produce(topic, *[Record(b"value")] * count, partition=partition)

    def offsets_of_ignore(self) -> None:
        """Pipelines from here on are one run that commits nothing."""
        self.offsets = NullOffsetStore(MemoryOutbox(self.topics))  # type: ignore[assignment] # of the double only `positions` is used

    def lose_ledger(self) -> None:
        """The ledger is deleted, and made anew by whoever opens it next."""
        self.ledger = MemoryLedger(self.clock.now)

    def committed(self, partition: int = 0, topic: str = "orders") -> int | None:
        store = self.offsets if isinstance(self.offsets, MemoryOffsets) else self.kafka
        position = store.positions.get(TopicPartition(topic, partition))
        return position.offset if position else None

    def published(self) -> list[tuple[int, int]]:
        """The ranges of partition 0 in the lake, in order."""
        manifests = [attempt.manifest for attempt in self.lake.published_attempts.values()]
        return sorted((r.start, r.end) for m in manifests for r in m.batch.ranges if r.partition == 0)


def deliver(pipeline: Pipeline) -> Batch | None:
    """One run: plan, land, process, commit."""
    batch = planned(pipeline)
    if batch is None:
        return None
    pipeline.process(batch.id)
    return pipeline.settle(batch.id)


def planned(pipeline: Pipeline) -> Batch | None:
    """Plan and land."""
    plan = pipeline.plan()
    if plan.batch is None:
        return None
    for member in plan.members:
        pipeline.land(plan.batch.id, member)
    return pipeline.ledger.batch(plan.batch.id)
