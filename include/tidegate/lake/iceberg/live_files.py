"""The files that an Iceberg table has, to be read as plain Parquet, and removed by the commit that replaces them."""

from collections.abc import Collection, Iterator
from typing import Final

from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, index_by_id, index_name_by_id, sanitize_column_names
from pyiceberg.table import Table
from pyiceberg.types import FixedType, TimeType, UUIDType

from tidegate.lake.iceberg.tables import uri_of
from tidegate.model.errors import DELIVERED_AGAIN, RewrittenFilesError, WrongDefinitionError, first_few
from tidegate.ports import DataFile

_NOT_SPARKS: Final = (FixedType, TimeType, UUIDType)


def live_files(table: str, loaded: Table) -> list[DataFile]:
    """The files of the current snapshot.

    Raises WrongDefinitionError where rows in them are deleted by other files, or their columns can't be told by name.
    """
    _refuse_columns(table, loaded)
    found = list(_entries(table, loaded))
    return [DataFile(uri_of(entry.file_path), entry.file_size_in_bytes, entry.record_count) for entry in found]


def removals(table: str, loaded: Table, uris: Collection[str]) -> list[Entry]:
    """The entries of these files. Raises RewrittenFilesError where one isn't in the current snapshot."""
    if not uris:
        return []
    by_uri = {uri_of(entry.file_path): entry for entry in _entries(table, loaded)}
    if gone := [uri for uri in uris if uri not in by_uri]:
        raise RewrittenFilesError(
            f"files that a batch replaces aren't in the table {table} any more: {first_few(gone)}; it was compacted or "
            f"taken back meanwhile; on what is there now {DELIVERED_AGAIN}"
        )
    return [by_uri[uri] for uri in uris]


def _entries(table: str, loaded: Table) -> Iterator[Entry]:
    for task in loaded.scan().plan_files():
        if task.delete_files:
            raise WrongDefinitionError(
                f"the table {table} has rows deleted by delete files (merge-on-read): set write.delete.mode, "
                "write.update.mode and write.merge.mode to copy-on-write, and run rewrite_data_files"
            )
        if task.file.file_format is not FileFormat.PARQUET:
            raise WrongDefinitionError(f"the table {table} has a file that isn't Parquet: {task.file.file_path}")
        yield task.file


def _refuse_columns(table: str, loaded: Table) -> None:
    current = loaded.schema()
    kinds = {index_name_by_id(current)[number]: field.field_type for number, field in index_by_id(current).items()}
    wrong = [f"column {name} is {kind}" for name, kind in kinds.items() if isinstance(kind, _NOT_SPARKS)]
    wrong += [f"column {name} was renamed, or dropped and added again" for name in _renamed(loaded, current)]
    if sanitize_column_names(current) != current:
        wrong.append("a column's name isn't one of letters, digits and _")
    if wrong:
        raise WrongDefinitionError(
            f"rows of the table {table} can't be rewritten: {first_few(wrong)}; take another table, or a job"
        )


def _renamed(loaded: Table, current: Schema) -> list[str]:
    """Columns that files of an earlier schema have under another name, or that had another's name there."""
    names = index_name_by_id(current)
    ids = {name: number for number, name in names.items()}
    earlier = [index_name_by_id(schema) for schema in loaded.metadata.schemas]
    moved = {names[number] for each in earlier for number, name in each.items() if names.get(number, name) != name}
    reused = {name for each in earlier for number, name in each.items() if ids.get(name, number) != number}
    return sorted(moved | reused)
