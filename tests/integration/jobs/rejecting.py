"""Transforms that fail, or reject what they can't use."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate_spark import Outcome


def threes(records: DataFrame) -> Outcome:
    """Rejects each multiple of three but zero; writes the others with their number."""
    number = f.col("value").cast("string").cast("int")
    is_bad = (number % 3 == 0) & (number != 0)
    rejected = records.filter(is_bad).withColumn("reason", f.concat(f.lit("no threes: "), number.cast("string")))
    return Outcome(rows=records.filter(~is_bad), rejected=rejected, shared=records)


def none(records: DataFrame) -> DataFrame:
    """Fails."""
    raise RuntimeError(f"no memory for {records.columns}")
