"""How many files a batch's rows become: by default as many as there are tasks, or of about a size."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.row_layout import quoted


def rebalanced(spark: SparkSession, rows: DataFrame, target_bytes: int, folders: Sequence[str]) -> DataFrame:
    """The rows in tasks of about so many bytes, those of one folder together, by one more shuffle.

    The bytes are those of the shuffle: a Parquet file of the same rows is smaller, as a rule.
    """
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")  # else a task for each core
    spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", str(target_bytes))
    return rows.hint("rebalance", *(F.col(quoted(name)) for name in folders))
