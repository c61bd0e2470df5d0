"""What every log of tables promises of files that a commit removes, by each format's own reader."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from iceberg_bench import IcebergBench, IcebergTableBench
from moto_s3 import MotoS3, moto_apart
from table_benches import DeltaBench, TableBench, delta_on_disk, delta_on_s3, rows_of

from tidegate.model.errors import RewrittenFilesError, WrongDefinitionError
from tidegate.ports.table_log import DataFile, LogConflictError, Record, TableSnapshot

INCARNATION = "i0123456789abcdef"


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoS3]:
    with moto_apart(tmp_path_factory.mktemp("moto")) as server:
        yield server


def iceberg(folder: Path) -> IcebergTableBench:
    extra = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return IcebergTableBench(IcebergBench(extra, folder))


@pytest.fixture(params=["delta", "iceberg", pytest.param("delta-s3", marks=pytest.mark.object_store)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableBench]:
    if request.param == "iceberg":
        yield iceberg(tmp_path)
        return
    made = delta_on_disk(tmp_path) if request.param == "delta" else delta_on_s3(request.getfixturevalue("moto"))
    with made as bench:
        yield bench


def load(bench: TableBench) -> TableSnapshot:
    snapshot = bench.log.load(bench.table, INCARNATION, 1)
    assert snapshot is not None
    return snapshot


def staged(bench: TableBench, batch: str) -> list[DataFile]:
    return bench.stage(batch, rows_of(batch, 2))


def uris(files: list[DataFile]) -> list[str]:
    return [file.uri for file in files]


def publish(
    bench: TableBench, number: int, removed: list[DataFile], snapshot: TableSnapshot | None = None
) -> list[DataFile]:
    files = staged(bench, f"b{number}")
    bench.log.create(bench.table, files, ())
    bench.log.append(bench.table, INCARNATION, snapshot or load(bench), Record(number, 7), files, removed=uris(removed))
    return files


def live(bench: TableBench) -> list[str]:
    return sorted(file.uri for file in bench.log.files(bench.table, load(bench)))


def test_files_are_replaced_in_one_commit(bench: TableBench) -> None:
    first, second = publish(bench, 1, []), publish(bench, 2, [])
    assert live(bench) == sorted(uris(first + second))
    third = publish(bench, 3, first)
    assert (bench.batches(), load(bench).record) == (["b2", "b2", "b3", "b3"], Record(3, 7))
    assert live(bench) == sorted(uris(second + third))


def test_files_are_removed_without_any_to_add(bench: TableBench) -> None:
    first = publish(bench, 1, [])
    bench.log.append(bench.table, INCARNATION, load(bench), Record(2, 7), (), removed=uris(first))
    assert (bench.batches(), live(bench), load(bench).record) == ([], [], Record(2, 7))


def test_a_file_that_is_no_longer_in_the_table_is_refused_and_nothing_is_committed(bench: TableBench) -> None:
    first, _ = publish(bench, 1, []), publish(bench, 2, [])
    bench.maintain()
    before = load(bench)
    with pytest.raises(RewrittenFilesError, match="aren't in the table"):
        publish(bench, 3, first)
    assert (load(bench), bench.batches()) == (before, ["b1", "b1", "b2", "b2"])


def test_a_file_is_removed_once(bench: TableBench) -> None:
    first = publish(bench, 1, [])
    publish(bench, 2, first)
    with pytest.raises(RewrittenFilesError):
        publish(bench, 3, first)
    assert bench.batches() == ["b2", "b2"]


def test_whoever_slept_through_a_record_removes_nothing(bench: TableBench) -> None:
    first = publish(bench, 1, [])
    asleep = load(bench)
    publish(bench, 2, [])
    with pytest.raises(LogConflictError):
        publish(bench, 3, first, asleep)
    assert bench.batches() == ["b1", "b1", "b2", "b2"]


def test_a_table_that_is_taken_back_meanwhile_loses_nothing(bench: TableBench) -> None:
    publish(bench, 1, [])
    second = publish(bench, 2, [])
    asleep = load(bench)
    bench.take_back(1)
    with pytest.raises((LogConflictError, RewrittenFilesError)):
        publish(bench, 3, second, asleep)
    assert bench.batches() == ["b1", "b1"]


@pytest.mark.long
def test_what_others_append_meanwhile_is_no_conflict(bench: TableBench) -> None:
    first = publish(bench, 1, [])
    snapshot = load(bench)
    for _ in range(3):
        bench.append_as_another("theirs")
    publish(bench, 2, first, snapshot)
    assert bench.batches() == ["b2", "b2", "theirs", "theirs", "theirs"]


def test_of_eight_that_replace_one_file_one_wins(bench: TableBench) -> None:
    first = publish(bench, 1, [])
    start = threading.Barrier(8)

    def race(token: int) -> bool:
        files, snapshot = staged(bench, f"b{token}"), load(bench)
        start.wait(120)
        try:
            bench.log.append(bench.table, INCARNATION, snapshot, Record(2, token), files, removed=uris(first))
        except LogConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(8)))
    (winner,) = [token for token, has_won in enumerate(won) if has_won]
    assert bench.batches() == [f"b{winner}"] * 2


@pytest.mark.parametrize("name", ["plain", "50% x", "a:b=c", "{[^`]}", "a+b&c@d,e;f!g$h'i(j)*~", "Ü", 'q"?#|<>'])
def test_a_delta_file_of_any_name_is_removed(tmp_path: Path, name: str) -> None:
    with delta_on_disk(tmp_path) as bench:
        files = [DataFile(file.uri, file.bytes, file.rows) for file in bench.stage(name, rows_of("b1", 1), 2)]
        bench.log.create(bench.table, files, ())
        bench.log.append(bench.table, INCARNATION, load(bench), Record(1, 1), files)
        bench.log.append(bench.table, INCARNATION, load(bench), Record(2, 1), (), removed=[files[0].uri])
        assert (live(bench), bench.batches()) == ([files[1].uri], ["b1"])


def test_a_delta_file_that_the_log_writes_otherwise_is_refused_by_name(tmp_path: Path) -> None:
    with delta_on_disk(tmp_path) as bench:
        publish(bench, 1, [])
        log = Path(bench.table.removeprefix("delta+file://"), "_delta_log", f"{1:020}.json")
        text = log.read_text()
        log.write_text(text.replace("data/b1", "d%61ta/b1"))
        with pytest.raises(WrongDefinitionError, match=r"can't be removed from here: d%61ta/b1/"):
            bench.log.files(bench.table, load(bench))


def test_a_delta_table_that_is_append_only_is_refused_by_name(tmp_path: Path) -> None:
    with delta_on_disk(tmp_path) as bench:
        files = publish(bench, 1, [])
        bench.delta.alter.set_table_properties({"delta.appendOnly": "true"})
        for refused in (lambda: bench.log.files(bench.table, load(bench)), lambda: publish(bench, 2, files)):
            with pytest.raises(WrongDefinitionError, match=r"delta.appendOnly is set.*processing.output"):
                refused()
        publish(bench, 2, [])


def test_the_values_of_a_delta_tables_partitions_are_told(tmp_path: Path) -> None:
    with delta_on_disk(tmp_path) as bench:
        _partitioned(bench)
        found = bench.log.files(bench.table, load(bench))
        assert sorted(file.partition for file in found) == [(("carrier", "50% x"),), (("carrier", "AA"),)]
        assert all(Path(file.uri.removeprefix("file://")).is_file() for file in found)


def _partitioned(bench: DeltaBench) -> None:
    rows = pa.concat_tables([rows_of("b1", 1, carrier=carrier) for carrier in ("AA", "50% x")])
    write_deltalake(bench.table.removeprefix("delta+file://"), rows, partition_by=["carrier"])


def test_an_iceberg_table_with_renamed_columns_is_refused_by_name(tmp_path: Path) -> None:
    bench = iceberg(tmp_path)
    publish(bench, 1, [])
    catalog = bench._bench.catalog()
    with catalog.load_table("lake.flights").update_schema() as update:
        update.rename_column("carrier", "airline")
    with pytest.raises(WrongDefinitionError, match="column airline was renamed"):
        bench.log.files(bench.table, load(bench))
