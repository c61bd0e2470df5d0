"""A landing on a store that fails, is slow or refuses, and files of several parts whose writer dies."""

import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from faulty_store import FaultyStore, faulty
from moto_s3 import MotoS3, OneConnection, running_moto, store_connection

from tidegate.kafka.columns import SCHEMA
from tidegate.landing import writer as of_writer
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.errors import UnavailableError
from tidegate.parquet.known_stores import use_connections

MEGABYTE = 1 << 20

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
def bucket(moto: MotoS3, way: FaultyStore):
    use_connections(OneConnection(store_connection(way.endpoint)))
    return moto.bucket(f"landing-{uuid.uuid4().hex}")


@pytest.fixture
def landing(bucket):
    return ParquetLanding(f"s3://store@{bucket}/landing")


def megabytes(number: int) -> pa.RecordBatch:
    """A chunk of values that nothing makes smaller."""
    rows = [{"topic": "t", "partition": 0, "offset": each, "value": os.urandom(MEGABYTE)} for each in range(number)]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def land(landing: ParquetLanding, number: int):
    with landing.writer("flights", "b1", 0) as attempt:
        attempt.write(megabytes(number))
    return attempt.files()


def test_files_of_many_parts_are_landed_verified_and_removed(moto, way, bucket, landing, monkeypatch):
    monkeypatch.setattr(of_writer, "_GROUP_BYTES", 12 * MEGABYTE)
    monkeypatch.setattr(of_writer, "_FILE_BYTES", 24 * MEGABYTE)
    with landing.writer("flights", "b1", 0) as attempt:
        for _ in range(3):
            attempt.write(megabytes(12))
    files = attempt.files()
    assert [file.records for file in files] == [24, 12]
    assert (way.seen["PUT"], moto.uploads(bucket)) == (5, [])  # parts of 10 MiB
    landing.verify(files)
    assert landing.data_files("flights", "b1") == {file.uri for file in files}
    assert landing.discard("flights", "b1", [files[0].uri]) == {file.uri: file.bytes for file in files}
    assert moto.keys(bucket) == []


def test_small_files_take_one_request_each(way, landing):
    land(landing, 1)
    way.seen.clear()
    land(landing, 1)
    assert (way.seen["POST"], way.seen["PUT"]) == (0, 1)


WRITER = """
import os, sys
import pyarrow as pa
from moto_s3 import OneConnection, store_connection
from tidegate.kafka.columns import SCHEMA
from tidegate.landing.parquet import ParquetLanding
from tidegate.parquet.known_stores import use_connections

endpoint, uri = sys.argv[1:]
use_connections(OneConnection(store_connection(endpoint)))
with ParquetLanding(uri).writer("flights", "b1", 0) as attempt:
    while True:
        rows = [{"topic": "t", "partition": 0, "offset": each, "value": os.urandom(1 << 20)} for each in range(50)]
        attempt.write(pa.RecordBatch.from_pylist(rows, SCHEMA))
"""


def test_a_file_whose_writer_was_killed_is_invisible(moto, way, bucket, landing, tmp_path):
    parts = threading.Semaphore(0)

    def count(method, path):
        if method == "PUT" and "partNumber" in path:
            parts.release()
        return "pass"

    way.fate = count
    command = [sys.executable, "-c", WRITER, way.endpoint, f"s3://store@{bucket}/landing"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(command, cwd=tmp_path, env=environ)
    try:
        for _ in range(3):
            assert parts.acquire(timeout=120)
            assert child.poll() is None
    finally:
        child.kill()
        child.wait(120)
    assert moto.keys(bucket) == []
    assert landing.data_files("flights", "b1") == frozenset()
    assert [Path(key).suffix for key in moto.uploads(bucket)] == [".parquet"]  # a rule of the bucket's aborts it
    files = land(landing, 1)
    landing.verify(files)


def test_an_attempt_that_fails_halfway_leaves_no_object(moto, bucket, landing):
    with pytest.raises(RuntimeError), landing.writer("flights", "b1", 0) as attempt:  # noqa: PT012 - it writes first
        attempt.write(megabytes(50))
        raise RuntimeError
    assert (moto.keys(bucket), moto.uploads(bucket)) == ([], [])


def test_a_store_that_is_overloaded_for_a_moment_takes_the_file_all_the_same(way, landing):
    land(landing, 1)
    way.first(2, "PUT", "slow down")
    landing.verify(land(landing, 1))
    assert way.seen["PUT"] >= 4


def test_a_store_that_stays_overloaded_is_unavailable_and_nothing_has_landed(moto, way, bucket, landing):
    land(landing, 1)
    before = moto.keys(bucket)
    way.always("PUT", "slow down")
    with pytest.raises(UnavailableError, match=r"the landing s3://store@.* can't be written .*SLOW_DOWN") as failed:
        land(landing, 12)
    assert "a-secret-key" not in str(failed.value)
    assert moto.keys(bucket) == before


def test_a_file_whose_answer_was_lost_is_stored_again(moto, way, bucket, landing):
    land(landing, 1)
    way.first(1, "PUT", "cut after")
    (file,) = land(landing, 1)
    landing.verify([file])
    assert len(moto.keys(bucket)) == 2


def test_a_store_that_answers_slowly_is_waited_for(way, landing):
    land(landing, 1)
    way.first(1, "PUT", "hold")
    threading.Timer(1.0, way.released.set).start()
    landing.verify(land(landing, 1))
