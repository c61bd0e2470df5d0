"""Which rows of a table are a batch's: by the column that each row of ours has."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

BATCH_ID: Final = "batch_id"


def is_of_batch(rows: Any, batch_id: str) -> pa.Array:
    """Whether each row of a pyarrow table, or of a record batch, is the batch's; none is where there is no column."""
    if BATCH_ID not in rows.schema.names:
        return pa.array([False] * rows.num_rows, pa.bool_())
    return pc.fill_null(pc.equal(rows[BATCH_ID], batch_id), fill_value=False)
