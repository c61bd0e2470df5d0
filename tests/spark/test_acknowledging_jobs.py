"""What a transform acknowledges, while it runs or with its outcome, as the engine reads it."""

import json
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from by_night import one_in
from landed import EVENT_TIME, LANDING, Batch, Record
from running import until

from tidegate.model.acknowledged import Acknowledgements
from tidegate.model.offsets import Range, TopicPartition
from tidegate.parquet.acks import pending_acks, take
from tidegate_spark.batch_io import open_batch, read_manifest, read_records, write_outcome
from tidegate_spark.outcome import Outcome, TransformError

pytestmark = pytest.mark.spark

FOUR = [Record(b"a"), Record(b"b"), Record(b"c"), Record(b"d")]
AT = TopicPartition("flights", 0)
ALL = Range("flights", 0, 0, 2**40)


def flights(*offsets: int) -> list[tuple[str, int, int]]:
    return [("flights", 0, offset) for offset in offsets]


def run(spark, batch: Batch, transform):
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    opened = open_batch(manifest)
    return write_outcome(spark, manifest, transform(read_records(spark, manifest), opened), opened)


def settled(batch: Batch) -> Acknowledgements:
    """What the engine makes of the acknowledgements: it refuses those of records that didn't land."""
    landing = [f"file://{file}" for file in sorted((batch.folder / "landing").iterdir())]
    waiting = pending_acks(landing, {AT: len(batch.records)}, [ALL])
    for file in batch.acks:
        take(file, waiting)
    return waiting[AT]


def rejecting(where: str):
    return lambda records, _: Outcome(
        rows=records.filter(f"NOT ({where})"), rejected=records.filter(where).selectExpr("*", "'no' AS reason")
    )


@pytest.mark.parametrize("partition_by", [(), ("value",)])
def test_acknowledged_records_are_readable_before_the_rows_are_written(spark, tmp_path, partition_by):
    batch = Batch(tmp_path, FOUR, None, partition_by, commit_strategy="throttled")
    seen = []

    def transform(records, context):
        for where in ("offset = 0", "offset IN (2, 6)"):
            context.acknowledge(records.filter(where).selectExpr("*", "1 AS beside"))
            seen.append(batch.acknowledged())
        assert settled(batch).now().prefix(Range("flights", 0, 0, 8)) == 4
        (attempt,) = batch.attempts
        assert [child.name for child in attempt.iterdir()] == ["_acks"]
        return records.selectExpr("offset", "string(value) AS value")

    run(spark, batch, transform)

    assert seen == [flights(0), flights(0, 2, 6)]
    assert [row["offset"] for row in batch.rows()] == [0, 2, 4, 6]  # which of them come again isn't to be told
    assert len(batch.result()["ack_files"]) == len(batch.acks) >= 2


def test_acknowledgements_are_seen_whole_or_not_at_all(spark, tmp_path):
    batch = Batch(tmp_path, FOUR * 500, None, (), commit_strategy="throttled")
    found: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            found.append(len(batch.acknowledged()))  # raises for a file that isn't whole

    def transform(records, context):
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                for times in range(1, 4):
                    context.acknowledge(records.repartition(4))
                    until(lambda: watching.done() or found[-1:] == [2000 * times], "the acknowledgements")  # noqa: B023 (called at once)
            finally:
                done.set()
            watching.result()
        return records

    run(spark, batch, transform)

    assert found == sorted(found)
    assert {2000, 4000, 6000} <= set(found)
    assert settled(batch).now().backlog(Range("flights", 0, 0, 8000)) == 0


def test_acknowledgements_of_the_outcome_and_of_the_run_are_both_named(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="latest")

    def transform(records, context):
        context.acknowledge(records.filter("offset = 2"))
        return Outcome(rows=records, acks=records.filter("offset = 6"))

    result = run(spark, batch, transform)

    assert batch.acknowledged() == flights(2, 6)
    folders = {file.path.split("/")[1] for file in result.ack_files or ()}
    assert sorted(name.startswith("_outcome-") for name in folders) == [False, True]
    assert {file.path for file in result.ack_files or ()} == {one["path"] for one in batch.result()["ack_files"]}
    assert settled(batch).now().latest(Range("flights", 0, 0, 8)) == 8


@pytest.mark.parametrize(
    ("strategy", "acknowledged", "rejected", "written", "beside", "withheld"),
    [
        ("throttled", "offset IN (0, 6)", "offset = 2", [0], [2], 2),
        ("throttled", "offset IN (0, 2)", "offset = 6", [0, 2], [], 2),
        ("throttled", "offset < 0", "offset = 6", [], [], 4),
        ("throttled", "offset != 6", "offset = 6", [0, 2, 4], [6], 0),
        ("latest", "offset = 2", "offset = 6", [0, 2, 4], [6], 0),
        ("latest", "offset = 4", "offset = 2", [0, 4], [2], 1),
        ("latest", "offset < 0", "offset < 0", [], [], 4),
    ],
)
@pytest.mark.parametrize("at_the_end", one_in(2, [True, False]))
def test_rows_and_rejected_records_behind_the_batchs_end_are_withheld(
    spark, tmp_path, strategy, acknowledged, rejected, written, beside, withheld, at_the_end
):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy=strategy)

    def transform(records, context):
        done = records.filter(acknowledged)
        if not at_the_end:
            context.acknowledge(done)
        outcome = rejecting(rejected)(records, context)
        return replace(outcome, acks=done if at_the_end else None)

    result = run(spark, batch, transform)

    assert [row["offset"] for row in batch.rows()] == written
    assert [row["offset"] for row in batch.rows("rejected_files")] == beside
    assert (result.withheld, result.read) == (withheld, 4)


def test_rows_that_do_not_tell_their_records_are_all_written(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="throttled")

    result = run(spark, batch, lambda r, _: Outcome(rows=r.select("value", "offset"), acks=r.filter("offset = 0")))

    assert ([row["offset"] for row in batch.rows()], result.withheld) == ([0, 2, 4, 6], None)


def test_rows_that_name_no_record_of_the_batch_are_written(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="latest")

    result = run(
        spark, batch, lambda r, _: Outcome(rows=r.selectExpr("'x' topic", "partition", "offset"), acks=r.limit(0))
    )

    assert ([row["offset"] for row in batch.rows()], result.withheld) == ([0, 2, 4, 6], 0)


@pytest.mark.parametrize("strategy", ["throttled", "latest"])
def test_without_acknowledgements_everything_is_acknowledged(spark, tmp_path, strategy):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy=strategy)

    run(spark, batch, lambda records, _: records)

    assert batch.result()["ack_files"] is None
    assert batch.acks == []


def test_without_acknowledgements_everything_is_acknowledged_but_the_rejected(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="throttled")

    run(spark, batch, rejecting("offset IN (2, 6)"))

    assert batch.acknowledged() == flights(0, 4)
    assert len(batch.result()["ack_files"]) == len(batch.acks)


@pytest.mark.parametrize(("where", "acknowledged"), [("false", None), ("true", [])])
def test_nothing_or_everything_rejected(spark, tmp_path, where, acknowledged):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="throttled")

    run(spark, batch, rejecting(where))

    assert batch.acknowledged() == []
    assert (batch.result()["ack_files"] is None) == (acknowledged is None)


def test_an_undecodable_record_is_not_acknowledged(spark, tmp_path):
    how = {"fails": False, "key": {"name": "bytes"}, "value": {"name": "string"}}
    sent = [Record(b"a"), Record(b"\xff"), Record(b"c")]
    batch = Batch(tmp_path, sent, None, (), deserialization=how, commit_strategy="throttled")

    run(spark, batch, lambda records, _: records)

    assert batch.acknowledged() == flights(0, 4)


def test_nothing_acknowledged_is_told_from_everything(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="throttled")

    run(spark, batch, lambda records, _: Outcome(rows=records, acks=records.filter("false")))

    assert settled(batch).now().backlog(Range("flights", 0, 0, 8)) == 4
    assert batch.result()["ack_files"] is not None


def test_rejected_records_under_another_strategy_leave_no_acknowledgements(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, ())

    run(spark, batch, rejecting("offset = 2"))

    assert batch.result()["ack_files"] is None


@pytest.mark.parametrize("strategy", [None, "on-receipt", "checkpoint", "ignore"])
@pytest.mark.parametrize(
    "transform",
    [lambda records, batch: batch.acknowledge(records), lambda records, _: Outcome(rows=records, acks=records)],
)
def test_other_strategies_know_no_acknowledgements(spark, tmp_path, strategy, transform):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy=strategy)

    told = rf"commit-strategy {strategy or 'after-processing'} knows no acknowledgements .* throttled or latest"
    with pytest.raises(TransformError, match=told):
        run(spark, batch, transform)
    assert batch.attempts == []


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (lambda r: r.drop("offset"), "acknowledged records lack offset bigint; give topic, partition and offset"),
        (lambda r: r.selectExpr("topic", "partition", "string(offset) AS offset"), "lack offset bigint"),
        (lambda _: [1], "acknowledged list; give a Spark DataFrame"),
    ],
)
def test_acknowledged_records_need_a_place(spark, tmp_path, records, told):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="latest")

    with pytest.raises(TransformError, match=f"subscription flights, batch b3f0.* {told}"):
        run(spark, batch, lambda given, context: context.acknowledge(records(given)))
    with pytest.raises(TransformError, match=f"the job.* {told}"):
        run(spark, batch, lambda given, _: Outcome(rows=given, acks=records(given)))
    assert batch.attempts == []


def test_a_transform_that_fails_leaves_what_it_acknowledged_and_no_result(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="throttled")

    def transform(records, context):
        context.acknowledge(records.filter("offset < 4"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(spark, batch, transform)
    assert batch.acknowledged() == flights(0, 2)
    assert settled(batch).now().prefix(Range("flights", 0, 0, 8)) == 4
    assert not list(batch.staging.glob("*/_result"))


def test_an_attempt_has_one_outcome_and_no_acknowledgements_behind_it(spark, tmp_path):
    batch = Batch(tmp_path, FOUR, None, (), commit_strategy="throttled")
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    records, opened = read_records(spark, manifest), open_batch(manifest)
    write_outcome(spark, manifest, records, opened)

    with pytest.raises(TransformError, match="acknowledge before the transform returns"):
        opened.acknowledge(records)
    with pytest.raises(TransformError, match="open the batch anew"):
        write_outcome(spark, manifest, records, opened)
    assert batch.result()["ack_files"] is None


def test_the_context_says_what_the_manifest_says(tmp_path: Path, spark):
    state = {"ünï": [1, 2.5, None, True, {"": '🛫\n"'}]}
    batch = Batch(tmp_path, FOUR, commit_strategy="checkpoint", state=state)

    opened = open_batch(read_manifest(spark, f"file://{batch.manifest}"))

    assert (opened.batch_id, opened.subscription, opened.delivery, opened.state) == ("b3f0", "flights", 1, state)


def many(folder: Path, number: int) -> Batch:
    """A batch of so many small records, with the offsets 0, 2, 4 and so on."""
    batch = Batch(folder, [], None, (), commit_strategy="throttled")
    file = folder / "landing" / "p0.parquet"
    same = {"topic": "flights", "partition": 0, "timestamp": EVENT_TIME, "timestampType": 0}
    columns = [
        pa.array(2 * np.arange(number)) if name == "offset" else pa.repeat(pa.scalar(same.get(name), kind), number)
        for name, kind in zip(LANDING.names, LANDING.types, strict=True)
    ]
    pq.write_table(pa.table(columns, LANDING), file)
    files = [{"uri": f"file://{file}", "records": number, "bytes": file.stat().st_size}]
    ranges = [{"topic": "flights", "partition": 0, "start": 0, "end": 2 * number, "records": number}]
    changed = {"records": number, "files": files, "ranges": ranges}
    batch.manifest.write_text(json.dumps(json.loads(batch.manifest.read_text()) | changed))
    return batch


def peak(spark, batch: Batch) -> int:
    """The most bytes that the driver's process held while it acknowledged all but one record."""

    def transform(records, context):
        context.acknowledge(records.filter("offset % 4 = 0"))
        rejected = records.filter("offset = 2222222").selectExpr("*", "'no' AS reason")
        return Outcome(rows=records.filter("false"), rejected=rejected, acks=records.filter("offset % 4 = 2"))

    plain = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(plain)
    pa.set_memory_pool(watched)
    tracemalloc.start()
    try:
        run(spark, batch, transform)
        return tracemalloc.get_traced_memory()[1] + int(watched.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(plain)


@pytest.mark.nightly
def test_two_million_acknowledgements_need_no_memory_of_the_driver(spark, tmp_path):
    few, most = many(tmp_path / "few", 20), many(tmp_path / "most", 2_000_000)

    peaks = [peak(spark, batch) for batch in (few, most)]

    assert peaks[1] < peaks[0] + 4_000_000
    landing = f"file://{tmp_path}/most/landing/p0.parquet"
    waiting = pending_acks([landing], {AT: 2_000_000}, [ALL])
    for file in most.acks:
        take(file, waiting)
    assert waiting[AT].now().backlog(Range("flights", 0, 0, 4_000_000)) == 0
