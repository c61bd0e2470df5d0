"""What every log of tables promises of a batch that is replaced; each format is held to it by its own reader."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from iceberg_bench import IcebergBench, IcebergTableBench
from moto_s3 import MotoS3, moto_apart
from table_benches import TableBench, delta_on_disk, delta_on_s3, is_undone, rows_of

from tidegate.model.errors import WrongDefinitionError
from tidegate.model.receipt import Receipt
from tidegate.ports.table_log import LogConflictError, Record, TableSnapshot

INCARNATION = "i0123456789abcdef"
BATCHES = tuple(f"b{number:020x}" for number in range(1, 5))


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoS3]:
    with moto_apart(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(params=["delta", "iceberg", pytest.param("delta-s3", marks=pytest.mark.object_store)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableBench]:
    match request.param:
        case "delta":
            with delta_on_disk(tmp_path) as bench:
                yield bench
        case "delta-s3":
            with delta_on_s3(request.getfixturevalue("moto")) as bench:
                yield bench
        case _:
            uri = f"sqlite:///{tmp_path}/catalog.db"
            extra = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}
            yield IcebergTableBench(IcebergBench(extra, tmp_path))


def load(bench: TableBench, incarnation: str = INCARNATION) -> TableSnapshot:
    snapshot = bench.log.load(bench.table, incarnation, 1)
    assert snapshot is not None
    return snapshot


def create(bench: TableBench) -> None:
    bench.log.create(bench.table, bench.stage("b0", rows_of("b0", 1)), ())


def publish(bench: TableBench, place: int, rows: int = 3) -> str:
    """A batch of an own id, as one of an incarnation's."""
    batch = BATCHES[place]
    bench.log.append(
        bench.table, INCARNATION, load(bench), Record(place + 1, 7), bench.stage(f"{batch}-1", rows_of(batch, rows))
    )
    return batch


def replace_batch(
    bench: TableBench, batch: str, rows: int, generation: int = 2, stale: TableSnapshot | None = None
) -> None:
    files = bench.stage(f"{batch}-g{generation}", rows_of(batch, rows), 1 if rows else 0)
    of = Receipt(INCARNATION, batch, 1)
    bench.log.append(bench.table, batch, stale or load(bench, batch), Record(generation, rows), files, replaced=of)


def remove_first(bench: TableBench) -> None:
    of = Receipt(INCARNATION, BATCHES[0], 1)
    bench.log.append(bench.table, BATCHES[0], load(bench, BATCHES[0]), Record(2, 2), (), replaced=of)


def test_a_batch_is_replaced_in_one_commit_and_no_other(bench: TableBench) -> None:
    create(bench)
    first, second = publish(bench, 0), publish(bench, 1)
    before = load(bench)
    replace_batch(bench, first, rows=5)
    assert bench.batches() == [first] * 5 + [second] * 3
    assert (load(bench).record, load(bench, first).record) == (before.record, Record(2, 5))
    replace_batch(bench, first, rows=0, generation=3)
    assert bench.batches() == [second] * 3
    third = publish(bench, 2)
    assert bench.batches() == [second] * 3 + [third] * 3


def test_rows_are_found_where_compaction_has_moved_them(bench: TableBench) -> None:
    create(bench)
    batches = [publish(bench, place) for place in range(3)]
    bench.maintain()
    bench.append_as_another("theirs")
    replace_batch(bench, batches[1], rows=1)
    assert bench.batches() == sorted([batches[0]] * 3 + [batches[1]] + [batches[2]] * 3 + ["theirs"])
    bench.maintain()
    replace_batch(bench, batches[1], rows=2, generation=3)
    assert bench.batches() == sorted([batches[0]] * 3 + [batches[1]] * 2 + [batches[2]] * 3 + ["theirs"])


def test_whoever_slept_through_a_replacement_replaces_nothing(bench: TableBench) -> None:
    create(bench)
    batch = publish(bench, 0)
    stale = load(bench, batch)
    replace_batch(bench, batch, rows=1)
    with pytest.raises(LogConflictError):
        replace_batch(bench, batch, rows=9, stale=stale)
    assert bench.batches() == [batch]


@pytest.mark.long
def test_of_eight_that_replace_a_batch_at_once_one_wins(bench: TableBench) -> None:
    create(bench)
    batch = publish(bench, 0)
    start = threading.Barrier(8)

    def race(rows: int) -> bool:
        files, snapshot = bench.stage(f"{batch}-g{rows}", rows_of(batch, rows)), load(bench, batch)
        start.wait(120)
        try:
            of = Receipt(INCARNATION, batch, 1)
            bench.log.append(bench.table, batch, snapshot, Record(2, rows), files, replaced=of)
        except LogConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(1, 9)))
    assert won.count(True) == 1
    assert bench.batches() == [batch] * (won.index(True) + 1)


def test_a_replacement_goes_with_others_appends_and_the_next_batch(bench: TableBench) -> None:
    create(bench)
    batch = publish(bench, 0)
    stale, following = load(bench, batch), load(bench)
    bench.append_as_another("theirs")
    replace_batch(bench, batch, rows=2, stale=stale)
    files = bench.stage("b9", rows_of("b9", 1))
    bench.log.append(bench.table, INCARNATION, following, Record(2, 1), files)
    assert bench.batches() == sorted([batch] * 2 + ["b9", "theirs"])


def test_a_replacement_survives_all_maintenance_and_a_table_taken_back_to_before_it_is_told(bench: TableBench) -> None:
    create(bench)
    batch = publish(bench, 0)
    replace_batch(bench, batch, rows=1)
    assert not is_undone(bench, load(bench, batch))
    bench.take_back(1)
    assert is_undone(bench, load(bench, batch))
    assert bench.batches() == [batch] * 3


def test_a_table_that_cannot_lose_rows_is_refused_by_name(tmp_path: Path) -> None:
    with delta_on_disk(tmp_path) as bench:
        create(bench)
        batch = publish(bench, 0)
        bench.delta.alter.set_table_properties({"delta.appendOnly": "true"})
        with pytest.raises(WrongDefinitionError, match=r"append-only.*another --output"):
            replace_batch(bench, batch, rows=1)
        assert bench.batches() == [batch] * 3


def test_a_table_without_the_column_is_refused_by_name(bench: TableBench) -> None:
    bench.log.create(bench.table, bench.stage("b0", rows_of("b0", 1).drop(["batch_id"])), ())
    with pytest.raises(WrongDefinitionError, match=r"has no column batch_id"):
        remove_first(bench)


@pytest.mark.parametrize("value", ["50% ü", "a/b", None])
def test_files_of_a_partition_are_found_by_the_paths_that_the_log_has(tmp_path: Path, value: str | None) -> None:
    with delta_on_disk(tmp_path) as bench:
        name = "__HIVE_DEFAULT_PARTITION__" if value is None else value.replace("%", "%25").replace("/", "%2F")
        rows = rows_of(BATCHES[0], 2, carrier=value)
        files = bench.stage(BATCHES[0], rows, partition={"carrier": name})
        files = [replace(file, partition=(("carrier", value),)) for file in files]
        bench.log.create(bench.table, files, ("carrier",))
        bench.log.append(bench.table, INCARNATION, load(bench), Record(1, 1), files)
        other = bench.stage("b9", rows_of("b9", 1, carrier=value), partition={"carrier": name})
        other = [replace(file, partition=(("carrier", value),)) for file in other]
        bench.log.append(bench.table, INCARNATION, load(bench), Record(2, 1), other)
        bench.delta.optimize.compact()
        remove_first(bench)
        assert bench.batches() == ["b9"]
        assert bench.delta.to_pyarrow_table()["carrier"].to_pylist() == [value]


def test_a_replacement_is_one_snapshot_that_overwrites(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    tables = IcebergBench({"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}, tmp_path)
    bench = IcebergTableBench(tables)
    create(bench)
    batch = publish(bench, 0)
    publish(bench, 1)
    bench.maintain()
    before = len(tables.table().metadata.snapshots)
    replace_batch(bench, batch, rows=2)
    snapshots = tables.table().metadata.snapshots
    newest = snapshots[-1].summary
    assert newest is not None
    assert (len(snapshots) - before, newest.operation.value) == (1, "overwrite")
    assert (newest["deleted-records"], newest["added-records"], newest["total-records"]) == ("6", "5", "5")
