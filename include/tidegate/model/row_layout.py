"""How the rows of an output lie in its files: which columns a job adds, and what the folders' names say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

BATCH_ID: Final = "batch_id"
"""The column of a table that says which batch a row came with."""
RESCUED_DATA: Final = "_rescued_data"
"""The column with what doesn't fit into a table's schema, as JSON text."""

OWN_COLUMNS: Final = frozenset({BATCH_ID, RESCUED_DATA})
"""The columns that a table gets whatever else it may get."""

_RENAMED_FOLDERS: Final = ("file", "hdfs")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPE: Final = "'"


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What a job that writes files has to know of an output.

    `batch_id_column` is added to the rows. `keeps_partition_columns`: these stay in the files, and the folders are
    named by texts of them, as `partition_values` reads. `rescued_data_column` is added too, and what doesn't fit into
    the table is kept there. None, False: not so.
    """

    batch_id_column: str | None = None
    keeps_partition_columns: bool = False
    rescued_data_column: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As a job is handed it."""
        return {
            "batch_id_column": self.batch_id_column,
            "keeps_partition_columns": self.keeps_partition_columns,
            "rescued_data_column": self.rescued_data_column,
        }


AS_RETURNED: Final = RowLayout()
"""Rows as the transform returned them, in folders that are named by batch and partition columns."""


def row_layout(output: str, *, rescues: bool = False) -> RowLayout:
    """The layout for an output's URI; with `rescues` what doesn't fit into the table is kept.

    A folder that is published by its renaming tells the batch of its files by its name. Wherever else they lie, a log
    or a list says which files count, and the rows tell everything themselves.
    """
    if output.partition("://")[0] in _RENAMED_FOLDERS:
        return AS_RETURNED
    return RowLayout(BATCH_ID, keeps_partition_columns=True, rescued_data_column=RESCUED_DATA if rescues else None)


def partition_values(path: str, partition_by: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    """The value, as text, of each partition column in a file of rows, by the file's path below its attempt's folder.

    The columns must have stayed in the files. None is null, and the empty text is another value. Numbers, dates and
    booleans are as Spark casts them to text, timestamps ISO 8601 in UTC, `2013-01-01T10:17:00.5Z`. Raises ValueError
    for a path that isn't below as many folders as there are columns.
    """
    folders = path.split("/")[:-1]
    return tuple((name, _value(folder)) for name, folder in zip(partition_by, folders, strict=True))


def _value(folder: str) -> str | None:
    name, mark, escaped = folder.partition("=")
    if not mark:
        raise ValueError(f"{name} is no folder of a partition")
    value = unquote(escaped)
    return None if value == _NULL else value.removeprefix(_ESCAPE)
