"""Orders, and what a job left in an order's folder, on this machine's file system."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.kafka.columns import SCHEMA
from tidegate.landing.parquet import ParquetLanding
from tidegate.landing.requests import ParquetLandingRequests
from tidegate.model.batch import Batch
from tidegate.model.errors import BatchFailedError
from tidegate.model.landing_request import LandingRequest
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt

RANGES = (Range("flights", 0, 0, 5), Range("flights", 1, 3, 3), Range("orders", 0, 2, 9))
SHARES = ((TopicPartition("flights", 0), TopicPartition("flights", 1)), (TopicPartition("orders", 0),))
BATCH = Batch("b1", "flights", "g", Receipt("i"), RANGES, SHARES, "file:///lake")


@pytest.fixture
def orders(tmp_path: Path) -> ParquetLandingRequests:
    return ParquetLandingRequests(f"file://{tmp_path}/a landing %20")


def folder(order: LandingRequest) -> Path:
    return Path(order.folder.removeprefix("file://"))


def write(order: LandingRequest, name: str, *records: tuple[str, int, int], **settings: Any) -> None:
    rows = [{"topic": t, "partition": p, "offset": o} for t, p, o in records]
    path = folder(order) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, **settings)


def result(order: LandingRequest, text: str) -> None:
    (folder(order) / "_result").mkdir(parents=True, exist_ok=True)
    (folder(order) / "_result" / "part-0.txt").write_text(text)
    (folder(order) / "_result" / ".part-0.txt.crc").write_bytes(b"x")
    (folder(order) / "_result" / "_SUCCESS").touch()


def test_an_order_is_stored_for_its_member_alone_and_is_no_data(orders: ParquetLandingRequests, tmp_path: Path) -> None:
    first, second = (orders.submit(BATCH, 0, 100) for _ in range(2))
    assert first.ranges == (RANGES[0],)
    assert orders.submit(BATCH, 1, 100).ranges == (RANGES[2],)
    assert first.folder != second.folder
    assert "/flights/b1/member-0/" in first.folder
    stored = json.loads(Path(first.uri.removeprefix("file://")).read_text())
    assert stored["folder"] == first.folder
    assert ParquetLanding(f"file://{tmp_path}/a landing %20").data_files("flights", "b1") == frozenset()


def test_records_are_counted_in_the_footers_of_what_isn_t_hidden(orders: ParquetLandingRequests) -> None:
    order = orders.submit(BATCH, 0, 100)
    write(order, "part-0.parquet", ("flights", 0, 0), ("flights", 0, 2), ("flights", 0, 3), row_group_size=2)
    write(order, "part-1.parquet")
    write(order, "_temporary/part-2.parquet", ("flights", 0, 4))
    (folder(order) / ".part-0.parquet.crc").write_bytes(b"x")
    result(order, '{"records": 3}\n')
    left = orders.result(order)
    assert left is not None
    assert left.said == 3
    assert [(f.uri.rpartition("/")[2], f.records) for f in left.files] == [("part-0.parquet", 3), ("part-1.parquet", 0)]
    assert left.files[0].bytes == (folder(order) / "part-0.parquet").stat().st_size
    assert [(s.at, s.records, s.first, s.last) for s in left.stretches] == [
        (("flights", 0), 2, 0, 2),
        (("flights", 0), 1, 3, 3),
    ]


def test_without_a_result_nothing_was_left(orders: ParquetLandingRequests) -> None:
    order = orders.submit(BATCH, 0, 100)
    assert orders.result(order) is None
    write(order, "part-0.parquet", ("flights", 0, 0))
    assert orders.result(order) is None


@pytest.mark.parametrize("text", ["", "{}", '{"records": "many"}'])
def test_a_result_that_is_none_is_refused(orders: ParquetLandingRequests, text: str) -> None:
    order = orders.submit(BATCH, 0, 100)
    result(order, text)
    with pytest.raises(BatchFailedError, match="no result of a landing job"):
        orders.result(order)


def test_files_that_don_t_tell_where_their_records_were_are_refused(orders: ParquetLandingRequests) -> None:
    def mixed(order: LandingRequest) -> None:
        write(order, "p.parquet", ("flights", 0, 0), ("flights", 1, 0))

    def silent(order: LandingRequest) -> None:
        write(order, "p.parquet", ("flights", 0, 0), write_statistics=False)

    def other(order: LandingRequest) -> None:
        folder(order).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"value": [1]}), folder(order) / "p.parquet")

    def torn(order: LandingRequest) -> None:
        folder(order).mkdir(parents=True, exist_ok=True)
        (folder(order) / "p.parquet").write_bytes(b"PAR1")

    for leave, said in (
        (mixed, "mixes records of flights-0 and flights-1"),
        (silent, "doesn't tell its records' topic"),
        (other, "has no topic, partition, offset"),
        (torn, "isn't a whole Parquet file"),
    ):
        order = orders.submit(BATCH, 0, 100)
        leave(order)
        result(order, '{"records": 1}')
        with pytest.raises(BatchFailedError, match=said):
            orders.result(order)


def test_what_is_withdrawn_is_gone_and_may_have_been_already(orders: ParquetLandingRequests) -> None:
    order, other = (orders.submit(BATCH, 0, 100) for _ in range(2))
    orders.cancel(order)
    for one in (order, other):
        write(one, "p.parquet", ("flights", 0, 0))
    orders.cancel(order)
    assert [folder(order).exists(), folder(other).exists()] == [False, True]
