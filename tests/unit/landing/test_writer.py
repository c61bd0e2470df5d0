from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tidegate.landing import writer
from tidegate.landing.writer import ParquetWriter


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_GROUP_ROWS", 10)
    monkeypatch.setattr(writer, "_GROUP_BYTES", 10_000)
    monkeypatch.setattr(writer, "_FILE_ROWS", 25)


@pytest.fixture
def attempt(tmp_path: Path) -> ParquetWriter:
    folder = tmp_path / "landing" / "member-0"
    return ParquetWriter(fs.LocalFileSystem(), f"{folder}/attempt", f"file://{folder}/attempt")


def chunk(rows: int, size: int = 1) -> pa.RecordBatch:
    columns = {"value": pa.array([b"v" * size] * rows, pa.binary()), "offset": pa.array(range(rows), pa.int64())}
    columns |= {"partition": pa.array([0] * rows, pa.int32()), "timestamp": pa.array(range(rows), pa.int64())}
    names = ("topic", "timestampType")
    return pa.RecordBatch.from_pydict(columns | {name: pa.array([0] * rows, pa.int32()) for name in names})


def groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]


def landed(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.parquet"))


def test_chunks_are_gathered_into_row_groups_and_those_into_files(attempt: ParquetWriter, tmp_path: Path) -> None:
    for rows in (6, 6, 4, 9, 3, 2):
        attempt.write(chunk(rows))
    attempt.finish()
    assert [groups(path) for path in landed(tmp_path)] == [[12, 13], [5]]
    assert [(f.uri, f.records, f.bytes) for f in attempt.files()] == [
        (f"file://{path}", records, path.stat().st_size)
        for path, records in zip(landed(tmp_path), (25, 5), strict=True)
    ]


def test_large_records_are_written_before_there_are_many(attempt: ParquetWriter, tmp_path: Path) -> None:
    for _ in range(4):
        attempt.write(chunk(1, 6_000))
    attempt.finish()
    assert [groups(path) for path in landed(tmp_path)] == [[2, 2]]


def test_each_row_group_says_what_lies_in_each_of_its_columns(attempt: ParquetWriter, tmp_path: Path) -> None:
    attempt.write(chunk(20))
    attempt.finish()
    group = pq.ParquetFile(landed(tmp_path)[0]).metadata.row_group(0)
    assert all(group.column(n).statistics.has_min_max for n in range(group.num_columns))


def test_discarding_removes_finished_and_unfinished_files(attempt: ParquetWriter, tmp_path: Path) -> None:
    for rows in (30, 12, 5):
        attempt.write(chunk(rows))
    assert len(landed(tmp_path)) == 2
    attempt.discard()
    assert landed(tmp_path) == []
    assert attempt.files() == ()
