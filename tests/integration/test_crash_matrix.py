"""A run that is killed anywhere leaves a state from which plain next runs end with each record once in the lake.

Every point is struck in a child process by SIGKILL, so that nothing unwinds. The subscription has two members and
three partitions, one of them written in transactions: an aborted one and its marker are the last in its log.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from broker_world import Scene, rows_in_lake
from crashing import Point, Striker, run_steps
from strategy_world import LATE, UNTIL_THE_BROKER_ABORTS, playing
from world import World

from tidegate.lake import parquet as lake
from tidegate.testing.copying import CopyingProcessor
from tidegate.testing.effects import Effect, watched

pytestmark = pytest.mark.broker

_CAP = 12  # of 16 offsets: the batch that is struck isn't the last one
_IN_TRANSACTIONS = 2
_RECORDS = (6, 4, 3)

TABLE = [
    Point("plan", within="members looked for, fence not taken"),
    Point("plan", within="transaction begun, nothing sent"),
    Point("plan", within="offsets sent, not committed"),
    Point("plan", within="ledger written, not committed", during="ledger.open"),
    Point("land", within="row group written, file not closed"),
    Point("land", within="file closed, the next not begun"),
    Point("land", within="file closed, the next not begun", nth=3),
    Point("land", within="files written, not synced"),
    Point("land", within="files written, not synced", nth=2),
    Point("land", within="ledger written, not committed", during="ledger.landed"),
    Point("land", within="ledger written, not committed", during="ledger.landed", nth=2),
    Point("process", before="ledger.start_delivery"),
    Point("process", within="ledger written, not committed", during="ledger.start_delivery"),
    Point("process", within="document written, not renamed", during="landing.put_manifest"),
    Point("process", before="processor.run"),
    Point("process", within="output half written", nth=2),
    Point("process", within="output written, no result"),
    Point("process", within="result half written"),
    Point("process", after="processor.run"),
    Point("process", within="ledger written, not committed", during="ledger.processed"),
    Point("commit", before="fence.open"),
    Point("commit", within="members looked for, fence not taken"),
    Point("commit", before="lake.publish"),
    Point("commit", within="manifest put, not synced", during="lake.publish"),
    Point("commit", within="manifest put, not renamed", during="lake.publish"),
    Point("commit", within="renamed, not synced", during="lake.publish"),
    Point("commit", within="ledger written, not committed", during="ledger.adopt"),
    Point("commit", within="ledger written, not committed", during="ledger.move"),
    Point("commit", within="transaction begun, nothing sent"),
    Point("commit", within="offsets sent, not committed"),
    Point("plan", within="positions asked for a commit without a fence", fence="none"),
    Point("plan", after="fence.commit", fence="none"),
    Point("commit", after="fence.open", fence="none"),
    Point("commit", before="fence.commit", fence="none"),
    Point("commit", within="positions asked for a commit without a fence", fence="none"),
    Point("commit", after="fence.commit", fence="none"),
]
"""Inside of effects, and the effects of a fence that isn't one."""

_READS = frozenset(
    {
        *("ledger.look", "ledger.batch", "ledger.reported", "ledger.deliveries", "ledger.delivery_age", "ledger.now"),
        *(
            "ledger.history",
            "ledger.states",
            "ledger.last_ends",
            "ledger.losses",
            "ledger.closed_files",
            "ledger.tries",
        ),
        *("lake.rejections", "landing.framings"),
        *(
            "offsets.committed",
            "fence.committed",
            "lake.published",
            "lake.has_attempt",
            "lake.results",
            "lake.seal",
            "lake.prepare",
        ),
        *(
            "lake.staged_folders",
            "landing.data_files",
            "landing.verify",
            "writer.files",
            "clock.now",
            "clock.monotonic",
            "clock.wait",
        ),
    }
)
"""Effects that change nothing outside of the process: a kill after one is a kill before it."""


class Recorder:
    """Notes the effects that change something, step by step, each with its number in the step."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._step = ""

    def enter(self, step: str) -> None:
        self._step = step

    def before(self, effect: Effect) -> None:
        """Nothing has happened yet."""

    def after(self, effect: Effect) -> None:
        if str(effect) in _READS or effect.port in ("source", "reader"):
            return
        nth = 1 + sum((p.step, p.after) == (self._step, str(effect)) for p in self.points)
        if str(effect) != "writer.write" or nth == 1:  # there are as many as chunks
            self.points.append(Point(self._step, after=str(effect), nth=nth))


def healthy_run() -> list[Point]:
    """After every effect of a run in which nothing goes wrong, and so before every one but the first."""
    world = World(partitions=3)
    for partition, count in enumerate(_RECORDS):
        world.produce(count, partition)
    recorder = Recorder()
    pipeline = world.pipeline(members=2, consumer={"max_poll_records": _CAP})
    run_steps(watched(pipeline, recorder), recorder.enter)
    return recorder.points


MakeFed = Callable[[], Scene]


@pytest.fixture(scope="module")
def fed(scene: Callable[..., Scene]) -> MakeFed:
    def begin() -> Scene:
        made = scene(partitions=3, members=2, consumer={"max_poll_records": _CAP})
        for partition, count in enumerate(_RECORDS):
            send: Any = made.feed.send_in_transactions if partition == _IN_TRANSACTIONS else made.feed.send
            send(partition, count)
        return made

    return begin


@dataclass(frozen=True)
class Scenario:
    """What happens at a point and must turn out well."""

    play: Callable[[Point, Scene], None]
    point: Point

    def __str__(self) -> str:
        return str(self.point)


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, fed: MakeFed) -> Iterator[dict[Scenario, Future[None]]]:
    def begun(scenario: Scenario) -> None:
        scenario.play(scenario.point, fed())

    with playing(request, begun) as futures:
        yield futures


def killed(point: Point, scene: Scene) -> None:
    scene.kill(point)
    scene.feed.send(0, 2)
    scene.go_on()
    scene.audit()
    assert scene.leftovers() == []


def woken(point: Point, scene: Scene) -> None:
    sleeper = scene.stop(point)
    scene.go_on()
    scene.feed.send(0, 2)
    assert scene.go_on()
    before = scene.feed.committed(scene.group)
    ended = sleeper.wake()
    assert ended.error in LATE, ended
    scene.audit()
    assert scene.feed.committed(scene.group) == before
    scene.feed.send(1, 2)
    scene.go_on()
    scene.audit()
    assert scene.leftovers() == []


def ledger_lost(point: Point, scene: Scene, reset: int | None = None) -> None:
    scene.go_on()
    for partition in range(3):
        scene.feed.send(partition, 3)
    scene.kill(point)
    scene.lose_ledger()
    scene.feed.send(0, 2)
    scene.feed.send(scene.feed.add_partition(), 3)
    again = []
    if reset is not None:
        with scene.pipeline() as pipeline:
            again = [row for row in rows_in_lake(pipeline) if row[0] == 1 and row[1] >= reset]
        scene.feed.reset(scene.group, {1: reset})
    scene.go_on()
    scene.audit(again)


def ledger_lost_and_partition_reset(point: Point, scene: Scene) -> None:
    ledger_lost(point, scene, reset=1)


KILLS = [Scenario(killed, point) for point in dict.fromkeys([*healthy_run(), *TABLE])]
SLEEPS = [
    Scenario(woken, point)
    for point in [
        *(Point(p.step, before=p.after, nth=p.nth) for p in healthy_run()),
        Point("land", within="row group written, file not closed"),
        Point("commit", within="manifest put, not renamed", during="lake.publish"),
        Point("commit", within="members looked for, fence not taken"),
        Point("commit", within="transaction begun, nothing sent"),
        Point("commit", within="offsets sent, not committed"),
    ]
]


LOSSES = [
    Scenario(play, point)
    for play in (ledger_lost, ledger_lost_and_partition_reset)
    for point in [
        Point("land", after="ledger.landed"),
        Point("commit", before="lake.publish"),
        Point("commit", after="lake.publish"),
        Point("commit", before="fence.commit"),
        Point("commit", within=UNTIL_THE_BROKER_ABORTS),
        Point("commit", after="fence.commit"),
    ]
]


@pytest.mark.parametrize("scenario", KILLS, ids=str)
def test_after_a_kill_plain_next_runs_deliver_each_record_once(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("scenario", SLEEPS, ids=str)
def test_a_run_that_slept_until_the_next_ones_committed_doubles_and_moves_nothing(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("scenario", LOSSES, ids=lambda scenario: f"{scenario.play.__name__}, {scenario}")
def test_a_ledger_lost_after_a_kill_loses_and_doubles_nothing(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


def test_the_generated_points_are_those_of_a_run_on_the_broker(fed: MakeFed) -> None:
    recorder = Recorder()
    with fed().pipeline() as pipeline:
        run_steps(watched(pipeline, recorder), recorder.enter)
    assert set(recorder.points) == set(healthy_run())


def test_without_a_fence_nothing_else_differs(fed: MakeFed) -> None:
    """So that the points with a fence need not all be struck again without one."""
    recorder = Recorder()
    scene = fed()
    unfenced = replace(scene, subscription=replace(scene.subscription, commit_fence="none"))
    with unfenced.pipeline() as pipeline:
        run_steps(watched(pipeline, recorder), recorder.enter)
    assert set(recorder.points) == set(healthy_run())


@pytest.mark.parametrize(
    "moment",
    [
        Point("process", before="ledger.processed"),
        Point("commit", before="lake.publish"),
        Point("commit", within="rename"),
        Point("commit", after="lake.publish"),
        Point("commit", after="fence.commit"),
        Point("commit", after="lake.remove_staged"),
    ],
    ids=str,
)
def test_a_spark_driver_that_outlives_its_task_and_finishes_late_publishes_nothing(
    moment: Point, fed: MakeFed, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = fed()
    scene.kill(Point("process", before="processor.run"))
    (orphans,) = scene.manifests()
    driver = Striker(moment, lambda: CopyingProcessor().run(f"file://{orphans}", 60, lambda _: None, lambda: None))
    rename = lake.rename_folder
    monkeypatch.setattr(lake, "rename_folder", lambda *a: (driver.strike() if moment.within else None, rename(*a)))
    with scene.pipeline() as pipeline:
        run_steps(watched(pipeline, driver), driver.enter)
        batch = pipeline.ledger.history(scene.subscription.name, 1)[0].batch
    assert driver.has_struck
    published = Path(batch.output.removeprefix("file://"), f"batch_id={batch.id}", "_manifest.json")
    assert json.loads(published.read_text())["delivery"]["number"] == 2
    scene.go_on()
    scene.audit()
    assert scene.leftovers() == []
