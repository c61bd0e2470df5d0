"""What every log of tables promises; each format is held to the same, by its own reader."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from moto_s3 import MotoS3, moto_apart
from table_benches import SCHEMA, TableBench, delta_on_disk, delta_on_s3, is_undone, rows_of

from tidegate.model.errors import TidegateError, WrongDefinitionError
from tidegate.ports.table_log import DataFile, LogConflictError, Record, TableSnapshot

INCARNATION = "i0123456789abcdef"


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoS3]:
    with moto_apart(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(params=["delta", pytest.param("delta-s3", marks=pytest.mark.object_store)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableBench]:
    made = delta_on_disk(tmp_path) if request.param == "delta" else delta_on_s3(request.getfixturevalue("moto"))
    with made as bench:
        yield bench


def load(bench: TableBench, incarnation: str = INCARNATION) -> TableSnapshot:
    snapshot = bench.log.load(bench.table, incarnation, 1)
    assert snapshot is not None
    return snapshot


def staged(bench: TableBench, number: int, rows: int = 3, files: int = 1) -> list[DataFile]:
    batch = f"b{number}"
    return bench.stage(batch, rows_of(batch, rows), files)


def append(bench: TableBench, number: int, snapshot: TableSnapshot | None = None, note: int = 7) -> list[DataFile]:
    files = staged(bench, number)
    bench.log.append(bench.table, INCARNATION, snapshot or load(bench), Record(number, note), files)
    return files


def create(bench: TableBench) -> TableSnapshot:
    bench.log.create(bench.table, staged(bench, 0), ())
    return load(bench)


def test_there_is_no_table_until_it_is_created_and_then_it_is_empty(bench: TableBench) -> None:
    assert bench.log.load(bench.table, INCARNATION, 1) is None
    files = staged(bench, 1)
    assert bench.log.load(bench.table, INCARNATION, 1) is None
    bench.log.create(bench.table, files, ())
    assert load(bench).record is None
    assert bench.batches() == []
    assert bench.columns() == SCHEMA.names


def test_a_table_that_is_there_is_left_as_it_is(bench: TableBench) -> None:
    before = create(bench)
    append(bench, 1)
    other = bench.stage("x", pa.table({"other": [1]}))
    bench.log.create(bench.table, other, ())
    assert load(bench).table_id == before.table_id
    assert bench.columns() == SCHEMA.names
    assert bench.batches() == ["b1"] * 3


def test_of_many_creators_all_get_one_table(bench: TableBench) -> None:
    files = staged(bench, 1)
    start = threading.Barrier(8)

    def race(_: int) -> str:
        start.wait(120)
        bench.log.create(bench.table, files, ())
        return load(bench).table_id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(race, range(8)))) == 1


def test_files_and_record_are_committed_together(bench: TableBench) -> None:
    create(bench)
    files = staged(bench, 1, rows=5, files=3)
    bench.log.append(bench.table, INCARNATION, load(bench), Record(1, 2**63 - 1), files)
    assert load(bench).record == Record(1, 2**63 - 1)
    assert bench.batches() == ["b1"] * 15


def test_a_record_alone_is_committed_without_files(bench: TableBench) -> None:
    create(bench)
    append(bench, 1)
    bench.log.append(bench.table, INCARNATION, load(bench), Record(2, 0), ())
    assert load(bench).record == Record(2, 0)
    assert bench.batches() == ["b1"] * 3


def test_incarnations_know_nothing_of_each_other(bench: TableBench) -> None:
    create(bench)
    mine, other = load(bench), load(bench, "other")
    append(bench, 5, mine)
    bench.log.append(bench.table, "other", other, Record(1, 1), staged(bench, 9))
    assert (load(bench).record, load(bench, "other").record) == (Record(5, 7), Record(1, 1))
    assert load(bench, "third").record is None
    assert bench.batches() == ["b5"] * 3 + ["b9"] * 3


@pytest.mark.parametrize("files", [0, 1])
@pytest.mark.parametrize("number", [1, 2])
def test_whoever_has_an_older_snapshot_commits_nothing(bench: TableBench, number: int, files: int) -> None:
    stale = create(bench)
    append(bench, 1)
    late = bench.stage("late", rows_of("late", 1), files)
    with pytest.raises(LogConflictError):
        bench.log.append(bench.table, INCARNATION, stale, Record(number, 8), late)
    assert load(bench).record == Record(1, 7)
    assert bench.batches() == ["b1"] * 3


def test_a_discarded_batch_is_published_by_nobody_who_slept(bench: TableBench) -> None:
    stale = create(bench)
    bench.log.append(bench.table, INCARNATION, load(bench), Record(1, 0), ())
    with pytest.raises(LogConflictError):
        append(bench, 1, stale)
    assert bench.batches() == []


def test_a_snapshot_that_is_stale_by_many_records_and_maintained_away_commits_nothing(bench: TableBench) -> None:
    stale = create(bench)
    for number in range(1, 12):
        append(bench, number)
    bench.maintain()
    with pytest.raises(LogConflictError):
        append(bench, 1, stale)
    assert load(bench).record == Record(11, 7)


def test_of_eight_that_race_for_a_number_one_wins(bench: TableBench) -> None:
    create(bench)
    start = threading.Barrier(8)

    def race(token: int) -> bool:
        files = bench.stage(f"b{token}", rows_of(f"b{token}", 2))
        snapshot = load(bench)
        start.wait(120)
        try:
            bench.log.append(bench.table, INCARNATION, snapshot, Record(1, token), files)
        except LogConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(8)))
    (winner,) = [token for token, has_won in enumerate(won) if has_won]
    assert load(bench).record == Record(1, winner)
    assert bench.batches() == [f"b{winner}"] * 2


def test_what_others_append_meanwhile_is_no_conflict(bench: TableBench) -> None:
    snapshot = create(bench)
    for _ in range(20):
        bench.append_as_another("theirs")
    append(bench, 1, snapshot)
    assert load(bench).record == Record(1, 7)
    assert bench.batches() == ["b1"] * 3 + ["theirs"] * 20


def test_of_incarnations_that_race_all_win(bench: TableBench) -> None:
    create(bench)
    start = threading.Barrier(8)

    def race(token: int) -> None:
        files = bench.stage(f"b{token}", rows_of(f"b{token}", 1))
        snapshot = load(bench, f"i{token}")
        start.wait(120)
        bench.log.append(bench.table, f"i{token}", snapshot, Record(1, token), files)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(race, range(8)))
    assert [load(bench, f"i{token}").record for token in range(8)] == [Record(1, token) for token in range(8)]
    assert bench.batches() == [f"b{token}" for token in range(8)]


def test_a_record_survives_all_maintenance(bench: TableBench) -> None:
    create(bench)
    for number in range(1, 5):
        append(bench, number)
    before = load(bench)
    bench.log.put_note(bench.table, INCARNATION, "4-7.json", "four")
    bench.maintain()
    assert load(bench) == before
    assert not is_undone(bench, load(bench))
    assert bench.log.note(bench.table, INCARNATION, "4-7.json") == "four"
    append(bench, 5)
    assert bench.batches() == sorted(f"b{number}" for number in range(1, 6) for _ in range(3))


def test_a_table_that_was_created_again_is_another(bench: TableBench) -> None:
    before = create(bench)
    append(bench, 1)
    bench.drop()
    assert bench.log.load(bench.table, INCARNATION, 1) is None
    after = create(bench)
    assert after.table_id != before.table_id
    assert after.record is None


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_nothing_goes_into_a_table_that_was_created_again(bench: TableBench, commits: int) -> None:
    stale = create(bench)
    append(bench, 1, stale)
    stale = load(bench)
    bench.drop()
    create(bench)
    for _ in range(commits):
        bench.append_as_another("theirs")
    if commits == 1:
        return  # as many commits as before: nobody who slept after its last look can tell, see docs/tables.md
    with pytest.raises(LogConflictError):
        append(bench, 2, stale)
    assert bench.batches() == ["theirs"] * commits


def test_nothing_goes_into_a_table_that_was_dropped(bench: TableBench) -> None:
    stale = create(bench)
    bench.drop()
    with pytest.raises(LogConflictError):
        append(bench, 1, stale)
    assert bench.log.load(bench.table, INCARNATION, 1) is None


def test_a_table_that_was_taken_back_to_before_a_batch_is_told_from_one_that_wasnt(bench: TableBench) -> None:
    create(bench)
    assert not is_undone(bench, load(bench))
    append(bench, 1)
    assert not is_undone(bench, load(bench))
    bench.append_as_another("theirs")
    bench.append_as_another("theirs")
    bench.take_back(1)
    assert not is_undone(bench, load(bench))
    assert bench.batches() == ["b1"] * 3 + ["theirs"]
    bench.take_back(4)
    assert load(bench).record == Record(1, 7)
    assert is_undone(bench, load(bench))
    bench.append_as_another("theirs")
    assert is_undone(bench, load(bench))
    assert bench.batches() == ["theirs"]
    bench.take_back(2)
    assert not is_undone(bench, load(bench))


def test_of_a_table_that_was_taken_back_the_earlier_batches_are_told_from_those_that_are_gone(
    bench: TableBench,
) -> None:
    create(bench)
    for number in (1, 2, 3, 4):
        append(bench, number)
    bench.take_back(2)
    bench.append_as_another("theirs")
    assert gone(bench, 1, 2, 3, 4) == [False, False, True, True]
    append(bench, 5)
    assert gone(bench, 5) == [False]
    bench.take_back(1)
    assert gone(bench, 1, 2, 3, 4, 5) == [False, False, True, True, True]
    assert bench.batches() == ["b1"] * 3 + ["b2"] * 3 + ["theirs"]


def gone(bench: TableBench, *numbers: int) -> list[bool]:
    snapshot = load(bench)
    return [bench.log.is_undone(bench.table, snapshot, Record(number, 7)) for number in numbers]


def test_a_commit_upon_a_table_that_is_taken_back_meanwhile_is_refused(bench: TableBench) -> None:
    create(bench)
    append(bench, 1)
    snapshot = load(bench)
    bench.take_back(1)
    with pytest.raises(LogConflictError):
        append(bench, 2, snapshot)
    assert bench.batches() == []


def test_notes_are_read_back_whole_by_name(bench: TableBench) -> None:
    assert bench.log.note(bench.table, INCARNATION, "1-2.json") is None
    bench.log.put_note(bench.table, INCARNATION, "1-2.json", "ein Ü\n")
    bench.log.put_note(bench.table, "other", "1-2.json", "x" * 3_000_000)
    assert bench.log.note(bench.table, INCARNATION, "1-2.json") == "ein Ü\n"
    assert bench.log.note(bench.table, "other", "1-2.json") == "x" * 3_000_000
    assert bench.log.load(bench.table, INCARNATION, 1) is None


def test_files_that_dont_fit_are_refused_with_both_schemas_and_nothing_is_committed(bench: TableBench) -> None:
    before = create(bench)
    wrong = bench.stage("b1", pa.table({"id": ["one"], "batch_id": ["b1"], "more": [1]}))
    with pytest.raises(WrongDefinitionError, match=r"(?s)id.*string.*more.*\n.*\n.*carrier") as refused:
        bench.log.append(bench.table, INCARNATION, before, Record(1, 1), wrong)
    assert bench.log.folder(bench.table) in str(refused.value)
    assert load(bench) == before


def test_a_table_may_be_partitioned(bench: TableBench) -> None:
    values = ("AA", "a/b", "50% ü", None)
    files = [
        file
        for value, folder in zip(values, ("AA", "a%2Fb", "50%25 ü", "__HIVE_DEFAULT_PARTITION__"), strict=True)
        for file in [
            DataFile(each.uri, each.bytes, each.rows, (("carrier", value),))
            for each in bench.stage("b1", rows_of("b1", 2, carrier=value), partition={"carrier": folder})
        ]
    ]
    bench.log.create(bench.table, files, ("carrier",))
    bench.log.append(bench.table, INCARNATION, load(bench), Record(1, 1), files)
    assert bench.batches() == ["b1"] * 8


@pytest.mark.parametrize("table", ["", "file:///lake", "s3://bucket/lake", "lake"])
def test_an_output_of_another_kind_is_refused(bench: TableBench, table: str) -> None:
    with pytest.raises(TidegateError, match=r"names no \w+ table"):
        bench.log.load(table, INCARNATION, 1)
