"""What the log of Iceberg tables promises, with each catalog that the docs name."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import iceberg_committer
import pyarrow as pa
import pytest
from by_night import rows_one_in
from iceberg_bench import INCARNATION, SCHEMA, TABLE, IcebergBench, a_record
from iceberg_rest import RestCatalogServer
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from tidegate.lake.iceberg.log import IcebergLog
from tidegate.model.errors import CorruptFileError, LostDataError, StaleError, UnavailableError, WrongDefinitionError
from tidegate.ports import LogConflictError, Record, TableSnapshot

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)


REST = pytest.param("rest", marks=pytest.mark.catalog)
RACERS = 8


@pytest.fixture(scope="module")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path_factory.mktemp("catalog")) as server:
        yield server


@pytest.fixture(params=["sqlite", POSTGRES, REST])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> IcebergBench:
    warehouse = {"warehouse": f"file://{tmp_path}/warehouse"}
    if request.param == "rest":
        server: RestCatalogServer = request.getfixturevalue("rest_catalog")
        bench = IcebergBench({"type": "rest", "uri": server.uri, **warehouse}, tmp_path)
        drop_all(bench)
        return bench
    uri = f"sqlite:///{tmp_path}/catalog.db"
    if request.param == "postgresql":
        uri = request.getfixturevalue("postgres_database")
    return IcebergBench({"type": "sql", "uri": uri, **warehouse}, tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> IcebergBench:
    """For promises that no catalog has a part in."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    return IcebergBench({"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}, tmp_path)


def loaded(log: IcebergLog, of: str = INCARNATION) -> TableSnapshot:
    snapshot = log.load(TABLE, of, 1)
    assert snapshot is not None
    return snapshot


def is_undone(log: IcebergLog) -> bool:
    snapshot = loaded(log)
    return snapshot.record is not None and log.is_undone(TABLE, snapshot, snapshot.record)


def test_a_table_that_is_not_there_is_created_empty_where_it_was_said_to_lie(bench: IcebergBench) -> None:
    log = bench.log()
    assert log.load(TABLE, INCARNATION, 1) is None
    folder = log.folder(TABLE)
    files = [bench.file([1, 2])]
    log.create(TABLE, files, ["carrier"])
    table = bench.table()
    assert folder == log.folder(TABLE) == f"file://{bench.folder}/warehouse/lake/flights"
    assert [field.name for field in table.spec().fields] == ["carrier"]
    assert len(table.metadata.snapshots) == 1
    assert bench.ids() == []
    assert loaded(log).record is None
    bench.log().create(TABLE, files, [])
    assert bench.table().metadata.table_uuid == table.metadata.table_uuid
    assert loaded(log).table_id == str(table.metadata.table_uuid)


def test_files_and_record_are_committed_together(bench: IcebergBench) -> None:
    first = bench.publish(1, [bench.file([1, 2]), bench.file([3])])
    assert bench.numbers() == first
    assert bench.ids() == [1, 2, 3]
    third = bench.publish(3, [bench.file([4])])
    assert bench.numbers() == third
    assert bench.numbers(of="another") is None
    summary = bench.table().current_snapshot().summary
    assert (summary["tidegate.number"], summary["tidegate.note"]) == ("3", str(third.note))


def test_each_incarnation_has_a_record_of_its_own(bench: IcebergBench) -> None:
    bench.publish(7, [bench.file([1])])
    log = bench.log()
    log.append(TABLE, "other", loaded(log, "other"), a_record(1), [bench.file([2])])
    assert (bench.numbers().number, bench.numbers(of="other").number) == (7, 1)


def test_a_record_without_files_stops_a_sleeper(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    log = bench.log()
    asleep = loaded(log)
    discarded = Record(2, 0)
    bench.log().append(TABLE, INCARNATION, loaded(log), discarded, [])
    with pytest.raises(LogConflictError):
        log.append(TABLE, INCARNATION, asleep, a_record(2), [bench.file([2])])
    assert (bench.ids(), bench.numbers()) == ([1], discarded)


def test_of_eight_who_commit_one_number_one_wins(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([0])])
    together, won, lost = threading.Barrier(RACERS), [], []

    def race(racer: int) -> None:
        log, record, file = bench.log(), a_record(2), bench.file([racer])
        snapshot = loaded(log)
        together.wait(120)
        try:
            log.append(TABLE, INCARNATION, snapshot, record, [file])
            won.append((racer, record))
        except LogConflictError:
            lost.append(racer)

    in_threads(race)
    [(winner, record)] = won
    assert len(lost) == RACERS - 1
    assert (bench.ids(), bench.numbers()) == (sorted([0, winner]), record)


@pytest.mark.long
def test_eight_incarnations_that_commit_at_once_all_win(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([0])])
    together = threading.Barrier(RACERS)

    def race(racer: int) -> None:
        log, of, file = bench.log(), f"incarnation{racer}", bench.file([racer])
        snapshot = loaded(log, of)
        together.wait(120)
        log.append(TABLE, of, snapshot, Record(1, racer), [file])

    in_threads(race, first=1)
    assert bench.ids() == list(range(RACERS + 1))
    assert [bench.numbers(of=f"incarnation{each}").note for each in range(1, RACERS + 1)] == list(range(1, RACERS + 1))


def test_what_others_append_meanwhile_is_no_conflict(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    log = bench.log()
    snapshot = loaded(log)
    for each in range(10, 15):
        bench.table().append(pa.table({"id": [each]}, schema=pa.schema([("id", pa.int64())])))
    record = a_record(2)
    log.append(TABLE, INCARNATION, snapshot, record, [bench.file([2])])
    assert (bench.ids(), bench.numbers()) == ([1, 2, 10, 11, 12, 13, 14], record)


def test_a_snapshot_serves_one_append(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    log = bench.log()
    snapshot = loaded(log)
    log.append(TABLE, INCARNATION, snapshot, a_record(2), [bench.file([2])])
    for number in (2, 3):
        with pytest.raises(LogConflictError):
            log.append(TABLE, INCARNATION, snapshot, a_record(number), [bench.file([3])])
    assert bench.ids() == [1, 2]


def test_a_sleeper_is_stopped_after_a_rollback_to_what_it_saw(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    log = bench.log()
    asleep = loaded(log)
    seen = bench.table().current_snapshot().snapshot_id
    record = bench.publish(2, [bench.file([2])])
    bench.table().manage_snapshots().rollback_to_snapshot(seen).commit()
    with pytest.raises(LogConflictError):
        log.append(TABLE, INCARNATION, asleep, a_record(2), [bench.file([3])])
    assert (bench.ids(), bench.numbers()) == ([1], record)


def test_whoever_looked_before_a_rollback_adds_nothing_after_it(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    before = bench.table().current_snapshot().snapshot_id
    bench.publish(2, [bench.file([2])])
    log = bench.log()
    snapshot = loaded(log)
    bench.table().manage_snapshots().rollback_to_snapshot(before).commit()
    with pytest.raises(LogConflictError, match="was taken back to before"):
        log.append(TABLE, INCARNATION, snapshot, a_record(3), [bench.file([3])])
    assert bench.ids() == [1]


def test_a_rollback_is_told_and_maintenance_is_none(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    before = bench.table().current_snapshot().snapshot_id
    bench.publish(2, [bench.file([2])])
    log = bench.log()
    assert not is_undone(log)
    bench.table().overwrite(bench.table().scan().to_arrow())
    bench.table().append(pa.table({"id": [9]}))
    assert not is_undone(log)
    bench.table().manage_snapshots().rollback_to_snapshot(before).commit()
    assert is_undone(log)
    bench.table().append(pa.table({"id": [8]}))
    assert is_undone(log)
    assert bench.ids() == [1, 8]


def test_the_record_outlives_what_expires(bench: IcebergBench) -> None:
    record = bench.publish(1, [bench.file([1])])
    for each in range(2, 6):
        bench.table().append(pa.table({"id": [each]}))
    expire(bench)
    log = bench.log()
    assert loaded(log).record == record
    assert not is_undone(log)
    assert bench.ids() == [1, 2, 3, 4, 5]


def test_a_snapshot_that_expired_meanwhile_is_no_conflict(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    log = bench.log()
    snapshot = loaded(log)
    bench.table().append(pa.table({"id": [5]}))
    bench.table().append(pa.table({"id": [6]}))
    expire(bench)
    log.append(TABLE, INCARNATION, snapshot, a_record(2), [bench.file([2])])
    assert bench.ids() == [1, 2, 5, 6]


def test_a_table_that_was_created_again_is_another(bench: IcebergBench) -> None:
    bench.publish(1, [bench.file([1])])
    log = bench.log()
    snapshot = loaded(log)
    bench.catalog().drop_table("lake.flights")
    with pytest.raises(LogConflictError, match="was dropped"):
        log.append(TABLE, INCARNATION, snapshot, a_record(2), [bench.file([2])])
    bench.log().create(TABLE, [bench.file([1])], [])
    with pytest.raises(LogConflictError, match="was dropped"):
        log.append(TABLE, INCARNATION, snapshot, a_record(2), [bench.file([2])])
    assert (bench.ids(), bench.numbers()) == ([], None)
    assert loaded(log).table_id != snapshot.table_id


def test_of_two_who_commit_first_to_a_table_without_snapshots_one_wins(bench: IcebergBench) -> None:
    bench.catalog().create_namespace_if_not_exists("lake")
    bench.catalog().create_table("lake.flights", SCHEMA)
    log, other = bench.log(), bench.log()
    first, second = loaded(log), loaded(other)
    log.append(TABLE, INCARNATION, first, a_record(1), [bench.file([1])])
    with pytest.raises(LogConflictError):
        other.append(TABLE, INCARNATION, second, a_record(1), [bench.file([2])])
    assert bench.ids() == [1]


def test_notes_are_kept_beside_the_table(bench: IcebergBench) -> None:
    log = bench.log()
    log.create(TABLE, [bench.file([1])], [])
    log.put_note(TABLE, INCARNATION, "1-99.json", '{"é": 1}')
    assert bench.log().note(TABLE, INCARNATION, "1-99.json") == '{"é": 1}'
    assert log.note(TABLE, INCARNATION, "2-99.json") is None
    assert log.note(TABLE, "other", "1-99.json") is None
    assert Path(f"{log.folder(TABLE)}/_tidegate/{INCARNATION}/1-99.json".removeprefix("file://")).exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "committed"), rows_one_in(2, [("within", False), ("before", False), ("after", True)])
)
def test_a_committer_that_is_killed_leaves_all_or_nothing(bench: IcebergBench, point: str, committed: bool) -> None:
    bench.publish(1, [bench.file([1])])
    program = [sys.executable, iceberg_committer.__file__, json.dumps(bench.extra), str(bench.folder), "2", point]
    killed = subprocess.run(program, capture_output=True, text=True, timeout=200, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert bench.numbers().number == (2 if committed else 1)
    assert bench.ids() == ([1, 2] if committed else [1])
    bench.publish(3, [bench.file([3])])
    assert bench.ids() == ([1, 2, 3] if committed else [1, 3])


def test_int96_is_refused(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    rows = pa.table({"id": [2], "at": pa.array([1], pa.timestamp("us", "UTC"))})
    with pytest.raises(WrongDefinitionError, match=r"column at are INT96.*outputTimestampType=TIMESTAMP_MICROS"):
        here.publish(2, [here.written(rows, use_deprecated_int96_timestamps=True)])
    with pytest.raises(WrongDefinitionError, match="column at are INT64, and Iceberg's are microseconds"):
        here.publish(2, [here.written(rows.cast(pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns", "UTC"))])))])
    assert (here.ids(), here.numbers().number) == ([1], 1)


@pytest.mark.parametrize(("kind", "text"), [(pa.uint64(), "is unsigned"), (pa.null(), "Iceberg has no type for")])
def test_what_iceberg_has_no_type_for_is_refused(here: IcebergBench, kind: pa.DataType, text: str) -> None:
    with pytest.raises(WrongDefinitionError, match=text):
        here.publish(1, [here.written(pa.table({"id": pa.array([None], kind)}))])


def test_files_without_the_partition_column_are_refused(here: IcebergBench) -> None:
    log = here.log()
    log.create(TABLE, [here.file([1])], ["carrier"])
    with pytest.raises(WrongDefinitionError, match="hasn't the column of partition field carrier"):
        log.append(TABLE, INCARNATION, loaded(log), a_record(1), [here.file([1], carrier=None)])
    assert here.numbers() is None


def test_a_partition_is_what_each_row_of_a_file_has(here: IcebergBench) -> None:
    log = here.log()
    files = [here.file([1], carrier=["AA"]), here.file([2], carrier=pa.array([None], pa.string()))]
    log.create(TABLE, files, ["carrier"])
    log.append(TABLE, INCARNATION, loaded(log), a_record(1), files)
    table = here.table()
    assert table.scan("carrier = 'AA'").to_arrow()["id"].to_pylist() == [1]
    assert table.scan("carrier is null").to_arrow()["id"].to_pylist() == [2]
    assert [each.partition[0] for each in (task.file for task in table.scan("carrier = 'AA'").plan_files())] == ["AA"]
    for mixed in (["AA", "UA"], ["AA", None]):
        with pytest.raises(WrongDefinitionError, match=r"can't be added: .*carrier"):
            log.append(TABLE, INCARNATION, loaded(log), a_record(2), [here.file([3, 4], carrier=mixed)])


def test_a_partition_column_without_statistics_is_refused(here: IcebergBench) -> None:
    log = here.log()
    log.create(TABLE, [here.file([1])], ["carrier"])
    rows = pa.table({"id": [1], "carrier": ["AA"]})
    with pytest.raises(WrongDefinitionError, match="its footer doesn't tell"):
        log.append(TABLE, INCARNATION, loaded(log), a_record(1), [here.written(rows, write_statistics=["id"])])


def test_a_partition_does_not_hang_on_the_metrics_that_the_table_keeps(here: IcebergBench) -> None:
    log = here.log()
    log.create(TABLE, [here.file([1])], ["carrier"])
    here.table().transaction().set_properties({"write.metadata.metrics.default": "none"}).commit_transaction()
    log.append(TABLE, INCARNATION, loaded(log), a_record(1), [here.file([1])])
    assert here.table().scan("carrier = 'AA'").to_arrow()["id"].to_pylist() == [1]


def test_files_go_into_a_table_of_others_by_its_own_partitions(here: IcebergBench) -> None:
    theirs(here, PartitionSpec(PartitionField(3, 1000, DayTransform(), "day")))
    here.publish(1, [here.file([1, 2])])
    [task] = here.table().scan().plan_files()
    assert str(task.file.partition[0]) in {"19675", "2023-11-14"}
    day = 24 * 3600 * 1_000_000
    far = pa.array([day * 19675, day * 19680], pa.timestamp("us", "UTC"))
    with pytest.raises(WrongDefinitionError, match="more than one partition value"):
        here.publish(2, [here.file([1, 2], at=far)])


def test_a_table_whose_writers_do_more_than_add_files_is_refused_by_name(here: IcebergBench) -> None:
    here.log().require_writable(TABLE, ("carrier",))
    theirs(here, PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "bucket")))
    refused(here, r"partition field 1000: bucket: bucket\[4\]\(1\)")
    here.catalog().drop_table("lake.flights")
    theirs(here, PartitionSpec())
    here.log().require_writable(TABLE, ("carrier",))
    of_version_3(here)
    refused(here, r"format version 3 \(row lineage")
    here.catalog().drop_table("lake.flights")
    theirs(here, PartitionSpec(), {"encryption.key-id": "k"})
    refused(here, "has encryption")


def refused(here: IcebergBench, why: str) -> None:
    """Refused with files to append, and before there are any."""
    with pytest.raises(WrongDefinitionError, match=why):
        here.publish(1, [here.file([1])])
    with pytest.raises(WrongDefinitionError, match=why):
        here.log().require_writable(TABLE, ())


def test_a_new_column_fails_with_both_schemas_unless_it_may_be_added(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    wider = here.file([2], gate=["B4"])
    for policy in ("fail", "rescue"):
        with pytest.raises(WrongDefinitionError) as raised:
            here.publish(2, [wider], policy)
        first, *rest = str(raised.value).splitlines()
        assert first == (
            f"the files don't fit into the table {TABLE}: column gate (string) isn't in the table; "
            "set schema-evolution: add-columns, or change the transform"
        )
        assert rest[0] == "the table:"
        assert "  gate: string" in rest[rest.index("the files:") :]
    here.publish(2, [wider], "add-columns")
    assert here.table().scan("id = 2").to_arrow()["gate"].to_pylist() == ["B4"]
    here.publish(3, [here.file([3])])
    assert here.table().scan("id != 2").to_arrow()["gate"].to_pylist() == [None, None]


def test_columns_are_added_to_nested_structs_lists_and_maps(here: IcebergBench) -> None:
    def nested(value: dict[str, int]) -> dict[str, list[object]]:
        return {"one": [value], "many": [[value]], "named": pa.array([[("k", value)]], a_map(value))}

    here.publish(1, [here.file([1], **nested({"x": 1}))])
    with pytest.raises(WrongDefinitionError, match=r"column one.y \(long\).*column many.y.*column named.y"):
        here.publish(2, [here.file([2], **nested({"x": 2, "y": 3}))])
    here.publish(2, [here.file([2], **nested({"x": 2, "y": 3}))], "add-columns")
    rows = {row["id"]: row for row in here.table().scan().to_arrow().to_pylist()}
    assert (rows[1]["one"], rows[2]["one"]) == ({"x": 1, "y": None}, {"x": 2, "y": 3})
    assert (rows[1]["many"], rows[2]["many"]) == ([{"x": 1, "y": None}], [{"x": 2, "y": 3}])
    assert dict(rows[2]["named"])["k"] == {"x": 2, "y": 3}


def test_another_type_is_refused_whatever_the_policy(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    told = (
        "column id is string in the files and long in the table; change the transform, or, .* schema-evolution: rescue"
    )
    with pytest.raises(WrongDefinitionError, match=told):
        here.publish(2, [here.file([2], id=["2"])], "add-columns")
    with pytest.raises(WrongDefinitionError, match="in the table; change the transform\n"):
        here.publish(2, [here.file([2], id=["2"])], "rescue")
    told = "column batch_id is struct<x: long> in the files and string in the table; change the transform\n"
    with pytest.raises(WrongDefinitionError, match=told):
        here.publish(2, [here.file([2], batch_id=[{"x": 1}])], "add-columns")


def test_a_narrower_type_is_read_as_the_wider_one_and_not_the_other_way(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    here.publish(2, [here.file([2], id=pa.array([2], pa.int32()))])
    assert here.ids() == [1, 2]
    here.catalog().drop_table("lake.flights")
    here.publish(1, [here.file([1], id=pa.array([2], pa.int32()))])
    with pytest.raises(WrongDefinitionError, match="column id is long in the files and int in the table"):
        here.publish(2, [here.file([2])], "add-columns")


def test_a_required_column_of_others_is_asked_for(here: IcebergBench) -> None:
    here.catalog().create_namespace("lake")
    required = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "owner", StringType(), required=True)
    )
    here.catalog().create_table("lake.flights", required)
    with pytest.raises(
        WrongDefinitionError, match=r"id is required in the table and optional.*required column owner isn't"
    ):
        here.publish(1, [here.written(pa.table({"id": [1]}))])


def test_a_renamed_column_is_another_for_files_that_have_the_old_name(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    with here.table().update_schema() as update:
        update.rename_column("carrier", "airline")
    with pytest.raises(WrongDefinitionError, match=r"column carrier .* isn't in the table"):
        here.publish(2, [here.file([2])])
    here.publish(2, [here.file([2], carrier=None, airline=["UA"])])
    assert sorted(here.table().scan().to_arrow()["airline"].to_pylist()) == ["AA", "UA"]


def test_a_name_mapping_that_lacks_a_column_is_refused(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    old = '[{"field-id": 1, "names": ["id"]}]'
    here.table().transaction().set_properties({"schema.name-mapping.default": old}).commit_transaction()
    with pytest.raises(WrongDefinitionError, match=r"schema.name-mapping.default of the table .* is out of date"):
        here.publish(2, [here.file([2])])
    here.table().transaction().remove_properties("schema.name-mapping.default").commit_transaction()
    here.publish(2, [here.file([2])])
    assert here.table().scan("id = 2").to_arrow()["carrier"].to_pylist() == ["AA"]


def test_field_ids_of_another_table_are_refused(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "4"})
    with pytest.raises(WrongDefinitionError, match="has field ids"):
        here.publish(2, [here.written(pa.table({"id": [2]}, schema=pa.schema([field])))])


def test_files_that_are_gone_or_changed_are_named(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    gone, other = here.file([2]), here.file([2])
    Path(gone.uri.removeprefix("file://")).unlink()
    with pytest.raises(StaleError, match=f"{gone.uri} is gone"):
        here.publish(2, [gone])
    Path(other.uri.removeprefix("file://")).write_bytes(b"PAR1")
    with pytest.raises(CorruptFileError, match=f"{other.uri} is no Parquet file"):
        here.publish(2, [other])


def test_a_file_without_rows_adds_nothing(here: IcebergBench) -> None:
    log = here.log()
    empty = here.written(SCHEMA.empty_table())
    log.create(TABLE, [empty], ["carrier"])
    log.append(TABLE, INCARNATION, loaded(log), a_record(1), [empty, here.file([1])])
    assert len(list(here.table().scan().plan_files())) == 1


def test_partition_columns_that_no_file_has_are_named(here: IcebergBench) -> None:
    with pytest.raises(
        WrongDefinitionError, match="partition-by names gate, and the files don't have it: they have id,"
    ):
        here.log().create(TABLE, [here.file([1])], ["gate"])


def test_a_record_that_cannot_be_read_is_a_persons_business(here: IcebergBench) -> None:
    here.publish(1, [here.file([1])])
    here.table().transaction().set_properties({f"tidegate.{INCARNATION}": "{"}).commit_transaction()
    with pytest.raises(LostDataError, match=f"the property tidegate.{INCARNATION} of the table {TABLE}"):
        here.log().load(TABLE, INCARNATION, 1)


def test_a_commit_whose_answer_was_lost_is_found(here: IcebergBench, monkeypatch: pytest.MonkeyPatch) -> None:
    here.publish(1, [here.file([1])])
    for number, error in ((2, CommitStateUnknownException("502")), (3, CommitFailedException("409"))):
        log = here.log()
        snapshot, record = loaded(log), a_record(number)
        answer_with(monkeypatch, snapshot, error, after=True)
        log.append(TABLE, INCARNATION, snapshot, record, [here.file([number])])
        assert here.numbers() == record
    assert here.ids() == [1, 2, 3]


def test_a_commit_of_which_nothing_is_known_says_so(here: IcebergBench, monkeypatch: pytest.MonkeyPatch) -> None:
    here.publish(1, [here.file([1])])
    log = here.log()
    snapshot = loaded(log)
    answer_with(monkeypatch, snapshot, CommitStateUnknownException("502"), after=False)
    with pytest.raises(UnavailableError, match="502; the commit may come to be nevertheless"):
        log.append(TABLE, INCARNATION, snapshot, a_record(2), [here.file([2])])
    monkeypatch.undo()
    log.append(TABLE, INCARNATION, snapshot, a_record(2), [here.file([2])])
    assert here.ids() == [1, 2]


@pytest.mark.parametrize(
    "table", ["iceberg://ice/flights", "iceberg:///lake/flights", "file:///x", "iceberg://i/a/b@c"]
)
def test_what_names_no_table_is_refused(here: IcebergBench, table: str) -> None:
    with pytest.raises(WrongDefinitionError, match=r"write iceberg://<connection id>/<namespace>/<table>"):
        here.log().load(table, INCARNATION, 1)


def test_a_namespace_may_have_several_parts(bench: IcebergBench) -> None:
    log, table = bench.log(), "iceberg://ice/lake.air/flights"
    log.create(table, [bench.file([1])], ["carrier"])
    snapshot = log.load(table, INCARNATION, 1)
    assert snapshot is not None
    log.append(table, INCARNATION, snapshot, a_record(1), [bench.file([1])])
    assert bench.catalog().load_table(("lake", "air", "flights")).scan().to_arrow().num_rows == 1
    assert log.folder("iceberg://ice/lake/air/flights").endswith("/warehouse/lake/air/flights")


def drop_all(bench: IcebergBench) -> None:
    """The tests of a server share it."""
    catalog = bench.catalog()
    for namespace in ("lake", "lake.air"):
        if catalog.namespace_exists(namespace):
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)


def a_map(value: dict[str, int]) -> pa.DataType:
    return pa.map_(pa.string(), pa.struct([(name, pa.int64()) for name in value]))


def answer_with(monkeypatch: pytest.MonkeyPatch, snapshot: TableSnapshot, error: Exception, *, after: bool) -> None:
    """Let the catalog's next answer to a commit be lost, after it has committed or before."""
    catalog = snapshot.handle.catalog
    commit = catalog.commit_table

    def lost(*given: object) -> None:
        monkeypatch.setattr(catalog, "commit_table", commit)
        if after:
            commit(*given)
        raise error

    monkeypatch.setattr(catalog, "commit_table", lost)


def theirs(bench: IcebergBench, spec: PartitionSpec, properties: dict[str, str] | None = None) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "carrier", StringType()),
        NestedField(3, "at", TimestamptzType()),
        NestedField(4, "batch_id", StringType()),
    )
    bench.catalog().create_namespace_if_not_exists("lake")
    bench.catalog().create_table("lake.flights", schema, partition_spec=spec, properties=properties or {})


def of_version_3(bench: IcebergBench) -> None:
    """Make the table one of a version that pyiceberg reads and can't write."""
    table = bench.table()
    document = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text("utf-8"))
    changed = bench.folder / "v3.metadata.json"
    changed.write_text(json.dumps(document | {"format-version": 3, "next-row-id": 0}), "utf-8")
    bench.catalog().drop_table("lake.flights")
    bench.catalog().register_table("lake.flights", f"file://{changed}")


def in_threads(race: Callable[[int], None], first: int = 1) -> None:
    threads = [threading.Thread(target=race, args=(each,)) for each in range(first, first + RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)


def expire(bench: IcebergBench) -> None:
    bench.table().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(hours=1)).commit()
