import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.table_rows import TableRowsProcessor
from tidegate.model.row_layout import row_layout

LANDED = pa.table({"offset": [7], "timestamp": pa.array([1_700_000_000_123], pa.timestamp("ms", "UTC"))})


def copied(folder: Path, **more: Any) -> pa.Table:
    """What a run leaves of one landed file."""
    pq.write_table(LANDED, folder / "landed.parquet")
    document = {
        "batch_id": "b1",
        "delivery": {"token": "t"},
        "records": 1,
        "staging": f"file://{folder}/staging",
        "files": [{"uri": f"file://{folder}/landed.parquet"}],
        **more,
    }
    (folder / "manifest.json").write_text(json.dumps(document))
    TableRowsProcessor().run(f"file://{folder}/manifest.json", None, lambda _: None, lambda: None)
    (result,) = folder.glob("staging/*/_result/part-00000.txt")
    (file,) = json.loads(result.read_text())["files"]
    copy = result.parents[1] / file["path"]
    assert file["bytes"] == copy.stat().st_size
    return pq.read_table(copy)


def test_rows_are_copied_as_they_landed(tmp_path: Path) -> None:
    assert copied(tmp_path).equals(LANDED)


def test_rows_of_a_table_have_their_batch_and_microseconds(tmp_path: Path) -> None:
    rows = copied(tmp_path, layout=row_layout("delta+file:///lake/flights").to_json())
    assert rows.to_pylist() == [{**LANDED.to_pylist()[0], "batch_id": "b1"}]
    assert rows.schema.field("timestamp").type == pa.timestamp("us", "UTC")
