"""What happens to a run of the crash matrix at a point, and what must be true after it; several are played at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from acknowledging import AcknowledgingProcessor
from broker_world import committed, rows_in_lake
from crash_cases import Case, CaseScene
from crashing import Inside, Point

LATE = {None, "StaleError", "OvertakenError", "TransitionError", "UnavailableError", "BrokerUnavailableError"}
"""How a run ends that others overtook: all was done, it was refused, its files were swept away, it waited too long."""

_AT_A_TIME = 5  # runs on a broker mostly wait


def killed(point: Point, scene: CaseScene) -> None:
    """Plain next runs end with what the case promises, and nothing that nobody needs is left."""
    scene.kill(point)
    scene.agree()
    scene.feed.send(0, 2)
    scene.go_on()
    scene.audit()
    assert scene.leftovers() == []


@dataclass(frozen=True)
class KilledAmidAcks:
    """Nothing unacknowledged is passed, and nothing committed is delivered again.

    The group stands at `committed` then, by partition, and the next run `begins` where as much was acknowledged. A
    delivery that `is_processed` wrote all that landed, and what it didn't acknowledge comes again; of one that isn't,
    what it had acknowledged by then was the job's own to keep.
    """

    committed: tuple[int, int]
    begins: tuple[int, int]
    is_processed: bool = False

    def __call__(self, point: Point, scene: CaseScene) -> None:
        """Kill it, and let runs of a job go on that acknowledges everything."""
        scene.kill(point)
        assert (*committed(scene.broker, scene.group, *((scene.feed.topic, at) for at in range(2))),) == self.committed
        landed = [*scene.feed.rows]
        scene.feed.send(0, 2)
        job = AcknowledgingProcessor()
        following = replace(scene, job=job)
        following.go_on()
        ends = scene.feed.ends()
        assert _begun(job) == {at: offset for at, offset in enumerate(self.begins) if offset < ends[at]}
        if self.is_processed:
            following.audit(again=[row for row in landed if row[1] >= self.begins[row[0]]])
        else:
            following.audit(kept=[row for row in landed if row[1] < self.begins[row[0]]])
        assert following.leftovers() == []


def _begun(job: AcknowledgingProcessor) -> dict[int, int]:
    """Where the first range begins that was handed of each partition, empty ones left out."""
    first: dict[int, int] = {}
    for handed in job.handed:
        first = {at: start for at, (start, end) in handed.items() if start < end} | first
    return first


def woken(point: Point, scene: CaseScene) -> None:
    """A run that slept until the next ones committed doubles nothing, moves nothing, and is in nobody's way."""
    sleeper = scene.stop(point)
    scene.go_on()
    scene.feed.send(0, 2)
    assert scene.go_on()
    stood = scene.positions()
    ended = sleeper.wake()
    assert ended.error in LATE, ended
    scene.audit()
    assert scene.positions() == stood
    scene.feed.send(1, 2)
    scene.go_on()
    scene.audit()
    assert scene.leftovers() == []


def ledger_lost(point: Point, scene: CaseScene) -> None:
    """Without the ledger, too, each record comes once."""
    _kill_and_lose_ledger(point, scene)
    scene.go_on()
    scene.audit()


def ledger_lost_and_partition_reset(point: Point, scene: CaseScene) -> None:
    """What somebody asks for once more comes once more, and nothing else does."""
    _kill_and_lose_ledger(point, scene)
    with scene.pipeline() as pipeline:
        again = [row for row in rows_in_lake(pipeline) if row[0] == 1 and row[1] >= 1]
    scene.feed.reset(scene.group, {1: 1})
    scene.go_on()
    scene.audit(again)


def _kill_and_lose_ledger(point: Point, scene: CaseScene) -> None:
    scene.kill(point)
    scene.lose_ledger()
    scene.feed.send(0, 2)
    scene.feed.send(scene.feed.add_partition(), 3)


def first_run(_: CaseScene) -> None:
    """Nothing comes before the run that is struck."""


def second_run(scene: CaseScene) -> None:
    """A run comes before it, and new records."""
    scene.run_once()
    scene.feed.send(1, 2)


def second_run_after_a_foreign_move(scene: CaseScene) -> None:
    """A run comes before it, new records, and somebody who moves the group in Kafka."""
    second_run(scene)
    scene.moved = {0: 1, 1: 0, 2: 2}
    scene.feed.reset(scene.group, scene.moved)


def later_run(scene: CaseScene) -> None:
    """Everything was committed before it, and there are new records."""
    scene.go_on()
    for partition in range(len(scene.case.records)):
        scene.feed.send(partition, 3)


@dataclass(frozen=True)
class Scenario:
    """A run of a case, after what went `before`, and what happens to it at a point."""

    case: Case
    point: Point
    play: Callable[[Point, CaseScene], None] = killed
    before: Callable[[CaseScene], None] = first_run

    def __str__(self) -> str:
        """As a test's name: `checkpoint, second run, commit: after lake.publish`."""
        how = [self.play.__name__] if self.play is ledger_lost_and_partition_reset else []
        when = [] if self.before is first_run else [self.before.__name__]
        return ", ".join([self.case.name, *(name.replace("_", " ") for name in (*how, *when)), str(self.point)])


@contextmanager
def playing(
    request: pytest.FixtureRequest, begin: Callable[[Case], CaseScene]
) -> Iterator[dict[Scenario, Future[None]]]:
    """The chosen scenarios of a module, played a few at a time, those that wait for the broker first."""

    def play(scenario: Scenario) -> None:
        scene = begin(scenario.case)
        scenario.before(scene)
        scenario.play(scenario.point, scene)
        scene.end()

    here = [i for i in request.session.items if isinstance(i, pytest.Function) and i.module is request.module]
    scenarios = [i.callspec.params["scenario"] for i in here if "scenario" in i.fixturenames]
    scenarios.sort(key=lambda scenario: scenario.point.within is not Inside.OFFSETS_SENT)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        yield {scenario: pool.submit(play, scenario) for scenario in scenarios}
        pool.shutdown(cancel_futures=True)
