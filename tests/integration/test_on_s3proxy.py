"""Landing and commits on S3Proxy, a store that checks signatures, and what it refuses."""

import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from faulty_store import faulty
from moto_s3 import OneConnection, s3_client, store_connection
from s3proxy import S3Proxy

from tidegate.kafka.columns import SCHEMA
from tidegate.lake.object_store.log import ObjectLog
from tidegate.lake.published_files import published_files
from tidegate.landing import writer as of_writer
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.errors import UnauthorizedError, WrongDefinitionError
from tidegate.parquet.known_stores import use_connections
from tidegate.ports.table_log import DataFile, LogConflictError, Record

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with S3Proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server


@pytest.fixture
def bucket(server):
    use_connections(OneConnection(store_connection(server.endpoint)))
    bucket = f"lake-{uuid.uuid4().hex}"
    s3_client(server.endpoint).create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture
def table(bucket):
    table = f"s3://store@{bucket}/a b%20/flights"
    ObjectLog().create(table, [], [])
    return table


def append(table, number, note, snapshot=None):
    snapshot = snapshot or ObjectLog().load(table, "i1", number)
    file = DataFile(f"{table}/data/b{number:020x}-{'0' * 32}/0/part é.parquet", 1, 1)
    ObjectLog().append(table, "i1", snapshot, Record(number, note), [file])


@pytest.mark.nightly
def test_commits_are_found_in_their_order_and_a_stale_one_is_refused(table):
    stale = ObjectLog().load(table, "i1", 1)
    for number in (1, 2, 5):
        append(table, number, number)
    with pytest.raises(LogConflictError):
        append(table, 6, 6, stale)
    assert ObjectLog().load(table, "i1", 6).record == Record(5, 5)
    assert [file.number for file in published_files(table)] == [1, 2, 5]
    ObjectLog().put_note(table, "i1", "1-1.json", "whole")
    assert ObjectLog().note(table, "i1", "1-1.json") == "whole"


@pytest.mark.nightly
def test_of_sixteen_that_commit_at_once_one_wins(table):
    snapshot, start = ObjectLog().load(table, "i1", 1), threading.Barrier(16)

    def race(note):
        start.wait(120)
        try:
            append(table, 1, note, snapshot)
        except LogConflictError:
            return None
        return note

    with ThreadPoolExecutor(16) as pool:
        (winner,) = [note for note in pool.map(race, range(16)) if note is not None]
    assert ObjectLog().load(table, "i1", 1).record == Record(1, winner)


def test_a_commit_whose_answer_was_lost_is_known_for_ones_own(server, table):
    with faulty(server.endpoint) as way:
        use_connections(OneConnection(store_connection(way.endpoint)))
        way.always("PUT", "cut after", "_batches")
        append(table, 1, 7)
    use_connections(OneConnection(store_connection(server.endpoint)))
    assert ObjectLog().load(table, "i1", 1).record == Record(1, 7)


def test_files_of_many_parts_are_landed_verified_and_removed(bucket, monkeypatch):
    monkeypatch.setattr(of_writer, "_GROUP_BYTES", 12 * MEGABYTE)
    landing = ParquetLanding(f"s3://store@{bucket}/a landing %20")
    with landing.writer("flights", "b1", 0) as attempt:
        for _ in range(2):
            rows = [{"topic": "t", "partition": 0, "offset": each, "value": os.urandom(MEGABYTE)} for each in range(12)]
            attempt.write(pa.RecordBatch.from_pylist(rows, SCHEMA))
    landing.verify(attempt.files())
    assert landing.data_files("flights", "b1") == {file.uri for file in attempt.files()}
    assert landing.discard("flights", "b1", [file.uri for file in attempt.files()])
    assert landing.stored("flights", "b1", []) == {}


def land(uri):
    with ParquetLanding(f"{uri}/landing").writer("flights", "b1", 0) as attempt:
        attempt.write(pa.RecordBatch.from_pylist([{"topic": "t"}], SCHEMA))


def load(uri):
    ObjectLog().load(uri, "i1", 1)


@pytest.mark.parametrize("ask", [land, load, published_files])
@pytest.mark.parametrize("wrong", [{"login": "nobody"}, {"password": "not-the-secret"}])
def test_keys_that_the_store_refuses_are_told_by_connection_and_without_the_secret(
    server, bucket, ask: Callable[[str], object], wrong: dict[str, str]
):
    use_connections(OneConnection(store_connection(server.endpoint, **wrong)))
    with pytest.raises(UnauthorizedError, match=r"can't be used.*mend the keys") as refused:
        ask(f"s3://store@{bucket}/flights")
    assert "store" in str(refused.value)
    assert "secret-key" not in str(refused.value)
    assert "not-the-secret" not in str(refused.value)


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("ask", [land, load, published_files])
def test_a_bucket_that_is_missing_is_told_by_name(ask: Callable[[str], object]):
    with pytest.raises(WrongDefinitionError, match=r"there is no bucket .*nowhere"):
        ask("s3://store@nowhere/flights")
