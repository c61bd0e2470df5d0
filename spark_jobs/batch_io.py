"""Reads a batch's manifest and records, and writes its outcome: the contract, for jobs of any make.

A job of your own needs three calls::

    manifest = read_manifest(spark, manifest_uri)
    records = read_records(spark, manifest)
    result = write_outcome(spark, manifest, Outcome(rows=..., rejected=..., filtered=...))

They work alike on a classic session and over Spark Connect.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from deserializers.decode import Deserialization, check, decoded, failures, prepare
from transforms.outcome import LANDING_SCHEMA, RAW, REJECTED_SCHEMA, Outcome, TransformError, as_outcome

FORMAT = 1

# Readers skip the marker that Hadoop's committer leaves, and the result says more than it does.
_NO_MARKER = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}

# Spark's default, INT96, has no time zone for the readers that still know it.
_TIMESTAMPS = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


class ManifestError(Exception):
    """The manifest can't be followed: give this job one of its own version. Trying again won't help."""


@dataclass(frozen=True)
class Range:
    """The offsets `[start, end)` of one partition, and how many records were landed from them."""

    topic: str
    partition: int
    start: int
    end: int
    records: int


@dataclass(frozen=True)
class LandedFile:
    """One Parquet file of the landing: its URI, its records and its bytes."""

    uri: str
    records: int
    bytes: int


@dataclass(frozen=True)
class Delivery:
    """One attempt to process the batch: its number, from 1, and the token that its staging is named by."""

    number: int
    token: str


@dataclass(frozen=True)
class Manifest:
    """What a job is handed: which records, through which transform, to where."""

    subscription: str
    group: str
    batch_id: str
    receipt: str
    delivery: Delivery
    records: int
    ranges: tuple[Range, ...]
    files: tuple[LandedFile, ...]
    transform: str | None
    output: str
    partition_by: tuple[str, ...]
    row_accounting: str
    staging: str
    deserialization: Deserialization | None = None


@dataclass(frozen=True, order=True)
class WrittenFile:
    """One file that the job wrote: its path below the attempt's folder, and its bytes."""

    path: str
    bytes: int


@dataclass(frozen=True)
class Result:
    """What the job leaves, last of all: how many records it read, and every file that it wrote.

    Written and rejected rows aren't counted here: the engine counts them in the files themselves.
    """

    batch_id: str
    delivery: str
    attempt: str
    read: int
    filtered: int
    files: tuple[WrittenFile, ...]
    rejected_files: tuple[WrittenFile, ...]
    application: str

    def to_json(self) -> str:
        """The document as it is stored, in one line."""
        return json.dumps({"format": FORMAT, **asdict(self)})


def spark_uri(uri: str) -> str:
    """`uri` as Spark's file systems want it: s3:// is s3a://.

    Nothing is percent-decoded: Tidegate's URIs, like Hadoop's paths, take every character as it stands.
    """
    scheme, colon, rest = uri.partition("://")
    return ("s3a" if scheme == "s3" else scheme) + colon + rest


def read_manifest(spark: SparkSession, uri: str) -> Manifest:
    """Read the manifest at `uri` through Spark, so from wherever Spark can read. Raises ManifestError."""
    texts = spark.read.text(spark_uri(uri), wholetext=True).collect()
    if len(texts) != 1:
        raise ManifestError(f"{uri} holds {len(texts)} files; name one manifest")
    return parse_manifest(texts[0].value, uri)


def parse_manifest(text: str, uri: str) -> Manifest:
    """The manifest that `text`, found at `uri`, holds. Raises ManifestError naming what is wrong with it."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ManifestError(f"{uri} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ManifestError(f"{uri} is not a manifest of format {FORMAT}, the one that this job follows")
    try:
        manifest = _manifest(found)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"{uri}: a field is missing or misspelt: {error}") from None
    if not manifest.batch_id.startswith("b"):
        raise ManifestError(f"{uri}: batch_id {manifest.batch_id!r} must begin with b, or Spark may infer a number")
    return manifest


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
        check(landed, manifest.deserialization, manifest.batch_id)
    return decoded(landed, manifest.deserialization)


def read_landed(spark: SparkSession, manifest: Manifest) -> DataFrame:
    """The batch's records as they were received, in the columns of LANDING_SCHEMA."""
    if not manifest.files:
        return spark.createDataFrame([], LANDING_SCHEMA)
    return spark.read.schema(LANDING_SCHEMA).parquet(*(spark_uri(file.uri) for file in manifest.files))


def write_outcome(spark: SparkSession, manifest: Manifest, outcome: Outcome | DataFrame) -> Result:
    """Write `outcome` into a folder of this call's own in the manifest's staging, and last of all the result.

    Rows go to `<staging>/<attempt>/`, partitioned by the manifest's partition_by, rejected records to
    `_rejected/` below it, and the result to `_result/`, one line of JSON. An attempt without a result
    counts for nothing, so a job that dies, or that a later one overtakes, leaves nothing that is used.
    Raises TransformError where the outcome isn't one that can be written as the manifest asks.
    """
    transform = manifest.transform or "the job"
    outcome = as_outcome(outcome, transform)
    if manifest.deserialization is not None:
        outcome = _completed(spark, manifest, manifest.deserialization, outcome)
    _check_partition_columns(outcome.rows, manifest.partition_by, transform)
    attempt = uuid4().hex
    folder = f"{spark_uri(manifest.staging)}/{attempt}"
    spark.conf.set(*_TIMESTAMPS)
    read = read_landed(spark, manifest).count()
    with _kept(outcome.shared):
        filtered, files, rejected_files = _write(spark, manifest, outcome, folder, read)
    result = Result(
        batch_id=manifest.batch_id,
        delivery=manifest.delivery.token,
        attempt=attempt,
        read=read,
        filtered=filtered,
        files=files,
        rejected_files=rejected_files,
        application=spark.conf.get("spark.app.id") or "",
    )
    spark.createDataFrame([(result.to_json(),)], "value string").coalesce(1).write.text(f"{folder}/_result")
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


def _write(
    spark: SparkSession, manifest: Manifest, outcome: Outcome, folder: str, read: int
) -> tuple[int, tuple[WrittenFile, ...], tuple[WrittenFile, ...]]:
    filtered = outcome.filtered.count() if isinstance(outcome.filtered, DataFrame) else outcome.filtered
    rejected = 0 if outcome.rejected is None else outcome.rejected.count()
    files: tuple[WrittenFile, ...] = ()
    rejected_files: tuple[WrittenFile, ...] = ()
    # Spark writes a file even for no rows, so where there may be none it is worth a look.
    if rejected + filtered < read or not outcome.rows.isEmpty():
        _save(outcome.rows, folder, manifest.partition_by)
        files = _files(spark, folder)
    if outcome.rejected is not None and rejected:
        _save(outcome.rejected.select(*REJECTED_SCHEMA.fieldNames()), f"{folder}/_rejected")
        rejected_files = _files(spark, folder, "_rejected")
    return filtered, files, rejected_files


def _save(rows: DataFrame, folder: str, partition_by: tuple[str, ...] = ()) -> None:
    rows.write.mode("error").options(**_NO_MARKER).partitionBy(*partition_by).parquet(folder)


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


def _files(spark: SparkSession, folder: str, below: str = "") -> tuple[WrittenFile, ...]:
    """The data files under `folder`/`below`, named from `folder`; neither opened nor, if hidden, listed."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(f"{folder}/{below}")
    attempt = folder.rpartition("/")[2]
    found = listing.select("path", "length").collect()
    return tuple(sorted(WrittenFile(row.path.partition(f"/{attempt}/")[2], row.length) for row in found))


def _check_partition_columns(rows: DataFrame, partition_by: tuple[str, ...], transform: str) -> None:
    missing = [name for name in partition_by if name not in rows.columns]
    if missing:
        raise TransformError(
            f"{transform}: partition-by names {', '.join(missing)}, which its rows lack; "
            f"they have {', '.join(rows.columns)}"
        )


def _manifest(found: Mapping[str, Any]) -> Manifest:
    return Manifest(
        subscription=found["subscription"],
        group=found["group"],
        batch_id=found["batch_id"],
        receipt=found["receipt"],
        delivery=Delivery(number=found["delivery"]["number"], token=found["delivery"]["token"]),
        records=found["records"],
        ranges=tuple(Range(**one) for one in found["ranges"]),
        files=tuple(LandedFile(**one) for one in found["files"]),
        transform=found["transform"],
        output=found["output"],
        partition_by=tuple(found["partition_by"]),
        row_accounting=found["row_accounting"],
        staging=found["staging"],
        deserialization=Deserialization.of(found["deserialization"]) if found.get("deserialization") else None,
    )
