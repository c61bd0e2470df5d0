"""What takes a batch's rows out of an Iceberg table: its files, and others that rows of it were moved into."""

import itertools
import uuid
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.metadata import TableMetadata

from tidegate.lake.batch_rows import BATCH_ID, is_of_batch


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that go, which rows they are looked for by, and what takes the place of those with others' rows."""

    predicate: str | None
    removes: tuple[Entry, ...]
    adds: tuple[Entry, ...] = ()


def rows_removed(metadata: TableMetadata, io: FileIO, batch_id: str) -> Removal:
    """What removes the rows of a batch from the table as it is loaded; new files are written, and nothing is committed.

    A file with others' rows too is read whole, one at a time.
    """
    predicate = f"{BATCH_ID} == '{batch_id}'"
    write, counter = uuid.uuid4(), itertools.count()
    removes: list[Entry] = []
    adds: list[Entry] = []
    for task in DataScan(table_metadata=metadata, io=io, row_filter=predicate).plan_files():
        ids = _rows(metadata, io, metadata.schema().select(BATCH_ID), task)
        found = pc.sum(is_of_batch(ids, batch_id)).as_py() or 0
        if not found:
            continue
        removes.append(task.file)
        if found < ids.num_rows:
            rows = _rows(metadata, io, metadata.schema(), task)
            kept = rows.filter(pc.invert(is_of_batch(rows, batch_id)))
            adds.extend(_dataframe_to_data_files(metadata, kept, io, write, counter))
    return Removal(predicate, tuple(removes), tuple(adds))


def _rows(metadata: TableMetadata, io: FileIO, columns: Schema, task: FileScanTask) -> pa.Table:
    return ArrowScan(metadata, io, columns, AlwaysTrue()).to_table([task])
