"""A run of any strategy that is struck anywhere leaves a state from which plain next runs keep the strategy's promise.

The matrix is strategy by point. Every point is struck in a child process by SIGKILL, or by SIGSTOP until others have
gone on, so that nothing unwinds; what a strategy promises stands in `crash_cases`, what happens in `crash_plays`.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from broker_world import Scene
from confluent_kafka.admin import AdminClient
from crash_cases import (
    CHECKPOINT,
    CHECKPOINT_AND_DEAD_LETTERS,
    DEAD_BATCHES,
    DEAD_LETTERS,
    LATEST,
    LATEST_LATE,
    ON_NEXT_POLL,
    ON_RECEIPT,
    PUBLISHED,
    RETRIED,
    RETRIED_BATCHES,
    THROTTLED,
    THROTTLED_LATE,
    Case,
    CaseScene,
)
from crash_plays import (
    KilledAmidAcks,
    Scenario,
    later_run,
    ledger_lost,
    ledger_lost_and_partition_reset,
    playing,
    second_run,
    second_run_after_a_foreign_move,
    woken,
)
from crashing import Inside, Point, Striker, after, before, run_watched, within
from world import World

from tidegate.lake import parquet as lake
from tidegate.ports import (
    Clock,
    Fence,
    Lake,
    Landing,
    LandingWriter,
    Ledger,
    OffsetStore,
    Processor,
)
from tidegate.testing.copying import CopyingProcessor
from tidegate.testing.effects import Effect

pytestmark = pytest.mark.broker

_READS = frozenset(
    map(
        Effect.of,
        [
            *(Ledger.look, Ledger.batch, Ledger.reported, Ledger.deliveries, Ledger.delivery_age, Ledger.now),
            *(Ledger.history, Ledger.outcomes, Ledger.last_ends, Ledger.losses, Ledger.closed_files, Ledger.tries),
            *(Lake.published, Lake.has_attempt, Lake.results, Lake.seal, Lake.prepare, Lake.rejections),
            *(Lake.staged_folders, Landing.framings, Landing.data_files, Landing.verify, LandingWriter.files),
            *(OffsetStore.committed, Fence.committed, Clock.now, Clock.monotonic, Clock.wait),
        ],
    )
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
        if effect in _READS or effect.port in ("source", "reader"):
            return
        nth = 1 + sum((p.step, p.after) == (self._step, effect) for p in self.points)
        if effect != Effect.of(LandingWriter.write) or nth == 1:  # there are as many as chunks
            self.points.append(Point(self._step, after=effect, nth=nth))


def healthy_run() -> list[Point]:
    """After every effect of a run in which nothing goes wrong, and so before every one but the first."""
    world = World(partitions=len(PUBLISHED.records))
    for partition, count in enumerate(PUBLISHED.records):
        world.produce(count, partition)
    recorder = Recorder()
    run_watched(world.pipeline(**PUBLISHED.definition), recorder)
    return recorder.points


def _before_each(points: list[Point]) -> Iterator[Point]:
    for point in points:
        yield Point(point.step, before=point.after, nth=point.nth)


_INSIDE_AND_UNFENCED = [
    within("plan", Inside.MEMBERS_LOOKED_FOR),
    within("plan", Inside.TRANSACTION_BEGUN),
    within("plan", Inside.OFFSETS_SENT),
    within("plan", Inside.LEDGER_WRITTEN, during=Ledger.open),
    within("land", Inside.ROW_GROUP_WRITTEN),
    within("land", Inside.FILE_CLOSED),
    within("land", Inside.FILE_CLOSED, nth=3),
    within("land", Inside.FILES_WRITTEN),
    within("land", Inside.FILES_WRITTEN, nth=2),
    within("land", Inside.LEDGER_WRITTEN, during=Ledger.landed),
    within("land", Inside.LEDGER_WRITTEN, during=Ledger.landed, nth=2),
    before("process", Ledger.start_delivery),
    within("process", Inside.LEDGER_WRITTEN, during=Ledger.start_delivery),
    within("process", Inside.DOCUMENT_WRITTEN, during=Landing.put_manifest),
    before("process", Processor.run),
    within("process", Inside.OUTPUT_HALF_WRITTEN, nth=2),
    within("process", Inside.OUTPUT_WRITTEN),
    within("process", Inside.RESULT_HALF_WRITTEN),
    within("process", Inside.LEDGER_WRITTEN, during=Ledger.processed),
    before("commit", OffsetStore.fence),
    within("commit", Inside.MEMBERS_LOOKED_FOR),
    before("commit", Lake.publish),
    within("commit", Inside.MANIFEST_PUT, during=Lake.publish),
    within("commit", Inside.MANIFEST_SYNCED, during=Lake.publish),
    within("commit", Inside.RENAMED, during=Lake.publish),
    within("commit", Inside.LEDGER_WRITTEN, during=Ledger.adopt),
    within("commit", Inside.LEDGER_WRITTEN, during=Ledger.close),
    within("commit", Inside.TRANSACTION_BEGUN),
    within("commit", Inside.OFFSETS_SENT),
    within("plan", Inside.UNFENCED_COMMIT, fence="none"),
    after("plan", Fence.commit, fence="none"),
    after("commit", OffsetStore.fence, fence="none"),
    before("commit", Fence.commit, fence="none"),
    within("commit", Inside.UNFENCED_COMMIT, fence="none"),
    after("commit", Fence.commit, fence="none"),
]
"""Inside of effects, and the effects of a fence that isn't one."""

KILLS = [
    *(Scenario(PUBLISHED, point) for point in [*healthy_run(), *_INSIDE_AND_UNFENCED]),
    Scenario(ON_RECEIPT, before("commit", Fence.commit)),
    Scenario(ON_RECEIPT, within("commit", Inside.OFFSETS_SENT)),
    Scenario(ON_RECEIPT, after("commit", Fence.commit)),
    Scenario(ON_RECEIPT, after("commit", Ledger.received)),
    Scenario(ON_RECEIPT, before("process", Processor.run)),
    Scenario(ON_RECEIPT, after("process", Ledger.processed)),
    Scenario(ON_RECEIPT, after("publish", Lake.publish)),
    Scenario(ON_RECEIPT, after("publish", Ledger.close)),
    Scenario(ON_NEXT_POLL, before("publish", Lake.publish)),
    Scenario(ON_NEXT_POLL, after("publish", Lake.publish)),
    Scenario(ON_NEXT_POLL, after("publish", Ledger.adopt)),
    Scenario(ON_NEXT_POLL, before("plan", Fence.commit), before=second_run),
    Scenario(ON_NEXT_POLL, within("plan", Inside.OFFSETS_SENT), before=second_run),
    Scenario(ON_NEXT_POLL, after("plan", Fence.commit), before=second_run),
    Scenario(ON_NEXT_POLL, after("plan", Ledger.close), before=second_run),
    Scenario(DEAD_LETTERS, after("commit", Lake.publish)),
    Scenario(DEAD_LETTERS, after("commit", Ledger.adopt)),
    Scenario(DEAD_LETTERS, within("commit", Inside.TRANSACTION_BEGUN)),
    Scenario(DEAD_LETTERS, within("commit", Inside.OFFSETS_SENT)),
    Scenario(DEAD_LETTERS, after("commit", Fence.commit)),
    Scenario(DEAD_LETTERS, after("commit", Ledger.close)),
    Scenario(DEAD_BATCHES, after("commit", Ledger.resolve)),
    Scenario(DEAD_BATCHES, after("commit", Lake.set_aside)),
    Scenario(DEAD_BATCHES, within("commit", Inside.OFFSETS_SENT)),
    Scenario(DEAD_BATCHES, after("commit", Fence.commit)),
    Scenario(DEAD_BATCHES, after("commit", Ledger.close)),
    Scenario(RETRIED, after("commit", Lake.publish)),
    Scenario(RETRIED, within("commit", Inside.TRANSACTION_BEGUN)),
    Scenario(RETRIED, within("commit", Inside.OFFSETS_SENT)),
    Scenario(RETRIED, after("commit", Fence.commit)),
    Scenario(RETRIED, within("commit", Inside.TRANSACTION_BEGUN), before=second_run),
    Scenario(RETRIED, within("commit", Inside.OFFSETS_SENT), before=second_run),
    Scenario(RETRIED, after("commit", Fence.commit), before=second_run),
    Scenario(RETRIED_BATCHES, after("commit", Ledger.resolve)),
    Scenario(RETRIED_BATCHES, within("commit", Inside.TRANSACTION_BEGUN)),
    Scenario(RETRIED_BATCHES, within("commit", Inside.OFFSETS_SENT)),
    Scenario(RETRIED_BATCHES, within("commit", Inside.OFFSETS_SENT), before=second_run),
    Scenario(CHECKPOINT, within("plan", Inside.LEDGER_WRITTEN, during=Fence.commit)),
    Scenario(CHECKPOINT, after("commit", Fence.commit)),
    *(
        Scenario(case, point, before=second_run_after_a_foreign_move)
        for case, point in [
            (CHECKPOINT, after("process", Processor.run)),
            (CHECKPOINT, within("commit", Inside.MANIFEST_SYNCED, during=Lake.publish)),
            (CHECKPOINT, after("commit", Lake.publish)),
            (CHECKPOINT, within("commit", Inside.POSITION_WRITTEN)),
            (CHECKPOINT, within("commit", Inside.POSITIONS_WRITTEN)),
            (CHECKPOINT, within("commit", Inside.LEDGER_WRITTEN, during=Fence.commit)),
            (CHECKPOINT, after("commit", Fence.commit)),
            (CHECKPOINT, within("commit", Inside.LEDGER_WRITTEN, during=Ledger.close)),
            (CHECKPOINT_AND_DEAD_LETTERS, within("commit", Inside.NO_LETTER_PRODUCED)),
            (CHECKPOINT_AND_DEAD_LETTERS, within("commit", Inside.LETTERS_PRODUCED)),
            (CHECKPOINT_AND_DEAD_LETTERS, after("commit", Fence.commit)),
        ]
    ),
    *(
        Scenario(THROTTLED, point, play)
        for point, play in [
            (before("process", Fence.commit), KilledAmidAcks((0, 0), begins=(2, 0))),
            (within("process", Inside.OFFSETS_SENT, nth=2), KilledAmidAcks((2, 0), begins=(5, 1))),
            (after("process", Fence.commit, nth=2), KilledAmidAcks((5, 1), begins=(5, 1))),
            (within("process", Inside.RESULT_HALF_WRITTEN), KilledAmidAcks((6, 1), begins=(6, 1))),
            (within("process", Inside.UNFENCED_COMMIT, nth=2, fence="none"), KilledAmidAcks((2, 0), begins=(5, 1))),
        ]
    ),
    *(
        Scenario(THROTTLED_LATE, point, play)
        for point, play in [
            (after("process", Processor.run), KilledAmidAcks((2, 0), begins=(6, 1))),
            (after("process", Ledger.processed), KilledAmidAcks((2, 0), begins=(6, 1), is_processed=True)),
            (after("commit", Lake.publish), KilledAmidAcks((2, 0), begins=(6, 1), is_processed=True)),
            (within("commit", Inside.OFFSETS_SENT), KilledAmidAcks((2, 0), begins=(6, 1), is_processed=True)),
            (after("commit", Fence.commit), KilledAmidAcks((6, 1), begins=(6, 1), is_processed=True)),
        ]
    ),
    Scenario(LATEST, after("process", Fence.commit, nth=2), KilledAmidAcks((4, 0), begins=(4, 0))),
    Scenario(LATEST_LATE, before("commit", Fence.commit), KilledAmidAcks((2, 0), begins=(4, 2), is_processed=True)),
    Scenario(LATEST_LATE, after("commit", Fence.commit), KilledAmidAcks((4, 2), begins=(4, 2), is_processed=True)),
]

SLEEPS = [
    *(Scenario(PUBLISHED, point, woken) for point in _before_each(healthy_run())),
    Scenario(PUBLISHED, within("land", Inside.ROW_GROUP_WRITTEN), woken),
    Scenario(PUBLISHED, within("commit", Inside.MANIFEST_SYNCED, during=Lake.publish), woken),
    Scenario(PUBLISHED, within("commit", Inside.MEMBERS_LOOKED_FOR), woken),
    Scenario(PUBLISHED, within("commit", Inside.TRANSACTION_BEGUN), woken),
    Scenario(PUBLISHED, within("commit", Inside.OFFSETS_SENT), woken),
    Scenario(RETRIED, before("commit", Lake.publish), woken),
    Scenario(RETRIED, within("commit", Inside.TRANSACTION_BEGUN), woken),
    Scenario(CHECKPOINT, before("commit", Lake.publish), woken, second_run_after_a_foreign_move),
    Scenario(CHECKPOINT, before("commit", Fence.commit), woken, second_run_after_a_foreign_move),
]

LOSSES = [
    *(
        Scenario(PUBLISHED, point, play, later_run)
        for play in (ledger_lost, ledger_lost_and_partition_reset)
        for point in [
            after("land", Ledger.landed),
            before("commit", Lake.publish),
            after("commit", Lake.publish),
            before("commit", Fence.commit),
            within("commit", Inside.OFFSETS_SENT),
            after("commit", Fence.commit),
        ]
    ),
    Scenario(RETRIED, after("commit", Fence.commit), ledger_lost),
    Scenario(RETRIED, after("commit", Lake.publish), ledger_lost, second_run),
]


@pytest.fixture(scope="module")
def begin(scene: Callable[..., Scene], admin: AdminClient) -> Callable[[Case], CaseScene]:
    return lambda case: case.begin(scene, admin)


@pytest.fixture(scope="module")
def under_way(
    request: pytest.FixtureRequest, begin: Callable[[Case], CaseScene]
) -> Iterator[dict[Scenario, Future[None]]]:
    with playing(request, begin) as futures:
        yield futures


@pytest.mark.parametrize("scenario", KILLS, ids=str)
def test_after_a_kill_plain_next_runs_keep_the_promise_of_the_strategy(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("scenario", SLEEPS, ids=str)
def test_a_run_that_slept_until_the_next_ones_committed_doubles_and_moves_nothing(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("scenario", LOSSES, ids=str)
def test_a_ledger_lost_after_a_kill_loses_and_doubles_nothing(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("fence", ["transactional", "none"])
def test_the_generated_points_are_those_of_a_run_on_the_broker(fence: str, begin: Callable[[Case], CaseScene]) -> None:
    """Without a fence, too, so that the points with a fence need not all be struck again without one."""
    scene = begin(PUBLISHED)
    recorder = Recorder()
    with replace(scene, subscription=replace(scene.subscription, commit_fence=fence)).pipeline() as pipeline:
        run_watched(pipeline, recorder)
    assert set(recorder.points) == set(healthy_run())


@pytest.mark.parametrize(
    "moment",
    [
        before("process", Ledger.processed),
        before("commit", Lake.publish),
        within("commit", Inside.MANIFEST_SYNCED),
        after("commit", Lake.publish),
        after("commit", Fence.commit),
        after("commit", Lake.remove_staged),
    ],
    ids=str,
)
def test_a_spark_driver_that_outlives_its_task_and_finishes_late_publishes_nothing(
    moment: Point, begin: Callable[[Case], CaseScene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = begin(PUBLISHED)
    scene.kill(before("process", Processor.run))
    (orphans,) = scene.manifests()
    driver = Striker(moment, lambda: CopyingProcessor().run(f"file://{orphans}", 60, lambda _: None, lambda: None))
    if moment.within is not None:
        monkeypatch.setattr(lake, "rename_folder", lake.rename_folder)  # to be put back
        moment.within.patch(driver.strike_within)
    with scene.pipeline() as pipeline:
        run_watched(pipeline, driver)
        batch = pipeline.ledger.history(scene.subscription.name, 1)[0].batch
    assert driver.has_struck
    published = Path(batch.output.removeprefix("file://"), f"batch_id={batch.id}", "_manifest.json")
    assert json.loads(published.read_text())["delivery"]["number"] == 2
    scene.go_on()
    scene.audit()
    assert scene.leftovers() == []


def test_between_two_runs_the_group_stands_before_the_one_open_batch(begin: Callable[[Case], CaseScene]) -> None:
    scene = begin(ON_NEXT_POLL)
    with scene.pipeline() as pipeline:
        first = scene.next_run(pipeline)
        assert first is not None
        assert scene.feed.committed(scene.group) == {r.partition: r.start for r in first.ranges}
        second = scene.next_run(pipeline)
        assert second is not None
        assert scene.feed.committed(scene.group) == {r.partition: r.end for r in first.ranges}
    scene.go_on()
    scene.audit()
