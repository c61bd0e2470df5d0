"""The log of Iceberg tables: `iceberg://<catalog>/<namespace>/<table>`, by pyiceberg, without Spark."""

import logging
import random
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Final

from pyarrow import fs
from pyiceberg import exceptions as iceberg
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.transforms import BucketTransform

from tidegate.lake.batch_rows import BATCH_ID
from tidegate.lake.iceberg.commit import RecordTransaction, is_undone, record_in
from tidegate.lake.iceberg.errors import asking
from tidegate.lake.iceberg.files import Footers, entries, read_footers
from tidegate.lake.iceberg.live_files import live_files, removals
from tidegate.lake.iceberg.removal import Removal, rows_removed
from tidegate.lake.iceberg.schema import add_columns, differences, refuse, refuse_mapping
from tidegate.lake.iceberg.spark_types import spark_schema
from tidegate.lake.iceberg.tables import Identifier, add_empty_snapshot, create_table, new_location, parse_table, uri_of
from tidegate.model.errors import UnavailableError, WrongDefinitionError, message
from tidegate.model.output_uri import SchemaEvolution
from tidegate.model.receipt import Receipt
from tidegate.parquet.files import put_new
from tidegate.ports import DataFile, LogConflictError, Record, TableSnapshot

log = logging.getLogger(__name__)

_LOCAL: Final = "file://"
_PYARROW: Final = "pyiceberg.io.pyarrow.PyArrowFileIO"
_MOST_VERSION: Final = 2
_REBASE_SECONDS: Final = 300.0
_MOST_PAUSE_SECONDS: Final = 0.2
_RANDOM: Final = random.SystemRandom()


class IcebergLog:
    """The port `TableLog` for Iceberg tables of format version 1 and 2.

    `catalog_of` gives the catalog that a connection stands for. `evolution` says what becomes of columns that a table
    hasn't: `add-columns` adds them, the others refuse the files.
    """

    def __init__(self, catalog_of: Callable[[str], Catalog], evolution: SchemaEvolution = "fail") -> None:
        self._catalog_of = catalog_of
        self._evolution = evolution

    def folder(self, table: str) -> str:
        """See `tidegate.ports.TableLog`: the table's location, as a URI."""
        with asking(table):
            found = self._load(table)
            return uri_of(found.location() if found else new_location(*self._named(table)))

    def load(self, table: str, incarnation: str, number: int) -> TableSnapshot | None:
        """See `tidegate.ports.TableLog`."""
        del number  # the record tells it for all
        with asking(table):
            found = self._load(table)
        if found is None:
            return None
        return TableSnapshot(str(found.metadata.table_uuid), record_in(found.metadata, incarnation, table), found)

    def schema(self, table: str) -> str | None:
        """See `tidegate.ports.TableLog`."""
        with asking(table):
            found = self._load(table)
        return None if found is None else spark_schema(found.schema())

    def require_writable(self, table: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.TableLog`; partitions are found in the files' columns, whatever folders they are in."""
        del partition_by
        with asking(table):
            found = self._load(table)
        if found is not None:
            _refuse_features(table, found)

    def files(self, table: str, snapshot: TableSnapshot) -> Collection[DataFile]:
        """See `tidegate.ports.TableLog`; without partition values, as the files have the columns themselves."""
        loaded = _table_in(snapshot)
        _refuse_features(table, loaded)
        with asking(table):
            return live_files(table, loaded)

    def create(self, table: str, files: Collection[DataFile], partition_by: Collection[str]) -> None:
        """See `tidegate.ports.TableLog`; of the files' schemas the first one counts, and `append` sees to the others.

        A new table has an empty snapshot: there are catalogs that accept a first one twice.
        """
        with asking(table):
            if self._load(table) is None and not create_table(*self._named(table), files, partition_by):
                log.info("the table %s has been created by somebody else", table)

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
        """See `tidegate.ports.TableLog`.

        Each file that rows of the batch `replaced` are in beside others' is read whole, and written once more without
        them. Raises UnavailableError, with a text that says so, where the catalog didn't tell whether it has committed.
        """
        loaded = _table_in(snapshot)
        _refuse_features(table, loaded)
        with asking(table):
            footers = read_footers(loaded.io, files)
        deadline = time.monotonic() + _REBASE_SECONDS
        while not self._commit(table, loaded, incarnation, record, footers, removed=removed, replaced=replaced):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"others have committed to the table {table} for {_REBASE_SECONDS:.0f} s without a gap; run again"
                )
            time.sleep(_RANDOM.uniform(0, _MOST_PAUSE_SECONDS))  # so that those who collided part
            loaded = self._load_again(table, incarnation, snapshot)

    def is_undone(self, table: str, snapshot: TableSnapshot, record: Record) -> bool:
        """See `tidegate.ports.TableLog`; False, too, where the commit's snapshot has expired."""
        del table
        return is_undone(_table_in(snapshot).metadata, record)

    def put_note(self, table: str, incarnation: str, name: str, text: str) -> bool:
        """See `tidegate.ports.TableLog`; remove_orphan_files leaves folders alone whose names begin with `_`.

        Of two that store one name at the same instant on an object store both may be told that they did: pyiceberg has
        no request for that.
        """
        with asking(table):
            io, folder = self._notes(table, incarnation)
            if folder.startswith(_LOCAL):
                return put_new(Path(folder.removeprefix(_LOCAL)), name, text.encode())
            try:
                with io.new_output(f"{folder}/{name}").create() as stream:
                    stream.write(text.encode())
            except FileExistsError:
                return False
            return True

    def notes(self, table: str, incarnation: str) -> Collection[str]:
        """See `tidegate.ports.TableLog`."""
        with asking(table):
            io, folder = self._notes(table, incarnation)
            system, path = _place(io, folder)
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return [each.base_name for each in found if each.is_file and not each.base_name.startswith(".")]

    def remove_note(self, table: str, incarnation: str, name: str) -> None:
        """See `tidegate.ports.TableLog`."""
        with asking(table), suppress(FileNotFoundError):
            io, folder = self._notes(table, incarnation)
            system, path = _place(io, f"{folder}/{name}")
            system.delete_file(path)

    def note(self, table: str, incarnation: str, name: str) -> str | None:
        """See `tidegate.ports.TableLog`."""
        with asking(table):
            io, folder = self._notes(table, incarnation)
            try:
                with io.new_input(f"{folder}/{name}").open() as stream:
                    return stream.read().decode()
            except FileNotFoundError:
                return None

    def _load(self, table: str) -> Table | None:
        catalog, identifier = self._named(table)
        try:
            return catalog.load_table(identifier)
        except (iceberg.NoSuchTableError, iceberg.NoSuchNamespaceError):
            return None

    def _load_again(self, table: str, incarnation: str, snapshot: TableSnapshot) -> Table:
        now = self.load(table, incarnation, 0)
        if now is None or now.table_id != snapshot.table_id:
            raise LogConflictError(f"the table {table} was dropped since it was looked at; look again")
        if now.record != snapshot.record:
            raise LogConflictError(f"the table {table} has {now.record} and not {snapshot.record}; look again")
        if now.record is not None and self.is_undone(table, now, now.record):
            raise LogConflictError(f"the table {table} was taken back to before {now.record}; look again")
        return _table_in(now)

    def _commit(
        self,
        table: str,
        loaded: Table,
        incarnation: str,
        record: Record,
        footers: Footers,
        *,
        removed: Collection[str],
        replaced: Receipt | None,
    ) -> bool:
        """Commit upon what is loaded, which stays as it is; False where the table has changed."""
        loaded = copy(loaded)
        try:
            with asking(table):
                if MAIN_BRANCH not in loaded.metadata.refs:
                    loaded = add_empty_snapshot(loaded)
                transaction = RecordTransaction(loaded)
                self._fit(table, transaction, footers)
                metadata = transaction.table_metadata
                if replaced is None:
                    removal = Removal(None, tuple(removals(table, loaded, removed)))
                else:
                    removal = _removal(table, metadata, loaded.io, replaced.batch_id or "")
                transaction.add_record(incarnation, record, list(entries(metadata, footers.all)), removal)
                transaction.commit_transaction()
        except (iceberg.CommitFailedException, iceberg.NoSuchTableError) as error:
            log.info("the table %s has changed while this was committed: %s", table, error)
            return False
        except ValueError:
            if self._is_still(table, loaded):
                raise
            return False  # pyiceberg looked for its commit, and found another table
        except UnavailableError as error:
            return self._found(table, loaded, incarnation, record, error)
        return True

    def _is_still(self, table: str, loaded: Table) -> bool:
        with asking(table):
            now = self._load(table)
        return now is not None and now.metadata.table_uuid == loaded.metadata.table_uuid

    def _found(self, table: str, loaded: Table, incarnation: str, record: Record, error: UnavailableError) -> bool:
        """True if the commit is there after all, False if its table isn't; else the error, as it may come to be."""
        with suppress(UnavailableError):
            if not self._is_still(table, loaded):
                return False
            now = self.load(table, incarnation, record.number)
            if now is not None and now.record == record:
                return True
        raise UnavailableError(f"{error}; the commit may come to be nevertheless") from error

    def _fit(self, table: str, transaction: RecordTransaction, footers: Footers) -> None:
        """Let the table have the columns of the files, and a name mapping, by which files without ids are read."""
        for _, schema in footers.schemas:
            current = transaction.table_metadata.schema()
            if found := differences(current, schema):
                refuse(table, found, current, schema, self._evolution)
                with transaction.update_schema() as update:
                    add_columns(update, found)
        metadata = transaction.table_metadata
        current, mapping = metadata.schema(), metadata.name_mapping()
        if mapping is None:
            text = current.name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: text})
            return
        for _, schema in footers.schemas:
            refuse_mapping(table, current, mapping, schema)

    def _notes(self, table: str, incarnation: str) -> tuple[FileIO, str]:
        found = self._load(table)
        location = found.location() if found else new_location(*self._named(table))
        io = found.io if found else load_file_io(self._named(table)[0].properties, location)
        return io, f"{uri_of(location)}/_tidegate/{incarnation}"

    def _named(self, table: str) -> tuple[Catalog, Identifier]:
        connection_id, identifier = parse_table(table)
        return self._catalog_of(connection_id), identifier


def _refuse_features(table: str, loaded: Table) -> None:
    """Raise WrongDefinitionError for a table whose writers have to do more than to add files."""
    metadata = loaded.metadata
    bucketed = [field for field in metadata.spec().fields if isinstance(field.transform, BucketTransform)]
    for feature in (
        f"format version {metadata.format_version} (row lineage, deletion vectors)"
        if metadata.format_version > _MOST_VERSION
        else "",
        "encryption" if "encryption.key-id" in metadata.properties else "",
        f"partition field {bucketed[0]}, whose value no footer tells" if bucketed else "",
    ):
        if feature:
            raise WrongDefinitionError(f"the table {table} has {feature}: take another table, or write it by a job")


def _removal(table: str, metadata: TableMetadata, io: FileIO, batch_id: str) -> Removal:
    if BATCH_ID not in metadata.schema().column_names:
        why = f"the table {table} has no column {BATCH_ID}, so a batch's rows can't be told: none was replaced"
        raise WrongDefinitionError(message(why, remedy="reprocess it into another --output"))
    return rows_removed(metadata, io, batch_id)


def _place(io: FileIO, uri: str) -> tuple[fs.FileSystem, str]:
    """The file system on which a FileIO of pyiceberg has a place, and the path there."""
    if not isinstance(io, PyArrowFileIO):
        raise WrongDefinitionError(f"{uri} is reached by {type(io).__name__}: set py-io-impl to {_PYARROW}")
    scheme, netloc, path = io.parse_location(uri)
    return io.fs_by_scheme(scheme, netloc), path


def _table_in(snapshot: TableSnapshot) -> Table:
    if not isinstance(snapshot.handle, Table):
        raise TypeError("the snapshot is another log's")
    return snapshot.handle
