"""What every lake promises; the double in memory and folders of Parquet files are held to the same."""

import json
import multiprocessing
import os
import shutil
import stat
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tidegate.lake import staged_files
from tidegate.lake.parquet import ParquetLake
from tidegate.lake.published import published_batches
from tidegate.lake.rename import TakenError, rename_folder
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.batch import Batch, Delivery, LandedFile
from tidegate.model.errors import BatchFailedError, CorruptFileError, LostDataError, StaleError, WrongDefinitionError
from tidegate.model.manifest import Counts, Manifest, Published, Rejections, Result, StagedFile
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Failure, Rejected, rejection
from tidegate.ports import Lake
from tidegate.runtime.lakes import lakes
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.lake import MemoryLake, StagedAttempt

RACES = 40
T1, T2 = "1" * 32, "2" * 32


B1, B2, B3, B4, B12 = (f"b{number:020}" for number in (1, 2, 3, 4, 12))


def of(batch_id: str) -> Receipt:
    """What the commit of a batch writes."""
    return Receipt("inc", batch_id, 1)


def manifest_of(
    output: str,
    batch_id: str = B1,
    token: str = T1,
    end: int = 10,
) -> Manifest:
    batch = Batch(
        id=batch_id,
        subscription="flights",
        group="g",
        receipt=Receipt("inc"),
        ranges=(Range("t", 0, 0, end), Range("t", 1, 5, 5)),
        shares=((TopicPartition("t", 0), TopicPartition("t", 1)),),
        output=output,
        partition_by=("carrier",),
        records={TopicPartition("t", 0): end - 1},
        files=(LandedFile("file:///landing/a 100%.parquet", end - 1, 77),),
    )
    return Manifest(batch, Delivery(1, token), "m:f", "strict", f"{output}/_staging/{batch_id}-{token}")


class Bench(Protocol):
    """A lake, an output in it, what is staged there, and a Spark job's hands."""

    lake: Any
    staged: Any
    output: str

    def stage(self, manifest: Manifest, attempt: str, rows: int = 3, rejected: int = 0, *, done: bool = True) -> Result:
        """Leave an attempt, with its result if it is done."""
        ...

    def abandoned(self) -> list[str]:
        """The names of what was set aside."""
        ...

    def damage(self, manifest: Manifest, attempt: str, file: str) -> None:
        """A byte of a staged file changes."""
        ...

    def put_aside(self, name: str) -> None:
        """Somebody makes a folder where batches are set aside."""
        ...


def result_of(manifest: Manifest, attempt: str, **files: Any) -> Result:
    files = {"files": (), "rejected_files": (), **files}
    return Result(manifest.batch.id, manifest.delivery.token, attempt, read=9, filtered=0, **files)


class MemoryBench:
    def __init__(self) -> None:
        self.lake = self.staged = MemoryLake()
        self.output = "file:///lake"

    def stage(self, manifest: Manifest, attempt: str, rows: int = 3, rejected: int = 0, *, done: bool = True) -> Result:
        result = result_of(manifest, attempt)
        found = tuple(rejected_record(offset) for offset in range(rejected))
        staged = StagedAttempt(result if done else None, Counts(rows, rejected), rejected=found)
        self.lake.stage(manifest.staging, attempt, staged)
        return result

    def abandoned(self) -> list[str]:
        return self.lake.abandoned

    def damage(self, manifest: Manifest, attempt: str, file: str) -> None:
        attempts = self.lake.staged[manifest.staging]
        attempts[attempt] = replace(attempts[attempt], damage=f"{file} has changed since it was written")

    def put_aside(self, name: str) -> None:
        self.lake.abandoned.append(name)


class ParquetBench:
    def __init__(self, folder: Path) -> None:
        self.staged = StagedFiles()
        self.lake: Lake = ParquetLake(self.staged)
        self.folder = folder
        self.output = f"file://{folder}"

    def stage(self, manifest: Manifest, attempt: str, rows: int = 3, rejected: int = 0, *, done: bool = True) -> Result:
        folder = path_of(manifest.staging) / attempt
        written = [
            write(folder, "carrier=A%2FA/part-0.zstd.parquet", rows),
            write(folder, "carrier=B B/part-1.parquet", 2),
        ]
        bad = [reject(folder, part, rejected) for part in (1, 0)] if rejected else []
        (folder / "_SUCCESS").touch()
        (folder / "carrier=B B/.part-1.parquet.crc").write_text("x")
        result = result_of(manifest, attempt, files=tuple(written), rejected_files=tuple(bad))
        leave_result(folder, result, done=done)
        return result

    def abandoned(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("_abandoned/*"))

    def damage(self, manifest: Manifest, attempt: str, file: str) -> None:
        flip(path_of(manifest.staging) / attempt / file)

    def put_aside(self, name: str) -> None:
        (self.folder / "_abandoned" / name).mkdir(parents=True)


def path_of(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def write(folder: Path, name: str, rows: int) -> StagedFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": list(range(rows))}), path)
    return StagedFile(name, path.stat().st_size)


HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
REJECTED = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": HEADERS,
        "reason": pa.string(),
    }
)
"""As Spark writes them."""

CONTENTS = (None, b"", b"\xff")
OWN = (None, (), (("source", b"x"),), (("a", None), ("a", b""), ("a", None)))
"""All that the headers of a record may be; without any, the column is null."""


def rejected_record(offset: int) -> Rejected:
    headers = OWN[offset % len(OWN)] or ()
    return Rejected(
        at=TopicPartition("t", 0),
        offset=offset,
        timestamp=1_500_000_000_000 + offset,
        key=CONTENTS[offset % 3],
        value=CONTENTS[(offset + 1) % 3],
        headers=headers,
        failure=rejection(f"bad {offset}", headers),
    )


def rejected_row(offset: int) -> dict[str, Any]:
    record = rejected_record(offset)
    headers = OWN[offset % len(OWN)]
    return {
        "key": record.key,
        "value": record.value,
        "topic": record.at.topic,
        "partition": record.at.partition,
        "offset": offset,
        "timestamp": (record.timestamp or 0) * 1000,
        "timestampType": 0,
        "headers": None if headers is None else [{"key": name, "value": value} for name, value in headers],
        "reason": f"bad {offset}",
    }


def reject(folder: Path, part: int, rejected: int) -> StagedFile:
    """Every other rejected record, so that their order isn't that of the files."""
    return write_rejected(folder, part, [rejected_row(offset) for offset in range(part, rejected, 2)])


def write_rejected(folder: Path, part: int, rows: list[dict[str, Any]], schema: pa.Schema = REJECTED) -> StagedFile:
    path = folder / f"_rejected/part-{part}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return StagedFile(f"_rejected/{path.name}", path.stat().st_size)


def leave_result(folder: Path, result: Result, *, done: bool = True) -> None:
    """As Spark does: written below _temporary, and moved when it is whole."""
    below = folder / "_result" if done else folder / "_result/_temporary/0/_temporary/attempt_0"
    below.mkdir(parents=True, exist_ok=True)
    document = {
        "format": 1,
        "batch_id": result.batch_id,
        "delivery": result.delivery,
        "attempt": result.attempt,
        "read": result.read,
        "filtered": result.filtered,
        "files": [{"path": f.path, "bytes": f.bytes} for f in result.files],
        "rejected_files": [{"path": f.path, "bytes": f.bytes} for f in result.rejected_files],
    }
    (below / "part-00000-abc.txt").write_text(json.dumps(document) + "\n")
    (below / ".part-00000-abc.txt.crc").write_text("x")


@pytest.fixture
def parquet(tmp_path: Path) -> ParquetBench:
    folder = tmp_path / "my lake 50% full=no"
    folder.mkdir()
    return ParquetBench(folder)


@pytest.fixture
def by_output(parquet: ParquetBench) -> ParquetBench:
    """The lake of a pipeline, which looks at the output's URI."""
    parquet.lake = lakes(MemoryConnections())
    return parquet


@pytest.fixture(params=["memory", "parquet", "by_output"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return MemoryBench() if request.param == "memory" else request.getfixturevalue(request.param)


@pytest.fixture
def lake(bench: Bench) -> Lake:
    lake: Lake = bench.lake
    return lake


UNDECODABLE = [{"key": "source", "value": None}, {"key": "deserialization-failure-dlq", "value": b"true"}]

# Staged deliveries


def test_rejected_records_of_an_attempt_that_was_swept_away_fail_the_batch(bench: Bench) -> None:
    manifest = manifest_of(bench.output)
    result = bench.stage(manifest, "a1", rejected=1)
    clear(bench.lake, bench.output, manifest.batch.id)
    with pytest.raises(BatchFailedError, match="a1"):
        bench.staged.rejections(manifest.staging, result, 3)


def test_records_that_could_not_be_decoded_are_not_rejected_by_the_job(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    rows = [rejected_row(n) | {"headers": found} for n, found in enumerate([UNDECODABLE, None, UNDECODABLE, []])]
    file = write_rejected(path_of(manifest.staging) / "a1", 0, rows)
    result = result_of(manifest, "a1", rejected_files=(file,))
    found = parquet.staged.rejections(manifest.staging, result, 5)
    assert (found.number, [one.offset for one in found.first]) == (2, [1, 3])


def test_rejected_records_of_other_types_that_say_the_same_are_read_all_the_same(parquet: ParquetBench) -> None:
    """Columns that can't be null, as Spark writes those of literals; other widths of numbers; dictionaries."""
    manifest = manifest_of(parquet.output)
    folder = path_of(manifest.staging) / "a1"
    whole = REJECTED.set(8, pa.field("reason", pa.string(), nullable=False)).set(
        4, pa.field("offset", pa.int64(), nullable=False)
    )
    other = REJECTED.set(8, pa.field("reason", pa.dictionary(pa.int32(), pa.string()))).set(
        3, pa.field("partition", pa.int64())
    )
    files = tuple(
        write_rejected(folder, number, [rejected_row(number)], schema) for number, schema in enumerate([whole, other])
    )
    found = parquet.staged.rejections(manifest.staging, result_of(manifest, "a1", rejected_files=files), 5)
    assert [(one.partition, one.offset, one.reason) for one in found.first] == [(0, 0, "bad 0"), (0, 1, "bad 1")]


def test_results_are_those_of_finished_attempts_in_order(bench: Bench) -> None:
    manifest = manifest_of(bench.output)
    assert bench.staged.results(manifest.staging) == ()
    second = bench.stage(manifest, "a2")
    bench.stage(manifest, "a3", done=False)
    first = bench.stage(manifest, "a1")
    assert bench.staged.results(manifest.staging) == (first, second)
    assert bench.staged.results(manifest_of(bench.output, token=T2).staging) == ()


def test_of_many_ids_those_are_told_that_are_published(bench: Bench, lake: Lake) -> None:
    assert lake.published_ids(bench.output, [B1, B2]) == frozenset()
    published = manifest_of(bench.output)
    bench.stage(published, "a1")
    lake.publish(published, "a1")
    assert lake.published_ids(bench.output, [B1, B2]) == {B1}


def test_a_folder_that_holds_something_else_is_not_told_as_published(parquet: ParquetBench) -> None:
    (parquet.folder / f"batch_id={B1}").mkdir(parents=True)
    (parquet.folder / f"batch_id={B1}" / "notes.txt").write_text("mine")
    assert parquet.lake.published_ids(parquet.output, [B1]) == frozenset()


def test_an_output_is_absent_until_something_is_staged_and_stays_seen(bench: Bench, lake: Lake) -> None:
    assert lake.is_absent(bench.output)
    manifest = manifest_of(bench.output)
    lake.prepare(manifest)
    assert not lake.is_absent(bench.output)
    bench.staged.remove_folders([manifest.staging])
    assert not lake.is_absent(bench.output)


def test_an_attempt_is_there_until_it_is_published(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    assert not bench.staged.has_attempt(manifest.staging, "a1")
    bench.stage(manifest, "a1")
    assert bench.staged.has_attempt(manifest.staging, "a1")
    assert not bench.staged.has_attempt(manifest.staging, "a2")
    lake.publish(manifest, "a1")
    assert not bench.staged.has_attempt(manifest.staging, "a1")


def test_the_records_that_the_job_rejected_are_counted_and_the_first_are_told(bench: Bench) -> None:
    manifest = manifest_of(bench.output)
    result = bench.stage(manifest, "a1", rejected=5)
    found = bench.staged.rejections(manifest.staging, result, 3)
    assert found.number == 5
    assert list(map(str, found.first)) == ["t-0 at 0: bad 0", "t-0 at 1: bad 1", "t-0 at 2: bad 2"]
    assert bench.staged.rejections(manifest.staging, bench.stage(manifest, "a2"), 3) == Rejections(0)


def test_counting_an_attempt_that_is_gone_fails_the_batch(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    result = bench.stage(manifest, "a1")
    lake.set_aside(bench.output, of(manifest.batch.id))
    with pytest.raises(BatchFailedError, match="aren't those that"):
        bench.staged.seal(manifest.staging, result)


# Publishing


def sealed(bench: Bench, manifest: Manifest, attempt: str = "a1") -> Manifest:
    """The manifest of a batch whose attempt was staged and audited."""
    result = bench.stage(manifest, attempt, rejected=2)
    counts = bench.staged.seal(manifest.staging, result)
    assert counts.seal is not None
    assert bench.staged.seal(manifest.staging, result) == counts
    return replace(manifest, batch=replace(manifest.batch, seal=counts.seal))


def test_what_is_as_it_was_sealed_is_published(bench: Bench, lake: Lake) -> None:
    manifest = sealed(bench, manifest_of(bench.output))
    lake.publish(manifest, "a1")
    assert lake.published(bench.output, of(B1)) is not None


def test_what_has_changed_since_it_was_sealed_is_named_and_not_published(bench: Bench, lake: Lake) -> None:
    manifest = sealed(bench, manifest_of(bench.output))
    bench.damage(manifest, "a1", "carrier=B B/part-1.parquet")
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r"carrier=B B/part-1.parquet has changed since it was written"):
            lake.publish(manifest, "a1")
    assert lake.published(bench.output, of(B1)) is None
    assert bench.staged.has_attempt(manifest.staging, "a1")


def test_what_an_earlier_tidegate_audited_is_published_unverified(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    bench.stage(manifest, "a1")
    bench.damage(manifest, "a1", "carrier=B B/part-1.parquet")
    lake.publish(manifest, "a1")
    assert lake.published(bench.output, of(B1)) is not None


def flip(path: Path, at: int = -1) -> None:
    """One bit of a file changes."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda a: flip(a / "carrier=A%2FA/part-0.zstd.parquet", 9), "carrier=A%2FA/part-0.zstd.parquet has changed"),
        (lambda a: flip(a / "_rejected/part-1.parquet", 9), "_rejected/part-1.parquet has changed since"),
        (lambda a: truncate(a / "carrier=B B/part-1.parquet"), "part-1.parquet has 20 bytes, and"),
        (lambda a: (a / "carrier=B B/part-1.parquet").unlink(), "part-1.parquet is gone"),
        (lambda a: write(a, "carrier=C/part-9.parquet", 1), "part-9.parquet has appeared since it was audited"),
        (lambda a: flip(a.parent / "a1.checksums.json", 9), "a1.checksums.json has changed"),
        (lambda a: (a.parent / "a1.checksums.json").unlink(), "a1.checksums.json is gone"),
    ],
    ids=["row", "rejected", "cut", "missing", "another", "list", "list missing"],
)
def test_one_byte_of_what_was_sealed_keeps_it_from_being_published(
    parquet: ParquetBench, spoil: Callable[[Path], object], said: str
) -> None:
    manifest = sealed(parquet, manifest_of(parquet.output))
    spoil(path_of(manifest.staging) / "a1")
    with pytest.raises(CorruptFileError, match=said):
        parquet.lake.publish(manifest, "a1")
    assert not list(parquet.folder.glob("batch_id=*"))


def test_what_was_set_aside_while_it_was_verified_is_stale_and_not_damaged(
    parquet: ParquetBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = sealed(parquet, manifest_of(parquet.output))
    files = staged_files.sealed_files

    def then_set_aside(*arguments: Any) -> Any:
        found = files(*arguments)
        parquet.lake.set_aside(parquet.output, of(B1))
        return found

    monkeypatch.setattr(staged_files, "sealed_files", then_set_aside)
    with pytest.raises(StaleError, match="gone"):
        parquet.lake.publish(manifest, "a1")


def test_a_published_manifest_names_each_file_with_its_checksum(parquet: ParquetBench) -> None:
    manifest = sealed(parquet, manifest_of(parquet.output))
    parquet.lake.publish(manifest, "a1")
    folder = parquet.folder / f"batch_id={B1}"
    named = json.loads((folder / "_manifest.json").read_text())["output_files"]
    assert {file["path"] for file in named} == {str(path.relative_to(folder)) for path in folder.rglob("part-?.*")}
    for file in named:
        assert file["checksum"] == f"crc32:{zlib.crc32((folder / file['path']).read_bytes()):08x}"
        assert file["bytes"] == (folder / file["path"]).stat().st_size


def test_what_is_published_tells_its_ranges_records_and_files(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    bench.stage(manifest, "a1")
    assert lake.published(bench.output, of(B1)) is None
    lake.publish(manifest, "a1")
    assert lake.published(bench.output, of(B1)) == Published(
        B1,
        manifest.batch.ranges,
        {TopicPartition("t", 0): 9, TopicPartition("t", 1): 0},
        manifest.batch.files,
        manifest.batch.rows,
        manifest.batch.rejected,
    )
    assert lake.published(bench.output, of(B2)) is None


def test_what_is_published_is_there_for_readers(parquet: ParquetBench) -> None:
    manifest = sealed(parquet, manifest_of(parquet.output))
    assert published_batches(parquet.output) == []
    parquet.lake.publish(manifest, "a1")
    (batch,) = published_batches(parquet.output)
    assert (batch.id, batch.number, batch.rows) == (B1, 1, manifest.batch.rows)
    folder = path_of(batch.uri)
    written = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    assert {file.path for file in batch.files or ()} == {path for path in written if not path.startswith("_")}


def test_a_published_batch_is_never_replaced(bench: Bench, lake: Lake) -> None:
    first, second = manifest_of(bench.output), manifest_of(bench.output, token=T2, end=20)
    bench.stage(first, "a1")
    bench.stage(second, "a2")
    lake.publish(first, "a1")
    with pytest.raises(StaleError, match="published already"):
        lake.publish(second, "a2")
    published = lake.published(bench.output, of(B1))
    assert published is not None
    assert published.ranges == first.batch.ranges
    assert bench.staged.has_attempt(second.staging, "a2")


def test_an_attempt_that_is_gone_is_not_published(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    bench.stage(manifest, "a1")
    lake.set_aside(bench.output, of(B1))
    with pytest.raises(StaleError, match="gone"):
        lake.publish(manifest, "a1")
    assert lake.published(bench.output, of(B1)) is None
    assert not bench.staged.has_attempt(manifest.staging, "a1")


@pytest.mark.long
def test_of_publishers_that_race_exactly_one_wins(bench: Bench, lake: Lake) -> None:
    for turn in range(RACES):
        manifests = [manifest_of(bench.output, f"b{turn}", f"t{n}", end=10 + n) for n in range(3)]
        for manifest in manifests:
            bench.stage(manifest, "a", rows=1)
        start = threading.Barrier(3)

        def race(manifest: Manifest, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                lake.publish(manifest, "a")
            except StaleError:
                return False
            return True

        with ThreadPoolExecutor(3) as pool:
            won = [manifest for manifest, first in zip(manifests, pool.map(race, manifests), strict=True) if first]
        assert len(won) == 1
        published = lake.published(bench.output, of(f"b{turn}"))
        assert published is not None
        assert published.ranges == won[0].batch.ranges


def test_of_two_that_publish_one_attempt_exactly_one_wins(bench: Bench, lake: Lake) -> None:
    for turn in range(RACES):
        manifest = manifest_of(bench.output, f"b{turn}")
        bench.stage(manifest, "a", rows=1)
        start = threading.Barrier(2)

        def race(_: int, manifest: Manifest = manifest, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                lake.publish(manifest, "a")
            except StaleError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(race, range(2))) == [False, True]
        assert lake.published(bench.output, of(f"b{turn}")) is not None


def test_a_published_batch_gives_the_records_that_it_rejected(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    assert list(lake.rejected(bench.output, of(B1))) == []
    bench.stage(manifest, "a1", rejected=700)
    assert list(lake.rejected(bench.output, of(B1))) == []
    lake.publish(manifest, "a1")
    found = list(lake.rejected(bench.output, of(B1)))
    assert sorted(found, key=lambda record: record.offset) == [rejected_record(offset) for offset in range(700)]
    assert list(lake.rejected(bench.output, of(B12))) == []


def test_a_published_batch_that_rejected_nothing_gives_none(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    bench.stage(manifest, "a1")
    lake.publish(manifest, "a1")
    assert list(lake.rejected(bench.output, of(B1))) == []


# Setting aside, clearing


def test_setting_aside_takes_every_staging_of_the_batch_and_of_no_other(bench: Bench, lake: Lake) -> None:
    lake.set_aside(bench.output, of(B1))
    mine = [manifest_of(bench.output, token=token) for token in (T1, T2)]
    other = manifest_of(bench.output, B12)
    for manifest in (*mine, other):
        bench.stage(manifest, "a1")
    lake.set_aside(bench.output, of(B1))
    lake.set_aside(bench.output, of(B1))
    assert [bench.staged.results(manifest.staging) for manifest in mine] == [(), ()]
    assert bench.staged.has_attempt(other.staging, "a1")
    assert [name.rpartition("-")[0] for name in sorted(bench.abandoned())] == [f"{B1}-{T1}", f"{B1}-{T2}"]


def clear(lake: Lake, output: str, batch_id: str) -> None:
    """Remove what is staged and set aside of a batch."""
    lake.remove_staged(output, lake.staged_folders(output).get(batch_id, frozenset()))


def test_what_is_staged_or_set_aside_is_told_by_batch(bench: Bench, lake: Lake) -> None:
    assert lake.staged_folders(bench.output) == {}
    for batch_id in (B1, B2, B3, B4):
        bench.stage(manifest_of(bench.output, batch_id), "a1")
    lake.set_aside(bench.output, of(B2))
    lake.publish(manifest_of(bench.output, B3), "a1")
    clear(lake, bench.output, B3)
    clear(lake, bench.output, B4)
    found = lake.staged_folders(bench.output)
    assert found.keys() == {B1, B2}
    assert found[B1] == {manifest_of(bench.output, B1).staging}
    (aside,) = found[B2]
    assert aside.startswith(f"{bench.output}/_abandoned/{B2}-{T1}-")
    clear(lake, bench.output, B2)
    assert lake.staged_folders(bench.output).keys() == {B1}


def test_what_has_been_listed_is_removed_and_nothing_that_came_later(bench: Bench, lake: Lake) -> None:
    first, second = (manifest_of(bench.output, token=token) for token in (T1, T2))
    bench.stage(first, "a1")
    found = lake.staged_folders(bench.output)[B1]
    bench.stage(second, "a1")
    lake.remove_staged(bench.output, found)
    lake.remove_staged(bench.output, found)
    assert not bench.staged.has_attempt(first.staging, "a1")
    assert bench.staged.has_attempt(second.staging, "a1")


FOREIGN = ("my-notes", "2024-05-01", "b1-t1", f"{B1}-notes", f"{B1}-{T1}-copy", f"{B1}-{T1}0", f"x{B1}-{T1}", B1)


def test_folders_that_are_not_named_as_ours_are_neither_listed_nor_set_aside(bench: Bench, lake: Lake) -> None:
    for name in FOREIGN:
        bench.stage(replace(manifest_of(bench.output), staging=f"{bench.output}/_staging/{name}"), "a1")
        bench.put_aside(name)
    bench.put_aside(f"{B1}-{T1}")
    lake.set_aside(bench.output, of(B1))
    assert lake.staged_folders(bench.output) == {}
    assert all(bench.staged.has_attempt(f"{bench.output}/_staging/{name}", "a1") for name in FOREIGN)


def test_a_late_driver_can_be_set_aside_again(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    for _ in range(2):
        bench.stage(manifest, "a1")
        lake.set_aside(bench.output, of(B1))
        assert not bench.staged.has_attempt(manifest.staging, "a1")
    assert len(bench.abandoned()) == 2


def test_setting_aside_leaves_what_is_published(bench: Bench, lake: Lake) -> None:
    manifest = manifest_of(bench.output)
    bench.stage(manifest, "a1")
    lake.publish(manifest, "a1")
    lake.set_aside(bench.output, of(B1))
    assert lake.published(bench.output, of(B1)) is not None


def test_clearing_leaves_what_is_published_and_other_batches(bench: Bench, lake: Lake) -> None:
    clear(lake, bench.output, B1)
    published, late, other = (
        manifest_of(bench.output),
        manifest_of(bench.output, token=T2),
        manifest_of(bench.output, B12),
    )
    bench.stage(late, "a1")
    lake.set_aside(bench.output, of(B1))
    for manifest in (published, late, other):
        bench.stage(manifest, "a1")
    lake.publish(published, "a1")
    clear(lake, bench.output, B1)
    assert not bench.staged.has_attempt(late.staging, "a1")
    assert bench.staged.has_attempt(other.staging, "a1")
    assert bench.abandoned() == []
    assert lake.published(bench.output, of(B1)) is not None


# Folders of Parquet files


def test_rows_are_counted_in_the_footers(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    result = parquet.stage(manifest, "a1", rows=30, rejected=4)
    counts = parquet.staged.seal(manifest.staging, result)
    assert (counts.written, counts.rejected) == (32, 4)


def test_an_attempt_without_any_file_counts_nothing(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    leave_result(path_of(manifest.staging) / "a1", result_of(manifest, "a1"))
    (result,) = parquet.staged.results(manifest.staging)
    counts = parquet.staged.seal(manifest.staging, result)
    assert (counts.written, counts.rejected) == (0, 0)


def truncate(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.truncate(20)


def overwrite(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda a: (a / "carrier=B B/part-1.parquet").unlink(), "part-1.parquet is missing"),
        (lambda a: truncate(a / "carrier=B B/part-1.parquet"), "part-1.parquet has 20 bytes instead of"),
        (lambda a: overwrite(a / "carrier=B B/part-1.parquet"), "part-1.parquet isn't a whole Parquet file"),
        (lambda a: write(a, "carrier=C/part-9.parquet", 1), "carrier=C/part-9.parquet lies there unnamed"),
        (lambda a: write(a, "_day=1/part-9.parquet", 1), "_day=1/part-9.parquet lies there unnamed"),
        (lambda a: write(a, "_rejected/part-9.parquet", 1), "_rejected/part-9.parquet lies there unnamed"),
        (lambda a: shutil.rmtree(a / "_rejected"), "_rejected/part-0.parquet is missing"),
    ],
    ids=["missing", "cut", "garbled", "unnamed", "unnamed in a partition", "unnamed rejected", "rejected missing"],
)
def test_files_that_are_not_as_the_result_says_fail_the_batch(
    parquet: ParquetBench, spoil: Callable[[Path], object], said: str
) -> None:
    manifest = manifest_of(parquet.output)
    result = parquet.stage(manifest, "a1", rejected=1)
    spoil(path_of(manifest.staging) / "a1")
    with pytest.raises(BatchFailedError, match=said):
        parquet.staged.seal(manifest.staging, result)


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"format": 2}'])
def test_a_finished_result_that_cannot_be_read_fails_the_batch(parquet: ParquetBench, text: str) -> None:
    folder = path_of(manifest_of(parquet.output).staging) / "a1/_result"
    folder.mkdir(parents=True)
    (folder / "part-00000.txt").write_text(text)
    (folder / "_SUCCESS").touch()
    with pytest.raises(BatchFailedError, match="result"):
        parquet.staged.results(manifest_of(parquet.output).staging)


def test_a_result_of_another_attempt_fails_the_batch(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    result = replace(parquet.stage(manifest, "a1"), attempt="../a2")
    leave_result(path_of(manifest.staging) / "a1", result)
    with pytest.raises(BatchFailedError, match=r"of attempt \.\./a2"):
        parquet.staged.results(manifest.staging)


def test_a_published_folder_holds_the_files_and_the_manifest(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    result = parquet.stage(manifest, "a1", rejected=1)
    parquet.lake.publish(manifest, "a1")
    folder = parquet.folder / f"batch_id={B1}"
    for file in (*result.files, *result.rejected_files):
        assert (folder / file.path).stat().st_size == file.bytes
    assert (folder / "_manifest.json").read_text() == manifest.to_json()
    assert list(folder.glob("_manifest*")) == [folder / "_manifest.json"]


def test_a_publisher_that_died_after_the_manifest_is_followed_by_another(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    parquet.stage(manifest, "a1")
    (path_of(manifest.staging) / "a1/_manifest.json").write_text("half")
    parquet.lake.publish(manifest, "a1")
    assert parquet.lake.published(parquet.output, of(B1)) is not None


def test_a_publisher_that_slept_makes_nothing_anew(parquet: ParquetBench, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = manifest_of(parquet.output)
    parquet.stage(manifest, "a1")

    def look_then_sleep(*_: object) -> bool:
        parquet.lake.set_aside(parquet.output, of(B1))
        return True

    with monkeypatch.context() as patch:
        patch.setattr("tidegate.lake.staged_files.is_folder", look_then_sleep)
        with pytest.raises(StaleError, match="gone"):
            parquet.lake.publish(manifest, "a1")
    assert parquet.lake.published(parquet.output, of(B1)) is None
    assert not parquet.staged.has_attempt(manifest.staging, "a1")


@pytest.mark.parametrize("umask", [0o077, 0o007, 0o022])
def test_who_may_look_into_a_batch_is_said_by_this_process_and_not_by_the_job(
    parquet: ParquetBench, umask: int
) -> None:
    manifest = replace(manifest_of(f"{parquet.output}/new"), staging=f"{parquet.output}/new/_staging/{B1}-{T1}")
    before = os.umask(umask)
    try:
        parquet.lake.prepare(manifest)
        parquet.lake.prepare(manifest)
    finally:
        os.umask(before)
    parquet.stage(manifest, "a1")
    (path_of(manifest.staging) / "a1").chmod(0o755)
    parquet.lake.publish(manifest, "a1")
    made = [parquet.folder / "new" / path for path in ("", "_staging", f"_staging/{B1}-{T1}", f"batch_id={B1}")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o777 & ~umask}


def test_an_empty_folder_in_the_way_is_not_a_published_batch(parquet: ParquetBench) -> None:
    manifest = manifest_of(parquet.output)
    parquet.stage(manifest, "a1")
    (parquet.folder / f"batch_id={B1}").mkdir()
    assert parquet.lake.published(parquet.output, of(B1)) is None
    parquet.lake.publish(manifest, "a1")
    assert parquet.lake.published(parquet.output, of(B1)) is not None


@pytest.mark.parametrize("name", ["part-0.parquet", "_manifest.json"])
def test_a_foreign_folder_in_the_way_is_named_and_left_alone(parquet: ParquetBench, name: str) -> None:
    manifest = manifest_of(parquet.output)
    parquet.stage(manifest, "a1")
    (parquet.folder / f"batch_id={B1}").mkdir()
    (parquet.folder / f"batch_id={B1}" / name).write_text("theirs")
    with pytest.raises(LostDataError, match=rf"batch_id={B1} .*`tidegate batch show {B1}`.*move the folder"):
        parquet.lake.published(parquet.output, of(B1))
    with pytest.raises(StaleError):
        parquet.lake.publish(manifest, "a1")
    assert (parquet.folder / f"batch_id={B1}" / name).read_text() == "theirs"


def test_rejected_records_come_by_name_of_their_files_and_hidden_ones_do_not(parquet: ParquetBench) -> None:
    folder = parquet.folder / f"batch_id={B1}"
    for part in (1, 0):
        reject(folder, part, 5)
    write_rejected(folder / "_rejected/_temporary", 9, [rejected_row(9)])
    write_rejected(folder / "_rejected/reason=x", 2, [])
    (folder / "_rejected/_SUCCESS").touch()
    (folder / "_rejected/.part-0.parquet.crc").write_text("x")
    assert [record.offset for record in parquet.lake.rejected(parquet.output, of(B1))] == [0, 2, 4, 1, 3]


@pytest.mark.parametrize(
    ("values", "timestamp"),
    [
        ({"timestamp": 1_999}, 1),
        ({"timestamp": 0}, 0),
        ({"timestamp": None}, None),
        ({"timestamp": -1_000}, None),
        ({"timestamp": -1_000, "timestampType": None}, None),
        ({"timestampType": -1}, None),
        ({"timestamp": 5_000, "timestampType": None}, 5),
        ({"timestamp": -5_000}, -5),
    ],
    ids=str,
)
def test_the_timestamp_of_a_rejected_record_is_told_in_milliseconds(
    parquet: ParquetBench, values: dict[str, Any], timestamp: int | None
) -> None:
    write_rejected(parquet.folder / f"batch_id={B1}", 0, [rejected_row(1) | values])
    (found,) = parquet.lake.rejected(parquet.output, of(B1))
    assert found.timestamp == timestamp


def test_a_rejected_record_tells_why(parquet: ParquetBench) -> None:
    rows = [rejected_row(0), rejected_row(0) | {"headers": UNDECODABLE}, rejected_row(0) | {"reason": None}]
    write_rejected(parquet.folder / f"batch_id={B1}", 0, rows)
    found = [record.failure for record in parquet.lake.rejected(parquet.output, of(B1))]
    assert found == [
        Failure("tidegate.RejectedRecord", "bad 0"),
        Failure("tidegate.UndecodableRecord", "bad 0"),
        Failure("tidegate.RejectedRecord", "tidegate.RejectedRecord"),
    ]


def test_rejected_records_that_were_changed_are_named(parquet: ParquetBench) -> None:
    folder = parquet.folder / f"batch_id={B1}"
    write(folder, "_rejected/part-0.parquet", 1)
    with pytest.raises(LostDataError, match=r"part-0.parquet has no key, value, .*reason"):
        list(parquet.lake.rejected(parquet.output, of(B1)))
    overwrite(folder / "_rejected/part-0.parquet")
    with pytest.raises(LostDataError, match=r"part-0.parquet isn't a whole Parquet file"):
        list(parquet.lake.rejected(parquet.output, of(B1)))


def publish_in_a_process(output: str, token: str, turns: int, start: Any, wins: Any) -> None:
    for turn in range(turns):
        start.wait()
        try:
            ParquetLake(StagedFiles()).publish(manifest_of(output, f"b{turn}", token), "a")
            wins.put((turn, token))
        except StaleError:
            pass


@pytest.mark.long
def test_of_processes_that_race_exactly_one_wins(parquet: ParquetBench) -> None:
    for turn in range(RACES):
        for token in ("t1", "t2"):
            write(path_of(manifest_of(parquet.output, f"b{turn}", token).staging) / "a", f"of-{token}.parquet", 1)
    context = multiprocessing.get_context("spawn")
    start, wins = context.Barrier(2, timeout=120), context.Queue()
    processes = [
        context.Process(target=publish_in_a_process, args=(parquet.output, token, RACES, start, wins))
        for token in ("t1", "t2")
    ]
    for process in processes:
        process.start()
    winners = dict(wins.get(timeout=120) for _ in range(RACES))
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    assert wins.empty()
    assert len(winners) == RACES
    for turn, token in winners.items():
        assert [p.name for p in (parquet.folder / f"batch_id=b{turn}").glob("of-*")] == [f"of-{token}.parquet"]


@pytest.mark.parametrize("output", ["s3://bucket/lake", "s3a://bucket/lake", "gs://b/l", "abfss://c@a/l", "/lake"])
def test_an_output_without_an_atomic_rename_is_refused(output: str) -> None:
    with pytest.raises(WrongDefinitionError, match=r"can't rename a folder at once.*file://"):
        ParquetLake(StagedFiles()).published(output, of(B1))


class MovesInto:
    """The two calls that a rename needs, on a local folder, with the habit of HDFS: it moves *into* a folder."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._local = fs.LocalFileSystem()
        self._meanwhile = meanwhile

    def create_dir(self, path: str, *, recursive: bool) -> None:
        self._local.create_dir(path, recursive=recursive)

    def get_file_info(self, path: str) -> Any:
        return SimpleNamespace(type=self._local.get_file_info(path).type)

    def move(self, source: str, target: str) -> None:
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        inside = f"{target}/{Path(source).name}"
        Path(source).rename(inside if Path(target).is_dir() else target)


def test_where_a_rename_moves_into_folders_nothing_is_mixed(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        write(tmp_path / name, f"{name}.parquet", 1)
    source, target = str(tmp_path / "one"), str(tmp_path / "target")
    faster = MovesInto(meanwhile=lambda: (tmp_path / "two").rename(target))
    with pytest.raises(TakenError):
        rename_folder(faster, source, target)
    with pytest.raises(TakenError):
        rename_folder(MovesInto(), str(tmp_path / "three"), target)
    with pytest.raises(FileNotFoundError):
        rename_folder(MovesInto(), str(tmp_path / "none"), f"{target}-2")
    assert [p.name for p in Path(target).iterdir()] == ["two.parquet"]
    assert (tmp_path / "one/one.parquet").exists()
    rename_folder(MovesInto(), source, f"{target}-2")
    assert Path(f"{target}-2/one.parquet").exists()


# Replacing


def generation(bench: Bench, number: int, token: str = T2, rows: int = 7) -> Manifest:
    """A later generation of the batch B1, whose attempt `a2` was staged and audited."""
    manifest = manifest_of(bench.output, token=token)
    staging = bench.lake.staging_of(bench.output, B1, token, number)
    manifest = replace(manifest, generation=number, staging=staging)
    counts = bench.staged.seal(manifest.staging, bench.stage(manifest, "a2", rows))
    return replace(manifest, batch=replace(manifest.batch, seal=counts.seal, rows=counts.written))


def test_a_later_generation_takes_the_place_of_what_is_published(bench: Bench, lake: Lake) -> None:
    first = manifest_of(bench.output)
    bench.stage(first, "a1")
    lake.publish(first, "a1")
    assert lake.replacement(bench.output, of(B1)) is None
    lake.replace(generation(bench, 2), "a2")
    for found in (lake.replacement(bench.output, of(B1)), lake.published(bench.output, of(B1))):
        assert found is not None
        assert (found.generation, found.ranges, found.files) == (2, first.batch.ranges, first.batch.files)


def test_where_nothing_is_published_a_generation_is_put(bench: Bench, lake: Lake) -> None:
    lake.replace(generation(bench, 4), "a2")
    found = lake.replacement(bench.output, of(B1))
    assert found is not None
    assert found.generation == 4


@pytest.mark.parametrize("late", [2, 3])
def test_whoever_slept_through_a_generation_replaces_nothing(bench: Bench, lake: Lake, late: int) -> None:
    first, slept = generation(bench, late, T1, rows=1), generation(bench, 3)
    lake.replace(slept, "a2")
    with pytest.raises(StaleError, match="in the output already"):
        lake.replace(first, "a2")
    found = lake.replacement(bench.output, of(B1))
    assert found is not None
    assert (found.generation, found.rows) == (3, slept.batch.rows)


def test_what_a_generation_has_staged_is_swept_by_nobody_else(bench: Bench, lake: Lake) -> None:
    manifest = generation(bench, 2)
    assert lake.staged_folders(bench.output) == {}
    lake.set_aside(bench.output, of(B1))
    assert bench.staged.has_attempt(manifest.staging, "a2")
    lake.remove_superseded(bench.output, of(B1), [manifest.staging])
    assert not bench.staged.has_attempt(manifest.staging, "a2")


def test_a_folder_is_replaced_at_once_and_what_it_held_is_swept_with_the_staging(parquet: ParquetBench) -> None:
    manifests = [generation(parquet, number, f"{number:032}") for number in range(2, 40)]
    parquet.lake.replace(manifests[0], "a2")
    folder, is_done, seen = parquet.folder / f"batch_id={B1}" / "_manifest.json", threading.Event(), set()

    def watch() -> None:
        while not is_done.is_set():
            seen.add(json.loads(folder.read_text()).get("generation"))

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        for manifest in manifests[1:]:
            parquet.lake.replace(manifest, "a2")
        is_done.set()
        watching.result()
    assert seen <= set(range(2, 40))
    parquet.lake.remove_superseded(parquet.output, of(B1), [each.staging for each in manifests])
    assert list((parquet.folder / "_staging").iterdir()) == []


def test_where_folders_cannot_be_exchanged_another_output_is_asked_for(
    parquet: ParquetBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.lake.replace(generation(parquet, 2, T1), "a2")
    monkeypatch.setattr("tidegate.lake.rename._UNKNOWN", frozenset(range(200)))
    monkeypatch.setattr("tidegate.lake.rename._EXCHANGE", 1 << 20)
    with pytest.raises(WrongDefinitionError, match=r"can't be replaced at once.*another --output"):
        parquet.lake.replace(generation(parquet, 3), "a2")
