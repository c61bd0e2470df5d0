"""Two batches in a table are the same rows to the format's own reader and to DuckDB, which is given its files."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from iceberg_bench import IcebergBench, IcebergTableBench
from table_benches import TableBench, delta_on_disk, rows_of
from table_publishing import publish_by

from tidegate.ports import DataFile

CARRIERS = ("AA", "a/b", None)
QUERY = """
    SELECT batch_id, carrier, count(*) AS rows, sum(id)::BIGINT AS ids, max("at") AS latest
    FROM flights WHERE id >= 1 GROUP BY ALL ORDER BY ALL
"""


def publish(bench: TableBench, number: int) -> None:
    """A batch of three rows for each carrier, of which each has a file of its own."""
    files: list[DataFile] = []
    for carrier in CARRIERS:
        folder = {"a/b": "a%2Fb", None: "__HIVE_DEFAULT_PARTITION__"}.get(carrier, carrier)
        staged = bench.stage(f"b{number}", rows_of(f"b{number}", 3, carrier=carrier), partition={"carrier": folder})
        files += [DataFile(each.uri, each.bytes, each.rows, (("carrier", carrier),)) for each in staged]
    publish_by(bench.log, bench.table, number, files, ("carrier",))


def found(flights: Any) -> list[tuple[Any, ...]]:
    """What DuckDB answers about an Arrow table, or about a dataset, of which it reads what it asks for."""
    with duckdb.connect() as connection:
        connection.register("flights", flights)
        return connection.execute(QUERY).fetchall()


EXPECTED = [(f"b{number}", carrier, 2, 3, None) for number in (1, 2) for carrier in ("AA", "a/b", None)]


def test_delta(tmp_path: Path) -> None:
    with delta_on_disk(tmp_path) as bench:
        publish(bench, 1)
        publish(bench, 2)
        assert found(bench.delta.to_pyarrow_dataset()) == EXPECTED
        assert found(bench.delta.to_pyarrow_table()) == EXPECTED


def test_iceberg(tmp_path: Path) -> None:
    extra = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    iceberg = IcebergBench(extra, tmp_path)
    bench = IcebergTableBench(iceberg)
    publish(bench, 1)
    publish(bench, 2)
    with iceberg.table().scan().to_duckdb("flights") as connection:
        assert connection.execute(QUERY).fetchall() == EXPECTED
    rows = iceberg.table().scan(row_filter="carrier = 'a/b' and id >= 1").to_arrow()
    assert sorted(rows["batch_id"].to_pylist()) == ["b1", "b1", "b2", "b2"]
    assert pa.types.is_timestamp(rows.schema.field("at").type)
