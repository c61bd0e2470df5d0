"""Change feeds: what real jobs merge into real tables, against an oracle in memory."""

import random
from pathlib import Path
from typing import Any

import pytest
from by_night import one_in
from changing import (
    FEED,
    Change,
    ChangedDeltaTable,
    ChangedIcebergTable,
    ChangedTable,
    Oracle,
    batch_id_of,
    batches_of,
    begin,
    frame,
    process,
    read_rows,
)
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidegate.model.change_feed import ChangeFeed
from tidegate.model.errors import RewrittenFilesError, StaleError
from tidegate_spark.batch_io import TransformError
from tidegate_spark.job_failure import TransformRaisedError, failure_of, raised_by

pytestmark = pytest.mark.spark

STREAMS = 1000
BATCHES = 5


TABLES = (ChangedDeltaTable, ChangedIcebergTable)


@pytest.fixture(params=one_in(2, TABLES), ids=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ChangedTable:
    made: ChangedTable = request.param(tmp_path)
    return made


def merge(spark: SparkSession, table: ChangedTable, number: int, *changes: Change, **how: Any) -> None:
    manifest, attempt = process(spark, begin(table, number, **how), frame(spark, changes))
    table.lake.publish(manifest, attempt)


def change(value: str, ts: int | None, op: str = "u", key: str | None = "a") -> Change:
    return Change(1, key, ts, 0, op, "x", value)


def values(table: ChangedTable) -> list[str]:
    return sorted(row[2] for row in read_rows(table))


@pytest.mark.parametrize("table", one_in(2, TABLES), ids=["delta", "iceberg"], indirect=True)
@pytest.mark.parametrize("partition_by", one_in(2, [(), ("shard",)]), ids=["plain", "partitioned"])
def test_a_thousand_change_streams_come_to_what_the_oracle_says(
    spark: SparkSession, table: ChangedTable, partition_by: tuple[str, ...]
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    of, oracle = random.Random(seed), Oracle()  # noqa: S311 (nothing is kept secret)
    for number, changes in enumerate(batches_of(of, STREAMS, BATCHES), 1):
        manifest, attempt = process(spark, begin(table, number, partition_by), frame(spark, changes))
        table.lake.publish(manifest, attempt)
        with pytest.raises(StaleError):  # delivered a second time
            table.lake.publish(manifest, attempt)
        oracle.apply(batch_id_of(number), changes)
        assert read_rows(table) == oracle.rows(), f"seed {seed}, batch {number}"
        if number == BATCHES // 2:
            table.compact()


def test_a_late_older_change_changes_nothing(spark: SparkSession, table: ChangedTable) -> None:
    merge(spark, table, 1, change("new", 5))
    merge(spark, table, 2, change("old", 4), change("unordered", None))
    assert values(table) == ["new"]
    merge(spark, table, 3, change("equal", 5))
    assert values(table) == ["equal"]


def test_a_deleted_key_stays_deleted_until_a_newer_change(spark: SparkSession, table: ChangedTable) -> None:
    merge(spark, table, 1, change("", 5, "d"), change("b", 1, key="b"))
    merge(spark, table, 2, change("late", 4))
    merge(spark, table, 3, change("c", 1, key="c"))
    merge(spark, table, 4, change("later", 3))
    assert values(table) == ["b", "c"]
    merge(spark, table, 5, change("again", 6))
    assert values(table) == ["again", "b", "c"]
    merge(spark, table, 6, change("", 7, "d"), change("", 2, "d", key="b"), change("", 2, "d", key="c"))
    assert values(table) == []


def test_two_deliveries_of_a_batch_are_published_once(spark: SparkSession, table: ChangedTable) -> None:
    merge(spark, table, 1, change("one", 1), change("other", 1, key="b"))
    both = [process(spark, begin(table, 2), frame(spark, [change("two", 2)])) for _ in range(2)]
    table.lake.publish(*both[0])
    with pytest.raises(StaleError):
        table.lake.publish(*both[1])
    assert values(table) == ["other", "two"]


def test_a_batch_whose_files_were_compacted_meanwhile_is_delivered_again(spark: SparkSession, tmp_path: Path) -> None:
    table = ChangedDeltaTable(tmp_path)
    merge(spark, table, 1, change("one", 1))
    merge(spark, table, 2, change("other", 1, key="b"))
    manifest, attempt = process(spark, begin(table, 3), frame(spark, [change("two", 2)]))
    table.compact()
    with pytest.raises(RewrittenFilesError):
        table.lake.publish(manifest, attempt)
    assert values(table) == ["one", "other"]
    merge(spark, table, 3, change("two", 2))
    assert values(table) == ["other", "two"]


def test_only_files_with_keys_of_the_batch_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    table = ChangedDeltaTable(tmp_path)
    merge(spark, table, 1, change("one", 1))
    merge(spark, table, 2, change("other", 1, key="b"))
    before = set(DeltaTable(tmp_path / "a table").file_uris())
    merge(spark, table, 3, change("two", 2), change("c", 1, key="c"))
    (gone,) = before - set(DeltaTable(tmp_path / "a table").file_uris())
    assert batch_id_of(1) in gone
    merge(spark, table, 4, change("old", 0), change("old", 0, key="b"))
    assert values(table) == ["c", "other", "two"]


@pytest.mark.parametrize(
    ("feed", "said"),
    [
        (ChangeFeed(("id",), ("ts",)), "its rows lack id, which keys or sequence-by name"),
        (ChangeFeed(("key",), ("at",)), "its rows lack at"),
    ],
)
def test_columns_that_rows_lack_are_told(spark: SparkSession, tmp_path: Path, feed: ChangeFeed, said: str) -> None:
    table = ChangedDeltaTable(tmp_path)
    with pytest.raises(TransformError, match=said):
        process(spark, begin(table, 1, feed=feed), frame(spark, [change("one", 1)]))


@pytest.mark.parametrize(
    ("feed", "said"),
    [
        (ChangeFeed(("key",), ("ts",), "op = d"), "processing.delete-when `op = d` is no condition on the rows: [UN"),
        (ChangeFeed(("key",), ("ts",), "op == = 'd'"), "`op == = 'd'` is no condition on the rows: [PARSE_"),
        (ChangeFeed(("key",), ("ts",), "max(n) = 1"), "`max(n) = 1` is no condition on the rows: ["),
        (ChangeFeed(("key",), ("ts",), "op"), "processing.delete-when `op` is of type string, and no condition"),
        (ChangeFeed(("tags",), ("ts",)), "processing.keys tags and sequence-by ts can't be compared: [EXPRESSION_TYPE"),
        (ChangeFeed(("key",), ("tags",)), "processing.keys key and sequence-by tags can't be compared: [DATATYPE_MIS"),
    ],
)
def test_a_fault_of_the_definition_is_none_of_the_records_nor_of_the_transforms(
    spark: SparkSession, tmp_path: Path, feed: ChangeFeed, said: str
) -> None:
    table = ChangedDeltaTable(tmp_path)
    rows = frame(spark, [change("one", 1)]).selectExpr("*", "map(op, op) AS tags")
    with pytest.raises(TransformRaisedError) as raised, raised_by(frame, is_called=False):
        process(spark, begin(table, 1, feed=feed), rows)
    failure = failure_of(raised.value)
    assert said in failure.error
    assert (failure.cause, failure.where) == ("system", None)


def test_rows_without_a_key_are_told_and_replace_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table, feed = ChangedDeltaTable(tmp_path), ChangeFeed(("key",), FEED.sequence_by)
    keyless = [change("one", 1, key=None), change("two", 2, key=None)]
    with pytest.raises(
        TransformError, match=r"2 of its rows have null in key, changes-0 offset \d among them: .*as rejected"
    ):
        process(spark, begin(table, 1, feed=feed), frame(spark, [change("three", 3), *keyless]))
    with pytest.raises(TransformError, match="null in key: rows without a key"):
        process(spark, begin(table, 1, feed=feed), frame(spark, keyless).drop("topic"))


@pytest.mark.parametrize("before", ["u", "d"])
def test_other_keys_than_those_by_which_the_table_was_made_are_told(
    spark: SparkSession, tmp_path: Path, before: str
) -> None:
    table = ChangedDeltaTable(tmp_path)
    merge(spark, table, 1, change("", 1, before))
    said = "made by stream, key, ts, n: leave them.* `tidegate group reset orders --to earliest --abandon`"
    with pytest.raises(TransformError, match=said):
        merge(spark, table, 2, change("one", 1), feed=ChangeFeed(("key",), FEED.sequence_by))
