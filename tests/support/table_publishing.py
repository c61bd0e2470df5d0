"""Puts files that a job staged into tables, by each format's own library or by a table's log."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction
from landed import Batch
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.model.row_layout import partition_values
from tidegate.ports.table_log import DataFile, Record, TableLog


def staged_files(batch: Batch) -> list[DataFile]:
    """The files of rows that a batch's only attempt wrote."""
    (attempt,) = batch.attempts
    return [
        DataFile(
            uri=f"file://{attempt / file['path']}",
            bytes=file["bytes"],
            rows=pq.read_metadata(attempt / file["path"]).num_rows,
            partition=partition_values(file["path"], batch.partition_by),
        )
        for file in batch.result()["files"]
    ]


def publish_by(log: TableLog, table: str, number: int, files: Sequence[DataFile], partition_by: Sequence[str]) -> None:
    """Publish by a table's log, as the number of one incarnation."""
    log.create(table, files, partition_by)
    snapshot = log.load(table, "incarnation", number)
    assert snapshot is not None
    log.append(table, "incarnation", snapshot, Record(number, 1), files)


def publish_to_delta(folder: Path, files: Sequence[DataFile], partition_by: Sequence[str]) -> None:
    """Publish by delta-rs alone, which percent-encodes paths itself."""
    schema = pq.read_schema(_path(files[0])).remove_metadata()
    table = DeltaTable.create(folder, Schema.from_arrow(schema), partition_by=[*partition_by], mode="ignore")
    actions = [
        AddAction(
            path=str(_path(file).relative_to(folder)),
            size=file.bytes,
            partition_values=dict(file.partition),
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": file.rows}),
        )
        for file in files
    ]
    table.create_write_transaction(actions, "append", table.schema(), partition_by=[*partition_by])


def publish_to_iceberg(
    catalog: SqlCatalog, table: str, files: Sequence[DataFile], partition_by: Sequence[str], folder: Path
) -> None:
    """Publish by pyiceberg alone."""
    catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
    schema = pq.read_schema(_path(files[0])).remove_metadata()
    if not catalog.table_exists(table):
        made = catalog.create_table(table, schema, location=f"file://{folder}")
        with made.update_spec() as spec:
            for name in partition_by:
                spec.add_identity(name)
    catalog.load_table(table).add_files([file.uri for file in files])


def _path(file: DataFile) -> Path:
    return Path(file.uri.removeprefix("file://"))
