"""What a real job staged, published into tables, is read by Spark as the same rows."""

import math
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from by_night import one_in
from deltalake import DeltaTable
from landed import Batch, Record
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from shared_servers import SharedTableSpark
from sqlalchemy import make_url
from table_publishing import publish_to_delta, publish_to_iceberg, staged_files

from tidegate.ports.table_log import DataFile
from tidegate_local.spark_table_jars import jdbc_catalog
from tidegate_spark.batch_io import read_manifest, write_outcome

pytestmark = pytest.mark.spark

REMOTE = "SPARK_CONNECT_MODE_ENABLED"

COLUMNS = """
    id BIGINT, small INT, text STRING, price DECIMAL(9,2), amount DECIMAL(38,10), ratio DOUBLE, part FLOAT,
    day DATE, at TIMESTAMP, raw BINARY, is BOOLEAN,
    person STRUCT<name: STRING, address: STRUCT<city: STRING, lines: ARRAY<STRING>>>,
    tags MAP<STRING, STRING>, visits MAP<STRING, STRUCT<n: INT, at: TIMESTAMP>>,
    items ARRAY<STRUCT<sku: STRING, price: DECIMAL(9,2)>>, matrix ARRAY<ARRAY<INT>>
"""
AT = datetime(2013, 1, 1, 10, 17, 0, 123456, UTC)
FULL: dict[str, Any] = {
    "id": 2**62,
    "small": -(2**31),
    "text": "æ—☃ \x00 'x'",
    "price": Decimal("-1234567.89"),
    "amount": Decimal("1234567890123456789012345678.0123456789"),
    "ratio": 0.1,
    "part": 0.5,
    "day": date(1969, 12, 31),
    "at": AT,
    "raw": b"\x00\xff",
    "is": True,
    "person": {"name": "A", "address": {"city": None, "lines": ["1", None]}},
    "tags": {"a": "x", "b": None},
    "visits": {"k": {"n": 1, "at": AT}, "none": None},
    "items": [{"sku": "s", "price": Decimal("0.10")}, {"sku": None, "price": None}, None],
    "matrix": [[1, None], [], None],
}
EMPTY = dict.fromkeys(FULL) | {"id": 1, "text": "", "raw": b"", "tags": {}, "items": [], "matrix": []}
ODD = dict.fromkeys(FULL) | {"id": 2, "ratio": math.inf, "part": -0.0, "day": date(1, 1, 1), "person": {"name": None}}
ROWS: list[dict[str, Any]] = [FULL, EMPTY, ODD, dict.fromkeys(FULL) | {"id": 3}]

ALIKE = [f"departures from New York, JFK {n}" for n in (1, 2)]  # longer than the bounds that Iceberg keeps of texts
PLACES = [
    *ALIKE,
    "x" * 120,
    "AA",
    "a b",
    "a/b",
    "50%",
    "50%25",
    "k=v",
    "æ—☃",
    ".dot",
    "_hidden",
    "{x}",
    "a\\b",
    "'",
    "a:b#c?d",
    None,
]
KEYS: dict[str, tuple[str, Sequence[object]]] = {
    "text": ("STRING", PLACES),
    "long": ("BIGINT", [-1, 0, 2**62, None]),
    "number": ("INT", [-1, 0, 7, None]),
    "day": ("DATE", [date(1969, 12, 31), date(2013, 1, 1), None]),
    "boolean": ("BOOLEAN", [True, False, None]),
    "decimal": ("DECIMAL(9,2)", [Decimal("1.50"), Decimal("-0.01"), None]),
    "timestamp": ("TIMESTAMP", [AT, AT.replace(microsecond=0), None]),
}

Publish = Callable[[Sequence[DataFile], Sequence[str]], None]
Read = Callable[[], DataFrame]
Table = tuple[str, Publish, Read]


@pytest.fixture(scope="module")
def tables(table_spark: SharedTableSpark) -> Iterator[SparkSession]:
    session = table_spark.session()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")  # neither UTC nor this machine's
    for partitions in ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"):
        session.conf.set(partitions, "2")
    os.environ.pop(REMOTE, None)  # PySpark turns the whole process to Spark Connect
    yield session
    session.stop()


@pytest.fixture
def spark(tables: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    monkeypatch.setenv(REMOTE, "1")
    return tables


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Table:
    """The format, what publishes into a table of the test's own, and what reads that."""
    folder = tmp_path / "lake"
    if request.param == "delta":
        return "delta", lambda *given: publish_to_delta(folder, *given), lambda: read_delta(spark, folder)
    name = f"lake_{uuid.uuid4().hex[:8]}"
    catalog = SqlCatalog(name, uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    attach(spark, name, f"jdbc:sqlite:{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse")
    return (
        "iceberg",
        lambda *given: publish_to_iceberg(catalog, "flights.rows", *given, folder),
        lambda: spark.table(f"{name}.flights.rows"),
    )


def read_delta(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.format("delta").load(f"file://{folder}")


def attach(spark: SparkSession, name: str, uri: str, warehouse: str) -> None:
    for key, value in jdbc_catalog(name, uri, warehouse).items():
        spark.conf.set(key, value)


def stage(spark: SparkSession, batch: Batch, rows: DataFrame) -> list[DataFile]:
    write_outcome(spark, read_manifest(spark, f"file://{batch.manifest}"), rows)
    return staged_files(batch)


def contents(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("id").collect()]


def test_rows_of_all_types_are_read_as_they_were_written(spark, table, tmp_path):
    format_, publish, read = table
    batch = Batch(tmp_path, [Record(b"x")] * len(ROWS), partition_by=(), table=format_)
    rows = spark.createDataFrame(ROWS, COLUMNS)

    publish(stage(spark, batch, rows), ())

    assert contents(read()) == [row | {"batch_id": "b3f0"} for row in contents(rows)]


@pytest.mark.parametrize("kind", one_in(4, KEYS))
def test_partitions_of_all_types_are_read_as_they_were_written(spark, table, tmp_path, kind):
    format_, publish, read = table
    type_, values = KEYS[kind]
    batch = Batch(tmp_path, [Record(b"x")] * len(values), partition_by=["key"], table=format_)
    rows = spark.createDataFrame(list(enumerate(values)), f"id BIGINT, key {type_}")

    publish(stage(spark, batch, rows), ["key"])

    assert contents(read()) == [row | {"batch_id": "b3f0"} for row in contents(rows)]
    for number, value in enumerate(values):
        found = read().filter(F.col("key").eqNullSafe(F.lit(value)))
        assert [row["id"] for row in contents(found)] == [number]


def test_the_empty_text_is_another_partition_than_null(spark, table, tmp_path):
    format_, publish, read = table
    batch = Batch(tmp_path, [Record(b"x")] * 3, partition_by=["key"], table=format_)
    rows = spark.createDataFrame([(0, ""), (1, None), (2, "x")], "id BIGINT, key STRING").coalesce(1)

    publish(stage(spark, batch, rows), ["key"])

    assert [row["key"] for row in contents(read())] == ["", None, "x"]
    if format_ == "delta":  # by whose protocol the empty text is null
        rows = DeltaTable(tmp_path / "lake").to_pyarrow_table().sort_by("id")
        assert rows["key"].to_pylist() == [None, None, "x"]


def test_tables_may_be_partitioned_by_several_columns(spark, table, tmp_path):
    format_, publish, read = table
    batch = Batch(tmp_path, [Record(b"x")] * 3, partition_by=["b", "a"], table=format_)
    rows = spark.createDataFrame([(0, "x", 1), (1, "x", 2), (2, None, 1)], "id BIGINT, a STRING, b INT")

    publish(stage(spark, batch, rows), ["b", "a"])

    assert contents(read()) == [row | {"batch_id": "b3f0"} for row in contents(rows)]


def test_what_was_rescued_is_read(spark, table, tmp_path):
    format_, publish, read = table
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}

    first = Batch(tmp_path, [Record(b"x")], token="1", partition_by=(), table=format_, rescues=True)
    publish(stage(spark, first, spark.sql("SELECT 0L AS id")), ())
    second = Batch(
        tmp_path, [Record(b"x")], token="2", partition_by=(), table=format_, rescues=True, table_schema=schema
    )
    publish(stage(spark, second, spark.sql("SELECT 1L AS id, 'new' AS carrier")), ())

    assert [row["_rescued_data"] for row in contents(read())] == [None, '{"carrier":"new"}']


@pytest.mark.postgres
def test_spark_and_pyiceberg_share_a_catalog_on_postgresql(spark, postgres_database, tmp_path):
    name, folder = f"lake_{uuid.uuid4().hex[:8]}", tmp_path / "lake"
    catalog = SqlCatalog(name, uri=postgres_database, warehouse=f"file://{folder}")
    url = make_url(postgres_database)
    jdbc = f"jdbc:postgresql://{url.host}:{url.port}/{url.database}"
    attach(spark, name, jdbc, f"file://{folder}")
    spark.conf.set(f"spark.sql.catalog.{name}.jdbc.user", url.username)
    spark.conf.set(f"spark.sql.catalog.{name}.jdbc.password", url.password)
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), table="iceberg")

    publish_to_iceberg(catalog, "flights.rows", stage(spark, batch, spark.sql("SELECT 0L AS id")), (), folder)

    assert contents(spark.table(f"{name}.flights.rows")) == [{"id": 0, "batch_id": "b3f0"}]
    spark.sql("SELECT 1L AS id, 'by another' AS batch_id").writeTo(f"{name}.flights.rows").append()
    assert catalog.load_table("flights.rows").scan().to_arrow().num_rows == 2
