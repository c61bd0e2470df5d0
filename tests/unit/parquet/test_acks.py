from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.kafka.columns import SCHEMA
from tidegate.landing.parquet import ParquetLanding
from tidegate.model.errors import BatchFailedError, UnavailableError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.parquet import acks
from tidegate.parquet.acks import COLUMNS, ack_files, pending_acks, take

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
Rows = Sequence[tuple[str | None, int | None, int | None]]


def file(path: Path, rows: Rows, schema: pa.Schema = COLUMNS) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    return path.as_uri()


def whole(*partitions: TopicPartition) -> list[Range]:
    return [Range(*at, 0, 1000) for at in partitions]


def test_acknowledgements_are_settled_with_what_landed(tmp_path: Path) -> None:
    landed = [
        file(tmp_path / "l0", [("a", 0, 7), ("b", 0, 1), ("a", 1, 3), ("a", 0, 9)]),
        file(tmp_path / "l1", [("b", 0, 2), ("a", 0, 5)]),  # an earlier part of the partition in a later file
    ]
    waiting = pending_acks(landed, {A0: 3, A1: 1, B0: 2}, whole(A0, A1, B0, TopicPartition("a", 2)))
    take(file(tmp_path / "acks", [("b", 0, 2), ("a", 0, 7), ("a", 0, 5), ("b", 0, 1), ("a", 0, 7)]), waiting)
    found = {at: one.now() for at, one in waiting.items()}
    assert found[A0].prefix(Range(*A0, 0, 20)) == 9
    assert found[A1].prefix(Range(*A1, 0, 20)) == 3
    assert found[B0].prefix(Range(*B0, 0, 20)) == 20
    assert found[TopicPartition("a", 2)].prefix(Range("a", 2, 0, 20)) == 20  # nothing but markers


def test_files_as_the_landing_writes_them(tmp_path: Path) -> None:
    rows = [{"topic": "a", "partition": 0, "offset": offset, "value": b"x"} for offset in (4, 6)]
    with ParquetLanding(tmp_path.as_uri()).writer("orders", "b1", 0) as writer:
        writer.write(pa.RecordBatch.from_pylist([dict.fromkeys(SCHEMA.names) | row for row in rows], SCHEMA))
    waiting = pending_acks([landed.uri for landed in writer.files()], {A0: 2}, whole(A0))
    take(file(tmp_path / "acks", [("a", 0, 4)]), waiting)
    assert waiting[A0].now().prefix(Range(*A0, 0, 9)) == 6


def test_taking_a_file_again_changes_nothing(tmp_path: Path) -> None:
    waiting = pending_acks([file(tmp_path / "landed", [("a", 0, 1), ("a", 0, 2)])], {A0: 2}, whole(A0))
    uri = file(tmp_path / "acks", [("a", 0, 1)])
    for _ in range(2):
        take(uri, waiting)
        assert waiting[A0].now().backlog(Range(*A0, 0, 9)) == 1


def test_parts_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acks, "_ROWS", 7)
    random = np.random.default_rng(1)
    rows = [(f"t{n % 3}", n % 5, n) for n in range(200)]
    counts = {at: sum(TopicPartition(*row[:2]) == at for row in rows) for at in {TopicPartition(*r[:2]) for r in rows}}
    waiting = pending_acks([file(tmp_path / "landed", rows)], counts, whole(*counts))
    take(file(tmp_path / "acks", [rows[n] for n in random.permutation(200)[:150]]), waiting)
    assert sum(one.now().backlog(Range(*at, 0, 200)) for at, one in waiting.items()) == 50


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 5, -1, 2**31 - 1, -(2**31)])), max_size=30),
)
def test_rows_are_told_apart_by_topic_and_partition(rows: list[tuple[int, int]]) -> None:
    codes, numbers = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    order, cuts = acks._groups(codes, numbers)
    groups = [[rows[n] for n in part] for part in np.split(order, cuts)] if rows else []
    assert sorted(len(group) for group in groups) == sorted(rows.count(row) for row in set(rows))
    assert all(len(set(group)) == 1 for group in groups)


def test_spark_may_name_other_columns_and_wider_types(tmp_path: Path) -> None:
    waiting = pending_acks([file(tmp_path / "landed", [("a", 0, 1)])], {A0: 1}, whole(A0))
    wide = pa.schema([("offset", pa.int64()), ("topic", pa.string()), ("partition", pa.int64())])
    take(file(tmp_path / "acks", [(1, "a", 0)], wide), waiting)  # type: ignore[list-item]  # in another order
    assert waiting[A0].now().backlog(Range(*A0, 0, 9)) == 0


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("a", 0, 1), ("a", 0, 4)], "acknowledged that didn't land .*topic a, partition 0, offset 4"),
        ([("a", 1, 1)], "acknowledges records of a-1, and the batch has none"),
        ([("a", -1, 1)], "acknowledges records of a--1, and the batch has none"),
        ([("a", 0, None)], "rows without topic, partition or offset"),
        ([(None, 0, 1)], "rows without topic, partition or offset"),
    ],
)
def test_a_wrong_acknowledgement_fails_the_batch_by_name(tmp_path: Path, rows: Rows, said: str) -> None:
    waiting = pending_acks([file(tmp_path / "landed", [("a", 0, 1)])], {A0: 1}, whole(A0))
    with pytest.raises(BatchFailedError, match=said):
        take(file(tmp_path / "acks", rows), waiting)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("at", pa.int64())]), "lacks offset int64"),
        (pa.schema([("topic", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())]), "lacks topic string"),
        (pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.float64())]), "lacks offset"),
    ],
)
def test_a_file_of_other_columns_fails_the_batch(tmp_path: Path, schema: pa.Schema, said: str) -> None:
    with pytest.raises(BatchFailedError, match=said):
        take(file(tmp_path / "acks", [], schema), {})


def test_a_file_that_is_no_parquet_or_isnt_there(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"PAR1 half of it")
    with pytest.raises(BatchFailedError, match="isn't a Parquet file"):
        take(broken.as_uri(), {})
    with pytest.raises(UnavailableError, match="can't be read"):
        take((tmp_path / "gone").as_uri(), {})


@pytest.mark.parametrize("counted", [{A0: 1}, {A0: 3}, {}])
def test_landed_files_hold_what_was_landed(tmp_path: Path, counted: dict[TopicPartition, int]) -> None:
    uri = file(tmp_path / "landed", [("a", 0, 1), ("a", 0, 2)])
    with pytest.raises(BatchFailedError, match=r"of a-0, and \d were landed"):
        pending_acks([uri], counted, whole(A0))


def test_only_files_that_spark_has_finished_are_found(tmp_path: Path) -> None:
    seen = [file(tmp_path / "acks" / name, []) for name in ("part-1.parquet", "part-2.parquet", "x=1/part-3.parquet")]
    for hidden in ("_temporary/0/part-4.parquet", ".part-5.parquet.crc", "_SUCCESS"):
        file(tmp_path / "acks" / hidden, [])
    assert [uri.rpartition("/")[2] for uri in ack_files((tmp_path / "acks").as_uri())] == [
        uri.rpartition("/")[2] for uri in seen
    ]
    assert ack_files((tmp_path / "none").as_uri()) == ()
