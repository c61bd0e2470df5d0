"""Keeps what doesn't fit into a table's schema as JSON text in a column, so that no value is lost and none is forced.

What fits is decided by types alone: a value that has its column's type, or a narrower one, fits; a column that the
table lacks doesn't, nor does one of another type. Structs, arrays and maps are looked into, and only what doesn't fit
within them is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

_JSON = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

_DIGITS: Mapping[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_NARROWER: Mapping[type[DataType], tuple[type[DataType], ...]] = {
    StringType: (StringType, CharType, VarcharType),
    ShortType: (ByteType,),
    IntegerType: (ByteType, ShortType),
    LongType: (ByteType, ShortType, IntegerType),
    FloatType: (ByteType, ShortType),
    DoubleType: (ByteType, ShortType, IntegerType, FloatType),
}

_Part = Callable[[Column], Column]


@dataclass(frozen=True)
class _Split:
    """What of a value fits, in the type that is wanted, and what doesn't; None where there is none of it."""

    fits: _Part | None
    rest: _Part | None


def with_rescued_data(rows: DataFrame, table: StructType | None, column: str) -> DataFrame:
    """The rows with the columns that fit into `table`, named and typed as it has them, and `column` with the rest.

    It is JSON text, an object by column of what doesn't fit, and null where all does. Without a table everything fits.
    """
    nothing = F.lit(None).cast("string")
    if table is None:
        return rows.withColumn(column, nothing)
    fields = _fields(rows.schema, table)
    rest = fields.rest(_column)
    text = F.when(_any(rest), F.to_json(F.struct(*rest), _JSON)) if rest else nothing
    return rows.select(*fields.fitting(_column), text.alias(column))


@dataclass(frozen=True)
class _Fields:
    """The fields of a struct, or the columns of rows, each in two."""

    parts: Sequence[tuple[str, StructField | None, _Split]]

    def fitting(self, value_of: Callable[[str], Column]) -> list[Column]:
        """What fits, and null for a field that doesn't at all, under the names that are wanted."""
        return [
            (F.lit(None).cast(target.dataType) if split.fits is None else split.fits(value_of(name))).alias(target.name)
            for name, target, split in self.parts
            if target is not None
        ]

    def rest(self, value_of: Callable[[str], Column]) -> list[Column]:
        """What doesn't, under the names that were found."""
        return [split.rest(value_of(name)).alias(name) for name, _, split in self.parts if split.rest is not None]


def _fields(found: StructType, wanted: StructType) -> _Fields:
    targets = [(field, _field(wanted, field.name)) for field in found]
    return _Fields(
        [
            (field.name, target, _NOTHING_FITS if target is None else _split(field.dataType, target.dataType))
            for field, target in targets
        ]
    )


def _split(found: DataType, wanted: DataType) -> _Split:
    if _same(found, wanted):
        return _EVERYTHING_FITS
    match found, wanted:
        case StructType(), StructType():
            return _split_struct(_fields(found, wanted))
        case ArrayType(), ArrayType():
            return _split_array(_split(found.elementType, wanted.elementType))
        case MapType(), MapType() if _is_narrower(found.keyType, wanted.keyType):
            return _split_map(_split(found.valueType, wanted.valueType), wanted)
    return _Split(lambda value: value.cast(wanted), None) if _is_narrower(found, wanted) else _NOTHING_FITS


def _split_struct(fields: _Fields) -> _Split:
    if all(target is None for _, target, _ in fields.parts):
        return _NOTHING_FITS

    def fits(value: Column) -> Column:
        return F.when(value.isNotNull(), F.struct(*fields.fitting(value.getField)))

    def rest(value: Column) -> Column:
        found = fields.rest(value.getField)
        return F.when(_any(found), F.struct(*found))

    return _Split(fits, rest if any(split.rest for _, _, split in fields.parts) else None)


def _split_array(elements: _Split) -> _Split:
    """What doesn't fit keeps its place, with null for elements that do."""
    fitting, remaining = elements.fits, elements.rest
    if fitting is None:
        return _NOTHING_FITS

    def fits(value: Column) -> Column:
        return F.transform(value, fitting)

    if remaining is None:
        return _Split(fits, None)

    def rest(value: Column) -> Column:
        found = F.transform(value, remaining)
        return F.when(F.exists(found, lambda each: each.isNotNull()), found)

    return _Split(fits, rest)


def _split_map(values: _Split, wanted: MapType) -> _Split:
    """What doesn't fit keeps its key."""
    fitting, remaining = values.fits, values.rest
    if fitting is None:
        return _NOTHING_FITS

    def fits(value: Column) -> Column:
        found = F.transform_values(value, lambda _, each: fitting(each))
        return F.transform_keys(found, lambda key, _: key.cast(wanted.keyType))

    if remaining is None:
        return _Split(fits, None)

    def rest(value: Column) -> Column:
        every = F.transform_values(value, lambda _, each: remaining(each))
        found = F.map_filter(every, lambda _, each: each.isNotNull())
        return F.when(F.size(found) > 0, found)

    return _Split(fits, rest)


def _itself(value: Column) -> Column:
    return value


_EVERYTHING_FITS, _NOTHING_FITS = _Split(_itself, None), _Split(None, _itself)


def _is_narrower(found: DataType, wanted: DataType) -> bool:
    """Whether each value of what is found is one of what is wanted, and none changes."""
    if _same(found, wanted) or isinstance(found, NullType):
        return True
    if isinstance(wanted, DecimalType):
        return _fits_decimal(found, wanted)
    return isinstance(found, _NARROWER.get(type(wanted), ()))


def _fits_decimal(found: DataType, wanted: DecimalType) -> bool:
    digits = wanted.precision - wanted.scale
    if isinstance(found, DecimalType):
        return found.precision - found.scale <= digits and found.scale <= wanted.scale
    return _DIGITS.get(type(found), digits + 1) <= digits


def _same(found: DataType, wanted: DataType) -> bool:
    """Whether two types are one, whatever may be null within them, and whatever is said beside them."""
    match found, wanted:
        case StructType(), StructType():
            return found.names == wanted.names and all(
                _same(one.dataType, other.dataType) for one, other in zip(found, wanted, strict=True)
            )
        case ArrayType(), ArrayType():
            return _same(found.elementType, wanted.elementType)
        case MapType(), MapType():
            return _same(found.keyType, wanted.keyType) and _same(found.valueType, wanted.valueType)
    return found.simpleString() == wanted.simpleString()


def _field(wanted: StructType, name: str) -> StructField | None:
    """The field of this name; one that differs in case alone will do, as for Spark, if there is no other."""
    alike = [field for field in wanted if field.name.lower() == name.lower()]
    return next((field for field in alike if field.name == name), alike[0] if alike else None)


def _any(parts: Sequence[Column]) -> Column:
    return reduce(or_, (part.isNotNull() for part in parts))


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")
