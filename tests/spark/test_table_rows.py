"""What the files of a table hold, as batch_io writes them over a real Spark Connect."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from landed import Batch, Record
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidegate.model.row_layout import partition_values
from tidegate_spark.batch_io import ManifestError, TransformError, parse_manifest, read_manifest, read_records
from tidegate_spark.batch_io import write_outcome as write

pytestmark = pytest.mark.spark

TEXTS = ["a b", "a/b", "50%", "50%25", "k=v", "æ—☃", "_hidden", ".dot", "{x}", "a\\b", "'", "''", "'\"", ""]
PLACES: list[str | None] = [*TEXTS, "__HIVE_DEFAULT_PARTITION__", "'__HIVE_DEFAULT_PARTITION__", None]


def process(spark, batch: Batch, *columns: str) -> None:
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    write(spark, manifest, read_records(spark, manifest).selectExpr(*columns))


def files(batch: Batch) -> dict[tuple[tuple[str, str | None], ...], list[dict[str, Any]]]:
    """The rows of each partition, as the files have them."""
    (attempt,) = batch.attempts
    found: dict[Any, list[dict[str, Any]]] = {}
    for file in batch.result()["files"]:
        rows = pq.ParquetFile(attempt / file["path"]).read().to_pylist()
        found.setdefault(partition_values(file["path"], batch.partition_by), []).extend(rows)
    return found


def schema(batch: Batch) -> Any:
    """Of the first file, as Parquet has it."""
    (attempt,) = batch.attempts
    return pq.ParquetFile(attempt / batch.result()["files"][0]["path"]).schema


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_rows_carry_their_batch(spark, tmp_path, table):
    batch = Batch(tmp_path, [Record(b"x")] * 2, partition_by=(), table=table)

    process(spark, batch, "offset")

    assert batch.rows() == [{"offset": 0, "batch_id": "b3f0"}, {"offset": 2, "batch_id": "b3f0"}]


def test_partition_columns_stay_in_the_files_and_name_the_folders(spark, tmp_path):
    sent = [Record(None if place is None else place.encode()) for place in PLACES]
    batch = Batch(tmp_path, sent, partition_by=["place"], table="delta")

    process(spark, batch, "string(value) AS place", "offset")

    found = {values[0][1]: [row["place"] for row in rows] for values, rows in files(batch).items()}
    assert found == {place: [place] for place in PLACES}


def test_folders_name_values_of_any_type_in_order(spark, tmp_path):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    values = {
        "n": "CAST(7 AS INT)",
        "price": "CAST(1.50 AS DECIMAL(9,2))",
        "day": "DATE '2013-01-01'",
        "at": "TIMESTAMP '2013-11-03 01:30:00.123456-05:00'",  # the second half past one of that night
        "here": "TIMESTAMP_NTZ '2013-01-01 10:17:00'",
        "is": "true",
        "ratio": "CAST(0.5 AS DOUBLE)",
    }
    batch = Batch(tmp_path, [Record(b"x")], partition_by=[*values], table="delta")
    try:
        process(spark, batch, *(f"{value} AS {name}" for name, value in values.items()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    ((partition, rows),) = files(batch).items()
    assert dict(partition) == {
        "n": "7",
        "price": "1.50",
        "day": "2013-01-01",
        "at": "2013-11-03T06:30:00.123456Z",
        "here": "2013-01-01 10:17:00",
        "is": "true",
        "ratio": "0.5",
    }
    assert rows == [
        {
            "n": 7,
            "price": Decimal("1.50"),
            "day": date(2013, 1, 1),
            "at": datetime(2013, 11, 3, 6, 30, 0, 123456, UTC),
            "here": datetime(2013, 1, 1, 10, 17),  # noqa: DTZ001 (a time without a zone)
            "is": True,
            "ratio": 0.5,
            "batch_id": "b3f0",
        }
    ]


def test_a_folders_column_takes_no_name_that_rows_have(spark, tmp_path):
    batch = Batch(tmp_path, [Record(b"AA")], partition_by=["carrier"], table="delta")

    process(spark, batch, "string(value) AS carrier", "'kept' AS By_Carrier")

    assert files(batch) == {(("carrier", "AA"),): [{"carrier": "AA", "By_Carrier": "kept", "batch_id": "b3f0"}]}


def test_a_table_may_be_partitioned_by_batch(spark, tmp_path):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=["batch_id"], table="iceberg")

    process(spark, batch, "offset")

    assert files(batch) == {(("batch_id", "b3f0"),): [{"offset": 0, "batch_id": "b3f0"}]}


@pytest.mark.parametrize(("column", "rescues"), [("batch_id", False), ("Batch_ID", True), ("_rescued_data", True)])
def test_rows_that_bring_a_column_that_is_added_are_refused(spark, tmp_path, column, rescues):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table="delta", rescues=rescues)

    with pytest.raises(TransformError, match=rf"rows with a column {column}, which Tidegate adds .*another name"):
        process(spark, batch, f"offset AS {column}")
    assert batch.attempts == []


@pytest.mark.parametrize("column", ["batch_id", "Batch_ID"])
def test_rows_in_folders_bring_no_column_that_readers_take_from_the_folders(spark, tmp_path, column):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=())

    with pytest.raises(TransformError, match=rf"a column {column}, which readers take from the folders batch_id="):
        process(spark, batch, "offset", f"'mine' AS {column}")
    assert batch.attempts == []


@pytest.mark.parametrize("table", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("parse_json('{}') AS v", "v of type variant"),
        ("named_struct('a', array(parse_json('{}'))) AS s", "s.a.element of type variant"),
        ("map('a', INTERVAL '1' DAY) AS m", "m.value of type interval day"),
    ],
)
def test_what_parquet_has_no_type_for_is_not_written_into_tables(spark, tmp_path, table, column, named):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table=table)

    with pytest.raises(TransformError, match=f"rows with a column {named}, which isn't written into tables"):
        process(spark, batch, "offset", column)


def test_what_a_table_lacks_may_be_of_any_type_where_it_is_rescued(spark, tmp_path):
    table = StructType.fromDDL("offset BIGINT, batch_id STRING").jsonValue()
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table="delta", rescues=True, table_schema=table)

    process(spark, batch, "offset", "parse_json('{\"a\":1}') AS v")

    assert [row["_rescued_data"] for row in batch.rows()] == ['{"v":{"a":1}}']


@pytest.mark.parametrize("value", ["value", "array(1)", "named_struct('a', 1)"])
def test_a_table_is_not_partitioned_by_what_has_no_text(spark, tmp_path, value):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=["place"], table="delta")

    with pytest.raises(TransformError, match=r"partition-by names place, of type .*, which names no folder"):
        process(spark, batch, f"{value} AS place")


def test_files_have_the_types_that_tables_take_whatever_spark_is_set_to(spark, tmp_path):
    set_otherwise = {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.fieldId.write.enabled": "true",
    }
    for name, value in set_otherwise.items():
        spark.conf.set(name, value)
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table="iceberg")
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    records = read_records(spark, manifest)
    numbered = records.select(
        records["timestamp"].alias("at"), records["offset"].alias("n", metadata={"parquet.field.id": 7})
    )
    try:
        write(spark, manifest, with_price(numbered))
    finally:
        for name in set_otherwise:
            spark.conf.unset(name)

    columns = {column.path: column for column in map(schema(batch).column, range(len(schema(batch))))}
    found = schema(batch).to_arrow_schema()
    assert found.field("at").type == pa.timestamp("us", "UTC")
    assert columns["price"].physical_type == "INT32"
    assert columns["parts.list.element"].physical_type == "INT32"
    assert b"PARQUET:field_id" not in (found.field("n").metadata or {})


def with_price(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", "CAST(1.5 AS DECIMAL(5,2)) AS price", "array(1) AS parts")


@pytest.mark.parametrize("layout", [{}, {"batch_id_column": "batch_id"}, 7, {"table_schema": {"type": "struct"}}])
def test_a_layout_that_says_too_little_is_refused(layout, tmp_path):
    document = json.loads(Batch(tmp_path, [Record(b"x")], table="delta").manifest.read_text())

    with pytest.raises(ManifestError, match="a field is missing or misspelt"):
        parse_manifest(json.dumps(document | {"layout": layout}), "file:///m.json")
