"""One attempt at a batch: a folder of its own in the delivery's staging, and the context that a transform is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.batch_documents import Manifest, WrittenFile
from tidegate_spark.context import BatchContext
from tidegate_spark.outcome import ACK_SCHEMA, TransformError
from tidegate_spark.small_files import files_in, write_line
from tidegate_spark.uris import spark_uri


def _from_the_oldest_that_waits(landed: DataFrame, done: DataFrame) -> DataFrame:
    place = ACK_SCHEMA.fieldNames()
    oldest = landed.join(done, place, "left_anti").groupBy("topic", "partition").agg(F.min("offset").alias("oldest"))
    return landed.join(oldest, ["topic", "partition"]).filter("offset >= oldest").select(*place)


def _behind_the_highest(landed: DataFrame, done: DataFrame) -> DataFrame:
    highest = done.groupBy("topic", "partition").agg(F.max("offset").alias("highest"))
    joined = landed.join(highest, ["topic", "partition"], "left")
    return joined.filter("highest IS NULL OR offset > highest").select(*ACK_SCHEMA.fieldNames())


LEFT_BEHIND: Mapping[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "contiguous-acks": _from_the_oldest_that_waits,
    "highest-ack": _behind_the_highest,
}
"""By progress, which of the landed records lie behind where the batch ends when these are done with."""

_ACKS = "_acks"
_RESULT = "_result"
_OF_OUTCOME = "_outcome-"  # hidden, as from Spark, from whoever looks for acknowledgements while the job runs

# Readers skip the marker that Hadoop's committer leaves, and the result says more than it does.
_NO_MARKER = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class Attempt:
    """The folder `<staging>/<token>/`, which nobody else writes to, and whether anything in it was acknowledged."""

    def __init__(self, manifest: Manifest) -> None:
        self.token = uuid4().hex
        self.folder = f"{spark_uri(manifest.staging)}/{self.token}"
        self.has_acks = False
        self._below: list[str] = []
        self._manifest = manifest
        self._is_closed = False

    def acknowledge(self, acks: DataFrame) -> None:
        """Write acknowledgements, of three columns, into a folder of their own below `_acks/`.

        Spark renames each file into it when it is whole. Raises TransformError where the commit strategy doesn't know
        acknowledgements, or the outcome is being written already.
        """
        check_acknowledging(self._manifest)
        if self._is_closed:
            raise TransformError(
                f"records were acknowledged while the outcome was being written ({_place(self._manifest)}); "
                "acknowledge before the transform returns, or return them as Outcome.acks"
            )
        self._save_acks(acks, "")

    def close(self) -> None:
        """From here on the outcome is written, once. Raises TransformError the second time."""
        if self._is_closed:
            raise TransformError(
                f"attempt {self.token} has an outcome ({_place(self._manifest)}); open the batch anew for another"
            )
        self._is_closed = True

    def save_acks(self, acks: DataFrame) -> None:
        """Write the outcome's acknowledgements, of three columns, into a folder that nobody finds before the result.

        They stand for rows that only a result publishes; those that were written earlier stand for themselves.
        """
        self._save_acks(acks, _OF_OUTCOME)

    def ack_files(self, spark: SparkSession) -> tuple[WrittenFile, ...]:
        """Every file of acknowledgements; there must have been some."""
        return tuple(sorted(file for folder in self._below for file in self.files(spark, folder)))

    def ack_paths(self, spark: SparkSession) -> tuple[str, ...]:
        """Where these files lie; Spark hides the folders of some, and reads what is named to it."""
        return tuple(f"{self.folder}/{file.path}" for file in self.ack_files(spark))

    def _save_acks(self, acks: DataFrame, mark: str) -> None:
        self.has_acks = True
        below = f"{_ACKS}/{mark}{uuid4().hex}"
        self.save(acks, below)
        self._below.append(below)

    def save(self, rows: DataFrame, below: str = "", partition_by: tuple[str, ...] = ()) -> None:
        """Write rows as Parquet into the attempt's folder, or one below it."""
        # Appending, because acknowledgements may have made the folder.
        rows.write.mode("append").options(**_NO_MARKER).partitionBy(*partition_by).parquet(f"{self.folder}/{below}")

    def files(self, spark: SparkSession, below: str = "") -> tuple[WrittenFile, ...]:
        """The data files in the folder, or in one below it; neither opened nor, if hidden, listed."""
        found = files_in(spark, f"{self.folder}/{below}")
        return tuple(sorted(WrittenFile(path.partition(f"/{self.token}/")[2], size) for path, size in found))

    def write_result(self, spark: SparkSession, result: str) -> None:
        """Write the result, one line, last of all."""
        write_line(spark, self.folder, _RESULT, result)


@dataclass(frozen=True, kw_only=True)
class OpenBatch(BatchContext):
    """The context of a batch that is being processed, and the attempt that it is processed by."""

    attempt: Attempt


def open_batch(manifest: Manifest) -> OpenBatch:
    """Begin an attempt of this call's own; nothing is written until something is acknowledged or an outcome is."""
    attempt = Attempt(manifest)
    return OpenBatch(
        batch_id=manifest.batch_id,
        subscription=manifest.subscription,
        delivery=manifest.delivery.number,
        state=manifest.state,
        write_acks=attempt.acknowledge,
        attempt=attempt,
    )


def check_acknowledging(manifest: Manifest) -> None:
    """Raise TransformError unless the commit strategy is one that commits by acknowledgements."""
    if not manifest.commits_acknowledged:
        raise TransformError(
            f"commit-strategy {manifest.commit_strategy} knows no acknowledgements ({_place(manifest)}); acknowledge "
            "nothing, or set commit-strategy: throttled or latest"
        )


def _place(manifest: Manifest) -> str:
    return f"subscription {manifest.subscription}, batch {manifest.batch_id}"
