"""The crash matrix of runs that were only stopped, or whose ledger is lost with them.

A run that sleeps is stopped by SIGSTOP, until others have gone on; see `test_crash_matrix` for those that are killed.
"""

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from by_night import one_in
from crash_cases import CHECKPOINT, PUBLISHED, RETRIED, Case, CaseScene
from crash_plays import (
    Scenario,
    later_run,
    ledger_lost,
    ledger_lost_and_partition_reset,
    second_run,
    second_run_after_a_foreign_move,
    woken,
)
from crash_points import before_each, healthy_run
from crashing import Inside, Point, Striker, after, before, run_watched, within

from tidegate.lake import parquet as lake
from tidegate.ports import Fence, Lake, Ledger, Processor
from tidegate.testing.copying import CopyingProcessor

pytestmark = pytest.mark.broker

SLEEPS = [
    *(Scenario(PUBLISHED, point, woken) for point in before_each(healthy_run())),
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


@pytest.mark.parametrize("scenario", one_in(10, SLEEPS, lambda each: each.case.name), ids=str)
def test_a_run_that_slept_until_the_next_ones_committed_doubles_and_moves_nothing(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize("scenario", one_in(4, LOSSES, lambda each: (each.case.name, each.play)), ids=str)
def test_a_ledger_lost_after_a_kill_loses_and_doubles_nothing(
    scenario: Scenario, under_way: dict[Scenario, Future[None]]
) -> None:
    under_way[scenario].result()


@pytest.mark.parametrize(
    "moment",
    one_in(
        2,
        [
            before("process", Ledger.processed),
            before("commit", Lake.publish),
            within("commit", Inside.MANIFEST_SYNCED),
            after("commit", Lake.publish),
            after("commit", Fence.commit),
            after("commit", Lake.remove_staged),
        ],
    ),
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
