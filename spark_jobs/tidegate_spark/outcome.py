"""What a transform is given and what it gives back."""

import json
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    IntegralType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

LANDING_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)
"""The columns of a landed record: exactly those of Spark's Kafka source with headers.

`headers` is null where the record has none; `timestampType` is 0 for the producer's time, 1 for the broker's.
"""

RAW = ("raw_key", "raw_value")
"""The columns with the bytes as they were received, in the records of a batch whose keys or values are decoded."""

REJECTED_SCHEMA = StructType([*LANDING_SCHEMA.fields, StructField("reason", StringType())])
"""The columns of a rejected record: as it was landed, and why it was rejected."""


ACK_SCHEMA = StructType([LANDING_SCHEMA[name] for name in ("topic", "partition", "offset")])
"""The columns of an acknowledged record: where it lies."""

LARGEST_STATE = 1 << 20
"""How many bytes a checkpoint's state may have, as JSON in UTF-8."""


class TransformError(Exception):
    """The transform can't be used as it is: change it, or the definition that names it. A retry fails too."""


class DefinitionError(TransformError):
    """A property of the definition can't be followed on the transform's rows: change it. A retry fails too."""


@dataclass(frozen=True)
class Outcome:
    """All that became of a batch's records.

    `rows` go into the lake. `rejected` has the columns of REJECTED_SCHEMA, or, where keys or values are decoded,
    the records as they were given, `raw_key` and `raw_value` among them, and a reason. `filtered` says how many
    records were left out on purpose: a number, or a DataFrame of them, which is counted. Under strict row
    accounting the three add up to the records read.

    `shared` may name the DataFrame that the others are made from: it is kept on the executors while they are
    written, so that what it costs is paid once.

    `acks` are the records that are acknowledged, by commit-strategy throttled or latest: those that are done for good.
    Columns other than those of ACK_SCHEMA may stand beside them. Without any, and without `BatchContext.acknowledge`,
    all records are acknowledged but the rejected ones. `state` is what commit-strategy checkpoint is to keep with the
    positions: a JSON value of at most LARGEST_STATE bytes; None keeps the state that there is.
    """

    rows: DataFrame
    rejected: DataFrame | None = None
    filtered: int | DataFrame = 0
    shared: DataFrame | None = None
    acks: DataFrame | None = None
    state: Any = None


def as_outcome(returned: object, transform: str) -> Outcome:
    """What `transform` returned as an Outcome; a bare DataFrame is one that rejects and filters nothing.

    Raises TransformError, naming the transform, where `returned` can't be written.
    """
    outcome = Outcome(rows=returned) if isinstance(returned, DataFrame) else returned
    if not isinstance(outcome, Outcome):
        raise TransformError(f"{transform} returned {_kind(returned)}; return a Spark DataFrame, or an Outcome")
    if not isinstance(outcome.rows, DataFrame):
        raise TransformError(f"{transform} returned {_kind(outcome.rows)} as rows; give a Spark DataFrame")
    if outcome.rejected is not None:
        received = _as_rejected(outcome.rejected, transform)
        outcome = outcome if received is outcome.rejected else replace(outcome, rejected=received)
    if not isinstance(outcome.filtered, DataFrame):
        _check_filtered(outcome.filtered, transform)
    _check_state(outcome.state, transform)
    return outcome if outcome.acks is None else replace(outcome, acks=as_acks(outcome.acks, transform))


def as_acks(records: object, giver: str) -> DataFrame:
    """The columns of ACK_SCHEMA in acknowledged records; TransformError, naming the giver, where they lack any."""
    if not isinstance(records, DataFrame):
        raise TransformError(f"{giver} acknowledged {_kind(records)}; give a Spark DataFrame of records")
    records = _widened(records, ACK_SCHEMA)
    lacking = _lacking(records.schema, ACK_SCHEMA)
    if lacking:
        raise TransformError(
            f"{giver}: its acknowledged records lack {', '.join(lacking)}; give topic, partition and offset as the "
            f"records came with them, not {', '.join(_columns(records.schema))}"
        )
    return records.select(*ACK_SCHEMA.fieldNames())


def has_place(rows: DataFrame) -> bool:
    """Whether rows have topic, partition and offset, so that it can be told which record each comes from."""
    return not _lacking(rows.schema, ACK_SCHEMA)


def _as_rejected(rejected: object, transform: str) -> DataFrame:
    """The rejected records, each of REJECTED_SCHEMA's columns of its type. Raises TransformError where they aren't."""
    if not isinstance(rejected, DataFrame):
        raise TransformError(f"{transform} returned {_kind(rejected)} as rejected; give a Spark DataFrame, or None")
    received = _widened(_as_received(rejected), REJECTED_SCHEMA)
    found = received.schema
    lacking = _lacking(found, REJECTED_SCHEMA)
    if lacking:
        raise TransformError(
            f"{transform}: its rejected records lack {', '.join(lacking)}; give the landing columns as they were "
            f"received (with raw_key and raw_value where they are decoded) and a reason, not "
            f"{', '.join(_columns(found))}"
        )
    return received


def _widened(frame: DataFrame, wanted: StructType) -> DataFrame:
    """`frame` with whole numbers of the wanted width, texts as plain strings, and nulls of any type."""
    types = {field.name: field.dataType for field in frame.schema}
    casts = {
        field.name: frame[field.name].cast(field.dataType)
        for field in wanted
        if field.name in types
        and types[field.name].simpleString() != field.dataType.simpleString()
        and _is_harmless(types[field.name], field.dataType)
    }
    return frame.withColumns(casts) if casts else frame


def _is_harmless(found: DataType, wanted: DataType) -> bool:
    """Whether what is found says the same as what is wanted, in another type; a number that doesn't fit fails later."""
    return (
        isinstance(found, NullType)
        or (isinstance(found, IntegralType) and isinstance(wanted, IntegralType))
        or (isinstance(found, StringType | CharType | VarcharType) and isinstance(wanted, StringType))
    )


def _columns(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema]


def _lacking(found: StructType, wanted: StructType) -> list[str]:
    """The columns of `wanted` that aren't found, or not of their type."""
    there = _columns(found)
    return [column for column in _columns(wanted) if column not in there]


def _as_received(rejected: DataFrame) -> DataFrame:
    """`rejected` with the bytes as they were received for key and value, where it has them."""
    if not set(RAW) <= set(rejected.columns):
        return rejected
    kept = [name for name in REJECTED_SCHEMA.fieldNames() if name in rejected.columns and name not in {"key", "value"}]
    return rejected.select(rejected["raw_key"].alias("key"), rejected["raw_value"].alias("value"), *kept)


def _check_filtered(filtered: object, transform: str) -> None:
    if isinstance(filtered, bool) or not isinstance(filtered, int) or filtered < 0:
        raise TransformError(
            f"{transform} returned {filtered!r} as filtered; give the number of records left out on purpose, "
            "or a DataFrame of them"
        )


def _check_state(state: object, transform: str) -> None:
    try:
        text = json.dumps(state, ensure_ascii=False, allow_nan=False)
        size, is_same = len(text.encode()), json.loads(text) == state
    except (TypeError, ValueError, RecursionError) as error:
        raise TransformError(f"{transform} returned a state that isn't JSON: {error}") from None
    if not is_same:
        raise TransformError(
            f"{transform} returned a state that JSON changes; use lists in place of tuples, and texts as the keys of "
            "objects"
        )
    if size > LARGEST_STATE:
        raise TransformError(
            f"{transform} returned a state of {size} bytes of JSON, and {LARGEST_STATE} is the most; keep large things "
            "in a store of their own, and in the state where they lie"
        )


def _kind(value: object) -> str:
    """`list`; `pandas.DataFrame` where that isn't Python's own."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
