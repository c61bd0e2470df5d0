"""Decodes a batch's records: those that can be go on, those that can't be carry the reason and SmallRye's headers.

The decoded records have the landed columns, `key` and `value` decoded, and `raw_key` and `raw_value` with the bytes
as they were received, from which a transform may reject.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.deserializers.step import Decoder, DeserializationError
from tidegate_spark.deserializers.steps import step_of
from tidegate_spark.deserializers.texts import CODING, is_utf8
from tidegate_spark.outcome import LANDING_SCHEMA, RAW, REJECTED_SCHEMA

_SIDES = ("key", "value")
_PLACE = ("topic", "partition", "offset")
_HEADER = "deserialization-failure"
_PARTITION = "tidegate_partition"


@dataclass(frozen=True)
class Deserialization:
    """The manifest's `deserialization`: a decoder for each side, and whether a failure fails the batch."""

    key: Decoder
    value: Decoder
    fails: bool

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "Deserialization":
        """What the manifest says; KeyError, TypeError or ValueError where it can't be followed."""
        return cls(Decoder.of(found["key"]), Decoder.of(found["value"]), bool(found["fails"]))

    def decoder(self, side: str) -> Decoder:
        """The decoder of `key` or `value`."""
        return self.key if side == "key" else self.value


def decoded(records: DataFrame, deserialization: Deserialization) -> DataFrame:
    """The records that can be decoded."""
    return (
        _judged(records, deserialization)
        .filter(_reason().isNull() & _once())
        .select(*LANDING_SCHEMA.fieldNames(), *RAW)
    )


def failures(records: DataFrame, deserialization: Deserialization) -> DataFrame:
    """The records that can't be decoded, in the columns of REJECTED_SCHEMA: as they were landed, and why.

    The headers that SmallRye's DeserializationFailureHandler adds are added to their own; there is no
    `deserialization-failure-cause`, because there is no exception behind another.
    """
    judged = _judged(records, deserialization).filter(_reason().isNotNull() & _once())
    headers = F.concat(
        F.coalesce("headers", F.array().cast(REJECTED_SCHEMA["headers"].dataType)),
        *(_headers(side, deserialization.decoder(side)) for side in _SIDES),
    )
    as_landed: dict[str, Column] = {"key": F.col("raw_key"), "value": F.col("raw_value"), "headers": headers}
    return judged.select(
        *(as_landed.get(name, F.col(name)).alias(name) for name in LANDING_SCHEMA.fieldNames()),
        _reason().alias("reason"),
    )


def check(records: DataFrame, deserialization: Deserialization) -> None:
    """Raise DeserializationError, with the place of the first and their number, if there are any failures."""
    bad = _reason().isNotNull()
    first = F.min(F.when(bad, F.struct(*_PLACE, _reason().alias("reason")))).alias("first")
    found = (
        _judged(records, deserialization).agg(F.count_if(bad).alias("bad"), F.count("*").alias("all"), first).first()
    )
    if found is not None and found.bad:
        at = ", ".join(f"{name} {found.first[name]}" for name in _PLACE)
        raise DeserializationError(
            f"{found.bad} of {found.all} records can't be decoded: {found.first.reason} (the first: {at}); mend the "
            "producer, the schema in the registry or the definition's deserializers; with "
            "fail-on-deserialization-failure: false such records are rejected and the others go on"
        )


def prepare(spark: SparkSession, deserialization: Deserialization) -> None:
    """Set the session up for charsets other than UTF-8, where one is used."""
    if not all(is_utf8(deserialization.decoder(side).encoding) for side in _SIDES):
        for name, value in CODING.items():
            spark.conf.set(name, value)


def _judged(records: DataFrame, deserialization: Deserialization) -> DataFrame:
    """The landed columns with key and value decoded, the raw bytes, and a reason for each side that can't be."""
    raws = dict(zip(_SIDES, RAW, strict=True))
    steps = {side: step_of(F.col(raws[side]), deserialization.decoder(side)) for side in _SIDES}
    others = [name for name in LANDING_SCHEMA.fieldNames() if name not in _SIDES]
    renamed = records.select(*(F.col(side).alias(raw) for side, raw in raws.items()), *others)
    parsed = renamed.select(
        "*",
        F.spark_partition_id().alias(_PARTITION),
        *(_known(raws[s], step.parsed).alias(f"{s}_parsed") for s, step in steps.items()),
    )
    columns = []
    for side, step in steps.items():
        raw, found = F.col(raws[side]), F.col(f"{side}_parsed")
        columns.append(_known(raws[side], step.value(raw, found)).alias(side))
        told = F.concat(
            F.lit(f"the {side} can't be decoded as {deserialization.decoder(side).name}: "), step.reason(raw, found)
        )
        columns.append(_known(raws[side], told).alias(f"{side}_reason"))
    return parsed.select(*others, *RAW, *columns, _PARTITION)


def _known(raw: str, column: Column) -> Column:
    return F.when(F.col(raw).isNotNull(), column)


def _once() -> Column:
    """True, and has Spark parse each record once.

    A filter is otherwise evaluated before what it filters is projected, on a second copy of the parsing; Spark doesn't
    do so beside a column that it holds for nondeterministic.
    """
    return F.col(_PARTITION) >= 0


def _reason() -> Column:
    """Both sides' reasons, or the one's that has one; null for a record that could be decoded."""
    both = F.concat_ws("; ", *(f"{side}_reason" for side in _SIDES))
    return F.when(F.coalesce(*(f"{side}_reason" for side in _SIDES)).isNotNull(), both)


def _headers(side: str, decoder: Decoder) -> Column:
    """The headers for a side that failed; an empty array for one that didn't."""
    raw, true = F.col(f"raw_{side}"), F.lit(b"true")
    told = {
        "deserializer": F.lit(decoder.name.encode()),
        "dlq": true,
        "topic": F.encode("topic", "UTF-8"),
        **({"key": true} if side == "key" else {}),
        "reason": F.encode(f"{side}_reason", "UTF-8"),
        f"{side}-data": raw,
        "data": raw,
    }
    pairs = [F.struct(F.lit(f"{_HEADER}-{name}").alias("key"), value.alias("value")) for name, value in told.items()]
    kind = REJECTED_SCHEMA["headers"].dataType
    return F.when(F.col(f"{side}_reason").isNotNull(), F.array(*pairs).cast(kind)).otherwise(F.array().cast(kind))
