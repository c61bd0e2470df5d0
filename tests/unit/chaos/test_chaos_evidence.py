import pyarrow as pa

from chaos.audit import record
from chaos.evidence import records_in


def test_rows_of_any_kind_of_column_become_records() -> None:
    rows = pa.table({"value": pa.array([b"1", b"20"], pa.binary()), "partition": pa.array([0, 3], pa.int32())})
    assert records_in(rows).tolist() == [record(1, 0), record(20, 3)]


def test_where_nothing_is_published_there_are_none() -> None:
    assert records_in(None).tolist() == []
