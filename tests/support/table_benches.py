"""Tables of each format for tests of their logs: staged files, the format's own reader, and others who use them."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from moto_s3 import ACCESS_KEY, SECRET_KEY, MotoS3
from pyarrow import fs

from tidegate.lake.delta.log import DeltaLog
from tidegate.model.output_uri import SchemaEvolution
from tidegate.ports.table_log import DataFile, TableLog, TableSnapshot

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("carrier", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("place", pa.struct([("x", pa.int32())])),
        ("batch_id", pa.string()),
    ]
)


def rows_of(batch: str, count: int, schema: pa.Schema = SCHEMA, **values: Any) -> pa.Table:
    rows = [{"id": index, "carrier": "AA", "batch_id": batch, **values} for index in range(count)]
    return pa.Table.from_pylist(rows, schema=schema)


class TableBench(Protocol):
    """A table that isn't there yet, the log that publishes into it, and the hands of everybody else."""

    log: TableLog
    table: str

    def stage(
        self, batch: str, rows: pa.Table, files: int = 1, partition: Mapping[str, str | None] = {}
    ) -> list[DataFile]:
        """Write each file with these rows below the table's `data/<batch>/`."""
        ...

    def batches(self) -> Sequence[str]:
        """The batch of every row, sorted, as a reader of the format finds it now."""
        ...

    def columns(self) -> list[str]:
        """The names of the table's columns, as a reader finds them."""
        ...

    def append_as_another(self, batch: str) -> None:
        """One row, by another writer."""
        ...

    def maintain(self) -> None:
        """Everything that rewrites, removes and forgets, with no time of grace."""
        ...

    def take_back(self, commits: int) -> None:
        """Restore what the table was so many commits ago."""
        ...

    def take_forward(self) -> None:
        """Restore what the table was before the last commit."""
        ...

    def drop(self) -> None:
        """Drop the table, with all of its files."""
        ...


class DeltaBench:
    """A Delta table, in a folder of this machine or in a bucket."""

    def __init__(self, table: str, options: Mapping[str, str], system: fs.FileSystem, path: str) -> None:
        self.table = table
        self.options = dict(options)
        self.log: TableLog = self.delta_log()
        self._system, self._path = system, path
        self._name = path if isinstance(system, fs.LocalFileSystem) else f"s3://{path}"

    def delta_log(self, evolution: SchemaEvolution = "fail") -> DeltaLog:
        return DeltaLog(lambda _: self.options, evolution)

    def stage(
        self, batch: str, rows: pa.Table, files: int = 1, partition: Mapping[str, str | None] = {}
    ) -> list[DataFile]:
        below = "".join(f"p_{name}={value}/" for name, value in partition.items())
        paths = [f"data/{batch}/a/{below}part-{index}-{uuid4().hex}.parquet" for index in range(files)]
        return [self._write(path, rows, tuple(partition.items())) for path in paths]

    def _write(self, path: str, rows: pa.Table, partition: tuple[tuple[str, str | None], ...]) -> DataFile:
        whole = f"{self._path}/{path}"
        self._system.create_dir(whole.rpartition("/")[0], recursive=True)
        pq.write_table(rows, whole, filesystem=self._system, store_schema=False)
        size = self._system.get_file_info(whole).size
        return DataFile(f"{self.log.folder(self.table)}/{path}", size, rows.num_rows, partition)

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self._name, storage_options=self.options)

    def batches(self) -> list[str]:
        return sorted(self.delta.to_pyarrow_table(columns=["batch_id"])["batch_id"].to_pylist())

    def columns(self) -> list[str]:
        return [field.name for field in self.delta.schema().fields]

    def append_as_another(self, batch: str) -> None:
        write_deltalake(self.delta, rows_of(batch, 1), mode="append")

    def maintain(self) -> None:
        self.delta.optimize.compact()
        self.delta.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
        self.delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
        self.delta.create_checkpoint()
        self.delta.cleanup_metadata()

    def take_back(self, commits: int) -> None:
        self.delta.restore(self.delta.version() - commits)

    def take_forward(self) -> None:
        self.take_back(1)

    def drop(self) -> None:
        self._system.delete_dir_contents(self._path)


def is_undone(bench: TableBench, snapshot: TableSnapshot) -> bool:
    """Whether the bench's table was taken back to before the snapshot's record; False without one."""
    return snapshot.record is not None and bench.log.is_undone(bench.table, snapshot, snapshot.record)


@contextmanager
def delta_on_disk(folder: Path) -> Iterator[DeltaBench]:
    path = folder / "a table ü"
    path.mkdir()
    yield DeltaBench(f"delta+file://{path}", {}, fs.LocalFileSystem(), str(path))
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def delta_on_s3(moto: MotoS3) -> Iterator[DeltaBench]:
    bucket = moto.bucket(f"bucket-{uuid4().hex}")
    yield DeltaBench(
        f"delta+s3://store@{bucket}/tables/flights", delta_options(moto), s3_system(moto), f"{bucket}/tables/flights"
    )


def s3_system(moto: MotoS3) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=moto.endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY, region="us-east-1"
    )


def delta_options(moto: MotoS3) -> dict[str, str]:
    return {
        "aws_endpoint": moto.endpoint,
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": SECRET_KEY,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
