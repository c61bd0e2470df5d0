"""Parquet files as entries of an Iceberg manifest, by their footers, each of which is read once."""

import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.fileformat import DataFileStatistics
from pyiceberg.io.pyarrow import (
    _pyarrow_to_schema_without_ids,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform

from tidegate.model.errors import CorruptFileError, MisfitError, StaleError
from tidegate.ports import DataFile

_READERS = 8
_MICROSECONDS: Final = "set spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS where they are written"
_FIELD_ID = "PARQUET:field_id"
_UNSIGNED = re.compile(r"\bUInt(32|64)\b|bitWidth=(32|64), isSigned=false")


@dataclass(frozen=True, slots=True)
class Footer:
    """A file and what its footer says of it."""

    file: DataFile
    metadata: Any  # pyarrow's FileMetaData


@dataclass(frozen=True, slots=True)
class Footers:
    """The footers of files with rows, and the schemas of all, without field ids, each once, with a file that has it."""

    all: tuple[Footer, ...]
    schemas: tuple[tuple[DataFile, Schema], ...]


def read_footers(io: FileIO, files: Collection[DataFile]) -> Footers:
    """Read the footer of each file; those without rows have a schema to tell, and are left out otherwise.

    Raises StaleError where a file is gone, CorruptFileError where it has other rows than it is to have, and
    MisfitError for what Iceberg would read as something else: INT96, nanoseconds, unsigned numbers, and
    field ids, which would be another table's.
    """
    with ThreadPoolExecutor(_READERS) as pool:
        footers = tuple(pool.map(lambda file: _footer(io, file), files))
    first: dict[pa.Schema, Footer] = {}
    for footer in footers:
        first.setdefault(footer.metadata.schema.to_arrow_schema().remove_metadata(), footer)
    schemas = tuple((footer.file, _schema(arrow, footer)) for arrow, footer in first.items())
    return Footers(tuple(each for each in footers if each.file.rows), schemas)


def entries(metadata: TableMetadata, footers: Sequence[Footer]) -> Iterator[Entry]:
    """An entry of a manifest for each file, in the table's current schema and partition spec.

    The value of a partition field is what the footer says of its column, which each row of the file must have. Raises
    MisfitError, naming the file, where it says nothing, or more than one.
    """
    schema, spec = metadata.schema(), metadata.spec()
    full = {f"write.metadata.metrics.column.{schema.find_column_name(each.source_id)}": "full" for each in spec.fields}
    plan = compute_statistics_plan(schema, {**metadata.properties, **full})
    ids = parquet_path_to_id_mapping(schema)
    for footer in footers:
        try:
            statistics = data_file_statistics_from_parquet_metadata(footer.metadata, plan, ids)
            for field in spec.fields:
                _refuse_unknown(field, statistics)
            partition = statistics.partition(spec, schema)
        except ValueError as error:
            raise MisfitError(
                f"{footer.file.uri} can't be added: {error}; partition-by must put each value of the table's partition "
                f"fields ({', '.join(map(str, spec.fields))}) into files of its own"
            ) from error
        yield Entry.from_args(
            content=DataFileContent.DATA,
            file_path=footer.file.uri,
            file_format=FileFormat.PARQUET,
            partition=partition,
            file_size_in_bytes=footer.file.bytes,
            sort_order_id=None,
            spec_id=spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _footer(io: FileIO, file: DataFile) -> Footer:
    try:
        with io.new_input(file.uri).open() as stream:
            metadata = pq.read_metadata(stream)
    except FileNotFoundError as error:
        raise StaleError(f"{file.uri} is gone: somebody has removed the delivery") from error
    except pa.ArrowInvalid as error:
        raise CorruptFileError(f"{file.uri} is no Parquet file: {error}") from error
    if metadata.num_rows != file.rows:
        raise CorruptFileError(f"{file.uri} has {metadata.num_rows} rows and is to have {file.rows}")
    return Footer(file, metadata)


def _schema(arrow: pa.Schema, footer: Footer) -> Schema:
    parquet = footer.metadata.schema
    for column in (parquet.column(index) for index in range(len(parquet))):
        if column.physical_type == "INT96" or "nanoseconds" in str(column.logical_type):
            raise MisfitError(
                f"{footer.file.uri}: the timestamps of column {column.path} are {column.physical_type}, and Iceberg's "
                f"are microseconds: {_MICROSECONDS}"
            )
        if _UNSIGNED.search(str(column.logical_type)):
            raise MisfitError(f"{footer.file.uri}: column {column.path} is unsigned, and Iceberg has no such type")
    if _FIELD_ID in arrow.to_string(show_field_metadata=True):
        raise MisfitError(f"{footer.file.uri} has field ids, which aren't the table's: write it without")
    try:
        return _pyarrow_to_schema_without_ids(arrow)
    except (TypeError, ValueError) as error:
        raise MisfitError(f"{footer.file.uri} has a column that Iceberg has no type for: {error}") from error


def _refuse_unknown(field: PartitionField, statistics: DataFileStatistics) -> None:
    """Raise ValueError unless the statistics tell the value of each row: none of them is null, or all are."""
    if isinstance(field.transform, VoidTransform):
        return
    if field.source_id not in statistics.column_sizes:
        raise ValueError(f"it hasn't the column of partition field {field.name}, which is to stay in the files")
    nulls = statistics.null_value_counts.get(field.source_id)
    found = statistics.column_aggregates.get(field.source_id)
    if nulls is None or (nulls < statistics.record_count and (found is None or found.current_min is None)):
        raise ValueError(f"its footer doesn't tell the least and the greatest value of partition field {field.name}")
    if 0 < nulls < statistics.record_count:
        raise ValueError(f"partition field {field.name} has nulls and other values")
