"""A run of an acknowledging job that is killed passes nothing that wasn't acknowledged and repeats nothing committed.

As in `test_crash_matrix`, every point is struck in a child process by SIGKILL: around the commits of parts while the
job runs, between the delivery's settlement and the commit of the batch, and behind that.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pytest
from acknowledging import AcknowledgingProcessor, Acks
from broker_world import Scene, committed, in_lake
from crashing import Point
from strategy_world import UNTIL_THE_BROKER_ABORTS, StrategyScene, playing

pytestmark = pytest.mark.broker

_LANDED = (6, 2)


class LateProcessor(AcknowledgingProcessor):
    """A job of which nothing is seen after its second step until it has ended."""

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Watched twice."""
        looks = iter((watch, watch))

        def look() -> None:
            if (once := next(looks, None)) is not None:
                once()

        super().run(manifest_uri, timeout, said, look)


@dataclass(frozen=True)
class Case:
    """What a job acknowledges step by step, and how far the strategy lets its batch go by that."""

    strategy: str
    steps: tuple[Acks, ...]
    reached: tuple[int, int]


THROTTLED = Case("throttled", ({0: [0, 1]}, {0: [3]}, {0: [2, 4], 1: [0]}, {0: [5]}), (6, 1))
LATEST = Case("latest", ({0: [0, 1]}, {0: [0]}, {0: [3]}, {0: [2], 1: [1]}), (4, 2))


@dataclass(frozen=True)
class Scenario:
    """A run that is killed at a point, where the group stands then, and where the next run takes it to.

    That is as far as was `acknowledged` by then, or where it stands. It `is_processed` if the delivery counts as such,
    and is `late` if the last two steps are seen at the end only.
    """

    case: Case
    point: Point
    stood: tuple[int, int]
    acknowledged: tuple[int, int] | None = None
    is_processed: bool = False
    late: bool = False

    def __str__(self) -> str:
        return f"{self.case.strategy}, {'nothing more seen, ' if self.late else ''}{self.point}"

    def __hash__(self) -> int:
        return hash(str(self))


UNFENCED = "positions asked for a commit without a fence"

SCENARIOS = [
    Scenario(THROTTLED, Point("process", before="fence.commit"), (0, 0), (2, 0)),
    Scenario(THROTTLED, Point("process", within=UNTIL_THE_BROKER_ABORTS, nth=2), (2, 0), (5, 1)),
    Scenario(THROTTLED, Point("process", after="fence.commit", nth=2), (5, 1)),
    Scenario(THROTTLED, Point("process", within="result half written"), (6, 1)),
    Scenario(THROTTLED, Point("process", within=UNFENCED, nth=2, fence="none"), (2, 0), (5, 1)),
    Scenario(THROTTLED, Point("process", after="processor.run"), (2, 0), (6, 1), late=True),
    Scenario(THROTTLED, Point("process", after="ledger.processed"), (2, 0), is_processed=True, late=True),
    Scenario(THROTTLED, Point("commit", after="lake.publish"), (2, 0), is_processed=True, late=True),
    Scenario(THROTTLED, Point("commit", within=UNTIL_THE_BROKER_ABORTS), (2, 0), is_processed=True, late=True),
    Scenario(THROTTLED, Point("commit", after="fence.commit"), (6, 1), is_processed=True, late=True),
    Scenario(LATEST, Point("process", after="fence.commit", nth=2), (4, 0)),
    Scenario(LATEST, Point("commit", before="fence.commit"), (2, 0), is_processed=True, late=True),
    Scenario(LATEST, Point("commit", after="fence.commit"), (4, 2), is_processed=True, late=True),
]

Begin = Callable[[Scenario], StrategyScene]


@pytest.fixture(scope="module")
def begin(scene: Callable[..., Scene]) -> Begin:
    def made(scenario: Scenario) -> StrategyScene:
        plain = scene(partitions=2, commit_strategy=scenario.case.strategy, auto_commit_interval_ms=0)
        job = (LateProcessor if scenario.late else AcknowledgingProcessor)(*scenario.case.steps)
        fed = StrategyScene.of(plain, job)
        for partition, count in enumerate(_LANDED):
            fed.feed.send(partition, count)
        return fed

    return made


def play(scenario: Scenario, scene: StrategyScene) -> None:
    scene.kill(scenario.point)
    stands = committed(scene.broker, scene.group, *((scene.feed.topic, at) for at in range(2)))
    assert tuple(stands) == scenario.stood
    scene.feed.send(0, 2)
    job = AcknowledgingProcessor()
    following = replace(scene, job=job)
    following.go_on()
    begins = scenario.case.reached if scenario.is_processed else scenario.acknowledged or scenario.stood
    ends = scene.feed.ends()
    assert _begun(job) == {at: offset for at, offset in enumerate(begins) if offset < ends[at]}
    with following.pipeline() as pipeline:
        assert Counter(in_lake(pipeline)) == _expected(scenario, begins, [row[:2] for row in scene.feed.rows])
    assert scene.leftovers() == []
    scene.end()


def _begun(job: AcknowledgingProcessor) -> dict[int, int]:
    """Where the first range begins that was handed of each partition, empty ones left out."""
    first: dict[int, int] = {}
    for handed in job.handed:
        first = {at: start for at, (start, end) in handed.items() if start < end} | first
    return first


def _expected(scenario: Scenario, begins: tuple[int, int], sent: list[tuple[int, int]]) -> Counter[tuple[int, int]]:
    """What is in the lake, and how often.

    A processed delivery wrote all that landed, and what it didn't acknowledge comes again; of one that wasn't, what it
    had acknowledged by then was the job's own to keep.
    """
    if not scenario.is_processed:
        return Counter(row for row in sent if row[1] >= begins[row[0]])
    landed = [(at, offset) for at, count in enumerate(_LANDED) for offset in range(count)]
    return Counter(landed) + Counter(row for row in sent if row[1] >= begins[row[0]])


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, begin: Begin) -> Iterator[dict[Scenario, Future[None]]]:
    def begun(scenario: Scenario) -> None:
        play(scenario, begin(scenario))

    with playing(request, begun) as futures:
        yield futures


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_nothing_unacknowledged_is_passed_and_nothing_committed_is_delivered_again(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()
