"""Batches into tables by the real steps and ledger: runs are killed, or put to sleep, around the commit of the log.

Meanwhile somebody maintains the table, takes it back, drops it or appends to it, or gives the batch up. The log's own
commits are struck in `tests/contracts/test_delta_crashes.py` and `test_iceberg_log.py`.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from by_night import one_in
from crash_jobs import FailingProcessor
from crash_plays import LATE
from crashing import Inside, Point, after, before, within
from table_hands import hands_on
from table_world import TableScene

from chaos.outputs import THEIRS
from chaos.table_rows import TableRowsProcessor
from tidegate.model.errors import BatchFailedError, CorruptFileError, LostDataError
from tidegate.ports import Lake
from tidegate.steps.reset_group import By, ResetRequest, reset_group

NOT_COMMITTED = within("commit", Inside.LOG_NOT_COMMITTED, during=Lake.publish)
COMMITTED = within("commit", Inside.LOG_COMMITTED, during=Lake.publish)
FRESH = before("commit", Lake.publish)
"""Whoever wakes there looks at the table as it is by then; at NOT_COMMITTED it has looked already."""


EACH = pytest.mark.parametrize("scene", ["delta", "iceberg"], indirect=True)
ICEBERG_BY_NIGHT = pytest.mark.parametrize(
    "scene", ["delta", pytest.param("iceberg", marks=pytest.mark.nightly)], indirect=True
)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path) -> Iterator[TableScene]:
    made = TableScene(tmp_path, request.param, sqlite_template)
    yield made
    made.end()


def one_batch(scene: TableScene) -> None:
    """One that goes well comes before; there are more records."""
    scene.run()
    scene.send(1, 2)


@EACH
@pytest.mark.parametrize("point", [NOT_COMMITTED, COMMITTED, after("commit", Lake.publish)], ids=str)
def test_after_a_kill_each_record_comes_once(scene: TableScene, point: Point) -> None:
    one_batch(scene)
    scene.kill(point)
    scene.send(0, 2)
    scene.go_on()
    scene.audit()


@EACH
@pytest.mark.parametrize("point", one_in(2, [NOT_COMMITTED, COMMITTED]), ids=str)
def test_maintenance_between_publish_and_adoption_takes_nothing_away(scene: TableScene, point: Point) -> None:
    one_batch(scene)
    scene.kill(point)
    hands_on(scene).maintain()
    scene.send(0, 2)
    scene.go_on(CorruptFileError)
    hands_on(scene).maintain()
    scene.audit()


@ICEBERG_BY_NIGHT
@pytest.mark.parametrize("point", [NOT_COMMITTED, COMMITTED], ids=str)
def test_without_the_ledger_too_each_record_comes_once(scene: TableScene, point: Point) -> None:
    one_batch(scene)
    scene.kill(point)
    scene.lose_ledger()
    scene.send(0, 2)
    scene.go_on()
    assert scene.delivered() == scene.every()


@EACH
def test_a_table_that_was_taken_back_before_the_adoption_stops_the_next_run_by_name(scene: TableScene) -> None:
    one_batch(scene)
    scene.kill(COMMITTED)
    hands_on(scene).take_back()
    for _ in range(2):
        with pytest.raises(LostDataError, match="was taken back to before batch b"):
            scene.run()
    hands_on(scene).take_forward()
    scene.go_on()
    scene.audit()


@EACH
def test_a_table_that_was_taken_back_after_a_committed_batch_stops_the_next_one_by_name(scene: TableScene) -> None:
    scene.go_on()
    hands_on(scene).take_back()
    scene.send(0, 1)
    with pytest.raises(LostDataError, match=r"knows nothing of batch b\w+, .* taken back to before that"):
        scene.run()
    hands_on(scene).take_forward()
    scene.go_on()
    scene.audit()


@ICEBERG_BY_NIGHT
def test_a_table_that_was_dropped_before_the_adoption_stops_the_next_run_by_name(scene: TableScene) -> None:
    one_batch(scene)
    scene.kill(COMMITTED)
    hands_on(scene).drop()
    with pytest.raises(LostDataError, match=r"knows nothing of batch b\w+, which was published into it"):
        scene.go_on(BatchFailedError)  # first it is found that what was staged is gone
    assert scene.delivered() == []


@ICEBERG_BY_NIGHT
def test_a_table_that_was_dropped_with_its_first_batch_gets_it_again(scene: TableScene) -> None:
    scene.kill(COMMITTED)
    hands_on(scene).drop()
    scene.go_on(BatchFailedError)
    scene.audit()


@ICEBERG_BY_NIGHT
@pytest.mark.parametrize("point", [FRESH, NOT_COMMITTED], ids=str)
def test_whoever_slept_until_newer_batches_and_maintenance_publishes_nothing(scene: TableScene, point: Point) -> None:
    one_batch(scene)
    sleeper = scene.stop(point)
    scene.go_on()
    scene.send(0, 2)
    scene.go_on()
    hands_on(scene).maintain()
    assert sleeper.wake().error in LATE
    scene.audit()


@ICEBERG_BY_NIGHT
@pytest.mark.parametrize(("point", "is_first"), [(FRESH, True), (NOT_COMMITTED, True), (NOT_COMMITTED, False)], ids=str)
def test_whoever_slept_while_its_batch_was_given_up_publishes_nothing(
    scene: TableScene, point: Point, is_first: bool
) -> None:
    if not is_first:
        one_batch(scene)
    sleeper = scene.stop(point)
    with scene.pipeline() as pipeline:
        assert reset_group(pipeline, ResetRequest(By(0), "somebody", abandon=True)).abandoned is not None
    scene.go_on()
    hands_on(scene).maintain()
    ended = sleeper.wake()
    assert ended.error in LATE - {None}, ended
    scene.send(0, 1)
    scene.go_on()
    scene.audit()


@ICEBERG_BY_NIGHT
@pytest.mark.parametrize("point", [FRESH, NOT_COMMITTED], ids=str)
def test_whoever_slept_while_its_batch_went_to_the_dead_letters_publishes_nothing(
    scene: TableScene, point: Point
) -> None:
    """Its staged files were taken away by maintenance, so that the batch was delivered again, and failed."""
    one_batch(scene)
    sleeper = scene.stop(point)
    before_it = scene.delivered()
    hands_on(scene).maintain()
    scene.job = FailingProcessor()
    scene.go_on(CorruptFileError, BatchFailedError)
    dead = [each for each in scene.every() if each not in before_it]
    scene.job = TableRowsProcessor()
    scene.send(0, 2)
    scene.go_on()
    hands_on(scene).maintain()
    ended = sleeper.wake()
    assert ended.error in LATE - {None}, ended
    scene.audit(without=dead)


@ICEBERG_BY_NIGHT
def test_of_two_that_commit_at_one_instant_beside_somebody_who_appends_one_publishes(scene: TableScene) -> None:
    one_batch(scene)
    runners = [scene.stop(NOT_COMMITTED) for _ in range(2)]
    over, appended = threading.Event(), list[str]()

    def append() -> None:
        while not over.is_set():
            batch_id = f"{THEIRS}{len(appended)}"
            hands_on(scene).append(batch_id)
            appended.append(batch_id)

    threads = [threading.Thread(target=append), *(threading.Thread(target=each.wake) for each in runners)]
    for each in threads:
        each.start()
    for each in threads[1:]:
        each.join()
    over.set()
    threads[0].join()
    scene.go_on()
    scene.audit()
    assert sorted(scene.output.joined()) == sorted(appended)


@EACH
@pytest.mark.parametrize("undo", one_in(2, ["take_back", "drop"]))
def test_a_reset_goes_on_with_a_table_that_lost_a_batch(scene: TableScene, undo: str) -> None:
    """As the error says: the batch is given up, and its records are read again into the table as it is."""
    one_batch(scene)
    before_it = scene.delivered()
    scene.kill(COMMITTED)
    getattr(hands_on(scene), undo)()
    with pytest.raises(LostDataError, match=r"`tidegate group reset"):
        scene.go_on(BatchFailedError)
    with scene.pipeline() as pipeline:
        reset_group(pipeline, ResetRequest(By(0), "somebody", abandon=True))
    scene.go_on()
    kept = before_it if undo == "take_back" else []
    assert scene.delivered() == sorted({*kept, *(each for each in scene.every() if each not in before_it)})
