"""Reads a batch's manifest and records, and writes its outcome: the contract, for jobs of any make.

A job of your own needs three calls::

    manifest = read_manifest(spark, manifest_uri)
    records = read_records(spark, manifest)
    result = write_outcome(spark, manifest, Outcome(rows=..., rejected=..., filtered=...))

One that acknowledges records while it runs, under commit-strategy throttled or latest, opens the batch first::

    batch = open_batch(manifest)
    batch.acknowledge(records_that_are_done)
    result = write_outcome(spark, manifest, Outcome(rows=...), batch)

They work alike on a classic session and over Spark Connect.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)
from pyspark.storagelevel import StorageLevel

from tidegate_spark.batch_attempt import LEFT_BEHIND, Attempt, OpenBatch, check_acknowledging, open_batch
from tidegate_spark.batch_documents import (
    FORMAT,
    Delivery,
    LandedFile,
    Manifest,
    ManifestError,
    Range,
    Result,
    WrittenFile,
    parse_manifest,
)
from tidegate_spark.change_feed import Merged, merged
from tidegate_spark.deserializers.decode import Deserialization, check, decoded, failures, prepare
from tidegate_spark.file_size import rebalanced
from tidegate_spark.outcome import (
    ACK_SCHEMA,
    LANDING_SCHEMA,
    RAW,
    REJECTED_SCHEMA,
    Outcome,
    TransformError,
    as_outcome,
    has_place,
)
from tidegate_spark.row_layout import AS_RETURNED, RowLayout, check_rows, check_types, in_folders, lay_out
from tidegate_spark.small_files import texts_at
from tidegate_spark.uris import spark_uri

__all__ = [
    "FORMAT",
    "Delivery",
    "LandedFile",
    "Manifest",
    "ManifestError",
    "OpenBatch",
    "Outcome",
    "Range",
    "Result",
    "RowLayout",
    "TransformError",
    "WrittenFile",
    "open_batch",
    "parse_manifest",
    "read_landed",
    "read_manifest",
    "read_records",
    "spark_uri",
    "write_outcome",
]

_REJECTED = "_rejected"
_TOMBSTONES = "_tombstones"

# Spark's default, INT96, has no time zone for the readers that still know it.
_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
_TABLE_SETTINGS = {
    "spark.sql.parquet.writeLegacyFormat": "false",  # decimals and lists as the formats want them
    "spark.sql.parquet.fieldId.write.enabled": "false",  # of columns that come from another table
}


def read_manifest(spark: SparkSession, uri: str) -> Manifest:
    """Read the manifest at `uri`, from wherever Spark can read. Raises ManifestError."""
    texts = texts_at(spark, uri)
    if len(texts) != 1:
        raise ManifestError(f"{uri} holds {len(texts)} files; name one manifest")
    return parse_manifest(texts[0], uri)


def read_records(spark: SparkSession, manifest: Manifest) -> DataFrame:
    """The batch's records in the columns of LANDING_SCHEMA, decoded as the manifest says.

    Where keys or values are decoded, `raw_key` and `raw_value` have the bytes as they were received, and records
    that can't be decoded aren't among them: `write_outcome` rejects those. Raises DeserializationError instead if
    the manifest lets them fail the batch and there are any.
    """
    landed = read_landed(spark, manifest)
    if manifest.deserialization is None:
        return landed
    prepare(spark, manifest.deserialization)
    if manifest.deserialization.fails:
        check(landed, manifest.deserialization)
    return decoded(landed, manifest.deserialization)


def read_landed(spark: SparkSession, manifest: Manifest) -> DataFrame:
    """The batch's records as they were received, in the columns of LANDING_SCHEMA.

    Where the files hold more than the manifest's records, those outside of its ranges are left out.
    """
    if not manifest.files:
        return spark.createDataFrame([], LANDING_SCHEMA)
    landed = spark.read.schema(LANDING_SCHEMA).parquet(*(spark_uri(file.uri) for file in manifest.files))
    if manifest.records >= sum(file.records for file in manifest.files):
        return landed
    places = [(one.topic, one.partition, one.start, one.end) for one in manifest.ranges]
    ranges = spark.createDataFrame(places, "at_topic string, at_partition int, first bigint, behind bigint")
    within = F.expr("topic = at_topic AND partition = at_partition AND offset >= first AND offset < behind")
    return landed.join(F.broadcast(ranges), within, "left_semi")


def write_outcome(
    spark: SparkSession,
    manifest: Manifest,
    outcome: Outcome | DataFrame,
    batch: OpenBatch | None = None,
    read: Callable[[], int] | None = None,
) -> Result:
    """Write `outcome` into the attempt's folder in the manifest's staging, and last of all the result.

    Rows go to `<staging>/<attempt>/`, laid out as the manifest's layout and partition_by say, rejected records to
    `_rejected/` below it, acknowledged ones to `_acks/`, and the result to `_result/`, one line of JSON. Of a transform
    that acknowledges for itself, rows and rejected records behind where the batch ends by that are withheld, if the
    rows have topic, partition and offset as they came: they come again with the next batch. An attempt without a
    result publishes nothing, so a job that dies, or that a later one overtakes, leaves no output that is used.
    The attempt is that of `batch`, if it was opened before, else one of this call's own. `read` answers with how many
    records `read_landed` has, where the caller has begun to count them before.
    Raises TransformError where the outcome isn't one that can be written as the manifest asks.
    """
    transform = manifest.transform or "the job"
    outcome = as_outcome(outcome, transform)
    _check_strategy(outcome, manifest, transform)
    if manifest.deserialization is not None:
        outcome = _completed(spark, manifest, manifest.deserialization, outcome)
    check_rows(outcome.rows, manifest.layout, manifest.partition_by, transform)
    attempt = (batch or open_batch(manifest)).attempt
    attempt.close()
    for name, value in (_SETTINGS if manifest.layout == AS_RETURNED else _SETTINGS | _TABLE_SETTINGS).items():
        spark.conf.set(name, value)
    with _kept(outcome.shared):
        counts = _count(read or read_landed(spark, manifest).count, outcome)
        withheld = None
        if outcome.acks is not None:
            attempt.save_acks(outcome.acks)
        if attempt.has_acks and has_place(outcome.rows):
            outcome, withheld = _up_to_the_end(outcome, _left_behind(spark, manifest, outcome, attempt))
        written = _write(spark, manifest, outcome, attempt, counts)
        ack_files = _write_acks(spark, manifest, attempt, has_rejected=bool(written.rejected_files))
    result = Result(
        batch_id=manifest.batch_id,
        delivery=manifest.delivery.token,
        attempt=attempt.token,
        read=counts.read,
        filtered=counts.filtered + written.left_out,
        files=written.files,
        rejected_files=written.rejected_files,
        application=spark.conf.get("spark.app.id") or "",
        ack_files=ack_files,
        withheld=withheld,
        state=outcome.state,
        rewritten_files=written.rewritten_files,
        tombstone_files=written.tombstone_files,
        replaced_files=written.replaced_files,
    )
    attempt.write_result(spark, result.to_json())
    return result


def _completed(spark: SparkSession, manifest: Manifest, deserialization: Deserialization, outcome: Outcome) -> Outcome:
    """The outcome with the records that can't be decoded among the rejected, and without raw bytes among the rows."""
    rows = outcome.rows.drop(*RAW)
    if deserialization.fails:
        return replace(outcome, rows=rows)
    undecoded = failures(read_landed(spark, manifest), deserialization)
    if outcome.rejected is not None:
        undecoded = undecoded.unionByName(outcome.rejected.select(*undecoded.columns))
    return replace(outcome, rows=rows, rejected=undecoded)


@dataclass(frozen=True)
class _Counts:
    """How many records were read, and how many of them were filtered out and rejected."""

    read: int
    filtered: int
    rejected: int


def _count(read: Callable[[], int], outcome: Outcome) -> _Counts:
    given = outcome.filtered if isinstance(outcome.filtered, int) else 0
    counted = _count_each({"filtered": outcome.filtered, "rejected": outcome.rejected})
    return _Counts(read(), **{"filtered": given, "rejected": 0, **counted})


def _count_each(asked: Mapping[str, object]) -> Mapping[str, int]:
    """Count those that are frames in one query: each one more costs a Spark that has just started a second."""
    frames = {name: frame for name, frame in asked.items() if isinstance(frame, DataFrame)}
    if not frames:
        return {}
    named = [frame.select(F.lit(name).alias("name")) for name, frame in frames.items()]
    counts = [F.count_if(F.col("name") == name).alias(name) for name in frames]
    return reduce(DataFrame.unionAll, named).select(*counts).collect()[0].asDict()


def _left_behind(spark: SparkSession, manifest: Manifest, outcome: Outcome, attempt: Attempt) -> DataFrame:
    """The places of the records that lie behind where the batch will end, and so come again with the next one.

    That is, in each partition, from the oldest record on that is neither acknowledged nor rejected
    (`contiguous-acks`), or behind the highest one that is (`highest-ack`): as the engine finds out from the same files.
    """
    place = ACK_SCHEMA.fieldNames()
    landed = read_landed(spark, manifest).select(*place)
    done = spark.read.schema(ACK_SCHEMA).parquet(*attempt.ack_paths(spark))
    if outcome.rejected is not None:
        done = done.unionByName(outcome.rejected.select(*place))
    return LEFT_BEHIND[manifest.progress](landed, done)


def _up_to_the_end(outcome: Outcome, left_behind: DataFrame) -> tuple[Outcome, int]:
    """The outcome without the rows and the rejected records of these places, and how many those are."""
    place = ACK_SCHEMA.fieldNames()
    both = [outcome.rows] if outcome.rejected is None else [outcome.rows, outcome.rejected]
    kept = [each.join(left_behind, place, "left_anti").select(*each.columns) for each in both]
    withheld = reduce(DataFrame.unionAll, [each.select(*place).join(left_behind, place, "left_semi") for each in both])
    return replace(outcome, rows=kept[0], rejected=kept[1] if kept[1:] else None), withheld.count()


@dataclass(frozen=True)
class _Written:
    """The files of an attempt, as a result names them, and how many rows of a change feed aren't in them."""

    files: tuple[WrittenFile, ...] = ()
    rejected_files: tuple[WrittenFile, ...] = ()
    rewritten_files: tuple[WrittenFile, ...] = ()
    tombstone_files: tuple[WrittenFile, ...] = ()
    replaced_files: tuple[str, ...] = ()
    left_out: int = 0


def _write(spark: SparkSession, manifest: Manifest, outcome: Outcome, attempt: Attempt, counts: _Counts) -> _Written:
    transform = manifest.transform or "the job"
    if manifest.change_feed is not None:
        with merged(spark, manifest.change_feed, outcome.rows, transform) as changes:
            written = _write_merged(spark, manifest, changes, attempt)
    # Spark writes a file even for no rows, so where there may be none it is worth a look.
    elif counts.rejected + counts.filtered < counts.read or not outcome.rows.isEmpty():
        written = _Written(_write_rows(spark, manifest, outcome.rows, attempt))
    else:
        written = _Written()
    if outcome.rejected is not None and counts.rejected:
        attempt.save(outcome.rejected.select(*REJECTED_SCHEMA.fieldNames()), _REJECTED)
        written = replace(written, rejected_files=attempt.files(spark, _REJECTED))
    return written


def _write_rows(spark: SparkSession, manifest: Manifest, rows: DataFrame, attempt: Attempt) -> tuple[WrittenFile, ...]:
    transform = manifest.transform or "the job"
    rows, folders = lay_out(rows, manifest.layout, manifest.batch_id, manifest.partition_by, transform)
    check_types(rows, manifest.output, transform)
    _save(spark, manifest, rows, folders, attempt)
    return attempt.files(spark)


def _save(spark: SparkSession, manifest: Manifest, rows: DataFrame, folders: tuple[str, ...], attempt: Attempt) -> None:
    if manifest.target_file_bytes is not None:
        rows = rebalanced(spark, rows, manifest.target_file_bytes, folders)
    attempt.save(rows, partition_by=folders)


def _write_merged(spark: SparkSession, manifest: Manifest, changes: Merged, attempt: Attempt) -> _Written:
    """The batch's own rows first: they are counted, and those that were in the table before aren't."""
    files = _write_rows(spark, manifest, changes.upserts, attempt) if changes.has_upserts else ()
    rewritten: tuple[WrittenFile, ...] = ()
    if changes.rewritten is not None:
        transform = manifest.transform or "the job"
        rows, folders = in_folders(changes.rewritten, manifest.layout, manifest.partition_by, transform)
        _save(spark, manifest, rows, folders, attempt)
        rewritten = tuple(file for file in attempt.files(spark) if file not in files)
    attempt.save(changes.tombstones, _TOMBSTONES)
    return _Written(
        files,
        rewritten_files=rewritten,
        tombstone_files=attempt.files(spark, _TOMBSTONES),
        replaced_files=changes.replaced_files,
        left_out=changes.left_out,
    )


def _write_acks(
    spark: SparkSession, manifest: Manifest, attempt: Attempt, *, has_rejected: bool
) -> tuple[WrittenFile, ...] | None:
    """Every file of acknowledgements in the attempt, None for everything.

    A transform that acknowledged nothing itself acknowledges all records but the rejected ones, which are read as they
    were written: what rejects them may answer differently when asked again.
    """
    if not attempt.has_acks:
        if not has_rejected or not manifest.commits_acknowledged:
            return None
        place = ACK_SCHEMA.fieldNames()
        rejected = spark.read.schema(REJECTED_SCHEMA).parquet(f"{attempt.folder}/{_REJECTED}")
        acks = read_landed(spark, manifest).select(*place).join(rejected.select(*place), place, "left_anti")
        attempt.save_acks(acks)
    return attempt.ack_files(spark)


@contextmanager
def _kept(shared: DataFrame | None) -> Iterator[None]:
    """Keep `shared` on the executors, in memory as far as it fits, while the block runs."""
    if shared is None:
        yield
        return
    shared.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        shared.unpersist()


def _check_strategy(outcome: Outcome, manifest: Manifest, transform: str) -> None:
    if outcome.acks is not None:
        check_acknowledging(manifest)
    if outcome.state is not None and not manifest.keeps_state:
        raise TransformError(
            f"{transform} returned a state, and commit-strategy {manifest.commit_strategy} keeps none; return none, or "
            "set commit-strategy: checkpoint"
        )
