"""Iceberg's own procedures in Spark, as docs/tables.md has them, beside batches that are published without Spark."""

import os
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from by_night import one_in
from crashing import Inside, Point, within
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from shared_servers import SharedTableSpark
from table_world import TableScene

from chaos.kinds import CATALOG, table_name
from tidegate.model.errors import CorruptFileError
from tidegate.ports import Lake
from tidegate_local.spark_table_jars import jdbc_catalog

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BLOCK = re.compile(r"```sql elsewhere\n(CALL .*?)```", re.DOTALL)
EXPIRE = "CALL lake.system.expire_snapshots(table => 'flights.departures', older_than => now())"
NOT_COMMITTED = within("commit", Inside.LOG_NOT_COMMITTED, during=Lake.publish)
COMMITTED = within("commit", Inside.LOG_COMMITTED, during=Lake.publish)
A_WEEK_AGO = "2026-01-24 00:00:00"
EIGHT_DAYS = 8 * 24 * 3600
ENOUGH_TO_COMPACT = 5


class Maintained(TableScene):
    """A table that Spark maintains."""

    spark: SparkSession

    def maintain(self) -> None:
        """What the page says, and the end of all snapshots but the last one."""
        (told,) = BLOCK.findall(PAGE.read_text("utf-8"))
        for statement in [*told.strip().rstrip(";").split(";\n"), EXPIRE]:
            week_ago = datetime.now(UTC) - timedelta(days=7)
            here = statement.replace("lake.system", f"{CATALOG}.system").replace(A_WEEK_AGO, f"{week_ago:%F %T}")
            self.spark.sql(here.replace("flights.departures", ".".join(table_name(self.place.name)))).collect()

    @property
    def table(self) -> Table:
        catalog = SqlCatalog(CATALOG, uri=self.place.catalog, warehouse=f"file://{self.folder}")
        return catalog.load_table(table_name(self.place.name))

    def file_count(self) -> int:
        return len(self.table.inspect.files())

    def run_batches(self, count: int) -> None:
        for _ in range(count):
            self.send(0, 1)
            self.run()


@pytest.fixture
def scene(table_spark: SharedTableSpark, tmp_path: Path, sqlite_template: Path) -> Iterator[Maintained]:
    made = Maintained(tmp_path, "iceberg", sqlite_template)
    made.spark = table_spark.session()
    for key, value in jdbc_catalog(
        CATALOG, made.place.catalog.replace("sqlite:///", "jdbc:sqlite:"), f"file://{tmp_path}"
    ).items():
        made.spark.conf.set(key, value)
    made.go_on()
    yield made
    made.end()


def test_files_are_compacted_and_batches_go_on(scene: Maintained) -> None:
    scene.run_batches(ENOUGH_TO_COMPACT)
    before = scene.file_count()
    scene.maintain()
    assert scene.file_count() < before
    scene.run_batches(2)
    scene.audit()


@pytest.mark.nightly
def test_no_batch_is_disturbed_while_files_are_compacted(scene: Maintained) -> None:
    scene.run_batches(ENOUGH_TO_COMPACT)
    is_over, maintained = threading.Event(), list[int]()

    def maintain() -> None:
        while not is_over.is_set():
            scene.maintain()
            maintained.append(1)

    beside = threading.Thread(target=maintain)
    beside.start()
    try:
        while not maintained:
            scene.run_batches(1)
    finally:
        is_over.set()
        beside.join()
    scene.audit()


@pytest.mark.parametrize("point", one_in(2, [NOT_COMMITTED, COMMITTED]), ids=str)
def test_a_batch_that_is_being_published_is_adopted_after_it(scene: Maintained, point: Point) -> None:
    scene.run_batches(ENOUGH_TO_COMPACT)
    scene.send(1, 2)
    scene.kill(point)
    scene.maintain()
    scene.go_on()
    scene.audit()


def test_what_was_staged_for_longer_than_orphans_are_kept_is_delivered_again(scene: Maintained) -> None:
    scene.send(1, 2)
    scene.kill(NOT_COMMITTED)
    location = Path(scene.table.location().removeprefix("file://"))
    for file in [each for each in location.rglob("*") if each.is_file()]:
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - EIGHT_DAYS))
    scene.maintain()
    with pytest.raises(CorruptFileError):
        scene.run()
    scene.go_on()
    scene.audit()
