"""batch_io over a real Spark Connect: what a job of anybody's own can rely on."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from landed import LANDING, Batch, Record, departure
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.core import SparkConnectClient

from tidegate_spark import small_files
from tidegate_spark.batch_io import (
    ManifestError,
    Result,
    parse_manifest,
    read_manifest,
    read_records,
    spark_uri,
    write_outcome,
)
from tidegate_spark.outcome import Outcome, TransformError
from transforms.flights import departures

pytestmark = pytest.mark.spark

PLACES = ["a b", "a/b", "50%", "50%25", "k=v", "æ—☃", "a:b", "_hidden", ".dot", "{x}", "[x]", "a\\b", "'\"", ""]


def process(spark, batch: Batch, transform=lambda records: records) -> Result:
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    return write_outcome(spark, manifest, transform(read_records(spark, manifest)))


def test_records_without_a_transform_are_written_as_they_were_landed(spark, tmp_path):
    headers: list[Any] = [None, [], [("a", None)], [("a", b"")], [("a", b"1"), ("a", b"2"), ("b", b"\xff")]]
    sent = [Record(None, key=None), Record(b""), *(Record(b"\x00\xff", headers=one) for one in headers)]
    batch = Batch(tmp_path, sent, partition_by=())

    result = process(spark, batch)

    assert batch.rows() == [record.row(2 * at) for at, record in enumerate(sent)]
    assert (result.read, result.filtered, result.rejected_files) == (len(sent), 0, ())


@pytest.mark.parametrize(("is_here", "executed"), [(True, 3), (False, 5)], ids=["here", "elsewhere"])
def test_a_batch_asks_spark_no_more_than_it_must(spark, tmp_path, monkeypatch, is_here, executed):
    monkeypatch.setattr(small_files, "_is_here", lambda _: is_here)
    asked = Counter()
    for name in ("_analyze", "_execute", "_execute_and_fetch_as_iterator"):
        monkeypatch.setattr(SparkConnectClient, name, counted(getattr(SparkConnectClient, name), name, asked))

    process(spark, Batch(tmp_path, [Record(departure())]), departures)

    # executed: count what was landed and what was rejected, write the rows, and, where Spark is elsewhere, list their
    # files and write the result
    # analysed: the schemas of rows and rejected records, keeping what they share, and letting it go
    assert asked == {"_execute_and_fetch_as_iterator": executed, "_analyze": 4}


def counted(method, name: str, asked: Counter[str]):
    def call(*given, **named):
        asked[name] += 1
        return method(*given, **named)

    return call


def test_the_landed_columns_are_those_of_sparks_kafka_source(spark, tmp_path):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=())
    process(spark, batch)

    (attempt,) = batch.attempts
    schema = pa.parquet.read_schema(next(attempt.glob("*.parquet")))
    assert schema.names == LANDING.names


@pytest.mark.parametrize("scheme", ["file://", "file:"], ids=["here", "through Spark"])
def test_a_manifest_is_read_from_wherever_spark_can_read(spark, tmp_path, scheme):
    batch = Batch(tmp_path / "with space 50%25", [Record(b"x")], partition_by=(), transform="größe:x")

    assert read_manifest(spark, f"{scheme}{batch.manifest}").transform == "größe:x"
    (batch.manifest.parent / "another.json").write_text("{}")
    with pytest.raises(ManifestError, match="holds 2 files; name one"):
        read_manifest(spark, f"{scheme}{batch.manifest.parent}")
    with pytest.raises((OSError, PySparkException), match="no-such"):
        read_manifest(spark, f"{scheme}{tmp_path}/no-such.json")


@pytest.mark.parametrize("is_here", [True, False], ids=["here", "elsewhere"])
@pytest.mark.parametrize("folder", ["plain", "with space", "50%25", "ünï"])
def test_partition_values_and_folders_may_have_any_characters(spark, tmp_path, monkeypatch, folder, is_here):
    monkeypatch.setattr(small_files, "_is_here", lambda _: is_here)
    batch = Batch(tmp_path / folder, [Record(place.encode()) for place in PLACES], partition_by=["place"])

    process(spark, batch, lambda records: records.selectExpr("offset", "string(value) AS place"))

    assert len(batch.result()["files"]) >= len(PLACES) - 1
    assert [row["offset"] for row in batch.rows()] == [2 * at for at in range(len(PLACES))]


def test_a_batch_that_is_all_rejected_has_no_files(spark, tmp_path):
    batch = Batch(tmp_path, [Record(None), Record(b"junk", key=None)])

    result = process(spark, batch, departures)

    assert (result.read, result.files) == (2, ())
    assert [row["reason"] for row in batch.rows("rejected_files")] == [
        "the value is null (a tombstone)",
        "the value is not one JSON object",
    ]


@pytest.mark.parametrize("partition_by", [(), ("key",)])
def test_no_rows_leave_no_file_whether_rejected_or_filtered(spark, tmp_path, partition_by):
    batch = Batch(tmp_path, [Record(b"x")] * 3, partition_by=partition_by)

    result = process(spark, batch, lambda records: Outcome(rows=records.filter("false"), filtered=records))

    assert batch.result()["files"] == []
    assert (result.read, result.filtered) == (3, 3)


def test_nothing_rejected_leaves_no_file_of_rejected_records(spark, tmp_path):
    batch = Batch(tmp_path, [Record(departure())] * 3)

    process(spark, batch, departures)

    (attempt,) = batch.attempts
    assert not (attempt / "_rejected").exists()
    assert batch.result()["rejected_files"] == []


def test_rows_and_rejected_records_add_up(spark, tmp_path):
    batch = Batch(tmp_path, [Record(departure(carrier=c)) for c in ("UA", "ZZ", "AA", None, "UA")])

    result = process(spark, batch, departures)

    assert result.read == 5
    assert [row["offset"] for row in batch.rows()] == [0, 4, 8]
    assert [row["offset"] for row in batch.rows("rejected_files")] == [2, 6]
    assert {path.split("/")[0] for path in (f.path for f in result.files)} == {"carrier=UA", "carrier=AA"}


def test_each_attempt_writes_into_a_folder_of_its_own(spark, tmp_path):
    batch = Batch(tmp_path, [Record(departure())])

    attempts = {process(spark, batch, departures).attempt for _ in range(2)}

    assert {folder.name for folder in batch.attempts} == attempts
    assert len(attempts) == 2


def test_what_was_shared_is_not_kept_afterwards(spark, tmp_path):
    batch = Batch(tmp_path, [Record(departure())])
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    outcome = departures(read_records(spark, manifest))

    write_outcome(spark, manifest, outcome)

    assert not outcome.shared.storageLevel.useDisk


def test_the_result_names_the_delivery_and_the_application(spark, tmp_path):
    batch = Batch(tmp_path, [Record(departure())], token="t0k")

    result = process(spark, batch, departures)

    assert json.loads(result.to_json()) == batch.result()
    assert (batch.result()["format"], result.batch_id, result.delivery) == (1, "b3f0", "t0k")
    assert result.application == spark.conf.get("spark.app.id")


def test_a_partition_column_that_the_rows_lack_is_named(spark, tmp_path):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=["carrier"])

    with pytest.raises(TransformError, match="partition-by names carrier, which its rows lack"):
        process(spark, batch)
    assert batch.attempts == []


PARTS = [("flights", 0), ("flights", 1), ("flights", 0), ("other", 0), ("flights", 1), ("flights", 0), ("other", 0)]
IN_PARTS = [Record(b"x", topic=topic, partition=partition) for topic, partition in PARTS]


@pytest.mark.parametrize(
    ("ranges", "offsets"),
    [
        ([("flights", 0, 4, 11, 2), ("flights", 1, 2, 8, 1), ("other", 0, 13, 13, 0)], [2, 4, 10]),
        ([("flights", 0, 11, 30, 0), ("flights", 1, 30, 30, 0), ("other", 0, 7, 13, 1)], [12]),
        ([("flights", 0, 5, 10, 0), ("flights", 1, 3, 8, 0), ("other", 0, 12, 12, 0)], []),
        ([("flights", 0, 0, 12, 3), ("flights", 1, 0, 12, 2), ("other", 0, 6, 13, 2)], [0, 2, 4, 6, 8, 10, 12]),
    ],
)
def test_only_records_within_the_ranges_are_processed(spark, tmp_path, ranges, offsets):
    batch = Batch(tmp_path, IN_PARTS, partition_by=(), ranges=ranges)

    result = process(spark, batch)

    assert result.read == len(offsets)
    assert batch.rows() == [IN_PARTS[offset // 2].row(offset) for offset in offsets]


def test_ranges_that_hold_all_records_cost_nothing(spark, tmp_path):
    whole = Batch(tmp_path / "whole", IN_PARTS[:1])
    part = Batch(tmp_path / "part", IN_PARTS[:1], ranges=[("flights", 0, 2, 2, 0)])

    plans = [
        read_records(spark, read_manifest(spark, f"file://{batch.manifest}"))._explain_string()
        for batch in (whole, part)
    ]

    assert ["Join" in plan for plan in plans] == [False, True]


def test_undecodable_records_outside_of_the_ranges_are_not_rejected(spark, tmp_path):
    how = {"fails": False, "key": {"name": "bytes"}, "value": {"name": "string"}}
    sent = [Record(b"\xff"), Record(b"\xfe"), Record(b"x")]
    batch = Batch(tmp_path, sent, partition_by=(), deserialization=how, ranges=[("flights", 0, 2, 6, 2)])

    result = process(spark, batch)

    assert (result.read, len(batch.rows())) == (2, 1)
    assert [row["offset"] for row in batch.rows("rejected_files")] == [2]


STATES = [None, 0, False, "", [], {}, {"Zürich": [1, 2.5, None, {"🛫": '\n\u2028"\\'}]}, "x" * 1_000_000]


@pytest.mark.parametrize("state", STATES, ids=range(len(STATES)))
def test_a_state_comes_back_as_it_was_given(spark, tmp_path, state):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), commit_strategy="checkpoint", state=state)

    assert read_manifest(spark, f"file://{batch.manifest}").state == state
    result = process(spark, batch, lambda records: Outcome(rows=records, state=state))

    assert (result.state, batch.result()["state"]) == (state, state)


def test_only_a_checkpoint_keeps_a_state(spark, tmp_path):
    batch = Batch(tmp_path, [Record(b"x")], partition_by=(), commit_strategy="latest")

    with pytest.raises(TransformError, match=r"commit-strategy latest keeps none; .* commit-strategy: checkpoint"):
        process(spark, batch, lambda records: Outcome(rows=records, state=0))
    assert batch.attempts == []


def test_a_manifest_without_a_strategy_is_after_processing(tmp_path):
    manifest = parse_manifest(Batch(tmp_path, [Record(b"x")]).manifest.read_text(), "file:///m.json")

    assert (manifest.commit_strategy, manifest.state) == ("after-processing", None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m | {"format": 2}, "format 1"),
        (lambda m: {k: v for k, v in m.items() if k != "staging"}, "staging"),
        (lambda m: m | {"files": [{"url": "file:///x"}]}, "url"),
        (lambda m: m | {"batch_id": "123"}, "begin with b"),
        (lambda _: [], "format 1"),
    ],
)
def test_a_manifest_that_cannot_be_followed_is_an_error_that_says_why(tmp_path, change, told):
    document = json.loads(Batch(tmp_path, [Record(b"x")]).manifest.read_text())

    with pytest.raises(ManifestError, match=told):
        parse_manifest(json.dumps(change(document)), "file:///m.json")


def test_a_manifest_that_is_not_json_is_an_error():
    with pytest.raises(ManifestError, match=r"file:///m\.json is not JSON"):
        parse_manifest("{", "file:///m.json")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/a/b", "s3a://bucket/a/b"),
        ("s3a://bucket/a", "s3a://bucket/a"),
        ("s3://store@bucket/a@b", "s3a://bucket/a@b"),
        ("s3a://store@bucket", "s3a://bucket"),
        ("gs://bucket/s3://a", "gs://bucket/s3://a"),
        ("abfs://box@account.dfs.core.windows.net/a", "abfs://box@account.dfs.core.windows.net/a"),
        ("file:///a%20b/50%", "file:///a%20b/50%"),
        ("/plain/path", "/plain/path"),
    ],
)
def test_spark_uri(uri, expected):
    assert spark_uri(uri) == expected


def test_the_characters_of_a_folder_are_taken_as_they_are(spark, tmp_path: Path):
    batch = Batch(tmp_path / "a b%20c", [Record(b"x")])

    assert read_manifest(spark, f"file://{batch.manifest}").records == 1
