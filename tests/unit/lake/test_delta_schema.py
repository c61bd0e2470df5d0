"""What there is to do where rows don't fit a Delta table."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.lake.delta.files import StagedRows
from tidegate.lake.delta.schema import missing_columns
from tidegate.lake.delta.types import struct_of
from tidegate.model.errors import MisfitError
from tidegate.model.output_uri import SchemaEvolution

TABLE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amount", pa.int32()), ("batch_id", pa.string())])
TEXT = {"id": pa.int64(), "amount": pa.string()}
RESCUE = "change the transform, or, without processing.keys, set schema-evolution: rescue"


@pytest.mark.parametrize(
    ("evolution", "files", "without_nulls", "remedy"),
    [
        ("add-columns", TEXT, {"id"}, RESCUE),
        ("fail", TEXT | {"note": pa.string()}, {"id"}, RESCUE),
        ("fail", {"id": pa.int64(), "note": pa.string()}, {"id"}, "or set schema-evolution: add-columns"),
        ("rescue", TEXT, {"id"}, "change the transform"),
        ("add-columns", TEXT, set(), "change the transform"),
        ("add-columns", {"id": pa.string()}, {"id"}, "change the transform"),
        ("add-columns", {"id": pa.int64(), "batch_id": pa.int64()}, {"id"}, "change the transform"),
    ],
)
def test_the_remedy_is_one_that_helps(
    tmp_path: Path, evolution: SchemaEvolution, files: dict[str, pa.DataType], without_nulls: set[str], remedy: str
) -> None:
    write_deltalake(tmp_path, TABLE.empty_table())
    staged = StagedRows((), struct_of(pa.schema(list(files.items())), "the files"), frozenset(without_nulls))
    with pytest.raises(MisfitError) as raised:
        missing_columns(DeltaTable(tmp_path), staged, evolution, "file:///lake")
    assert str(raised.value).partition("\n")[0].endswith(remedy)
