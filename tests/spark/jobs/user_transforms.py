"""Transforms as users may write them, right and wrong."""

import os
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark import BatchContext, Outcome


def loud(value: bytes) -> str:
    """A function that the workers must find by its module's name."""
    return f"{value.decode().upper()} by {__name__}"


@F.udf("string")
def shout(value: bytes) -> str:
    return loud(value)


@F.udf("string")
def crawl(folder: str) -> str:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(0.2)
    return "at last"


def shouting(records: DataFrame) -> DataFrame:
    """Needs this module on Spark's workers."""
    return records.select("offset", shout("value").alias("loud"))


def crawling(records: DataFrame) -> DataFrame:
    """Takes 0.2 s for each record and notes the process that does it in the folder that the value names."""
    return records.select("offset", crawl(F.col("value").cast("string")).alias("slow"))


def noting(records: DataFrame) -> DataFrame:
    """Notes in the file that NOTE names that it was called."""
    Path(os.environ["NOTE"]).touch()
    return records.select("offset")


def by_value(records: DataFrame) -> DataFrame:
    """One row for each record, with its value as a column to partition by."""
    return records.select("offset", F.col("value").cast("string").alias("place"))


def half(records: DataFrame) -> Outcome:
    """Leaves out every record with an offset that four doesn't divide, and says so."""
    kept = F.col("offset") % 4 == 0
    return Outcome(rows=records.filter(kept).select("offset"), filtered=records.filter(~kept))


def rejecting(records: DataFrame) -> Outcome:
    """Rejects everything, and gives rows without partitions."""
    return Outcome(rows=records.filter("false"), rejected=records.select("*", F.lit("no").alias("reason")))


def a_list(_: DataFrame) -> list[str]:
    """Not what a transform may return."""
    return ["rows"]


def without_reason(records: DataFrame) -> Outcome:
    """Rejects without saying why, and with a value that isn't bytes any more."""
    rejected = records.select(*(c for c in records.columns if c != "value"), F.lit("v").alias("value"))
    return Outcome(rows=records, rejected=rejected)


def large_orders(records: DataFrame) -> Outcome:
    """Rows of decoded values; orders below 10 are rejected, tombstones left out on purpose."""
    known = records.filter("value IS NOT NULL")
    small = F.col("value.id") < 10
    return Outcome(
        rows=known.filter(~small).select("offset", "key", "value.id", "value.note"),
        rejected=known.filter(small).select("*", F.lit("too small").alias("reason")),
        filtered=records.filter("value IS NULL"),
    )


def forgetting(records: DataFrame) -> Outcome:
    """Rejects decoded values, without the bytes that were received."""
    landed = records.drop("raw_key", "raw_value")
    return Outcome(rows=landed.filter("false"), rejected=landed.select("*", F.lit("no").alias("reason")))


def acknowledging(records: DataFrame, batch: BatchContext) -> Outcome:
    """Acknowledges the first two records, waits for the file that a value names, and returns the last as acknowledged.

    Without a file it fails.
    """
    places = records.orderBy("partition", "offset", ascending=[False, True])
    batch.acknowledge(places.limit(2))
    gate = places.select(F.col("value").cast("string").alias("gate")).first()
    if gate is None or not gate.gate:
        raise ValueError("no gate")
    while not Path(gate.gate).exists():
        time.sleep(0.05)
    return Outcome(rows=records, acks=records.filter("offset = 8"))


def counting(records: DataFrame, batch: BatchContext) -> Outcome:
    """Its state is the state before, and what this batch is."""
    state = {"before": batch.state, "records": records.count(), "delivery": batch.delivery}
    return Outcome(rows=records, state=state)
