"""A job without Spark whose rows are laid out as the manifest says, for tables as for folders."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.testing.copying import CopyingProcessor


class TableRowsProcessor(CopyingProcessor):
    """Copies; the rows of a table get the column of their batch, and timestamps of microseconds."""

    def copy(self, landed: Path, file: Path, manifest: dict[str, Any]) -> None:
        """See `CopyingProcessor`."""
        super().copy(landed, file, manifest)
        if "layout" in manifest:
            pq.write_table(in_layout(pq.read_table(file), manifest), file, store_schema=False)


def in_layout(rows: pa.Table, manifest: dict[str, Any]) -> pa.Table:
    """As a table has them."""
    column = manifest["layout"].get("batch_id_column")
    if column is None:
        return rows
    schema = pa.schema([_in_micros(field) for field in rows.schema])
    batch_ids = pa.array([manifest["batch_id"]] * rows.num_rows, pa.string())
    return rows.cast(schema).append_column(column, batch_ids)


def _in_micros(field: pa.Field) -> pa.Field:
    return field.with_type(pa.timestamp("us", field.type.tz)) if pa.types.is_timestamp(field.type) else field
