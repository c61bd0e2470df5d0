"""How a commit of a Delta table takes a file out: by the path that its log has, from a table that may lose rows."""

import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from tidegate.model.errors import WrongDefinitionError, message

_KEPT_AS_THEY_ARE: Final = "!$&'()+,/:;=@"
"""What delta-rs doesn't encode when it writes a path into the log, besides letters, digits and `-._~`."""


def is_append_only(table: DeltaTable) -> bool:
    """Whether the table's property refuses to lose rows."""
    return table.metadata().configuration.get("delta.appendOnly", "").lower() == "true"


def removable_path(logged: str, uri: str) -> str:
    """The path of a file below the table's folder, by what the log has, as delta-rs takes it to write the same again.

    Raises WrongDefinitionError for any other: a removal whose text differs from the log's removes the file for some
    readers, and not for others.
    """
    path = unquote(logged)
    if quote(path, safe=_KEPT_AS_THEY_ARE) != logged or "://" in path or path.startswith("/"):
        raise WrongDefinitionError(
            message(
                f"the log has a file that can't be removed from here: {logged}",
                uri,
                "rewrite it by its writer without characters beyond ASCII in the names of partitions, and no clone",
            )
        )
    return path


def removing(path: str, size: int, partition: Mapping[str, str | None] | None = None) -> RemoveAction:
    """The action that takes a file out of the table, now."""
    now = time.time_ns() // 1_000_000
    return RemoveAction(
        path,
        data_change=True,
        deletion_timestamp=now,
        size=size,
        partition_values=None if partition is None else dict(partition),
    )
