"""Checkpoints of Delta tables come by themselves with the commits of batches."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from table_benches import DeltaBench, delta_on_disk, rows_of

from tidegate.ports.table_log import Record


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[DeltaBench]:
    with delta_on_disk(tmp_path) as bench:
        bench.log.create(bench.table, bench.stage("b0", rows_of("b0", 1)), ())
        bench.delta.alter.set_table_properties({"delta.checkpointInterval": "3"})
        yield bench


def log_folder(bench: DeltaBench) -> Path:
    return Path(bench.log.folder(bench.table).removeprefix("file://"), "_delta_log")


def append(bench: DeltaBench, number: int) -> None:
    snapshot = bench.log.load(bench.table, "i", number)
    assert snapshot is not None
    bench.log.append(bench.table, "i", snapshot, Record(number, 7), bench.stage(f"b{number}", rows_of("b", 1)))


def record(bench: DeltaBench) -> Record | None:
    snapshot = bench.log.load(bench.table, "i", 1)
    assert snapshot is not None
    return snapshot.record


def test_they_are_written_as_often_as_the_table_says(bench: DeltaBench) -> None:
    for number in range(1, 7):
        append(bench, number)
    assert len([*log_folder(bench).glob("*.checkpoint*.parquet")]) == 2
    assert record(bench) == Record(6, 7)


def test_one_that_fails_fails_no_batch(bench: DeltaBench) -> None:
    (log_folder(bench) / "_last_checkpoint" / "in the way").mkdir(parents=True)
    for number in range(1, 5):
        append(bench, number)
    assert record(bench) == Record(4, 7)
    assert bench.batches() == ["b"] * 4
