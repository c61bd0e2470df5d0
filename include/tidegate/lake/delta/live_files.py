"""The files that a Delta table has, to be read as plain Parquet, and removed by the commit that replaces them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
from deltalake.transaction import RemoveAction

from tidegate.lake.delta.location import DeltaLocation
from tidegate.lake.delta.protocol import refuse_unless_plain
from tidegate.lake.delta.removable import is_append_only, removable_path, removing
from tidegate.lake.delta.schema import rows_of
from tidegate.lake.delta.table import DeltaHandle
from tidegate.model.errors import DELIVERED_AGAIN, RewrittenFilesError, WrongDefinitionError, first_few, message
from tidegate.ports.table_log import DataFile


def live_files(handle: DeltaHandle, location: DeltaLocation) -> list[DataFile]:
    """The files of the handle's version.

    Raises WrongDefinitionError for a table whose rows may not be deleted, or whose files hold deleted ones.
    """
    _refuse(handle, location)
    return [
        DataFile(f"{location.uri}/{path}", add["size_bytes"], add["num_records"] or 0, tuple(add["partition"].items()))
        for path, add in _adds(handle, location)
    ]


def removals(handle: DeltaHandle, location: DeltaLocation, uris: Collection[str]) -> list[RemoveAction]:
    """What takes these files out of the handle's version. Raises RewrittenFilesError where one isn't in it."""
    if not uris:
        return []
    _refuse(handle, location)
    adds = dict(_adds(handle, location))
    paths = [location.relative(uri) for uri in uris]
    if gone := [path for path in paths if path not in adds]:
        raise RewrittenFilesError(
            message(
                f"files that a batch replaces aren't in the table any more: {first_few(gone)}",
                location.uri,
                f"it was compacted or taken back meanwhile; on what is there now {DELIVERED_AGAIN}",
            )
        )
    return [removing(path, adds[path]["size_bytes"], adds[path]["partition"]) for path in paths]


def _adds(handle: DeltaHandle, location: DeltaLocation) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The log's entries, by the paths of the files below the table's folder."""
    for add in pa.table(handle.table.get_add_actions()).to_pylist():
        yield removable_path(add["path"], location.uri), {**add, "partition": add.get("partition") or {}}


def _refuse(handle: DeltaHandle, location: DeltaLocation) -> None:
    refuse_unless_plain(handle.table, rows_of(handle.table), location.uri)
    features = handle.table.protocol().reader_features or ()
    wrong = ""
    if is_append_only(handle.table):
        wrong = "delta.appendOnly is set, so no row is replaced or deleted"
    elif "deletionVectors" in features and any(batch.num_rows for batch in handle.table.deletion_vectors()):
        wrong = "rows are deleted by deletion vectors: run REORG TABLE ... APPLY (PURGE), and disable them"
    if wrong:
        raise WrongDefinitionError(message(wrong, location.uri, "or name another table as processing.output"))
