"""A run under `commit-strategy: checkpoint` that is killed anywhere never parts the state from the positions.

As in `test_crash_matrix`, every point is struck in a child process by SIGKILL. The job's state names the batches and
records that it has seen, so whoever reads it knows whether it is ahead of the positions, or behind them. Kafka knows
nothing of these positions: there the group stands where somebody else has put it, and nobody asks.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
import pytest
from broker_world import Row, Scene, rows_in_lake
from confluent_kafka.admin import AdminClient, NewTopic
from crashing import Point
from strategy_world import LATE, RejectingProcessor, StrategyScene, playing

from tidegate.model.batch import Batch
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import DeadLetterQueue
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.copying import CopyingProcessor

pytestmark = pytest.mark.broker

_CAP = 12  # of 16 offsets
_IN_TRANSACTIONS = 2
_RECORDS = (6, 4, 3)
_ELSEWHERE = {0: 1, 1: 0, 2: 2}
_LEDGER = "ledger written, not committed"
_LETTERS = "letters produced, nothing stored"
_NO_LETTER = "no letter produced, nothing stored"
_POSITION = "a position written, the next not"
_NO_STATE = "positions written, the state not"


def see(manifest: dict[str, Any]) -> dict[str, Any]:
    """The state that a batch leaves: all batches and records so far, in the order in which they came."""
    before = manifest.get("state") or {"batches": [], "records": []}
    tables = [pq.read_table(file["uri"].removeprefix("file://")) for file in manifest["files"]]
    seen = [[row["partition"], row["offset"]] for table in tables for row in table.to_pylist()]
    return {"batches": [*before["batches"], manifest["batch_id"]], "records": before["records"] + seen}


class SeeingProcessor(CopyingProcessor):
    """A job that keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = see


class SeeingAndRejectingProcessor(RejectingProcessor):
    """A job that keeps what it has seen, rejected records too."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = see


@dataclass
class CheckpointScene(StrategyScene):
    """A scene whose state and positions are compared after each run."""

    elsewhere: bool = False
    """Whether somebody has moved the group in Kafka."""

    @property
    def rejects(self) -> bool:
        """Whether the job rejects the second record of each partition."""
        return isinstance(self.job, RejectingProcessor)

    def next_run(self, pipeline: Pipeline) -> Batch | None:
        """One run, behind which state and positions agree."""
        batch = super().next_run(pipeline)
        self.agree(pipeline)
        return batch

    def is_settled(self, pipeline: Pipeline) -> bool:
        """Whether there is no lag behind the stored positions, and no batch is open."""
        is_open = pipeline.ledger.look(self.subscription.name).open is not None
        return not is_open and self.positions(pipeline) == self.feed.ends()

    def positions(self, pipeline: Pipeline) -> dict[int, int]:
        """What is stored of each partition; nothing is the first offset."""
        partitions = [TopicPartition(self.feed.topic, number) for number in range(len(_RECORDS))]
        stored = pipeline.offsets.committed(partitions)
        return {at.partition: stored[at].offset if at in stored else 0 for at in partitions}

    def agree(self, pipeline: Pipeline) -> None:
        """The state has seen the records before the positions, each once, and they are in the lake or the letters."""
        stood = _ELSEWHERE if self.elsewhere else {}
        text = pipeline.offsets.state()
        state = json.loads(text) if text else {"batches": [], "records": []}
        positions = self.positions(pipeline)
        passed = sorted(row for row in self.feed.rows if row[1] < positions[row[0]])
        assert sorted(map(tuple, state["records"])) == [row[:2] for row in passed]
        assert len({*state["batches"]}) == len(state["batches"])
        assert {row for row in passed if not self.is_dead(row)} <= {*rows_in_lake(pipeline)}
        told = {(letter.partition, letter.origin) for letter in self.dead_letters()}
        assert {row[:2] for row in passed if self.is_dead(row)} <= told
        assert self.feed.committed(self.group) == stood

    def is_dead(self, row: Row) -> bool:
        """Whether the job rejects a record."""
        return self.rejects and row[2].endswith(b"/1")

    def audit_all(self) -> None:
        """Each record is in the lake once or, rejected, in the dead-letter topic at least once; the state saw all."""
        with self.pipeline() as pipeline:
            self.agree(pipeline)
            assert self.positions(pipeline) == self.feed.ends()
            assert rows_in_lake(pipeline) == sorted(row for row in self.feed.rows if not self.is_dead(row))
            assert pipeline.ledger.look(self.subscription.name).open is None
        assert {letter[2:] for letter in self.dead_letters()} == {r[:2] for r in self.feed.rows if self.is_dead(r)}


@dataclass(frozen=True)
class Scenario:
    """What happens at a point of the first run, or of the second, before which the group is moved in Kafka."""

    play: Callable[[Point, CheckpointScene], None]
    point: Point
    second: bool = True
    rejects: bool = False

    def __str__(self) -> str:
        which = "second run" if self.second else "first run"
        return f"{self.play.__name__}, {which}{', dead letters' if self.rejects else ''}, {self.point}"


def killed(point: Point, scene: CheckpointScene) -> None:
    scene.kill(point)
    with scene.pipeline() as pipeline:
        scene.agree(pipeline)
    scene.feed.send(0, 2)
    scene.go_on()


def woken(point: Point, scene: CheckpointScene) -> None:
    sleeper = scene.stop(point)
    scene.feed.send(0, 2)
    scene.go_on()
    ended = sleeper.wake()
    assert ended.error in LATE, ended


SCENARIOS = [
    Scenario(killed, Point("plan", within=_LEDGER, during="fence.commit"), second=False),
    Scenario(killed, Point("commit", after="fence.commit"), second=False),
    Scenario(killed, Point("process", after="processor.run")),
    Scenario(killed, Point("commit", within="manifest put, not renamed", during="lake.publish")),
    Scenario(killed, Point("commit", after="lake.publish")),
    Scenario(killed, Point("commit", within=_POSITION)),
    Scenario(killed, Point("commit", within=_NO_STATE)),
    Scenario(killed, Point("commit", within=_LEDGER, during="fence.commit")),
    Scenario(killed, Point("commit", after="fence.commit")),
    Scenario(killed, Point("commit", within=_LEDGER, during="ledger.move")),
    Scenario(killed, Point("commit", within=_NO_LETTER), rejects=True),
    Scenario(killed, Point("commit", within=_LETTERS), rejects=True),
    Scenario(killed, Point("commit", after="fence.commit"), rejects=True),
    Scenario(woken, Point("commit", before="lake.publish")),
    Scenario(woken, Point("commit", before="fence.commit")),
]

Begin = Callable[[Scenario], CheckpointScene]


@pytest.fixture(scope="module")
def begin(scene: Callable[..., Scene], admin: AdminClient) -> Begin:
    def made(scenario: Scenario) -> CheckpointScene:
        values: dict[str, Any] = {"commit_strategy": "checkpoint", "consumer": {"max_poll_records": _CAP}}
        if scenario.rejects:
            topic = f"dead-{uuid.uuid4().hex[:12]}"
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
            values |= {"failure_strategy": "dead-letter-queue", "dead_letter_queue": DeadLetterQueue(topic)}
        job = SeeingAndRejectingProcessor() if scenario.rejects else SeeingProcessor()
        fed = CheckpointScene.of(scene(partitions=3, members=2, **values), job)
        for partition, count in enumerate(_RECORDS):
            send = fed.feed.send_in_transactions if partition == _IN_TRANSACTIONS else fed.feed.send
            send(partition, count)
        return fed

    return made


def play(scenario: Scenario, scene: CheckpointScene) -> None:
    if scenario.second:
        scene.run_once()
        scene.feed.send(1, 2)
        scene.feed.reset(scene.group, _ELSEWHERE)
        scene.elsewhere = True
    scenario.play(scenario.point, scene)
    scene.audit_all()
    assert scene.leftovers() == []
    scene.end()


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, begin: Begin) -> Iterator[dict[Scenario, Future[None]]]:
    def begun(scenario: Scenario) -> None:
        play(scenario, begin(scenario))

    with playing(request, begun) as futures:
        yield futures


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_positions_and_state_move_together_whatever_dies_and_kafkas_own_are_not_asked(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()
