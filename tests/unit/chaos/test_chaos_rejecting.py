import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.rejecting import RejectingProcessor
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.manifest import Result


def landed(folder: Path, name: str, numbers: list[int], topic: str = "numbers") -> dict[str, str]:
    path = folder / name
    values = [str(number).encode() for number in numbers]
    pq.write_table(pa.table({"topic": [topic] * len(numbers), "value": values}), path)
    return {"uri": f"file://{path}"}


def test_each_multiple_is_rejected_and_the_result_says_so(tmp_path: Path) -> None:
    staging = tmp_path / "_staging" / "b1-t"
    manifest = {
        "batch_id": "b1",
        "delivery": {"token": "t"},
        "records": 8,
        "staging": f"file://{staging}",
        "files": [
            landed(tmp_path, "a.parquet", [1, 3, 6]),
            landed(tmp_path, "b.parquet", [7, 8]),
            landed(tmp_path, "c.parquet", [9, 12, 13], "numbers_retry_500"),
        ],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    RejectingProcessor(3, again=6).run(f"file://{tmp_path}/manifest.json", None, lambda _: None, lambda: None)

    (attempt,) = staging.iterdir()
    staged = StagedFiles()
    (result,) = staged.results(f"file://{staging}")
    assert isinstance(result, Result)
    counts = staged.seal(f"file://{staging}", result)
    assert (result.read, counts.written, counts.rejected) == (8, 5, 3)
    rejected = [row for path in sorted((attempt / "_rejected").iterdir()) for row in pq.read_table(path).to_pylist()]
    assert rejected == [
        {"topic": topic, "value": value, "reason": "it is a multiple"}
        for topic, value in (("numbers", b"3"), ("numbers", b"6"), ("numbers_retry_500", b"12"))
    ]
