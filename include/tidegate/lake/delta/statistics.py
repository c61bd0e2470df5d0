"""Statistics of a Parquet file as Delta's log has them, by which readers skip files: bounds and counts of nulls.

Only what its footer says, and only where a bound is right for every reader: Parquet leaves NaN out of the bounds of
floating-point numbers, and JSON leaves digits out of decimals.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_COLUMNS: Final = 32  # the default of delta.dataSkippingNumIndexedCols
_LONGEST_TEXT: Final = 32  # as Delta for Spark has it; a longer bound would have to be cut
_MILLISECOND: Final = timedelta(milliseconds=1)

Bound = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A top column without fields: its place among the footer's columns, and how its bounds are written, if at all."""

    name: str
    index: int
    lower: Bound | None
    upper: Bound | None


Layout = Sequence[_Leaf]


@dataclass(frozen=True, slots=True)
class FooterColumn:
    """A column of one file: the number of its nulls, None if the footer doesn't say, and its bounds, if it has any."""

    name: str
    nulls: int | None
    bounds: tuple[object, object] | None


def layout_of(schema: pa.Schema) -> Layout:
    """Where a file of this schema has the top columns that have no fields of their own."""
    leaves, index = [], 0
    for field in schema:
        if field.type.num_fields == 0:
            leaves.append(_Leaf(field.name, index, *_bounds_of(field.type)))
        index += _width(field.type)
    return leaves


def columns_of(footer: pq.FileMetaData, layout: Layout) -> list[FooterColumn]:
    """What a footer says of these columns, over all row groups."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    return [_column(leaf, [group.column(leaf.index).statistics for group in groups]) for leaf in layout]


def statistics_json(rows: int, columns: Sequence[FooterColumn]) -> str:
    """The statistics of a file for the log, of its first columns."""
    first = columns[:_COLUMNS]
    bounds = {column.name: column.bounds for column in first if column.bounds}
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {name: lower for name, (lower, _) in bounds.items()},
            "maxValues": {name: upper for name, (_, upper) in bounds.items()},
            "nullCount": {column.name: column.nulls for column in first if column.nulls is not None},
        }
    )


def _column(leaf: _Leaf, groups: Sequence[pq.Statistics | None]) -> FooterColumn:
    known = [group for group in groups if group is not None and group.has_null_count]
    if len(known) < len(groups):
        return FooterColumn(leaf.name, None, None)
    return FooterColumn(leaf.name, sum(group.null_count for group in known), _bounds(leaf, known))


def _bounds(leaf: _Leaf, groups: Iterable[pq.Statistics]) -> tuple[object, object] | None:
    """None where the footer has no bounds, or such as can't be written; groups of nulls alone have none to give."""
    filled = [group for group in groups if group.num_values]
    if leaf.lower is None or leaf.upper is None or not filled or not all(group.has_min_max for group in filled):
        return None
    try:
        bounds = leaf.lower(min(group.min for group in filled)), leaf.upper(max(group.max for group in filled))
    except (ValueError, OverflowError):  # a year that Python doesn't have
        return None
    return None if None in bounds else bounds


def _bounds_of(kind: pa.DataType) -> tuple[Bound | None, Bound | None]:
    if pa.types.is_signed_integer(kind):
        return int, int
    if pa.types.is_date32(kind):
        return date.isoformat, date.isoformat
    if pa.types.is_timestamp(kind):
        return _instant, _later_instant
    if pa.types.is_string(kind):
        return _short, _short
    return None, None


def _instant(value: datetime) -> str:
    """Cut to the millisecond, as Delta's statistics are."""
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")


def _later_instant(value: datetime) -> str:
    return _instant(value + _MILLISECOND if value.microsecond % 1_000 else value)


def _short(value: str) -> str | None:
    return value if len(value) <= _LONGEST_TEXT else None


def _width(kind: pa.DataType) -> int:
    return sum(_width(kind.field(index).type) for index in range(kind.num_fields)) or 1
