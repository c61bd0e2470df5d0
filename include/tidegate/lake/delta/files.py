"""Staged Parquet files as Delta's log takes them: with the types of their rows and statistics, by their footers."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow import fs

from tidegate.lake.delta.location import DeltaLocation, stated
from tidegate.lake.delta.statistics import FooterColumn, Layout, columns_of, layout_of, statistics_json
from tidegate.lake.delta.types import Type, difference, merged, struct_of
from tidegate.model.errors import CorruptFileError, MisfitError, StaleError, WrongDefinitionError, first_few
from tidegate.ports.table_log import DataFile

_READERS: Final = 8
_READERS_OF_A_STORE: Final = 32


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Files to add, the struct that holds the rows of all of them, and its columns that are null in no row of any."""

    adds: tuple[AddAction, ...]
    rows: Type | None
    without_nulls: frozenset[str]


def staged_rows(location: DeltaLocation, files: Collection[DataFile]) -> StagedRows:
    """What the footers of files say; no row is read.

    Raises MisfitError where one holds what others don't agree with, or no Delta table has, StaleError where
    one is gone, and CorruptFileError where one isn't Parquet.
    """
    footers = _footers(location, files)
    layouts = _layouts(footers)
    columns = [columns_of(footer, _layout(layouts, footer)) for footer in footers]
    adds = [
        _add(location.relative(file.uri), file, footer, of_file)
        for file, footer, of_file in zip(files, footers, columns, strict=True)
    ]
    rows = _rows([schema for schema, _ in layouts], location.uri)
    whole = [frozenset(column.name for column in of_file if column.nulls == 0) for of_file in columns]
    return StagedRows(tuple(adds), rows, frozenset.intersection(*whole) if whole else frozenset())


def _footers(location: DeltaLocation, files: Collection[DataFile]) -> list[pq.FileMetaData]:
    system, folder = location.system()
    paths = [f"{folder}{location.relative(file.uri)}" for file in files]
    with ThreadPoolExecutor(_READERS if location.is_local else _READERS_OF_A_STORE) as pool:
        return list(pool.map(lambda path: _footer(system, path, location.uri), paths))


def _footer(system: fs.FileSystem, path: str, table: str) -> pq.FileMetaData:
    try:
        with stated(table), pq.ParquetFile(path, filesystem=system) as file:
            return file.metadata
    except FileNotFoundError as error:
        raise StaleError(f"a file to be added to {table} is gone: {path}") from error
    except WrongDefinitionError as error:
        if isinstance(error.__cause__, pa.ArrowInvalid):
            raise CorruptFileError(f"{path} isn't a whole Parquet file: {error.__cause__}") from error
        raise


def _layouts(footers: Sequence[pq.FileMetaData]) -> list[tuple[pq.ParquetSchema, Layout]]:
    """Each schema that files have, once: a job writes a thousand of one."""
    found: list[tuple[pq.ParquetSchema, Layout]] = []
    for footer in footers:
        if not any(footer.schema.equals(known) for known, _ in found):
            found.append((footer.schema, layout_of(footer.schema.to_arrow_schema())))
    return found


def _layout(layouts: Sequence[tuple[pq.ParquetSchema, Layout]], footer: pq.FileMetaData) -> Layout:
    return next(layout for schema, layout in layouts if footer.schema.equals(schema))


def _rows(schemas: Sequence[pq.ParquetSchema], table: str) -> Type | None:
    rows: Type | None = None
    for schema in schemas:
        more = struct_of(schema.to_arrow_schema(), f"files for {table}")
        if rows is None:
            rows = more
            continue
        found = difference(rows, more)
        if found.conflicts:
            raise MisfitError(f"files of one batch differ: {first_few(found.conflicts)} (among its other files)")
        rows = merged(rows, found.added)
    return rows


def _add(path: str, file: DataFile, footer: pq.FileMetaData, columns: Sequence[FooterColumn]) -> AddAction:
    return AddAction(
        path=path,
        size=file.bytes,
        partition_values=dict(file.partition),
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=statistics_json(footer.num_rows, columns),
    )
