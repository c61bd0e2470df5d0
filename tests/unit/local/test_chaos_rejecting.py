import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.manifest import Result
from tidegate.parquet.lake import ParquetLake
from tidegate_local.chaos.rejecting import RejectingProcessor


def landed(folder: Path, name: str, numbers: list[int]) -> dict[str, str]:
    path = folder / name
    pq.write_table(pa.table({"value": [str(number).encode() for number in numbers]}), path)
    return {"uri": f"file://{path}"}


def test_each_multiple_is_rejected_and_the_result_says_so(tmp_path: Path) -> None:
    staging = tmp_path / "_staging" / "b1-t"
    manifest = {
        "batch_id": "b1",
        "delivery": {"token": "t"},
        "records": 5,
        "staging": f"file://{staging}",
        "files": [landed(tmp_path, "a.parquet", [1, 3, 6]), landed(tmp_path, "b.parquet", [7, 8])],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    RejectingProcessor(3).run(f"file://{tmp_path}/manifest.json", None, lambda _: None, lambda: None)

    (attempt,) = staging.iterdir()
    lake = ParquetLake()
    (result,) = lake.results(f"file://{staging}")
    assert isinstance(result, Result)
    counts = lake.count(f"file://{staging}", result)
    assert (result.read, counts.written, counts.rejected) == (5, 3, 2)
    (rejected,) = (attempt / "_rejected").iterdir()
    assert pq.read_table(rejected).to_pylist() == [
        {"value": b"3", "reason": "it is a multiple"},
        {"value": b"6", "reason": "it is a multiple"},
    ]
