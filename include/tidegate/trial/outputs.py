"""Where a trial's rows go, in the format of the definition and below one folder, and how they are read again."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidegate.model.output_uri import DeltaTable, IcebergTable, Output, ParquetFolder, batch_place, iceberg_table
from tidegate.model.row_layout import BATCH_ID
from tidegate.model.subscription import Processing
from tidegate.ports import Connection

_INT96: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")  # as Spark writes timestamps


class OneCatalog:
    """The port `Connections` with one catalog, in a database below the folder, whatever a definition calls it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._extra = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}

    def get(self, connection_id: str) -> Connection:
        """See `tidegate.ports.Connections`."""
        return Connection(connection_id, "iceberg", None, None, None, None, self._extra)


def output_below(folder: Path, processing: Processing) -> Output:
    """The output of a trial; a table in a catalog keeps its name."""
    place = f"file://{folder}/lake"
    match processing.format:
        case "iceberg":
            return iceberg_table(processing.output.split("."))
        case "delta":
            return DeltaTable(place)
        case "parquet":
            return ParquetFolder(place)


def published_rows(output: Output, catalog: OneCatalog, batch_id: str, processing: Processing) -> pa.Table:
    """The rows that a batch brought, as its transform made them; of a change feed all of the table's."""
    match output:
        case ParquetFolder():
            folder = batch_place(str(output), batch_id).removeprefix("file://")
            return _rows_in_folders(folder, processing.partition_by)
        case DeltaTable():
            import deltalake  # noqa: PLC0415 (needs tidegate[delta])

            rows = deltalake.DeltaTable(output.folder).to_pyarrow_table()
        case IcebergTable():
            from tidegate.lake.iceberg.catalogs import Catalogs  # noqa: PLC0415 (needs tidegate[iceberg])

            rows = Catalogs(catalog)(output.catalog).load_table(output.identifier).scan().to_arrow()
        case _:
            assert_never(output)
    kept = rows if processing.keys else rows.filter(pc.equal(rows[BATCH_ID], batch_id))
    return kept.drop_columns([BATCH_ID])


def as_python(value: Any, kind: pa.DataType) -> Any:
    """What `to_pylist` makes of a value of Arrow, with a dict for each map whose keys may be a dict's."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        return {each.name: as_python(value[each.name], each.type) for each in kind}
    if not pa.types.is_map(kind):
        return [as_python(each, kind.value_type) for each in value]
    if pa.types.is_nested(kind.key_type):
        return value
    return {key: as_python(each, kind.item_type) for key, each in value}


def _rows_in_folders(folder: str, partition_by: Sequence[str]) -> pa.Table:
    """Partition columns, whose values name folders, are whole numbers if all that isn't null of them is."""
    texts = ds.partitioning(pa.schema([(name, pa.string()) for name in partition_by]), flavor="hive")
    rows = ds.dataset(folder, format=_INT96, partitioning=texts).to_table()
    for name in partition_by:
        with suppress(pa.ArrowInvalid):
            rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(pa.int64()))
    return rows
