from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.audit import record
from chaos.evidence import in_lake, in_rejected


def write(path: Path, numbers: list[int], partition: int, kind: pa.DataType) -> None:
    path.parent.mkdir(parents=True)
    values = [str(number).encode() for number in numbers]
    table = pa.table({"value": pa.array(values, pa.binary()), "partition": pa.array([partition] * len(numbers), kind)})
    pq.write_table(table, path)


def test_a_reader_sees_what_is_published_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "batch_id=b1" / "part-0.parquet", [1, 2], 0, pa.int32())
    write(tmp_path / "batch_id=b2" / "part-0.parquet", [2], 3, pa.int32())
    write(tmp_path / "_staging" / "b3-x" / "part-0.parquet", [3], 0, pa.int32())
    write(tmp_path / "_abandoned" / "b4-x" / "part-0.parquet", [4], 0, pa.int32())
    write(tmp_path / "batch_id=b1" / "_rejected" / "part-0.parquet", [5], 0, pa.int32())

    assert in_rejected(tmp_path).tolist() == [record(5, 0)]
    assert sorted(in_lake(tmp_path).tolist()) == [record(1, 0), record(2, 0), record(2, 3)]


def test_an_empty_lake_has_nothing(tmp_path: Path) -> None:
    assert in_lake(tmp_path).tolist() == []
