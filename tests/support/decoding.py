"""Decoding many values in one Spark action, for tests."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.deserializers.decode import Deserialization, decoded, failures, prepare
from tidegate_spark.deserializers.step import Decoder
from tidegate_spark.outcome import LANDING_SCHEMA


class Decoded(NamedTuple):
    """What became of one value: decoded, or why not."""

    value: Any
    reason: str | None


def landed(spark: SparkSession, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> DataFrame:
    """Landed records with these values, at offsets from 0."""
    every = [*keys, *[None] * (len(values) - len(keys))]
    rows = [
        (key and bytearray(key), None if value is None else bytearray(value), "t", 0, at, None, 0, None)
        for at, (key, value) in enumerate(zip(every, values, strict=True))
    ]
    return spark.createDataFrame(rows, LANDING_SCHEMA)


def decode(spark: SparkSession, decoder: Decoder, values: Sequence[bytes | None]) -> list[Decoded]:
    """Each value as it was decoded, or the reason of its failure; one that is lost, or comes twice, is an error."""
    how = Deserialization(Decoder(), decoder, fails=False)
    prepare(spark, how)
    records = landed(spark, values)
    good, bad = decoded(records, how), failures(records, how)
    nothing = F.lit(None).cast(good.schema["value"].dataType).alias("decoded")
    every = good.select(
        "offset", F.col("value").alias("decoded"), "raw_value", F.lit(None).cast("string").alias("reason")
    )
    every = every.union(bad.select("offset", nothing, "value", "reason"))
    found: dict[int, Decoded] = {}
    prefix = f"the value can't be decoded as {decoder.name}: "
    for row in every.collect():
        assert row.offset not in found
        assert row.raw_value == values[row.offset]
        assert (row.reason or prefix).startswith(prefix)
        found[row.offset] = Decoded(row.decoded, row.reason and row.reason.removeprefix(prefix))
    return [found[at] for at in range(len(values))]
