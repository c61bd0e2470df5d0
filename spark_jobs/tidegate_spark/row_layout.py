"""Lays out rows as an output's files have them: the columns that are added, and the folders that files go into."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from tidegate_spark.outcome import TransformError
from tidegate_spark.rescue import with_rescued_data

_TABLES = ("delta+", "iceberg://")
_SPARKS_OWN = ("variant", "interval", "geometry", "geography")
_FOLDER = "batch_id"
"""What the folders of published batches are called, where they tell the batch: `batch_id=b0f2...`."""
_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Spark names the folder of null, and of the empty text
_ESCAPE = "'"
_TEXTS = (StringType, CharType, VarcharType)
_WITHOUT_TEXT = (BinaryType, ArrayType, MapType, StructType)


@dataclass(frozen=True)
class RowLayout:
    """What the output asks of the files that a job writes.

    `batch_id_column` is a column to add, with the batch's id. `keeps_partition_columns`: partition columns stay in the
    files. `rescued_data_column` is to have, as JSON text, what doesn't fit into `table_schema`; that is None as long as
    there is no table. Without any of it rows are written as they are.
    """

    batch_id_column: str | None = None
    keeps_partition_columns: bool = False
    rescued_data_column: str | None = None
    table_schema: StructType | None = None

    @classmethod
    def of(cls, layout: Mapping[str, Any]) -> "RowLayout":
        """The layout that a manifest holds. Raises KeyError, TypeError or ValueError for what is none."""
        schema = layout["table_schema"]
        return cls(
            batch_id_column=layout["batch_id_column"],
            keeps_partition_columns=layout["keeps_partition_columns"],
            rescued_data_column=layout["rescued_data_column"],
            table_schema=None if schema is None else StructType.fromJson(schema),
        )

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that rows don't bring."""
        return tuple(name for name in (self.batch_id_column, self.rescued_data_column) if name is not None)


AS_RETURNED = RowLayout()
"""Nothing is added, and the partition columns name the folders."""


def lay_out(
    rows: DataFrame, layout: RowLayout, batch_id: str, partition_by: tuple[str, ...], transform: str
) -> tuple[DataFrame, tuple[str, ...]]:
    """The rows as they are to be written, and the columns to write them by, which the files lose.

    Raises TransformError, naming the transform, for a partition column of a type without a text.
    """
    if layout.rescued_data_column is not None:
        rows = with_rescued_data(rows, layout.table_schema, layout.rescued_data_column)
    if layout.batch_id_column is not None:
        rows = rows.withColumn(layout.batch_id_column, F.lit(batch_id))
    return in_folders(rows, layout, partition_by, transform)


def in_folders(
    rows: DataFrame, layout: RowLayout, partition_by: tuple[str, ...], transform: str
) -> tuple[DataFrame, tuple[str, ...]]:
    """Rows that have all of their columns, and the columns to write them by, which the files lose; as `lay_out`."""
    if not (layout.keeps_partition_columns and partition_by):
        return rows, partition_by
    return _with_folders(rows, partition_by, transform)


def check_rows(rows: DataFrame, layout: RowLayout, partition_by: tuple[str, ...], transform: str) -> None:
    """Raise TransformError unless rows have all partition columns, and none that is added or that folders tell."""
    missing = [name for name in partition_by if name not in (*rows.columns, *layout.added)]
    if missing:
        raise TransformError(
            f"{transform}: partition-by names {', '.join(missing)}, which its rows lack; "
            f"they have {', '.join(rows.columns)}"
        )
    added = {name.lower() for name in layout.added} or {_FOLDER}
    taken = [name for name in rows.columns if name.lower() in added]
    if taken:
        why = "Tidegate adds to the rows of a table" if layout.added else f"readers take from the folders {_FOLDER}=..."
        raise TransformError(
            f"{transform} returned rows with a column {', '.join(taken)}, which {why}; give it another name"
        )


def check_types(rows: DataFrame, output: str, transform: str) -> None:
    """Raise TransformError for a column that tables would read as another type, as Parquet has none of its own."""
    if not output.startswith(_TABLES):
        return
    for name, kind in _leaves(rows.schema):
        if kind.startswith(_SPARKS_OWN):
            raise TransformError(
                f"{transform} returned rows with a column {name} of type {kind}, which isn't written into tables; "
                "cast it to a text, a number or a struct"
            )


def _leaves(kind: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _leaves(field.dataType, f"{path}.{field.name}" if path else field.name)
        case ArrayType():
            yield from _leaves(kind.elementType, f"{path}.element")
        case MapType():
            yield from _leaves(kind.keyType, f"{path}.key")
            yield from _leaves(kind.valueType, f"{path}.value")
        case _:
            yield path, kind.simpleString()


def _with_folders(rows: DataFrame, partition_by: tuple[str, ...], transform: str) -> tuple[DataFrame, tuple[str, ...]]:
    """With each partition column's text in a column of its own, `by_carrier`."""
    types = {field.name: field.dataType for field in rows.schema}
    taken = {name.lower() for name in types}
    folders: dict[str, Column] = {}
    for name in partition_by:
        kind = _type_of(types, name)
        if isinstance(kind, _WITHOUT_TEXT):
            raise TransformError(
                f"{transform}: partition-by names {name}, of type {kind.simpleString()}, which names no folder; "
                "partition by a text, a number, a date or a time"
            )
        folders[_free_name(f"by_{name}", taken | folders.keys())] = _text(F.col(quoted(name)), kind)
    return rows.withColumns(folders), tuple(folders)


def _type_of(types: Mapping[str, DataType], name: str) -> DataType:
    """By name as Spark finds columns: one that differs in case alone will do."""
    return next(kind for each, kind in types.items() if each.lower() == name.lower())


def _free_name(name: str, taken: Collection[str]) -> str:
    lowered = {each.lower() for each in taken}
    while name.lower() in lowered:
        name = f"by_{name}"
    return name


def quoted(name: str) -> str:
    """A name as Spark reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _text(value: Column, kind: DataType) -> Column:
    return _TEXT_OF.get(type(kind), _as_cast)(value)


def _as_cast(value: Column) -> Column:
    return value.cast("string")


def _escaped(value: Column) -> Column:
    """Another text for each, none of which Spark takes for null."""
    is_escaped = (value == "") | (value == _NULL) | value.startswith(_ESCAPE)
    return F.when(is_escaped, F.concat(F.lit(_ESCAPE), value)).otherwise(value)


def _in_utc(value: Column) -> Column:
    """Not in the session's time zone, which whoever reads the folder's name doesn't know."""
    seconds = F.unix_micros(value).cast("decimal(20,0)") / 1_000_000
    text = (F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(secs=seconds)).cast("string")
    return F.concat(F.replace(text, F.lit(" "), F.lit("T")), F.lit("Z"))


_TEXT_OF: Mapping[type[DataType], Callable[[Column], Column]] = {
    **dict.fromkeys(_TEXTS, _escaped),
    TimestampType: _in_utc,
}
