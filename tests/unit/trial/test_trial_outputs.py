"""How the rows of a trial are read again."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.model.output_uri import ParquetFolder
from tidegate.model.subscription import Processing
from tidegate.trial.outputs import OneCatalog, as_python, published_rows

NULL = "__HIVE_DEFAULT_PARTITION__"


def test_a_partition_column_is_null_where_its_folder_says_so_in_all_rows_too(tmp_path: Path) -> None:
    rows = {f"day={NULL}/store=7/carrier=A%2FA": 1, f"day={NULL}/store={NULL}/carrier={NULL}": 2}
    for place, row in rows.items():
        folder = tmp_path / "lake/batch_id=b" / place
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [row]}), folder / "part.parquet")
    processing = Processing("lake", "spark_default", None, ("day", "store", "carrier"))

    found = published_rows(ParquetFolder(f"file://{tmp_path}/lake"), OneCatalog(tmp_path), "b", processing)

    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "day": None, "store": 7, "carrier": "A/A"},
        {"id": 2, "day": None, "store": None, "carrier": None},
    ]


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        (pa.map_(pa.string(), pa.int64()), [("c", 1)], {"c": 1}),
        (pa.map_(pa.string(), pa.int64()), [], {}),
        (
            pa.map_(pa.int32(), pa.map_(pa.string(), pa.string())),
            [(7, [("c", "red")]), (8, None)],
            {7: {"c": "red"}, 8: None},
        ),
        (
            pa.large_list(pa.struct({"m": pa.map_(pa.string(), pa.string())})),
            [{"m": [("c", "red")]}],
            [{"m": {"c": "red"}}],
        ),
        (pa.map_(pa.struct({"a": pa.int64()}), pa.int64()), [({"a": 1}, 2)], [({"a": 1}, 2)]),  # a dict has no such key
    ],
)
def test_a_map_is_a_dict_wherever_it_is(kind: pa.DataType, value: Any, plain: object) -> None:
    assert as_python(pa.array([value], kind).to_pylist()[0], kind) == plain
