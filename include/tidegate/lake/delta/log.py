"""The log of Delta tables, by delta-rs and without Spark.

A commit tries one version of the log, the one after its snapshot. delta-rs's own retries compare with the commits that
came in between, and can't tell a table that was dropped and created again from one that has only gone on. So they are
off: who finds the version taken opens the table again, compares its id and its record with the snapshot's, and tries
the next version.
"""

from collections.abc import Collection
from typing import Final

from deltalake import Field

from tidegate.lake.delta.files import StagedRows, staged_rows
from tidegate.lake.delta.history import content_version, is_taken_back
from tidegate.lake.delta.live_files import live_files, removals
from tidegate.lake.delta.location import DeltaLocation, OptionsOf, delta_folder, delta_location, stated
from tidegate.lake.delta.protocol import refuse_unless_plain
from tidegate.lake.delta.removal import rows_removed
from tidegate.lake.delta.schema import missing_columns, refuse_other_partitions, rows_of
from tidegate.lake.delta.table import (
    DeltaHandle,
    adding_columns,
    changing_files,
    commit_path,
    create_table,
    failure_of,
    handle_of,
    load_snapshot,
    opened,
)
from tidegate.model.errors import UnavailableError, message
from tidegate.model.output_uri import SchemaEvolution
from tidegate.model.receipt import Receipt
from tidegate.ports.table_log import DataFile, LogConflictError, Record, TableSnapshot

_TRIES: Final = 100
_UNKNOWN: Final = "whether the commit is in the log isn't known, and the next run finds out"


class DeltaLog:
    """The port `TableLog` for `delta+file:///folder` and `delta+s3://connection@bucket/folder`.

    An incarnation's record is three application transactions of the table, committed with the files:
    `tidegate/<incarnation>` is the batch's number, `.../note` its note and `.../version` the log's version. They carry
    no time, so that `delta.setTransactionRetentionDuration` doesn't end them.

    delta-rs doesn't work in a process that was forked from one that has used it.
    """

    def __init__(self, options_of: OptionsOf, evolution: SchemaEvolution = "fail") -> None:
        self._options_of = options_of
        self._evolution = evolution

    def folder(self, table: str) -> str:
        """See `tidegate.ports.TableLog`."""
        return delta_folder(table)

    def load(self, table: str, incarnation: str, number: int) -> TableSnapshot | None:  # noqa: ARG002 - one record for all
        """See `tidegate.ports.TableLog`. On this machine the record's commit is on the disk when this returns."""
        location = self._location(table)
        snapshot = load_snapshot(location, incarnation)
        if snapshot is not None and (recorded := handle_of(snapshot).recorded) is not None:
            location.make_durable(commit_path(recorded))
        return snapshot

    def schema(self, table: str) -> str | None:
        """See `tidegate.ports.TableLog`; Delta writes it as Spark does."""
        found = opened(self._location(table))
        return None if found is None else found.schema().to_json()

    def require_writable(self, table: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.TableLog`."""
        location = self._location(table)
        found = opened(location)
        if found is not None:
            refuse_unless_plain(found, rows_of(found), location.uri)
            refuse_other_partitions(found, partition_by, location.uri)

    def files(self, table: str, snapshot: TableSnapshot) -> Collection[DataFile]:
        """See `tidegate.ports.TableLog`."""
        location = self._location(table)
        with stated(location.uri):
            return live_files(handle_of(snapshot), location)

    def create(self, table: str, files: Collection[DataFile], partition_by: Collection[str]) -> None:
        """See `tidegate.ports.TableLog`. Any column may be null. Raises ValueError without files."""
        location = self._location(table)
        if opened(location) is not None:
            return
        rows = staged_rows(location, files).rows
        if rows is None:
            raise ValueError(f"{table} can't be created without files, which say what columns it has")
        create_table(location, rows, list(partition_by))
        location.make_durable(commit_path(0))

    def append(
        self,
        table: str,
        incarnation: str,
        snapshot: TableSnapshot,
        record: Record,
        files: Collection[DataFile],
        *,
        removed: Collection[str] = (),
        replaced: Receipt | None = None,
    ) -> None:
        """See `tidegate.ports.TableLog`. Columns are added by a commit of their own, before that of the files.

        Raises UnavailableError also where nobody can tell whether the files were committed, StaleError where a file is
        gone, CorruptFileError where one isn't Parquet, and WrongDefinitionError as `rows_removed` does.
        """
        location = self._location(table)
        staged = staged_rows(location, files)
        for _ in range(_TRIES):
            handle = handle_of(snapshot)
            missing = self._missing(handle, staged, location)
            if missing:
                change = adding_columns(handle, missing)
            elif replaced is None:
                removes = removals(handle, location, removed)
                change = changing_files(handle, incarnation, record, staged.adds, removes)
            else:
                gone = rows_removed(handle.table, location, replaced.batch_id or "")
                change = changing_files(handle, incarnation, record, [*staged.adds, *gone.adds], gone.removes)
            failure = failure_of(change)
            if failure is None and not missing:
                location.make_durable(commit_path(handle.version + 1))
                return
            snapshot = _after(location, incarnation, snapshot, record, failure)
            if snapshot.record == record:  # it was committed, and the answer got lost
                return
        raise UnavailableError(message(f"others committed {_TRIES} times meanwhile", location.uri, "try again later"))

    def is_undone(self, table: str, snapshot: TableSnapshot, record: Record) -> bool:
        """See `tidegate.ports.TableLog`; as far back as the log's history reaches.

        True for any record where the log has no more of the version that the table was taken back to.
        """
        handle = handle_of(snapshot)
        with stated(table):
            version = content_version(handle)
        if handle.recorded is None or version >= handle.recorded:
            return False
        if record == snapshot.record or version < 0:
            return True
        then = load_snapshot(self._location(table), handle.incarnation, version)
        if then is None or then.record is None or then.record.number < record.number:
            return True
        return self.is_undone(table, then, record)

    def put_note(self, table: str, incarnation: str, name: str, text: str) -> bool:
        """See `tidegate.ports.TableLog`."""
        return self._location(table).create(_notes(incarnation), name, text)

    def note(self, table: str, incarnation: str, name: str) -> str | None:
        """See `tidegate.ports.TableLog`."""
        return self._location(table).text(f"{_notes(incarnation)}/{name}")

    def notes(self, table: str, incarnation: str) -> Collection[str]:
        """See `tidegate.ports.TableLog`."""
        return self._location(table).names(_notes(incarnation))

    def remove_note(self, table: str, incarnation: str, name: str) -> None:
        """See `tidegate.ports.TableLog`."""
        self._location(table).remove(f"{_notes(incarnation)}/{name}")

    def _location(self, table: str) -> DeltaLocation:
        return delta_location(table, self._options_of)

    def _missing(self, handle: DeltaHandle, staged: StagedRows, location: DeltaLocation) -> list[Field]:
        """The columns that must be added first; raises WrongDefinitionError where the files can't be."""
        refuse_unless_plain(handle.table, rows_of(handle.table), location.uri)
        for partition_by in {frozenset(add.partition_values) for add in staged.adds}:
            refuse_other_partitions(handle.table, partition_by, location.uri)
        return missing_columns(handle.table, staged, self._evolution, location.uri)


def _after(
    location: DeltaLocation, incarnation: str, snapshot: TableSnapshot, record: Record, failure: Exception | None
) -> TableSnapshot:
    """The table after a commit that isn't the last one, or that failed: to be gone on from, or with the record."""
    fresh = _reloaded(location, incarnation)
    if fresh is None or fresh.table_id != snapshot.table_id:
        raise LogConflictError(f"the table {location.uri} was dropped meanwhile")
    if fresh.record == record:
        location.make_durable(commit_path(handle_of(fresh).recorded or 0))
        return fresh
    if fresh.record != snapshot.record:
        raise LogConflictError(f"{location.uri} has {fresh.record} of {incarnation}, and had {snapshot.record}")
    if is_taken_back(handle_of(fresh)):
        raise LogConflictError(f"the table {location.uri} was taken back by a RESTORE meanwhile")
    if failure is not None and handle_of(fresh).version == handle_of(snapshot).version:
        _raise(failure, location)
    return fresh


def _reloaded(location: DeltaLocation, incarnation: str) -> TableSnapshot | None:
    try:
        return load_snapshot(location, incarnation)
    except UnavailableError as error:
        raise UnavailableError(f"{error}; {_UNKNOWN}") from error


def _raise(failure: Exception, location: DeltaLocation) -> None:
    """Raise what a commit's failure means where nobody else has committed."""
    try:
        with stated(location.uri):
            raise failure
    except (UnavailableError, FileNotFoundError) as error:
        raise UnavailableError(f"{error}; {_UNKNOWN}") from error


def _notes(incarnation: str) -> str:
    return f"_tidegate/{incarnation}"
