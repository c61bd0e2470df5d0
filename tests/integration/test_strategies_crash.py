"""A run of any strategy that is killed leaves a state from which plain next runs keep the strategy's own promise.

As in `test_crash_matrix`, every point is struck in a child process by SIGKILL. What became of the records is read from
the lake, from the dead-letter topic as a consumer with `read_committed` sees it, and from the group's offsets.
"""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from signal import Signals
from time import monotonic
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from broker_world import _ONE_MIGRATION, Row, Scene, rows_in_lake
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from crashing import Child, Point, Task, opened

from tidegate.batch import Batch
from tidegate.errors import BatchFailedError
from tidegate.pipeline import Pipeline
from tidegate.records import last
from tidegate.run import run_batch
from tidegate.steps.plan import Plan
from tidegate.subscription import DeadLetterQueue
from tidegate.testing.copying import CopyingProcessor

pytestmark = pytest.mark.broker

_AT_A_TIME = 5
_CAP = 12  # of 16 offsets: the batch that is struck isn't the last one
_IN_TRANSACTIONS = 2
_RECORDS = (6, 4, 3)
_SECONDS = 60


class RejectingProcessor(CopyingProcessor):
    """A job that rejects the second record of each partition, by its value."""

    def run(self, manifest_uri: str, *args: Any) -> None:
        """Copy, then move what is rejected to where such records belong."""
        super().run(manifest_uri, *args)
        staging = Path(json.loads(Path(manifest_uri.removeprefix("file://")).read_text())["staging"][len("file://") :])
        (attempt,) = staging.iterdir()
        told = attempt / "_result" / "part-00000.txt"
        result = json.loads(told.read_text())
        for number, file in enumerate(result["files"]):
            path = attempt / file["path"]
            table = pq.read_table(path)
            is_bad = pc.ends_with(pc.cast(table["value"], "string"), "/1")
            pq.write_table(table.filter(pc.invert(is_bad)), path)
            file["bytes"] = path.stat().st_size
            bad = table.filter(is_bad)
            if not bad.num_rows:
                continue
            apart = attempt / "_rejected" / f"part-{number:05}.parquet"
            apart.parent.mkdir(exist_ok=True)
            pq.write_table(bad.append_column("reason", [["it is the second"] * bad.num_rows]), apart)
            result["rejected_files"].append({"path": f"_rejected/{apart.name}", "bytes": apart.stat().st_size})
        told.write_text(json.dumps(result) + "\n")


class FailingProcessor(CopyingProcessor):
    """A job that fails, whatever it is given."""

    def run(self, manifest_uri: str, *_: Any) -> None:
        """Fail."""
        raise BatchFailedError(f"the job failed: {manifest_uri}")


class Impatient(Pipeline):
    """A pipeline whose plan doesn't wait for records."""

    __slots__ = ()

    def plan(self) -> Plan:
        """Plan at once."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Pipeline(**{**values, "subscription": replace(self.subscription, poll_timeout_ms=1)}).plan()


@dataclass
class StrategyScene(Scene):
    """A scene whose runs go through the steps as its commit strategy has them, with a job of its own."""

    job: CopyingProcessor = field(default_factory=CopyingProcessor)

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        with ExitStack() as stack:
            with _ONE_MIGRATION:
                begun = opened(self.subscription, self.settings, self.broker.bootstrap_servers, self.job)
                pipeline = stack.enter_context(begun)
            yield pipeline

    def next_run(self, pipeline: Pipeline) -> Batch | None:
        run = run_batch(
            Impatient(**{each.name: getattr(pipeline, each.name) for each in fields(pipeline)}), lambda _: None
        )
        if run.error is not None and not isinstance(run.error, BatchFailedError):
            raise run.error
        return run.batch

    def audit_strategy(self, *, dead: Callable[[Row], bool] = lambda _: False) -> None:
        """Each acknowledged record is in the lake once, or, if it is dead, once in the dead-letter topic alone."""
        with self.pipeline() as pipeline:
            assert rows_in_lake(pipeline) == sorted(row for row in self.feed.rows if not dead(row))
            assert pipeline.ledger.look(self.subscription.name).open is None
        assert self.feed.committed(self.group) == self.feed.ends()
        expected = Counter((partition, offset) for partition, offset, value in filter(dead, self.feed.rows))
        assert Counter(self.dead_letters()) == expected

    def dead_letters(self) -> list[tuple[int, int]]:
        """(partition, offset) that each record in the dead-letter topic names, as `read_committed` sees them."""
        topic = self.subscription.dead_letter_queue.topic
        if not topic:
            return []
        at = TopicPartition(topic, 0)
        (end,) = [
            answer.result(20).offset for answer in self.feed.admin.list_offsets({at: OffsetSpec.latest()}).values()
        ]
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": f"look-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return list(_read(consumer, at, end))
        finally:
            consumer.close()

    def _start(self, point: Point, strike: Signals) -> Child:
        folder = self.folder / f"child-{len(self.children)}"
        bootstrap = self.broker.bootstrap_servers
        self.children.append(Child(Task(self.subscription, self.settings, bootstrap, point, strike, folder, self.job)))
        return self.children[-1]


def _read(consumer: Consumer, at: TopicPartition, end: int) -> Iterator[tuple[int, int]]:
    deadline = monotonic() + _SECONDS
    while (position := consumer.position([at])[0].offset) < end:
        assert monotonic() < deadline, f"the dead-letter topic can't be read beyond {position} of {end}"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            headers = tuple(message.headers() or ())
            partition, offset = (last(headers, f"dead-letter-{name}") or b"" for name in ("partition", "offset"))
            yield int(partition), int(offset)


@dataclass(frozen=True)
class Case:
    """A subscription, its job, and which of its records become dead letters."""

    name: str
    values: tuple[tuple[str, Any], ...]
    job: type[CopyingProcessor] = CopyingProcessor
    dead: Callable[[Row], bool] | None = None


def is_second(row: Row) -> bool:
    return row[2].endswith(b"/1")


def is_any(_: Row) -> bool:
    return True


ON_RECEIPT = Case("on-receipt", (("commit_strategy", "on-receipt"),))
ON_NEXT_POLL = Case("on-next-poll", (("commit_strategy", "on-next-poll"),))
REJECTED = Case("dead letters", (("failure_strategy", "dead-letter-queue"),), RejectingProcessor, is_second)
WHOLE_BATCH = Case(
    "dead batches", (("failure_strategy", "dead-letter-queue"), ("max_retries", 0)), FailingProcessor, is_any
)

_LONGEST = "offsets sent, not committed"


@dataclass(frozen=True)
class Scenario:
    """A run of a case that is killed at a point: the first one, or the one after it."""

    case: Case
    point: Point
    second: bool = False

    def __str__(self) -> str:
        return f"{self.case.name}, {'second run, ' if self.second else ''}{self.point}"


SCENARIOS = [
    Scenario(ON_RECEIPT, Point("commit", before="fence.commit")),
    Scenario(ON_RECEIPT, Point("commit", within=_LONGEST)),
    Scenario(ON_RECEIPT, Point("commit", after="fence.commit")),
    Scenario(ON_RECEIPT, Point("commit", after="ledger.received")),
    Scenario(ON_RECEIPT, Point("process", before="processor.run")),
    Scenario(ON_RECEIPT, Point("process", after="ledger.processed")),
    Scenario(ON_RECEIPT, Point("publish", after="lake.publish")),
    Scenario(ON_RECEIPT, Point("publish", after="ledger.move")),
    Scenario(REJECTED, Point("commit", after="lake.publish")),
    Scenario(REJECTED, Point("commit", after="ledger.adopt")),
    Scenario(REJECTED, Point("commit", within="transaction begun, nothing sent")),
    Scenario(REJECTED, Point("commit", within=_LONGEST)),
    Scenario(REJECTED, Point("commit", after="fence.commit")),
    Scenario(REJECTED, Point("commit", after="ledger.move")),
    Scenario(WHOLE_BATCH, Point("commit", after="ledger.move")),
    Scenario(WHOLE_BATCH, Point("commit", after="lake.set_aside")),
    Scenario(WHOLE_BATCH, Point("commit", within=_LONGEST)),
    Scenario(WHOLE_BATCH, Point("commit", after="fence.commit")),
    Scenario(WHOLE_BATCH, Point("commit", after="ledger.move", nth=2)),
    Scenario(ON_NEXT_POLL, Point("publish", before="lake.publish")),
    Scenario(ON_NEXT_POLL, Point("publish", after="lake.publish")),
    Scenario(ON_NEXT_POLL, Point("publish", after="ledger.adopt")),
    Scenario(ON_NEXT_POLL, Point("plan", before="fence.commit"), second=True),
    Scenario(ON_NEXT_POLL, Point("plan", within=_LONGEST), second=True),
    Scenario(ON_NEXT_POLL, Point("plan", after="fence.commit"), second=True),
    Scenario(ON_NEXT_POLL, Point("plan", after="ledger.move"), second=True),
]

Begin = Callable[[Case], StrategyScene]


@pytest.fixture(scope="module")
def begin(scene: Callable[..., Scene], admin: AdminClient) -> Begin:
    def made(case: Case) -> StrategyScene:
        values = dict(case.values)
        if case.dead is not None:
            topic = f"dead-{uuid.uuid4().hex[:12]}"
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
            values["dead_letter_queue"] = DeadLetterQueue(topic)
        plain = scene(partitions=3, members=2, consumer={"max_poll_records": _CAP}, **values)
        held = {each.name: getattr(plain, each.name) for each in fields(plain)}
        fed = StrategyScene(**held, job=case.job())
        for partition, count in enumerate(_RECORDS):
            send = fed.feed.send_in_transactions if partition == _IN_TRANSACTIONS else fed.feed.send
            send(partition, count)
        return fed

    return made


def play(scenario: Scenario, scene: StrategyScene) -> None:
    if scenario.second:
        with scene.pipeline() as pipeline:
            assert scene.next_run(pipeline) is not None
    scene.kill(scenario.point)
    scene.feed.send(0, 2)
    scene.go_on()
    scene.audit_strategy(dead=scenario.case.dead or (lambda _: False))
    assert scene.leftovers() == []
    scene.end()


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, begin: Begin) -> Iterator[dict[Scenario, Future[None]]]:
    """The chosen scenarios, played a few at a time, those that wait for the broker first."""
    here = [i for i in request.session.items if isinstance(i, pytest.Function) and i.module is request.module]
    scenarios = [i.callspec.params["scenario"] for i in here if "scenario" in i.fixturenames]
    scenarios.sort(key=lambda scenario: scenario.point.within != _LONGEST)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        yield {scenario: pool.submit(lambda s: play(s, begin(s.case)), scenario) for scenario in scenarios}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_after_a_kill_plain_next_runs_keep_the_promise_of_the_strategy(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("case", [ON_NEXT_POLL], ids=lambda case: case.name)
def test_between_two_runs_the_group_stands_before_the_one_open_batch(case: Case, begin: Begin) -> None:
    scene = begin(case)
    with scene.pipeline() as pipeline:
        first = scene.next_run(pipeline)
        assert first is not None
        assert scene.feed.committed(scene.group) == {r.partition: r.start for r in first.ranges}
        second = scene.next_run(pipeline)
        assert second is not None
        assert scene.feed.committed(scene.group) == {r.partition: r.end for r in first.ranges}
    scene.go_on()
    scene.audit_strategy()
