"""Delta tables that a job writes by Spark itself: each write once for a batch, however often that is delivered."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidegate_spark.batch_documents import Manifest

_APP, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"


@contextmanager
def once_per_batch(spark: SparkSession, manifest: Manifest, name: str = "write") -> Iterator[None]:
    """Let MERGE, UPDATE, DELETE and appends in this block do nothing to a Delta table that has had them for this batch.

    A table takes one write of a block: give a second one a block of its own, with another `name`. Delta keeps what it
    has had as `txnAppId`, the batch and the name, and `txnVersion`, always 1.
    """
    spark.conf.set(_APP, f"{manifest.batch_id}-{name}")
    spark.conf.set(_VERSION, "1")
    try:
        yield
    finally:
        spark.conf.unset(_APP)
        spark.conf.unset(_VERSION)
