"""A run of any strategy that is killed leaves a state from which plain next runs keep the strategy's own promise.

As in `test_crash_matrix`, every point is struck in a child process by SIGKILL. What became of the records is read from
the lake, from the dead-letter topic as a consumer with `read_committed` sees it, and from the group's offsets.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from broker_world import Row, Scene, rows_in_lake
from confluent_kafka.admin import AdminClient, NewTopic
from crashing import Point
from strategy_world import (
    UNTIL_THE_BROKER_ABORTS,
    FailingProcessor,
    RejectingProcessor,
    StrategyScene,
    playing,
)

from tidegate.model.subscription import DeadLetterQueue
from tidegate.testing.copying import CopyingProcessor

pytestmark = pytest.mark.broker

_CAP = 12  # of 16 offsets: the batch that is struck isn't the last one
_IN_TRANSACTIONS = 2
_RECORDS = (6, 4, 3)


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
    Scenario(ON_RECEIPT, Point("commit", within=UNTIL_THE_BROKER_ABORTS)),
    Scenario(ON_RECEIPT, Point("commit", after="fence.commit")),
    Scenario(ON_RECEIPT, Point("commit", after="ledger.received")),
    Scenario(ON_RECEIPT, Point("process", before="processor.run")),
    Scenario(ON_RECEIPT, Point("process", after="ledger.processed")),
    Scenario(ON_RECEIPT, Point("publish", after="lake.publish")),
    Scenario(ON_RECEIPT, Point("publish", after="ledger.move")),
    Scenario(REJECTED, Point("commit", after="lake.publish")),
    Scenario(REJECTED, Point("commit", after="ledger.adopt")),
    Scenario(REJECTED, Point("commit", within="transaction begun, nothing sent")),
    Scenario(REJECTED, Point("commit", within=UNTIL_THE_BROKER_ABORTS)),
    Scenario(REJECTED, Point("commit", after="fence.commit")),
    Scenario(REJECTED, Point("commit", after="ledger.move")),
    Scenario(WHOLE_BATCH, Point("commit", after="ledger.move")),
    Scenario(WHOLE_BATCH, Point("commit", after="lake.set_aside")),
    Scenario(WHOLE_BATCH, Point("commit", within=UNTIL_THE_BROKER_ABORTS)),
    Scenario(WHOLE_BATCH, Point("commit", after="fence.commit")),
    Scenario(WHOLE_BATCH, Point("commit", after="ledger.move", nth=2)),
    Scenario(ON_NEXT_POLL, Point("publish", before="lake.publish")),
    Scenario(ON_NEXT_POLL, Point("publish", after="lake.publish")),
    Scenario(ON_NEXT_POLL, Point("publish", after="ledger.adopt")),
    Scenario(ON_NEXT_POLL, Point("plan", before="fence.commit"), second=True),
    Scenario(ON_NEXT_POLL, Point("plan", within=UNTIL_THE_BROKER_ABORTS), second=True),
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
        fed = StrategyScene.of(plain, case.job())
        for partition, count in enumerate(_RECORDS):
            send = fed.feed.send_in_transactions if partition == _IN_TRANSACTIONS else fed.feed.send
            send(partition, count)
        return fed

    return made


def audit(scene: StrategyScene, dead: Callable[[Row], bool]) -> None:
    """Each acknowledged record is in the lake once, or, if it is dead, once in the dead-letter topic alone."""
    with scene.pipeline() as pipeline:
        assert rows_in_lake(pipeline) == sorted(row for row in scene.feed.rows if not dead(row))
        assert pipeline.ledger.look(scene.subscription.name).open is None
    assert scene.feed.committed(scene.group) == scene.feed.ends()
    expected = Counter((partition, offset) for partition, offset, value in filter(dead, scene.feed.rows))
    assert Counter((letter.partition, letter.origin) for letter in scene.dead_letters()) == expected


def is_none(_: Row) -> bool:
    return False


def play(scenario: Scenario, scene: StrategyScene) -> None:
    if scenario.second:
        scene.run_once()
    scene.kill(scenario.point)
    scene.feed.send(0, 2)
    scene.go_on()
    audit(scene, scenario.case.dead or is_none)
    assert scene.leftovers() == []
    scene.end()


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, begin: Begin) -> Iterator[dict[Scenario, Future[None]]]:
    def begun(scenario: Scenario) -> None:
        play(scenario, begin(scenario.case))

    with playing(request, begun) as futures:
        yield futures


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
    audit(scene, is_none)
