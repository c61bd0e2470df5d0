"""Change feeds whose runs are killed, or put to sleep, around a commit that adds files to a table and removes others.

Rows that are merged twice, or into files that are gone, would show: a table has one row of each key.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from by_night import one_in
from crash_plays import LATE
from crashing import Inside, Point, after, before, within
from feed_world import FeedScene
from table_hands import hands_on

from tidegate.model.errors import CorruptFileError, RewrittenFilesError
from tidegate.ports import Lake

NOT_COMMITTED = within("commit", Inside.LOG_NOT_COMMITTED, during=Lake.publish)
COMMITTED = within("commit", Inside.LOG_COMMITTED, during=Lake.publish)
AROUND = [NOT_COMMITTED, COMMITTED, after("commit", Lake.publish)]


@pytest.fixture(params=one_in(2, ["delta", "iceberg"]))
def scene(request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path) -> Iterator[FeedScene]:
    made = FeedScene(tmp_path, request.param, sqlite_template)
    made.run()
    made.send(1, 2)
    yield made
    made.end()


@pytest.mark.parametrize("point", AROUND, ids=str)
def test_after_a_kill_each_key_has_its_last_row(scene: FeedScene, point: Point) -> None:
    scene.kill(point)
    scene.send(0, 2)
    scene.go_on()
    scene.audit()


@pytest.mark.parametrize("point", [NOT_COMMITTED, COMMITTED], ids=str)
def test_a_table_that_was_compacted_after_a_kill_has_the_last_row_of_each_key(scene: FeedScene, point: Point) -> None:
    scene.kill(point)
    hands_on(scene).maintain()
    scene.send(0, 2)
    scene.go_on(CorruptFileError, RewrittenFilesError)
    scene.audit()


@pytest.mark.parametrize("point", [before("commit", Lake.publish), NOT_COMMITTED], ids=str)
def test_whoever_slept_until_newer_batches_and_maintenance_publishes_nothing(scene: FeedScene, point: Point) -> None:
    sleeper = scene.stop(point)
    scene.go_on()
    scene.send(0, 2)
    scene.go_on()
    hands_on(scene).maintain()
    assert sleeper.wake().error in LATE
    scene.audit()


def test_without_the_ledger_too_each_key_has_its_last_row(scene: FeedScene) -> None:
    scene.kill(COMMITTED)
    scene.lose_ledger()
    scene.send(0, 2)
    scene.go_on()
    assert scene.delivered() == scene.latest()
