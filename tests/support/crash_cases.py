"""The cases of the crash matrix: a subscription under a strategy, its job, and what the strategy promises of records.

What became of the records is read from the lake, from the topics that failed ones go to, as a consumer with
`read_committed` sees them, and from the stored positions.
"""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from acknowledging import AcknowledgingProcessor
from broker_topics import make_topic
from broker_world import Feed, Row, Scene, committed
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from crash_jobs import (
    FailingProcessor,
    LateProcessor,
    RejectingProcessor,
    RetriedProcessor,
    SeeingAndRejectingProcessor,
    SeeingProcessor,
)

from tidegate.model.batch import Batch
from tidegate.model.errors import BatchFailedError, TidegateError
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Headers, last
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.ports import Processor
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker

_SECONDS = 120
_IN_TRANSACTIONS = 2
"""The partition that is written in transactions: an aborted one and its marker are the last in its log."""

_CAPPED: Mapping[str, Any] = {"members": 2, "consumer": {"max_poll_records": 12}}
"""Two members share a batch of 12 of the 16 offsets: the batch that is struck isn't the last one."""

Delivered = tuple[int, int, bytes, bool]
"""(partition, offset, value) of a record, and whether it came from the retry topic; the offset is its first one."""

Is = Callable[[Row], bool]


class Letter(NamedTuple):
    """A committed record of a topic that a subscription produces to, and where it says that it comes from."""

    offset: int
    topic: str
    partition: int
    origin: int


def letters(broker: Broker, admin: AdminClient, topic: str, names: str) -> list[Letter]:
    """All of a topic with one partition, as `read_committed` sees it once no transaction is under way there.

    `names` is how the headers begin that tell a record's origin: `dead-letter` or `delayed-retry`.
    """
    at = KafkaPartition(topic, 0)
    (end,) = [answer.result(120).offset for answer in admin.list_offsets({at: OffsetSpec.latest()}).values()]
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"look-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        consumer.assign([KafkaPartition(topic, 0, 0)])
        return list(_read(consumer, at, end, names)) if end else []
    finally:
        consumer.close()


def _read(consumer: Consumer, at: KafkaPartition, end: int, names: str) -> Iterator[Letter]:
    deadline = monotonic() + _SECONDS
    while (position := consumer.position([at])[0].offset) < end:
        assert monotonic() < deadline, f"{at.topic} can't be read beyond {position} of {end}"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            yield Letter(message.offset(), *told_origin(tuple(message.headers() or ()), names))


def told_origin(headers: Headers, names: str) -> tuple[str, int, int]:
    """Topic, partition and offset that a record's last headers tell as its origin."""
    topic, partition, offset = (last(headers, f"{names}-{name}") or b"" for name in ("topic", "partition", "offset"))
    return topic.decode(), int(partition), int(offset)


@dataclass(kw_only=True)
class CaseScene(Scene):
    """A scene of a case, and the one audit of them all; `moved` is where somebody moved the group in Kafka."""

    case: "Case"
    retries: Feed | None = None
    moved: dict[int, int] = field(default_factory=dict)

    def next_run(self, pipeline: Pipeline) -> Batch | None:
        """One run that doesn't wait for records, after which the case's promise holds."""
        batch = super().next_run(pipeline)
        self.case.agree(self, pipeline)
        return batch

    def expects(self, error: TidegateError) -> bool:
        """Whether the job is one that fails."""
        return isinstance(self.job, FailingProcessor) and isinstance(error, BatchFailedError)

    def run_once(self) -> Batch:
        """One run that has something to do."""
        with self.pipeline() as pipeline:
            batch = self.next_run(pipeline)
        assert batch is not None
        return batch

    def agree(self) -> None:
        """What the case promises at any instant holds."""
        with self.pipeline() as pipeline:
            self.case.agree(self, pipeline)

    def is_settled(self, pipeline: Pipeline) -> bool:
        """Whether there is no lag behind the stored positions, and no batch is open."""
        is_open = pipeline.ledger.look(self.subscription.name).open is not None
        has_retries = self.retries is not None and self.retries.committed(self.group) != self.retries.ends()
        return not is_open and not has_retries and self.case.positions(self, pipeline) == self.feed.ends()

    def positions(self) -> dict[int, int]:
        """What is stored of each partition."""
        with self.pipeline() as pipeline:
            return self.case.positions(self, pipeline)

    def audit(self, again: Sequence[Row] = (), kept: Sequence[Row] = ()) -> None:
        """Each record is in the lake once, or dead once; no lag is left, no batch is open, and the promise holds.

        `again` are those in the lake once more, `kept` those that an acknowledging job had for itself.
        """
        expected = Counter((*row, self.case.fails(row)) for row in self.feed.rows if not self.case.is_dead(row))
        expected.subtract(Counter((*row, False) for row in kept))
        expected.update((*row, False) for row in again)
        with self.pipeline() as pipeline:
            assert Counter(self.delivered(pipeline)) == expected
            assert self.is_settled(pipeline)
            self.case.agree(self, pipeline)
        told = Counter((letter.partition, letter.origin) for letter in self.dead_letters())
        dead = Counter(row[:2] for row in self.feed.rows if self.case.is_dead(row))
        assert (Counter({*told}) if self.case.repeats_letters else told) == dead

    def dead_letters(self) -> list[Letter]:
        """What is in the dead-letter topic, if it has one."""
        topic = self.subscription.dead_letter_queue.topic
        return letters(self.broker, self.feed.admin, topic, "dead-letter") if topic else []

    def sent_back(self) -> list[Letter]:
        """What is in the retry topic."""
        assert self.retries is not None
        return letters(self.broker, self.feed.admin, self.retries.topic, "delayed-retry")

    def delivered(self, pipeline: Pipeline) -> Iterator[Delivered]:
        """The records that a reader of the lake sees, each at the offset where it first was."""
        for path in Path(pipeline.output.removeprefix("file://")).glob("batch_id=*/*.parquet"):
            for row in pq.read_table(path).to_pylist():
                topic, partition, offset = row["topic"], row["partition"], row["offset"]
                is_retried = topic != self.feed.topic
                if is_retried:
                    headers = tuple((header["key"], header["value"]) for header in row["headers"])
                    topic, partition, offset = told_origin(headers, "delayed-retry")
                assert topic == self.feed.topic
                yield partition, offset, row["value"], is_retried


def never(_: Row) -> bool:
    """No record."""
    return False


def always(_: Row) -> bool:
    """Any record."""
    return True


def is_second(row: Row) -> bool:
    """The second record of each partition of those that were sent at once."""
    return row[2].endswith(b"/1")


def is_elsewhere(row: Row) -> bool:
    """The records of other partitions than the first."""
    return row[0] != 0


def in_kafka(scene: CaseScene, _: Pipeline) -> dict[int, int]:
    """The group's committed offsets."""
    return scene.feed.committed(scene.group)


def in_the_ledger(scene: CaseScene, pipeline: Pipeline) -> dict[int, int]:
    """The positions that are stored with the job's state; nothing is the first offset."""
    partitions = [TopicPartition(scene.feed.topic, number) for number in scene.feed.ends()]
    stored = pipeline.offsets.committed(partitions)
    return {at.partition: stored[at].offset if at in stored else 0 for at in partitions}


def nothing_more(_: CaseScene, __: Pipeline) -> None:
    """Nothing but what the audit finds when all is over."""


def state_and_positions_agree(scene: CaseScene, pipeline: Pipeline) -> None:
    """The state has seen the records before the positions, each once, and they are in the lake or the letters.

    Kafka knows nothing of these positions: there the group stands where somebody else has put it, and nobody asks.
    """
    case = scene.case
    text = pipeline.offsets.state()
    state = json.loads(text) if text else {"batches": [], "records": []}
    positions = in_the_ledger(scene, pipeline)
    passed = [row for row in scene.feed.rows if row[1] < positions[row[0]]]
    assert sorted(map(tuple, state["records"])) == sorted(row[:2] for row in passed)
    assert len({*state["batches"]}) == len(state["batches"])
    assert {(*row, False) for row in passed if not case.is_dead(row)} <= {*scene.delivered(pipeline)}
    told = {(letter.partition, letter.origin) for letter in scene.dead_letters()}
    assert {row[:2] for row in passed if case.is_dead(row)} <= told
    assert scene.feed.committed(scene.group) == scene.moved


def retries_and_positions_agree(scene: CaseScene, _: Pipeline) -> None:
    """What failed before the group's positions was sent on, each once, and nothing else was.

    Waits for a transaction that is under way to be ended by the broker.
    """
    assert scene.retries is not None
    partitions = [(scene.feed.topic, number) for number in scene.feed.ends()]
    *stands, of_retries = committed(scene.broker, scene.group, *partitions, (scene.retries.topic, 0))
    sent_back = scene.sent_back()
    assert Counter((letter.partition, letter.origin) for letter in sent_back) == Counter(
        row[:2] for row in scene.feed.rows if scene.case.fails(row) and row[1] < stands[row[0]]
    )
    dead = {row[:2] for row in scene.feed.rows if scene.case.is_dead(row)}
    assert Counter((letter.partition, letter.origin) for letter in scene.dead_letters()) == Counter(
        (letter.partition, letter.origin)
        for letter in sent_back
        if (letter.partition, letter.origin) in dead and letter.offset < of_retries
    )


@dataclass(frozen=True)
class Case:
    """A subscription under a strategy, the job that it has, and what it promises.

    Each record is in the lake once, but those on which the job `fails`, unless they `recover` when they come again:
    they are in the dead-letter topic, if it `repeats_letters` at least once. After each run the case's parts `agree`.
    """

    name: str
    definition: Mapping[str, Any]
    job: Callable[[], Processor] = CopyingProcessor
    records: tuple[int, ...] = (6, 4, 3)
    """How many each partition has at first."""
    fails: Is = never
    recovers: Is = never
    repeats_letters: bool = False
    positions: Callable[[CaseScene, Pipeline], dict[int, int]] = in_kafka
    agree: Callable[[CaseScene, Pipeline], None] = nothing_more

    def __hash__(self) -> int:
        """By its name, as its definition has no hash."""
        return hash(self.name)

    def is_dead(self, row: Row) -> bool:
        """Whether a record never comes through its job."""
        return self.fails(row) and not self.recovers(row)

    def begin(self, scene: Callable[..., Scene], admin: AdminClient) -> CaseScene:
        """A scene of this case on topics of its own, which have the first records."""
        name = uuid.uuid4().hex[:12]
        values, retries = dict(self.definition), f"scene-{name}_retry_1"
        is_retried = values.get("failure_strategy") == "delayed-retry-topic"
        topics = [retries] if is_retried else []
        if "failure_strategy" in values:
            topics.append(dead := f"dead-{name}")
            values["dead_letter_queue"] = DeadLetterQueue(dead)
        if is_retried:
            values["delayed_retry_topic"] = DelayedRetryTopic((retries,))
        for topic in topics:
            make_topic(admin, topic)
        plain = scene(partitions=len(self.records), **values)
        shared = {each.name: getattr(plain, each.name) for each in fields(Scene)} | {"job": self.job()}
        of_retries = Feed(retries, plain.feed.producers, admin) if is_retried else None
        fed = CaseScene(**shared, case=self, retries=of_retries)
        for partition, count in enumerate(self.records):
            send = fed.feed.send_in_transactions if partition == _IN_TRANSACTIONS else fed.feed.send
            send(partition, count)
        return fed


PUBLISHED = Case("after-processing", _CAPPED)
ON_RECEIPT = Case("on-receipt", {**_CAPPED, "commit_strategy": "on-receipt"})
ON_NEXT_POLL = Case("on-next-poll", {**_CAPPED, "commit_strategy": "on-next-poll"})

_TO_DEAD_LETTERS = {**_CAPPED, "failure_strategy": "dead-letter-queue"}
DEAD_LETTERS = Case("dead letters", _TO_DEAD_LETTERS, RejectingProcessor, fails=is_second)
DEAD_BATCHES = Case("dead batches", {**_TO_DEAD_LETTERS, "max_retries": 0}, FailingProcessor, fails=always)

_TO_RETRIES = {**_CAPPED, "failure_strategy": "delayed-retry-topic", "max_retries": 0}
RETRIED = Case(
    "retried records",
    _TO_RETRIES,
    RetriedProcessor,
    fails=is_second,
    recovers=is_elsewhere,
    agree=retries_and_positions_agree,
)
RETRIED_BATCHES = Case(
    "retried batches", _TO_RETRIES, FailingProcessor, fails=always, agree=retries_and_positions_agree
)

CHECKPOINT = Case(
    "checkpoint",
    {**_CAPPED, "commit_strategy": "checkpoint"},
    SeeingProcessor,
    positions=in_the_ledger,
    agree=state_and_positions_agree,
)
CHECKPOINT_AND_DEAD_LETTERS = Case(
    "checkpoint and dead letters",
    {**_TO_DEAD_LETTERS, "commit_strategy": "checkpoint"},
    SeeingAndRejectingProcessor,
    fails=is_second,
    repeats_letters=True,
    positions=in_the_ledger,
    agree=state_and_positions_agree,
)

_THROTTLED = ({0: [0, 1]}, {0: [3]}, {0: [2, 4], 1: [0]}, {0: [5]})  # it goes by all of them: 6 and 1
_LATEST = ({0: [0, 1]}, {0: [0]}, {0: [3]}, {0: [2], 1: [1]})  # it goes by the highest: 4 and 2


def _acknowledging(name: str, strategy: str, job: Callable[[], Processor]) -> Case:
    """Its commits of parts come without delay."""
    return Case(name, {"commit_strategy": strategy, "auto_commit_interval_ms": 0}, job, records=(6, 2))


THROTTLED = _acknowledging("throttled", "throttled", partial(AcknowledgingProcessor, *_THROTTLED))
THROTTLED_LATE = _acknowledging("throttled, nothing more seen", "throttled", partial(LateProcessor, *_THROTTLED))
LATEST = _acknowledging("latest", "latest", partial(AcknowledgingProcessor, *_LATEST))
LATEST_LATE = _acknowledging("latest, nothing more seen", "latest", partial(LateProcessor, *_LATEST))
