"""A table of an Iceberg catalog, and files for it, as the tests of its log need them."""

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidegate.lake.iceberg.catalogs import open_catalog
from tidegate.lake.iceberg.log import IcebergLog
from tidegate.ports import Connection, DataFile, Record, TableLog

TABLE = "iceberg://ice/lake/flights"
INCARNATION = "0123abcd"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("carrier", pa.string()), ("at", pa.timestamp("us", "UTC")), ("batch_id", pa.string())]
)


@dataclass(frozen=True)
class IcebergBench:
    """A catalog by its connection, and what two of its users see: each opens it by itself."""

    extra: Mapping[str, object]
    folder: Path

    def catalog(self, connection_id: str = "ice") -> Catalog:
        connection = Connection(connection_id, "iceberg", None, None, None, None, self.extra)
        return open_catalog(connection)

    def log(self, evolution: Any = "fail") -> IcebergLog:
        catalog = self.catalog()
        return IcebergLog(lambda _: catalog, evolution)

    def table(self) -> Table:
        return self.catalog().load_table("lake.flights")

    def ids(self) -> list[int]:
        return sorted(self.table().scan().to_arrow()["id"].to_pylist())

    def numbers(self, *, of: str = INCARNATION) -> Record | None:
        found = self.log().load(TABLE, of, 0)
        assert found is not None
        return found.record

    def file(self, ids: Sequence[int], **more: Sequence[Any]) -> DataFile:
        """A staged file with these ids; `more` has columns that replace those of the schema, or that it hasn't."""
        rows: dict[str, Any] = {
            "id": list(ids),
            "carrier": ["AA"] * len(ids),
            "at": pa.array([1_700_000_000_000_000 + each for each in ids], pa.timestamp("us", "UTC")),
            "batch_id": ["b1"] * len(ids),
        }
        rows |= more
        return self.written(pa.table({name: column for name, column in rows.items() if column is not None}))

    def written(self, rows: pa.Table, **options: Any) -> DataFile:
        path = self.folder / "data" / f"{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, **options)
        return DataFile(f"file://{path}", path.stat().st_size, rows.num_rows)

    def publish(self, number: int, files: Sequence[DataFile], evolution: Any = "fail") -> Record:
        """One batch as the engine publishes it, upon a fresh snapshot."""
        log, record = self.log(evolution), a_record(number)
        log.create(TABLE, files, ())
        snapshot = log.load(TABLE, INCARNATION, number)
        assert snapshot is not None
        log.append(TABLE, INCARNATION, snapshot, record, files)
        return record


class IcebergTableBench:
    """The same, as the contract of all logs of tables asks for it: a table that isn't there yet, and everybody else."""

    table = TABLE

    def __init__(self, bench: IcebergBench, system: fs.FileSystem | None = None) -> None:
        self._bench = bench
        self._system = system or fs.LocalFileSystem()
        self.log: TableLog = bench.log()

    def stage(
        self, batch: str, rows: pa.Table, files: int = 1, partition: Mapping[str, str | None] = {}
    ) -> list[DataFile]:
        below = "".join(f"p_{name}={value}/" for name, value in partition.items())
        return [self._write(f"data/{batch}/a/{below}{uuid.uuid4().hex}.parquet", rows, partition) for _ in range(files)]

    def _write(self, path: str, rows: pa.Table, partition: Mapping[str, str | None]) -> DataFile:
        folder = self.log.folder(self.table)
        file = f"{folder.partition('://')[2]}/{path}"
        self._system.create_dir(file.rpartition("/")[0], recursive=True)
        pq.write_table(rows, file, filesystem=self._system, store_schema=False)
        size = self._system.get_file_info(file).size
        return DataFile(f"{folder}/{path}", size, rows.num_rows, tuple(partition.items()))

    def batches(self) -> list[str]:
        return sorted(self._bench.table().scan().to_arrow()["batch_id"].to_pylist())

    def columns(self) -> list[str]:
        return [field.name for field in self._bench.table().schema().fields]

    def append_as_another(self, batch: str) -> None:
        self._bench.table().append(pa.table({"batch_id": [batch]}))

    def maintain(self) -> None:
        """Compaction, as pyiceberg has it, and expiry."""
        table = self._bench.table()
        table.overwrite(table.scan().to_arrow())
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(hours=1)).commit()

    def take_back(self, commits: int) -> None:
        """To the state so many commits ago, of those that moved main: as its log has them."""
        table = self._bench.table()
        state = table.metadata.snapshot_log[-1 - commits].snapshot_id
        table.manage_snapshots().set_current_snapshot(state).commit()

    def take_forward(self) -> None:
        self.take_back(1)

    def drop(self) -> None:
        location = self.log.folder(self.table)
        self._bench.catalog().drop_table("lake.flights")
        self._system.delete_dir(location.partition("://")[2])


def a_record(number: int) -> Record:
    return Record(number, random.getrandbits(63))
