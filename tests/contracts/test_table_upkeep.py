"""Upkeep leaves a table what it is, and never costs a batch its commit; each format is held to the same."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable, TableFeatures
from iceberg_bench import TABLE, IcebergBench, IcebergTableBench
from moto_s3 import ACCESS_KEY, SECRET_KEY, MotoS3, moto_apart
from pyarrow import fs
from running import until
from table_benches import DeltaBench, TableBench, delta_on_disk, delta_on_s3, rows_of, s3_system

from tidegate.lake.delta.upkeep import DeltaUpkeep
from tidegate.lake.iceberg.upkeep import IcebergUpkeep
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import DataFile, Record, TableUpkeep, Upkeep

Moto = Callable[[], MotoS3]

INCARNATION = "i0123456789abcdef"
COMMITS = {"delta": 200, "iceberg": 60, "delta-s3": 20, "iceberg-s3": 20}


class Kept:
    """A table whose properties keep nothing for longer than a moment, its upkeep, and the folder or bucket it is in."""

    def __init__(self, bench: TableBench, upkeep: TableUpkeep, system: fs.FileSystem, place: str) -> None:
        self.bench, self.upkeep, self.system, self.place = bench, upkeep, system, place

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

    def files(self) -> set[str]:
        entries = self.system.get_file_info(fs.FileSelector(self.place, recursive=True))
        return {entry.path for entry in entries if entry.type == fs.FileType.File}

    def write(self, path: str, content: bytes) -> None:
        self.system.create_dir(path.rpartition("/")[0])
        with self.system.open_output_stream(path) as stream:
            stream.write(content)


def keeping_nothing(bench: DeltaBench) -> DeltaBench:
    bench.log.create(bench.table, bench.stage("first", rows_of("first", 1)), ())
    keeps_nothing = {
        "delta.deletedFileRetentionDuration": "interval 0 seconds",
        "delta.logRetentionDuration": "interval 0 seconds",
        "delta.checkpointInterval": "3",  # a checkpoint takes the log before it away
    }
    bench.delta.alter.set_table_properties(keeps_nothing)
    return bench


def delta(folder: Path, _moto: Moto) -> Iterator[Kept]:
    with delta_on_disk(folder) as bench:
        yield Kept(keeping_nothing(bench), DeltaUpkeep(lambda _: {}), fs.LocalFileSystem(), str(folder))


def delta_s3(_folder: Path, moto: Moto) -> Iterator[Kept]:
    with delta_on_s3(moto()) as bench:
        bucket = bench.log.folder(bench.table).split("/")[2].rpartition("@")[2]
        yield Kept(keeping_nothing(bench), DeltaUpkeep(lambda _: bench.options), s3_system(moto()), bucket)


def iceberg(folder: Path, _moto: Moto) -> Iterator[Kept]:
    yield from iceberg_at(folder, {"warehouse": f"file://{folder}/lake"}, fs.LocalFileSystem(), str(folder))


def iceberg_s3(folder: Path, moto: Moto) -> Iterator[Kept]:
    bucket = moto().bucket(f"bucket-{uuid4().hex}")
    of_files = {
        "warehouse": f"s3://{bucket}/lake",
        "s3.endpoint": moto().endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    yield from iceberg_at(folder, of_files, s3_system(moto()), bucket)


def iceberg_at(folder: Path, of_files: dict[str, str], system: fs.FileSystem, place: str) -> Iterator[Kept]:
    ice = IcebergBench({"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", **of_files}, folder)
    bench = IcebergTableBench(ice, system)
    bench.log.create(TABLE, bench.stage("first", rows_of("first", 1)), ())
    with ice.table().transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    yield Kept(bench, IcebergUpkeep(lambda _: ice.catalog()), system, place)


@pytest.fixture
def moto(request: pytest.FixtureRequest) -> Moto:
    """A store, once somebody asks for one."""
    return lambda: request.getfixturevalue("moto_server")


@pytest.fixture(scope="module")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoS3]:
    with moto_apart(tmp_path_factory.mktemp("moto")) as server:
        yield server


KINDS: dict[str, Callable[[Path, Moto], Iterator[Kept]]] = {
    "delta": delta,
    "iceberg": iceberg,
    "delta-s3": delta_s3,
    "iceberg-s3": iceberg_s3,
}


def kinds(*on_s3: pytest.MarkDecorator) -> list[Any]:
    """Every kind as a parameter; those on S3 with these marks, too."""
    marks = (pytest.mark.object_store, *on_s3)
    return [pytest.param(kind, marks=marks) if kind.endswith("s3") else kind for kind in KINDS]


@pytest.fixture(params=kinds())
def kept(request: pytest.FixtureRequest, tmp_path: Path, moto: Moto) -> Iterator[Kept]:
    yield from KINDS[request.param](tmp_path, moto)


def batches(numbers: range) -> list[str]:
    return [f"b{number:03}" for number in numbers for _ in range(2)]


def path_of(file: DataFile) -> str:
    return file.uri.partition("://")[2].rpartition("@")[2]


def expire(kept: Kept) -> None:
    """Maintain until something has expired: stores of S3 know when, to the second."""
    until(lambda: kept.maintain().expired, "nothing expires", 20)


def test_a_table_that_isnt_there_is_no_error(kept: Kept) -> None:
    kept.bench.drop()
    assert kept.upkeep.maintain(kept.bench.table, dry_run=False) is None


def test_rows_and_record_stay_and_what_nobody_needs_goes(kept: Kept) -> None:
    for number in range(1, 6):
        kept.publish(number)
    before = kept.files()
    expire(kept)
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
    rejected = f"{path_of(published).rpartition('/')[0]}/_rejected/part-0.parquet"
    kept.write(rejected, b"rejected")
    (staged,) = kept.bench.stage("open", rows_of("open", 2))
    kept.bench.log.put_note(kept.bench.table, INCARNATION, "note.json", "{}")
    for number in range(1, 6):
        kept.publish(number)
    expire(kept)
    assert {rejected, path_of(staged)} <= kept.files()
    assert kept.bench.log.note(kept.bench.table, INCARNATION, "note.json") == "{}"


@pytest.mark.long
@pytest.mark.parametrize("kept", kinds(pytest.mark.nightly), indirect=True)
def test_no_commit_fails_while_a_table_is_maintained_and_each_batch_is_there_once(
    kept: Kept, request: pytest.FixtureRequest
) -> None:
    commits = COMMITS[request.node.callspec.params["kept"]]
    begun = {file for file in kept.files() if "/_delta_log/" in file or "/metadata/" in file}
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
        done = maintaining.result(120)
    assert done
    # whether it was the upkeep or, with a checkpoint, a commit that let it expire
    until(lambda: kept.maintain() and begun - kept.files(), "nothing of the log's beginning expires")
    assert kept.bench.batches() == batches(range(1, commits + 1))
    assert kept.record() == Record(commits, commits)


def test_delta_files_are_compacted(tmp_path: Path, moto: Moto) -> None:
    for kept in delta(tmp_path, moto):
        for number in range(1, 6):
            kept.publish(number)
        assert kept.maintain(dry_run=True).compacted == 5
        done = kept.maintain()
        assert (done.compacted, done.written, done.yielded) == (5, 1, False)
        assert kept.maintain(dry_run=True).compacted == 0


def test_a_delta_table_with_deletion_vectors_is_refused(tmp_path: Path, moto: Moto) -> None:
    for kept in delta(tmp_path, moto):
        table = DeltaTable(kept.bench.log.folder(kept.bench.table).removeprefix("file://"))
        table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
        with pytest.raises(WrongDefinitionError, match="deletionVectors"):
            kept.maintain()


def test_an_iceberg_table_whose_files_are_others_too_is_refused(tmp_path: Path, moto: Moto) -> None:
    for kept in iceberg(tmp_path, moto):
        assert isinstance(kept.bench, IcebergTableBench)
        with kept.bench._bench.table().transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        with pytest.raises(WrongDefinitionError, match=r"gc\.enabled=false"):
            kept.maintain()
