"""A batch's files have about the size that its manifest asks for, each of one partition."""

import json
from collections import Counter

import pytest
from landed import Batch, Record

from tidegate_spark.batch_io import read_manifest, read_records, write_outcome

pytestmark = pytest.mark.spark

PLACES = ("a b", "k.v")
ROWS = 1_000
WIDE = 8_000


def sizes(spark, tmp_path, target: int | None, partition_by: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    """The partition and the bytes of each file that a job wrote of a thousand rows, from sixteen tasks."""
    batch = Batch(tmp_path, [Record(b"x")] * ROWS, partition_by=partition_by, table="delta")
    document = json.loads(batch.manifest.read_text())
    if target is not None:
        document["target_file_bytes"] = target
    batch.manifest.write_text(json.dumps(document))
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    noise = " || ".join(f"sha2(string(offset * {number + 1}), 512)" for number in range(WIDE // 128 + 1))
    rows = read_records(spark, manifest).selectExpr(
        "offset",
        f"CASE WHEN offset < {ROWS} THEN '{PLACES[0]}' ELSE '{PLACES[1]}' END AS `a.place`",
        f"{noise} AS noise",
    )
    write_outcome(spark, manifest, rows.repartition(16))
    assert sum(row["offset"] for row in batch.rows()) == sum(2 * place for place in range(ROWS))
    return [(file["path"].rpartition("/")[0], file["bytes"]) for file in batch.result()["files"]]


def test_without_one_each_task_writes_a_file(spark, tmp_path):
    assert len(sizes(spark, tmp_path, None)) == 16


def test_small_tasks_become_one_file(spark, tmp_path):
    assert len(sizes(spark, tmp_path, 64 * 1024 * 1024)) == 1


def test_one_partition_is_one_file_even_if_many_tasks_had_rows_of_it(spark, tmp_path):
    found = Counter(folder for folder, _ in sizes(spark, tmp_path, 64 * 1024 * 1024, ("a.place",)))
    assert sorted(found.values()) == [1, 1]


def test_more_than_the_target_becomes_several_files_of_about_that(spark, tmp_path):
    found = [size for _, size in sizes(spark, tmp_path, 1024 * 1024)]
    assert 2 <= len(found) < 16
    assert max(found) < 2 * 1024 * 1024
