"""What takes a batch's rows out of a Delta table: its files, and others that rows of it were moved into.

Compaction puts rows of several batches into one file. Such a file is written once more without the batch's rows, and
takes the place of the old one.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from tidegate.lake.batch_rows import BATCH_ID, is_of_batch
from tidegate.lake.delta.files import staged_rows
from tidegate.lake.delta.location import DeltaLocation, stated
from tidegate.lake.delta.removable import is_append_only, removable_path, removing
from tidegate.model.errors import WrongDefinitionError, message
from tidegate.ports.table_log import DataFile

_PARTITION: Final = "partition."
_STATISTICS: Final = tuple(f"{name}.{BATCH_ID}" for name in ("min", "max", "null_count"))
_OF_A_FILE: Final = frozenset({"path", "size_bytes", *_STATISTICS})


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that go, and those that take the place of the ones that others' rows are in too."""

    removes: tuple[RemoveAction, ...]
    adds: tuple[AddAction, ...]


def rows_removed(table: DeltaTable, location: DeltaLocation, batch_id: str) -> Removal:
    """What removes the rows of a batch from the table as it is open; new files are written, and nothing is committed.

    Raises WrongDefinitionError for a table that can't lose rows so: it is append-only, it has no column batch_id, a
    file has a deletion vector, or a path that delta-rs can't name.
    """
    _refuse(table, location)
    with stated(location.uri):
        found = pa.table(table.get_add_actions(flatten=True))
    known = [name for name in found.column_names if name in _OF_A_FILE or name.startswith(_PARTITION)]
    actions = found.select(known).to_pylist()
    removes, mixed = [], []
    for action in actions:
        others = _others(action, location, batch_id)
        if others is None:
            continue
        removes.append(removing(_path(action, location), action["size_bytes"]))
        if others:
            mixed.append(action)
    _refuse_deletion_vectors(table, removes, location)
    rewritten = [_without(action, location, batch_id) for action in mixed]
    return Removal(tuple(removes), staged_rows(location, rewritten).adds)


def _refuse(table: DeltaTable, location: DeltaLocation) -> None:
    if is_append_only(table):
        raise _impossible("the Delta table is append-only (delta.appendOnly)", location)
    if BATCH_ID not in {field.name for field in table.schema().fields}:
        raise _impossible(f"the Delta table has no column {BATCH_ID}, so a batch's rows can't be told", location)


def _refuse_deletion_vectors(table: DeltaTable, removes: list[RemoveAction], location: DeltaLocation) -> None:
    """The log names such a file together with its vector, which delta-rs can't."""
    if not removes or "deletionVectors" not in (table.protocol().reader_features or ()):
        return
    with stated(location.uri):
        uris = pa.table(table.deletion_vectors())["filepath"].to_pylist()
    for remove in removes:
        if any(unquote(uri).endswith(f"/{remove.path}") for uri in uris):
            raise _impossible(
                f"{remove.path} has a deletion vector", location, "purge it by REORG TABLE ... APPLY (PURGE)"
            )


def _others(action: Mapping[str, Any], location: DeltaLocation, batch_id: str) -> bool | None:
    """Whether a file has rows of others beside the batch's; None where it has none of the batch's."""
    if f"{_PARTITION}{BATCH_ID}" in action:
        return False if action[f"{_PARTITION}{BATCH_ID}"] == batch_id else None
    low, high, nulls = (action.get(name) for name in _STATISTICS)
    if low is not None and high is not None:
        if not low <= batch_id <= high:
            return None
        if low == high and nulls == 0:
            return False
    kept = dropped = 0
    for rows in _batches(_path(action, location), location, [BATCH_ID]):
        mine = pc.sum(is_of_batch(rows, batch_id)).as_py() or 0
        dropped += mine
        kept += rows.num_rows - mine
    return kept > 0 if dropped else None


def _without(action: Mapping[str, Any], location: DeltaLocation, batch_id: str) -> DataFile:
    """A new file with the rows of an old one that aren't the batch's; a part of it at a time."""
    system, folder = location.system()
    path = f"data/rewritten/{uuid.uuid4().hex}.parquet"
    rows, writer = 0, None
    with stated(location.uri):
        system.create_dir(f"{folder}data/rewritten", recursive=True)
        try:
            for part in _batches(_path(action, location), location, None):
                kept = part.filter(pc.invert(is_of_batch(part, batch_id)))
                writer = writer or pq.ParquetWriter(
                    f"{folder}{path}", kept.schema, filesystem=system, store_schema=False
                )
                writer.write_batch(kept)
                rows += kept.num_rows
        finally:
            if writer is not None:
                writer.close()
        size = system.get_file_info(f"{folder}{path}").size
    location.make_durable(path)
    partition = {name: value for name, value in action.items() if name.startswith(_PARTITION)}
    values = tuple((name.removeprefix(_PARTITION), _text(value)) for name, value in partition.items())
    return DataFile(f"{location.uri}/{path}", size, rows, values)


def _batches(path: str, location: DeltaLocation, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    system, folder = location.system()
    with (
        stated(location.uri),
        pq.ParquetFile(f"{folder}{path}", filesystem=system, coerce_int96_timestamp_unit="us") as file,
    ):
        wanted = None if columns is None else [each for each in columns if each in file.schema_arrow.names]
        yield from file.iter_batches(columns=wanted)


def _path(action: Mapping[str, Any], location: DeltaLocation) -> str:
    return removable_path(action["path"], location.uri)


def _text(value: object) -> str | None:
    """The value of a partition column as the log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else str(value)


def _impossible(
    fact: str, location: DeltaLocation, remedy: str = "reprocess it into another --output"
) -> WrongDefinitionError:
    return WrongDefinitionError(message(f"no batch of it can be replaced: {fact}", location.uri, remedy))
