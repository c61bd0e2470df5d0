"""What a log of commits on an object store promises beyond every table's log, by moto's server of S3's protocol."""

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from faulty_store import FaultyStore, faulty
from moto_s3 import MotoS3, OneConnection, running_moto, store_connection

from tidegate.lake.object_store.calls import Objects
from tidegate.lake.object_store.log import ObjectLog
from tidegate.lake.published_files import published_files
from tidegate.model.errors import LostDataError, UnavailableError, WrongDefinitionError
from tidegate.model.receipt import Receipt
from tidegate.parquet.known_stores import use_connections
from tidegate.ports.table_log import DataFile, LogConflictError, Record

ONE = DataFile("s3://store@lake/a b/data/b1-t/0/part é%20.parquet", 10, 3, (("carrier", "A/A"), ("day", None)))

pytestmark = pytest.mark.object_store


@pytest.fixture(scope="module")
def moto():
    with running_moto() as server:
        yield server


@pytest.fixture
def way(moto: MotoS3):
    with faulty(moto.endpoint) as way:
        yield way


@pytest.fixture
def table(moto: MotoS3, way: FaultyStore):
    use_connections(OneConnection(store_connection(way.endpoint)))
    return f"s3://store@{moto.bucket(f'lake-{uuid.uuid4().hex}')}/a b"


@pytest.fixture
def log(table):
    log = ObjectLog()
    assert log.load(table, "i1", 1) is None
    log.create(table, [], [])
    return log


def bucket_of(table):
    return table.split("@")[1].split("/")[0]


def commits(moto, table):
    return [key for key in moto.keys(bucket_of(table), "a b/_batches/") if not key.endswith("table.json")]


def append(log, table, number, note, files=(ONE,), snapshot=None, incarnation="i1", replaced=None):
    snapshot = snapshot or log.load(table, incarnation, number)
    log.append(table, incarnation, snapshot, Record(number, note), files, replaced=replaced)


def test_a_table_that_somebody_else_has_made_meanwhile_keeps_its_id(log, table):
    made = log.load(table, "i1", 1)
    ObjectLog().create(table, [], ["carrier"])
    assert (made.record, log.load(table, "i1", 1).table_id) == (None, made.table_id)


def test_the_last_record_is_found_whatever_number_is_asked_about(log, table):
    append(log, table, 3, 7)
    append(log, table, 12, 2**63 - 1, files=())
    assert {log.load(table, "i1", number).record for number in (1, 3, 12, 99)} == {Record(12, 2**63 - 1)}
    assert log.load(table, "i2", 1).record is None


def test_a_commit_names_its_files_by_their_paths_below_the_output(moto, log, table):
    bucket = bucket_of(table)
    file = DataFile(f"{table}/data/b1-t/0/part é%20.parquet", 10, 3, (("carrier", "A/A"), ("day", None)))
    append(log, table, 1, 5, [file, DataFile("s3://store@other/x.parquet", 1, 1)])
    (key,) = commits(moto, table)
    found = json.loads(moto.client.get_object(Bucket=bucket, Key=key)["Body"].read())
    assert (found["number"], found["note"]) == (1, 5)
    assert found["files"] == [
        {"path": "data/b1-t/0/part é%20.parquet", "bytes": 10, "rows": 3, "partition": {"carrier": "A/A", "day": None}},
        {"path": "s3://other/x.parquet", "bytes": 1, "rows": 1, "partition": {}},
    ]
    assert "store" not in json.dumps(found)


def test_whoever_loaded_before_another_commit_commits_nothing_whatever_the_numbers_are(log, table):
    stale = log.load(table, "i1", 1)
    append(log, table, 1, 1)
    append(log, table, 2, 2)
    for number in (1, 2, 3):
        with pytest.raises(LogConflictError, match="has another commit since it was loaded"):
            append(log, table, number, 9, snapshot=stale)
    assert log.load(table, "i1", 3).record == Record(2, 2)


def test_other_incarnations_are_no_conflict(log, table):
    snapshot = log.load(table, "i1", 1)
    append(log, table, 5, 1, incarnation="i2")
    append(log, table, 1, 2, snapshot=snapshot)
    assert (log.load(table, "i1", 1).record, log.load(table, "i2", 1).record) == (Record(1, 2), Record(5, 1))


def test_of_sixteen_that_commit_at_once_one_wins_even_with_one_record(log, table):
    snapshot, start = log.load(table, "i1", 1), threading.Barrier(16)

    def race(_):
        start.wait(120)
        try:
            append(log, table, 1, 4, snapshot=snapshot)
        except LogConflictError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(race, range(16))) == 1


def drop(moto, table):
    for key in moto.keys(bucket_of(table)):
        moto.client.delete_object(Bucket=bucket_of(table), Key=key)


@pytest.mark.parametrize("is_made_again", [True, False])
def test_nothing_goes_into_a_table_that_was_removed(moto, log, table, is_made_again):
    append(log, table, 1, 1)
    old = log.load(table, "i1", 2)
    drop(moto, table)
    assert log.load(table, "i1", 2) is None
    if is_made_again:
        log.create(table, [], [])
    with pytest.raises(LogConflictError, match="was removed since it was loaded"):
        append(log, table, 2, 2, snapshot=old)
    new = log.load(table, "i1", 2)
    assert (new and new.record) is None
    assert new is None or new.table_id != old.table_id
    assert published_files(table) == []


def test_of_many_that_make_a_table_all_get_one(table):
    start = threading.Barrier(8)

    def race(_):
        start.wait(120)
        ObjectLog().create(table, [], [])
        return ObjectLog().load(table, "i1", 1).table_id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(race, range(8)))) == 1


def test_of_incarnations_that_race_all_win(log, table):
    start = threading.Barrier(8)

    def race(number):
        start.wait(120)
        append(log, table, number, number, incarnation=f"i{number}")
        return log.load(table, f"i{number}", number).record

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(race, range(1, 9))) == [Record(number, number) for number in range(1, 9)]


@pytest.mark.nightly
def test_the_newest_of_1100_commits_is_found_by_three_requests(moto, log, table, way):
    append(log, table, 1, 1)
    bucket = bucket_of(table)
    (key,) = commits(moto, table)
    assert key.endswith("/999999999999.json")
    source = {"Bucket": bucket, "Key": key}
    copies = [key.replace("999999999999", f"{10**12 - number:012}") for number in range(2, 1100)]  # a page has 1,000
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda copy: moto.client.copy_object(Bucket=bucket, Key=copy, CopySource=source), copies))
    append(log, table, 1100, 8)
    way.seen.clear()
    assert log.load(table, "i1", 1101).record == Record(1100, 8)
    assert way.seen == {"GET": 3}


def test_a_commit_whose_answer_was_lost_is_known_for_ones_own(log, table, way):
    way.first(1, "PUT", "cut after", "_batches")
    append(log, table, 1, 1)
    assert log.load(table, "i1", 1).record == Record(1, 1)
    way.always("PUT", "cut after", "_batches")
    append(log, table, 2, 2)
    assert log.load(table, "i1", 1).record == Record(2, 2)


def test_a_commit_whose_answer_was_lost_and_that_another_has_made_is_a_conflict(log, table, way):
    snapshot = log.load(table, "i1", 1)
    append(log, table, 1, 1)
    way.always("PUT", "cut before", "_batches")
    with pytest.raises(LogConflictError):
        append(log, table, 1, 1, snapshot=snapshot)


def test_a_commit_that_never_arrived_is_unavailable(log, table, way):
    way.always("PUT", "cut before", "_batches")
    with pytest.raises(UnavailableError, match="can't be reached"):
        append(log, table, 1, 1)
    assert log.load(table, "i1", 1).record is None


def test_the_marker_of_a_table_whose_answer_was_lost_is_as_good(table, way):
    way.always("PUT", "cut after", "table.json")
    ObjectLog().create(table, [], [])
    assert ObjectLog().load(table, "i1", 1).record is None


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_overloaded_store_is_asked_again_and_then_said_to_be_unavailable(log, table, way, method):
    way.first(2, method, "slow down")
    append(log, table, 1, 1)
    way.always(method, "slow down")
    with pytest.raises(UnavailableError, match="can't be reached"):
        append(log, table, 2, 2)
    way.fate = lambda _method, _path: "pass"
    assert log.load(table, "i1", 1).record == Record(1, 1)


def test_a_store_that_answers_slowly_is_waited_for(log, table, way):
    way.first(1, "PUT", "hold")
    threading.Timer(1.0, way.released.set).start()
    append(log, table, 1, 1)
    assert log.load(table, "i1", 1).record == Record(1, 1)


def test_notes_are_whole_texts_by_incarnation_and_name(log, table):
    log.put_note(table, "i1", "1-7.json", '{"é": 1}')
    assert (log.note(table, "i1", "1-7.json"), log.note(table, "i2", "1-7.json")) == ('{"é": 1}', None)
    assert log.put_note(table, "i1", "1-8.json", "x" * 3_000_000)
    assert log.note(table, "i1", "1-8.json") == "x" * 3_000_000
    assert not log.put_note(table, "i1", "1-7.json", "another")
    assert sorted(log.notes(table, "i1")) == ["1-7.json", "1-8.json"]
    for _ in range(2):
        log.remove_note(table, "i1", "1-7.json")
    assert (log.note(table, "i1", "1-7.json"), list(log.notes(table, "i1"))) == (None, ["1-8.json"])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_commit_that_cant_be_read_stops_by_name(moto, log, table, content):
    append(log, table, 1, 1)
    bucket = bucket_of(table)
    (key,) = commits(moto, table)
    moto.client.put_object(Bucket=bucket, Key=key, Body=content)
    with pytest.raises(LostDataError, match=r"999999999999\.json can't be read"):
        log.load(table, "i1", 1)


def test_an_object_among_the_commits_that_is_none_stops_by_name(moto, log, table):
    bucket = bucket_of(table)
    table_id = log.load(table, "i1", 1).table_id
    moto.client.put_object(Bucket=bucket, Key=f"a b/_batches/{table_id}/i1/0-mine.json", Body=b"")
    with pytest.raises(LostDataError, match=r"0-mine\.json"):
        log.load(table, "i1", 1)


def test_a_commit_of_a_later_format_is_refused(moto, log, table):
    bucket = bucket_of(table)
    log.require_writable(table, ("carrier",))
    moto.client.put_object(Bucket=bucket, Key="a b/_batches/table.json", Body=b'{"format": 2}')
    with pytest.raises(WrongDefinitionError, match="is of format 2, which a newer Tidegate writes"):
        log.load(table, "i1", 1)
    with pytest.raises(WrongDefinitionError, match="is of format 2, which a newer Tidegate writes"):
        log.require_writable(table, ())


def test_the_keys_of_a_connection_are_joined_by_no_token_of_the_environment(log, table, way, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-environment")
    use_connections(OneConnection(store_connection(way.endpoint, login="another")))
    way.tokens.clear()
    log.load(table, "i1", 1)
    assert way.tokens == {None}
    use_connections(OneConnection(store_connection(way.endpoint, aws_session_token="of-the-connection")))
    way.tokens.clear()
    log.load(table, "i1", 1)
    assert way.tokens == {"of-the-connection"}


def test_without_a_connection_the_environment_has_keys_and_place(table, way, monkeypatch):
    keys = {"AWS_ACCESS_KEY_ID": "ann", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "of-the-environment"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": way.endpoint}.items():
        monkeypatch.setenv(name, value)
    way.tokens.clear()
    log = ObjectLog()
    log.create(f"s3://{bucket_of(table)}/other", [], [])
    assert log.load(f"s3://{bucket_of(table)}/other", "i1", 1).record is None
    assert way.tokens == {"of-the-environment"}


def test_a_missing_bucket_is_told_by_name(moto):
    use_connections(OneConnection(moto.connection()))
    with pytest.raises(WrongDefinitionError, match="there is no bucket for s3://store@nowhere/x"):
        ObjectLog().load("s3://store@nowhere/x", "i1", 1)


def test_a_store_that_refuses_connections_is_unavailable():
    use_connections(OneConnection(store_connection("http://127.0.0.1:1")))
    with pytest.raises(UnavailableError, match="s3://store@lake/x can't be reached") as failed:
        ObjectLog().load("s3://store@lake/x", "i1", 1)
    assert "a-secret-key" not in str(failed.value)


@pytest.fixture
def stored_within_a_second(monkeypatch):
    """S3 says the second in which an object was stored, and no more: here all in the same one."""
    found, second = Objects.all, datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(Objects, "all", lambda *about: ((path, second) for path, _ in found(*about)))


@pytest.mark.usefixtures("stored_within_a_second")
def test_the_files_of_a_batch_that_was_replaced_stand_where_the_batchs_own_do(log, table):
    batches = [f"b{number:020x}" for number in range(1, 4)]
    token = "0" * 32

    def staged(batch, generation=""):
        return DataFile(f"{table}/data/{batch}-{generation}{token}/0/part.parquet", 10, 3)

    for number, batch in enumerate(batches, 1):
        append(log, table, number, 1, [staged(batch)])
    for generation in (2, 3):
        of, again = Receipt("i1", batches[1], 2), staged(batches[1], f"g{generation}-")
        append(log, table, generation, 1, [again], incarnation=batches[1], replaced=of)
        append(log, table, 2 + generation, 1, [])
    found = [(file.batch_id, file.number, file.uri.rpartition("/data/")[2]) for file in published_files(table)]
    assert found == [
        (batches[0], 1, f"{batches[0]}-{token}/0/part.parquet"),
        (batches[1], 2, f"{batches[1]}-g3-{token}/0/part.parquet"),
        (batches[2], 3, f"{batches[2]}-{token}/0/part.parquet"),
    ]
    new = f"b{9:020x}"
    append(log, table, 2, 1, [staged(new, "g2-")], incarnation=new, replaced=Receipt("i9", new, 7))
    assert (new, 7) in [(file.batch_id, file.number) for file in published_files(table)]
    append(log, table, 2, 1, [], incarnation=batches[0], replaced=Receipt("i1", batches[0], 1))
    assert sorted(file.batch_id for file in published_files(table)) == [batches[1], batches[2], new]
