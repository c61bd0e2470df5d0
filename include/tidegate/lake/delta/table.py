"""Delta tables as one commit left them, and the commits upon that: delta-rs's calls, and what their errors mean."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, Transaction

from tidegate.lake.delta.location import DeltaLocation, stated
from tidegate.lake.delta.types import Type
from tidegate.model.errors import TidegateError, UnavailableError, message
from tidegate.ports.table_log import Record, TableSnapshot

_ONCE: Final = CommitProperties(max_commit_retries=0)
_MORE_LOOKS: Final = 4
_EXPIRED: Final = ("not found", "No files in log segment", "Invalid table version")

Change = Callable[[], None]
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class DeltaHandle:
    """A table as it was opened, its version then, whose record, and the version of its commit, None without one."""

    table: DeltaTable
    version: int
    incarnation: str
    recorded: int | None


def handle_of(snapshot: TableSnapshot) -> DeltaHandle:
    """What a snapshot of `load_snapshot` holds; raises TypeError for another log's."""
    if not isinstance(snapshot.handle, DeltaHandle):
        raise TypeError(f"{snapshot} isn't a Delta table's")
    return snapshot.handle


def load_snapshot(location: DeltaLocation, incarnation: str, version: int | None = None) -> TableSnapshot | None:
    """The table as it is now, or was at a version, None where there is none of it left. Raises as `stated` says."""
    return _read(location, partial(_snapshot, incarnation), version)


def opened(location: DeltaLocation) -> DeltaTable | None:
    """The table as it is now, None where there is none. Raises as `stated` says."""
    return _read(location, lambda table: table)


def create_table(location: DeltaLocation, rows: Type, partition_by: Sequence[str]) -> None:
    """Create an empty table with these columns, unless there is one.

    delta-rs's own retries would let the slower of two creators replace the table's id and columns.
    """
    try:
        with stated(location.uri):
            DeltaTable.create(
                location.name,
                Schema.from_json(json.dumps(rows)),
                mode="ignore",
                partition_by=list(partition_by),
                storage_options=dict(location.options),
                commit_properties=_ONCE,
            )
    except TidegateError:
        if opened(location) is None:
            raise


def adding_columns(handle: DeltaHandle, columns: Sequence[Field]) -> Change:
    """The commit that adds columns to a table, of which a reader sees nulls."""
    return partial(handle.table.alter.add_columns, list(columns), commit_properties=_ONCE)


def changing_files(
    handle: DeltaHandle, incarnation: str, record: Record, adds: Sequence[AddAction], removes: Sequence[RemoveAction]
) -> Change:
    """The commit of files and record, as the version after the handle's and no other."""
    values = (record.number, record.note, handle.version + 1)
    properties = CommitProperties(
        max_commit_retries=0,
        app_transactions=[Transaction(key, value) for key, value in zip(_keys(incarnation), values, strict=True)],
        custom_metadata={
            "isBlindAppend": not removes,  # so that a MERGE of others isn't refused for an append
            "userMetadata": f"tidegate {incarnation} {record.number}",
        },
    )
    return partial(
        handle.table.create_write_transaction,
        [*adds, *removes],
        "append",
        handle.table.schema(),
        handle.table.metadata().partition_columns,
        commit_properties=properties,
    )


def failure_of(change: Change) -> Exception | None:
    """Commit, and return what delta-rs raised, from which alone nobody can tell whether the commit is in the log."""
    try:
        change()
    except (DeltaError, OSError) as error:
        return error
    return None


def commit_path(version: int) -> str:
    """Where a version's commit lies in a table's folder."""
    return f"_delta_log/{version:020}.json"


def is_expired(error: Exception) -> bool:
    """Whether log cleanup took away what was being read, or what a commit had to be held against."""
    return any(said in str(error) for said in _EXPIRED)


def look_again(read: Callable[[], _Found]) -> _Found:
    """What `read` returns or, at last, raises; log cleanup may take away what it was about to read."""
    for _ in range(_MORE_LOOKS):
        try:
            return read()
        except (DeltaError, OSError) as error:
            if not is_expired(error):
                break
    return read()


def _keys(incarnation: str) -> tuple[str, str, str]:
    """The ids of an incarnation's transactions: the batch's number, the note, and the version that they came with."""
    key = f"tidegate/{incarnation}"
    return key, f"{key}/note", f"{key}/version"


def _snapshot(incarnation: str, table: DeltaTable) -> TableSnapshot:
    number, note, recorded = (table.transaction_version(key) for key in _keys(incarnation))
    record = None if number is None or note is None else Record(number, note)
    return TableSnapshot(str(table.metadata().id), record, DeltaHandle(table, table.version(), incarnation, recorded))


def _read(location: DeltaLocation, of: Callable[[DeltaTable], _Found], version: int | None = None) -> _Found | None:
    """What a table that is opened now, or as it was at a version, says."""
    try:
        with stated(location.uri):
            return look_again(partial(_open, location, of, version))
    except FileNotFoundError as error:
        raise UnavailableError(message(f"the log changed while it was read: {error}", location.uri)) from error


def _open(location: DeltaLocation, of: Callable[[DeltaTable], _Found], version: int | None) -> _Found | None:
    try:
        return of(DeltaTable(location.name, version=version, storage_options=dict(location.options)))
    except TableNotFoundError:
        return None
