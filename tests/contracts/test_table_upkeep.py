"""Upkeep leaves a table what it is, and never costs a batch its commit; each format is held to the same."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable, TableFeatures
from iceberg_bench import TABLE, IcebergBench, IcebergTableBench
from table_benches import TableBench, delta_on_disk, rows_of

from tidegate.lake.delta_upkeep import DeltaUpkeep
from tidegate.lake.iceberg_upkeep import IcebergUpkeep
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Record, TableUpkeep, Upkeep

INCARNATION = "i0123456789abcdef"
COMMITS = {"delta": 200, "iceberg": 60}


class Kept:
    """A table whose properties keep nothing for longer than a moment, and its upkeep."""

    def __init__(self, bench: TableBench, upkeep: TableUpkeep, folder: Path) -> None:
        self.bench, self.upkeep, self.folder = bench, upkeep, folder

    def publish(self, number: int) -> None:
        files = self.bench.stage(f"b{number:03}", rows_of(f"b{number:03}", 2))
        snapshot = self.bench.log.load(self.bench.table, INCARNATION, number)
        assert snapshot is not None
        self.bench.log.append(self.bench.table, INCARNATION, snapshot, Record(number, number), files)

    def maintain(self, *, dry_run: bool = False) -> Upkeep:
        done = self.upkeep.maintain(self.bench.table, dry_run=dry_run)
        assert done is not None
        return done

    def record(self) -> Record | None:
        snapshot = self.bench.log.load(self.bench.table, INCARNATION, 0)
        assert snapshot is not None
        return snapshot.record

    def files(self) -> set[Path]:
        return {each for each in self.folder.rglob("*") if each.is_file()}


def delta(folder: Path) -> Iterator[Kept]:
    with delta_on_disk(folder) as bench:
        bench.log.create(bench.table, bench.stage("first", rows_of("first", 1)), ())
        keeps_nothing = {
            "delta.deletedFileRetentionDuration": "interval 0 seconds",
            "delta.logRetentionDuration": "interval 0 seconds",
        }
        bench.delta.alter.set_table_properties(keeps_nothing)
        yield Kept(bench, DeltaUpkeep(lambda _: {}), folder)


def iceberg(folder: Path) -> Iterator[Kept]:
    extra = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    ice = IcebergBench(extra, folder)
    bench = IcebergTableBench(ice)
    bench.log.create(TABLE, bench.stage("first", rows_of("first", 1)), ())
    with ice.table().transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    yield Kept(bench, IcebergUpkeep(lambda _: ice.catalog()), folder)


@pytest.fixture(params=["delta", "iceberg"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    yield from {"delta": delta, "iceberg": iceberg}[request.param](tmp_path)


def batches(numbers: range) -> list[str]:
    return [f"b{number:03}" for number in numbers for _ in range(2)]


def test_a_table_that_isnt_there_is_no_error(kept: Kept) -> None:
    kept.bench.drop()
    assert kept.upkeep.maintain(kept.bench.table, dry_run=False) is None


def test_rows_and_record_stay_and_what_nobody_needs_goes(kept: Kept) -> None:
    for number in range(1, 6):
        kept.publish(number)
    before = kept.files()
    time.sleep(0.01)  # older than nothing, by the clock's milliseconds
    first, second = kept.maintain(), kept.maintain()
    assert first.expired + second.expired > 0
    assert before - kept.files()
    assert kept.bench.batches() == batches(range(1, 6))
    assert kept.record() == Record(5, 5)
    kept.publish(6)
    assert kept.bench.batches() == batches(range(1, 7))


def test_a_dry_run_writes_nothing(kept: Kept) -> None:
    for number in range(1, 6):
        kept.publish(number)
    before = kept.files()
    would = kept.maintain(dry_run=True)
    assert would.compacted + would.expired > 0
    assert kept.files() == before


def test_what_is_staged_and_what_lies_with_a_batch_stays(kept: Kept) -> None:
    (published,) = kept.bench.stage("b001", rows_of("b001", 2))
    rejected = Path(published.uri.removeprefix("file://")).with_name("_rejected") / "part-0.parquet"
    rejected.parent.mkdir()
    rejected.write_bytes(b"rejected")
    (staged,) = kept.bench.stage("open", rows_of("open", 2))
    kept.bench.log.put_note(kept.bench.table, INCARNATION, "note.json", "{}")
    for number in range(1, 6):
        kept.publish(number)
    kept.maintain()
    kept.maintain()
    assert rejected.exists()
    assert Path(staged.uri.removeprefix("file://")).exists()
    assert kept.bench.log.note(kept.bench.table, INCARNATION, "note.json") == "{}"


@pytest.mark.long
def test_no_commit_fails_while_a_table_is_maintained_and_each_batch_is_there_once(
    kept: Kept, request: pytest.FixtureRequest
) -> None:
    commits = COMMITS[request.node.callspec.params["kept"]]
    ended = threading.Event()

    def maintain() -> list[Upkeep]:
        done = []
        while not ended.is_set():
            done.append(kept.maintain())
        return done

    with ThreadPoolExecutor(1) as pool:
        maintaining = pool.submit(maintain)
        try:
            for number in range(1, commits + 1):
                kept.publish(number)
        finally:
            ended.set()
        done = maintaining.result(60)
    assert sum(each.expired for each in done) > 0
    assert kept.bench.batches() == batches(range(1, commits + 1))
    assert kept.record() == Record(commits, commits)


def test_delta_files_are_compacted(tmp_path: Path) -> None:
    for kept in delta(tmp_path):
        for number in range(1, 6):
            kept.publish(number)
        assert kept.maintain(dry_run=True).compacted == 5
        done = kept.maintain()
        assert (done.compacted, done.written, done.yielded) == (5, 1, False)
        assert kept.maintain(dry_run=True).compacted == 0


def test_a_delta_table_with_deletion_vectors_is_refused(tmp_path: Path) -> None:
    for kept in delta(tmp_path):
        table = DeltaTable(kept.bench.log.folder(kept.bench.table).removeprefix("file://"))
        table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
        with pytest.raises(WrongDefinitionError, match="deletionVectors"):
            kept.maintain()


def test_an_iceberg_table_whose_files_are_others_too_is_refused(tmp_path: Path) -> None:
    for kept in iceberg(tmp_path):
        assert isinstance(kept.bench, IcebergTableBench)
        with kept.bench._bench.table().transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        with pytest.raises(WrongDefinitionError, match=r"gc\.enabled=false"):
            kept.maintain()
