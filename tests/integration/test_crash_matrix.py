"""A run of any strategy that is killed anywhere leaves a state from which plain next runs keep the strategy's promise.

The matrix is strategy by point. Every point is struck in a child process by SIGKILL, so that nothing unwinds; what a
strategy promises stands in `crash_cases`, what happens in `crash_plays`. Of runs that are stopped in place of killed,
and of ledgers that are lost, see `test_crash_sleeps`.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import pytest
from by_night import one_in
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
from crash_plays import KilledAmidAcks, Scenario, second_run, second_run_after_a_foreign_move
from crash_points import Recorder, healthy_run
from crashing import Inside, after, before, run_watched, within

from tidegate.ports import Fence, Lake, Landing, Ledger, OffsetStore, Processor

pytestmark = pytest.mark.broker

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


@pytest.mark.parametrize("scenario", one_in(5, KILLS, lambda each: each.case.name), ids=str)
def test_after_a_kill_plain_next_runs_keep_the_promise_of_the_strategy(
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
