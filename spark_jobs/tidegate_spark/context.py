"""What a transform may learn of its batch, and how it acknowledges records while it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tidegate_spark.outcome import as_acks


@dataclass(frozen=True, kw_only=True)
class BatchContext:
    """The second argument of a transform that has two.

    `delivery` counts from 1: from 2 on, the batch may have been processed in part before. `state` is the JSON value
    that the last checkpoint left, None before the first. `write_acks` is given the acknowledged records, of the
    columns topic, partition and offset: in a test of a transform a list's `append` will do.
    """

    batch_id: str
    subscription: str
    delivery: int
    state: Any
    write_acks: Callable[[DataFrame], None]

    def acknowledge(self, records: DataFrame) -> None:
        """Say that these records are done for good, by an effect of the transform's own; returns when that is durable.

        Of `records` the columns topic (string), partition (int) and offset (bigint) count. They are read anew, so give
        a DataFrame that has no effects itself, and is the same each time it is read. Raises TransformError where
        the columns aren't there, or the commit strategy is neither throttled nor latest.
        """
        self.write_acks(as_acks(records, f"subscription {self.subscription}, batch {self.batch_id}"))
