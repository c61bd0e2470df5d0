"""A run under `failure-strategy: delayed-retry-topic` that is killed anywhere never parts a retry from its commit.

As in `test_crash_matrix`, every point is struck in a child process by SIGKILL. The subscription reads its retry topic
beside its own, so the run that is struck is the first, which sends records there, or the second, which has them back.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from broker_world import Feed, Row, Scene, committed
from confluent_kafka.admin import AdminClient, NewTopic
from crashing import Point
from strategy_world import (
    LATE,
    UNTIL_THE_BROKER_ABORTS,
    FailingProcessor,
    Letter,
    RejectingProcessor,
    StrategyScene,
    letters,
    playing,
    told_origin,
)

from tidegate.model.batch import Batch
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.copying import CopyingProcessor

pytestmark = pytest.mark.broker

_CAP = 12  # of 16 offsets: the second batch has the rest and what was sent back
_IN_TRANSACTIONS = 2
_RECORDS = (6, 4, 3)
_PRODUCED = "transaction begun, nothing sent"
"""The retries are produced in it, the offsets aren't."""


class RetriedProcessor(RejectingProcessor):
    """A job that rejects the second record of each partition; when it comes again only that of partition 0."""

    def is_bad(self, records: pa.Table) -> pa.Array:
        """Which of the landed records are rejected."""
        is_new = pc.invert(pc.match_substring(records["topic"], "_retry_"))
        is_hopeless = pc.starts_with(pc.cast(records["value"], "string"), "0/")
        return pc.and_(super().is_bad(records), pc.or_(is_new, is_hopeless))


@dataclass
class RetryScene(StrategyScene):
    """A scene whose retry and dead-letter topics are compared with the group's positions after each run."""

    retries: Feed | None = None

    @property
    def retry_feed(self) -> Feed:
        """The retry topic."""
        assert self.retries is not None
        return self.retries

    def next_run(self, pipeline: Pipeline) -> Batch | None:
        """One run, behind which topics and positions agree."""
        batch = super().next_run(pipeline)
        self.agree()
        return batch

    def is_settled(self, pipeline: Pipeline) -> bool:
        """Whether the group has no lag in either topic, and no batch is open."""
        retries = self.retry_feed
        return super().is_settled(pipeline) and retries.committed(self.group) == retries.ends()

    def agree(self) -> None:
        """What failed before the group's positions was sent on, each once, and nothing else was.

        Waits for a transaction that is under way to be ended by the broker.
        """
        partitions = [(self.feed.topic, number) for number in range(len(_RECORDS))]
        *stands, of_retries = committed(self.broker, self.group, *partitions, (self.retry_feed.topic, 0))
        sent_back = self.sent_back()
        assert Counter((letter.partition, letter.origin) for letter in sent_back) == Counter(
            row[:2] for row in self.feed.rows if self.fails(row) and row[1] < stands[row[0]]
        )
        assert Counter((letter.partition, letter.origin) for letter in self.dead_letters()) == Counter(
            (letter.partition, letter.origin)
            for letter in sent_back
            if self.is_hopeless(letter.partition) and letter.offset < of_retries
        )

    def sent_back(self) -> list[Letter]:
        """What is in the retry topic."""
        return letters(self.broker, self.feed.admin, self.retry_feed.topic, "delayed-retry")

    def fails(self, row: Row) -> bool:
        """Whether the job fails on a record the first time."""
        return isinstance(self.job, FailingProcessor) or row[2].endswith(b"/1")

    def is_hopeless(self, partition: int) -> bool:
        """Whether it fails on this partition's record the second time, too."""
        return isinstance(self.job, FailingProcessor) or partition == 0

    def audit_all(self) -> None:
        """Each record is once in the lake, under its own topic or the retry topic, or once in the dead-letter topic."""
        self.agree()
        expected = Counter(
            (*row[:2], self.fails(row)) for row in self.feed.rows if not (self.fails(row) and self.is_hopeless(row[0]))
        )
        with self.pipeline() as pipeline:
            assert Counter(_delivered(pipeline, self.retry_feed.topic)) == expected
            assert self.is_settled(pipeline)
        dead = Counter((letter.partition, letter.origin) for letter in self.dead_letters())
        assert dead == Counter(r[:2] for r in self.feed.rows if self.fails(r) and self.is_hopeless(r[0]))


def _delivered(pipeline: Pipeline, retries: str) -> Iterator[tuple[int, int, bool]]:
    """Partition and offset at which each record in the lake first was, and whether it came from the retry topic."""
    folder = Path(pipeline.output.removeprefix("file://"))
    for path in folder.glob("batch_id=*/*.parquet"):
        for row in pq.read_table(path).to_pylist():
            if row["topic"] != retries:
                yield row["partition"], row["offset"], False
                continue
            headers = tuple((header["key"], header["value"]) for header in row["headers"])
            yield *told_origin(headers, "delayed-retry")[1:], True


@dataclass(frozen=True)
class Scenario:
    """What happens at a point of the first run or of the second, where the job rejects records or only fails."""

    play: Callable[[Point, RetryScene], None]
    point: Point
    second: bool = False
    job: type[CopyingProcessor] = RetriedProcessor

    def __str__(self) -> str:
        what = "whole batches" if self.job is FailingProcessor else "records"
        return f"{self.play.__name__}, {what}, {'second' if self.second else 'first'} run, {self.point}"


def killed(point: Point, scene: RetryScene) -> None:
    scene.kill(point)
    scene.agree()
    scene.feed.send(0, 2)
    scene.go_on()
    assert scene.leftovers() == []


def ledger_lost(point: Point, scene: RetryScene) -> None:
    scene.kill(point)
    scene.lose_ledger()
    scene.feed.send(0, 2)
    scene.go_on()


def woken(point: Point, scene: RetryScene) -> None:
    sleeper = scene.stop(point)
    scene.feed.send(0, 2)
    scene.go_on()
    ended = sleeper.wake()
    assert ended.error in LATE, ended
    assert scene.leftovers() == []


SCENARIOS = [
    Scenario(killed, Point("commit", after="lake.publish")),
    Scenario(killed, Point("commit", within=_PRODUCED)),
    Scenario(killed, Point("commit", within=UNTIL_THE_BROKER_ABORTS)),
    Scenario(killed, Point("commit", after="fence.commit")),
    Scenario(killed, Point("commit", within=_PRODUCED), second=True),
    Scenario(killed, Point("commit", within=UNTIL_THE_BROKER_ABORTS), second=True),
    Scenario(killed, Point("commit", after="fence.commit"), second=True),
    Scenario(killed, Point("commit", after="ledger.move"), job=FailingProcessor),
    Scenario(killed, Point("commit", within=_PRODUCED), job=FailingProcessor),
    Scenario(killed, Point("commit", within=UNTIL_THE_BROKER_ABORTS), job=FailingProcessor),
    Scenario(killed, Point("commit", within=UNTIL_THE_BROKER_ABORTS), second=True, job=FailingProcessor),
    Scenario(ledger_lost, Point("commit", after="lake.publish"), second=True),
    Scenario(ledger_lost, Point("commit", after="fence.commit")),
    Scenario(woken, Point("commit", before="lake.publish")),
    Scenario(woken, Point("commit", within=_PRODUCED)),
]

Begin = Callable[[Scenario], RetryScene]


@pytest.fixture(scope="module")
def begin(scene: Callable[..., Scene], admin: AdminClient) -> Begin:
    def made(scenario: Scenario) -> RetryScene:
        name = uuid.uuid4().hex[:12]
        dead, retries = f"dead-{name}", f"scene-{name}_retry_1"
        for created in admin.create_topics([NewTopic(dead, 1, 1), NewTopic(retries, 1, 1)]).values():
            created.result(30)
        plain = scene(
            partitions=3,
            members=2,
            consumer={"max_poll_records": _CAP},
            failure_strategy="delayed-retry-topic",
            dead_letter_queue=DeadLetterQueue(dead),
            delayed_retry_topic=DelayedRetryTopic((retries,)),
            max_retries=0,
        )
        feed = Feed(retries, plain.feed.producers, admin)
        fed = RetryScene.of(plain, scenario.job(), retries=feed)
        for partition, count in enumerate(_RECORDS):
            send = fed.feed.send_in_transactions if partition == _IN_TRANSACTIONS else fed.feed.send
            send(partition, count)
        return fed

    return made


def play(scenario: Scenario, scene: RetryScene) -> None:
    if scenario.second:
        scene.run_once()
        scene.feed.send(1, 2)
    scenario.play(scenario.point, scene)
    scene.audit_all()
    scene.end()


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, begin: Begin) -> Iterator[dict[Scenario, Future[None]]]:
    def begun(scenario: Scenario) -> None:
        play(scenario, begin(scenario))

    with playing(request, begun) as futures:
        yield futures


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_what_failed_is_sent_on_with_its_commit_or_not_at_all_and_comes_once(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()
