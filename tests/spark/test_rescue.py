"""What doesn't fit into a table's schema is kept as JSON, over a real Spark Connect."""

import json
from typing import Any

import pytest
from landed import Batch, Record
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate_spark.batch_io import read_manifest, read_records, write_outcome
from tidegate_spark.rescue import with_rescued_data

pytestmark = pytest.mark.spark


def rescued(spark: SparkSession, rows: str, table: str | None) -> DataFrame:
    """Rows of a SQL query, made to fit into a table with these columns."""
    schema = None if table is None else StructType.fromDDL(table)
    return with_rescued_data(spark.sql(f"SELECT {rows}"), schema, "_rescued_data")


def row(frame: DataFrame) -> dict[str, Any]:
    """The only row, with what was rescued as JSON's values."""
    (found,) = [each.asDict(recursive=True) for each in frame.collect()]
    text = found["_rescued_data"]
    return found | {"_rescued_data": text and json.loads(text)}


def types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema}


@pytest.mark.parametrize("table", [None, "id BIGINT, name STRING"])
def test_without_a_table_and_where_all_fits_nothing_is_rescued(spark, table):
    found = rescued(spark, "1L AS id, 'x' AS name", table)

    assert row(found) == {"id": 1, "name": "x", "_rescued_data": None}
    assert types(found) == {"id": "bigint", "name": "string", "_rescued_data": "string"}


def test_new_columns_are_rescued(spark):
    found = rescued(spark, "1 AS id, 'x' AS `new.one`, array(1, 2) AS list", "id INT")

    assert row(found) == {"id": 1, "_rescued_data": {"new.one": "x", "list": [1, 2]}}


def test_columns_of_another_type_are_null_and_rescued(spark):
    found = rescued(spark, "'7' AS id, 3000000000L AS n, 'kept' AS name", "id INT, n INT, name STRING")

    assert row(found) == {"id": None, "n": None, "name": "kept", "_rescued_data": {"id": "7", "n": 3_000_000_000}}
    assert types(found) == {"id": "int", "n": "int", "name": "string", "_rescued_data": "string"}


@pytest.mark.parametrize(
    ("value", "wanted", "result"),
    [
        ("CAST(7 AS TINYINT)", "SMALLINT", 7),
        ("7S", "INT", 7),
        ("7", "BIGINT", 7),
        ("CAST(0.5 AS FLOAT)", "DOUBLE", 0.5),
        ("7", "DOUBLE", 7.0),
        ("7S", "FLOAT", 7.0),
        ("NULL", "DATE", None),
        ("array(1)", "ARRAY<BIGINT>", [1]),
        ("map('a', 1)", "MAP<STRING, BIGINT>", {"a": 1}),
        ("map(1, 1)", "MAP<BIGINT, INT>", {1: 1}),
        ("named_struct('a', 1)", "STRUCT<a: BIGINT>", {"a": 1}),
        ("named_struct('b', 1, 'a', 2)", "STRUCT<a: INT, b: INT>", {"b": 1, "a": 2}),
    ],
)
def test_what_is_narrower_fits_in_the_tables_type(spark, value, wanted, result):
    found = rescued(spark, f"{value} AS x", f"x {wanted}")

    assert row(found) == {"x": result, "_rescued_data": None}


@pytest.mark.parametrize(
    ("value", "wanted", "is_rescued"),
    [
        ("CAST(1.5 AS DECIMAL(5,2))", "DECIMAL(9,4)", False),
        ("CAST(1.5 AS DECIMAL(5,2))", "DECIMAL(9,1)", True),
        ("CAST(1.5 AS DECIMAL(5,2))", "DECIMAL(4,2)", True),
        ("7", "DECIMAL(10,0)", False),
        ("7", "DECIMAL(10,1)", True),
        ("7L", "DOUBLE", True),
        ("7", "FLOAT", True),
        ("CAST(0.5 AS DOUBLE)", "FLOAT", True),
        ("7", "STRING", True),
        ("DATE '2013-01-01'", "TIMESTAMP", True),
        ("TIMESTAMP '2013-01-01 10:00:00'", "TIMESTAMP_NTZ", True),
        ("'x'", "BINARY", True),
        ("map('a', 1)", "STRUCT<a: INT>", True),
        ("map(7L, 1)", "MAP<INT, INT>", True),
        ("array('x')", "ARRAY<INT>", True),
    ],
)
def test_what_could_lose_something_does_not_fit(spark, value, wanted, is_rescued):
    found = row(rescued(spark, f"{value} AS x", f"x {wanted}"))

    assert (found["x"] is None, found["_rescued_data"] is not None) == (is_rescued, is_rescued)


def test_within_structs_only_what_does_not_fit_is_rescued(spark):
    value = "named_struct('id', 1, 'new', 'x', 'deep', named_struct('n', 'text', 'ok', true))"
    found = rescued(spark, f"{value} AS s", "s STRUCT<id: INT, deep: STRUCT<n: INT, ok: BOOLEAN>>")

    assert row(found) == {
        "s": {"id": 1, "deep": {"n": None, "ok": True}},
        "_rescued_data": {"s": {"new": "x", "deep": {"n": "text"}}},
    }


def test_the_row_of_the_page_is_rescued_so(spark):
    person = "named_struct('name', 'A', 'age', 40)"
    (found,) = rescued(
        spark, f"7 AS id, {person} AS person, 'AA' AS carrier", "id BIGINT, person STRUCT<name: STRING>"
    ).collect()

    assert found.asDict(recursive=True) == {
        "id": 7,
        "person": {"name": "A"},
        "_rescued_data": '{"person":{"age":40},"carrier":"AA"}',
    }


def test_within_arrays_what_does_not_fit_keeps_its_place(spark):
    elements = "named_struct('id', 1, 'new', CAST(NULL AS STRING)), NULL, named_struct('id', 2, 'new', 'x')"
    found = rescued(spark, f"array({elements}) AS list", "list ARRAY<STRUCT<id: INT>>")

    assert row(found) == {
        "list": [{"id": 1}, None, {"id": 2}],
        "_rescued_data": {"list": [None, None, {"new": "x"}]},
    }


def test_within_maps_what_does_not_fit_keeps_its_key(spark):
    values = "'a', named_struct('id', 1, 'new', CAST(NULL AS STRING)), 'b', named_struct('id', 2, 'new', 'x')"
    found = rescued(spark, f"map({values}) AS m", "m MAP<STRING, STRUCT<id: INT>>")

    assert row(found) == {"m": {"a": {"id": 1}, "b": {"id": 2}}, "_rescued_data": {"m": {"b": {"new": "x"}}}}


def test_arrays_within_structs_within_arrays_are_looked_into(spark):
    value = "array(named_struct('in', array(named_struct('a', 1, 'b', 2))))"
    found = rescued(spark, f"{value} AS x", "x ARRAY<STRUCT<in: ARRAY<STRUCT<a: BIGINT>>>>")

    assert row(found) == {"x": [{"in": [{"a": 1}]}], "_rescued_data": {"x": [{"in": [{"b": 2}]}]}}


@pytest.mark.parametrize("value", ["CAST(NULL AS STRUCT<id: INT, new: STRING>)", "named_struct('id', 1, 'new', NULL)"])
def test_nulls_leave_nothing_to_rescue(spark, value):
    found = row(rescued(spark, f"{value} AS s, CAST(NULL AS STRING) AS new", "s STRUCT<id: INT>"))

    assert found["_rescued_data"] is None
    assert found["s"] in (None, {"id": 1})


def test_columns_are_named_as_the_table_has_them(spark):
    found = rescued(spark, "1 AS ID, named_struct('A', 1) AS S", "id INT, s STRUCT<a: INT>")

    assert row(found) == {"id": 1, "s": {"a": 1}, "_rescued_data": None}


def test_the_tables_other_columns_are_left_to_readers(spark):
    found = rescued(spark, "1 AS id", "id INT, batch_id STRING, _rescued_data STRING, more DATE NOT NULL")

    assert row(found) == {"id": 1, "_rescued_data": None}


def test_no_instant_loses_its_zone_or_its_microseconds(spark):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = row(
            rescued(
                spark,
                "TIMESTAMP '2013-01-01 10:00:00.123456Z' AS at, TIMESTAMP_NTZ '2013-01-01 10:00:00.000001' AS here, "
                "DATE '2013-01-01' AS day, X'00FF' AS raw, CAST(1.50 AS DECIMAL(5,2)) AS price, true AS yes",
                "id INT",
            )
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert found["_rescued_data"] == {
        "at": "2013-01-01T10:00:00.123456Z",
        "here": "2013-01-01T10:00:00.000001",
        "day": "2013-01-01",
        "raw": "AP8=",
        "price": 1.5,
        "yes": True,
    }


def test_a_job_keeps_what_the_manifests_schema_has_no_room_for(spark, tmp_path):
    table = StructType.fromDDL("offset BIGINT, batch_id STRING").jsonValue()
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table="delta", rescues=True, table_schema=table)
    manifest = read_manifest(spark, f"file://{batch.manifest}")

    write_outcome(spark, manifest, read_records(spark, manifest).selectExpr("offset", "string(value) AS new"))

    assert batch.rows() == [{"offset": 0, "_rescued_data": '{"new":"x"}', "batch_id": "b3f0"}]


def test_the_first_batch_of_a_table_makes_the_column(spark, tmp_path):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table="delta", rescues=True)
    manifest = read_manifest(spark, f"file://{batch.manifest}")

    write_outcome(spark, manifest, read_records(spark, manifest).select("offset"))

    assert batch.rows() == [{"offset": 0, "_rescued_data": None, "batch_id": "b3f0"}]
