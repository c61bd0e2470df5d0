"""What every lake promises of what jobs acknowledge; the double in memory and Parquet files are held to the same."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.lake.parquet import ParquetLake
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.acknowledged import Acknowledgements, KnownOffsets
from tidegate.model.errors import BatchFailedError, UnavailableError
from tidegate.model.manifest import Counts, Result, StagedFile
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Failure, Rejected
from tidegate.parquet.acks import COLUMNS
from tidegate.testing.lake import MemoryLake, StagedAttempt

P0 = TopicPartition("orders", 0)
BATCH = f"b{7:020x}"
STAGED = f"_staging/{BATCH}-{1:032x}"


class Bench(Protocol):
    """A lake, what is staged there, the staging folder of a delivery, and a Spark job's hands."""

    lake: Any
    staged: Any
    staging: str

    def acknowledge(self, attempt: str, path: str, offsets: Sequence[int], at: TopicPartition = P0) -> StagedFile: ...
    def reject(self, attempt: str, offsets: Sequence[int]) -> tuple[StagedFile, ...]: ...


class MemoryBench:
    def __init__(self) -> None:
        self.lake = self.staged = MemoryLake()
        self.staging = f"file:///lake/{STAGED}"

    def acknowledge(self, attempt: str, path: str, offsets: Sequence[int], at: TopicPartition = P0) -> StagedFile:
        return self.staged.acknowledge(self.staging, attempt, path, {at: offsets})

    def reject(self, attempt: str, offsets: Sequence[int]) -> tuple[StagedFile, ...]:
        why = Failure("bad", "bad")
        rejected = tuple(Rejected(P0, offset, None, None, None, (), why) for offset in offsets)
        self.staged.stage(self.staging, attempt, StagedAttempt(None, Counts(0, len(rejected)), rejected=rejected))
        return ()


class ParquetBench:
    def __init__(self, folder: Path) -> None:
        self.staged = StagedFiles()
        self.lake = ParquetLake(self.staged)
        self.folder = folder / STAGED
        self.staging = f"file://{self.folder}"

    def acknowledge(self, attempt: str, path: str, offsets: Sequence[int], at: TopicPartition = P0) -> StagedFile:
        file = self.folder / attempt / path
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"topic": at.topic, "partition": at.partition, "offset": offset} for offset in offsets]
        pq.write_table(pa.Table.from_pylist(rows, COLUMNS), file)
        return StagedFile(path, file.stat().st_size)

    def reject(self, attempt: str, offsets: Sequence[int]) -> tuple[StagedFile, ...]:
        return (self.acknowledge(attempt, "_rejected/part-0.parquet", offsets),)


@pytest.fixture(params=["memory", "parquet"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return MemoryBench() if request.param == "memory" else ParquetBench(tmp_path / "my lake 50% full")


def result(attempt: str, acked: Sequence[StagedFile] | None = None, rejected: tuple[StagedFile, ...] = ()) -> Result:
    named = None if acked is None else tuple(acked)
    return Result("b1", "t1", attempt, read=9, filtered=0, files=(), rejected_files=rejected, ack_files=named)


def waiting(size: int = 10) -> dict[TopicPartition, Acknowledgements]:
    return {P0: Acknowledgements(P0, np.arange(size))}


def test_files_of_all_attempts_are_found_and_taken(bench: Bench) -> None:
    assert bench.staged.ack_files(bench.staging) == ()
    bench.acknowledge("a2", "_acks/1/part-0.parquet", [0, 1])
    bench.acknowledge("a1", "_acks/x/part-0.parquet", [3])
    bench.acknowledge("a1", "_acks/x/part-1.parquet", [1])
    found = bench.staged.ack_files(bench.staging)
    assert [file.removeprefix(bench.staging) for file in found] == [
        "/a1/_acks/x/part-0.parquet",
        "/a1/_acks/x/part-1.parquet",
        "/a2/_acks/1/part-0.parquet",
    ]
    into = waiting()
    for _ in range(2):
        for file in found:
            bench.staged.read_acks(file, into)
        assert into[P0].now().prefix(Range(*P0, 0, 10)) == 2
        assert into[P0].now().backlog(Range(*P0, 0, 10)) == 7


def test_files_are_found_after_their_delivery_was_set_aside_and_until_it_is_removed(bench: Bench) -> None:
    output, _, _ = bench.staging.partition("/_staging/")
    bench.acknowledge("a1", "_acks/x/part-0.parquet", [0])
    bench.lake.set_aside(output, Receipt("one", BATCH, 1))
    (aside,) = bench.lake.staged_folders(output)[BATCH]
    (file,) = bench.staged.ack_files(aside)
    into = waiting()
    bench.staged.read_acks(file, into)
    assert into[P0].now().backlog(Range(*P0, 0, 10)) == 9
    assert bench.staged.ack_files(bench.staging) == ()
    bench.lake.remove_staged(output, [aside])
    assert bench.staged.ack_files(aside) == ()


def test_what_an_attempt_has_done_with_is_what_its_result_names_and_what_it_rejected(bench: Bench) -> None:
    bench.acknowledge("a1", "_acks/1/part-0.parquet", [9])
    named = bench.acknowledge("a1", "_acks/2/part-0.parquet", [0, 2])
    rejected = bench.reject("a1", [1])
    into = waiting()
    for file in bench.staged.settled_files(bench.staging, result("a1", [named], rejected)):
        bench.staged.read_acks(file, into)
    assert into[P0].now().prefix(Range(*P0, 0, 10)) == 3
    assert into[P0].now().backlog(Range(*P0, 0, 10)) == 7


def test_an_attempt_that_acknowledges_nothing_by_itself_has_done_with_what_it_rejected(bench: Bench) -> None:
    rejected = bench.reject("a1", [1])
    into = waiting()
    for file in bench.staged.settled_files(bench.staging, result("a1", None, rejected)):
        bench.staged.read_acks(file, into)
    assert into[P0].now().backlog(Range(*P0, 0, 10)) == 9


def test_a_file_that_isnt_as_the_result_names_it_fails_the_batch(bench: Bench) -> None:
    named = bench.acknowledge("a1", "_acks/1/part-0.parquet", [0])
    for wrong in (StagedFile(named.path, named.bytes + 1), StagedFile("_acks/1/part-1.parquet", named.bytes)):
        with pytest.raises(BatchFailedError, match=wrong.path):
            bench.staged.settled_files(bench.staging, result("a1", [named, wrong]))


@pytest.mark.parametrize(("at", "said"), [(P0, r"offset 10\)"), (TopicPartition("orders", 1), "of orders-1")])
def test_another_record_than_those_awaited_fails_the_batch(bench: Bench, at: TopicPartition, said: str) -> None:
    bench.acknowledge("a1", "_acks/1/part-0.parquet", [10], at)
    (file,) = bench.staged.ack_files(bench.staging)
    with pytest.raises(BatchFailedError, match=said):
        bench.staged.read_acks(file, waiting())


def test_other_records_are_passed_over_where_another_delivery_may_have_had_them(bench: Bench) -> None:
    bench.acknowledge("a1", "_acks/1/part-0.parquet", [12, 3, 10, 0])
    (file,) = bench.staged.ack_files(bench.staging)
    into = waiting()
    bench.staged.read_acks(file, {at: KnownOffsets(one) for at, one in into.items()})
    assert (into[P0].now().prefix(Range(*P0, 0, 10)), into[P0].now().backlog(Range(*P0, 0, 10))) == (1, 8)


def test_files_that_spark_is_still_writing_are_left_alone(tmp_path: Path) -> None:
    bench = ParquetBench(tmp_path)
    bench.acknowledge("a1", "_acks/1/_temporary/0/part-0.parquet", [0])
    bench.acknowledge("a1", "part-0.parquet", [0])
    bench.acknowledge("a1", "_rejected/part-0.parquet", [0])
    (bench.folder / "a1/_acks/1/_SUCCESS").touch()
    assert bench.staged.ack_files(bench.staging) == ()
    with pytest.raises(UnavailableError, match="can't be read"):
        bench.staged.read_acks(f"{bench.staging}/a1/_acks/1/gone.parquet", waiting())
