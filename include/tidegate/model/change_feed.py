"""Change feeds: rows that are upserts and deletes of a table's rows, by their keys."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TOMBSTONES: Final = "_tombstones"
"""The folder, below an attempt's, with the keys that are deleted, and the sequence of each delete."""


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """What of a transform's rows makes them changes.

    `keys` are the columns of the key, `sequence_by` those by whose values, in order, the greatest change of a key wins,
    `delete_when` is a condition in SQL that is true for a delete.
    """

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...]
    delete_when: str | None = None


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """The table that changes are merged into, as one commit left it.

    `files` are the URIs of its files, each with the values, as text, of partition columns that it may lack. `schema` is
    Spark's JSON of its columns, None where there is no table yet. `tombstones` are the URIs of the files with the keys
    that the batches so far deleted.
    """

    files: Mapping[str, Mapping[str, str | None]]
    schema: str | None
    tombstones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """A change feed, and where a delivery merges it into."""

    feed: ChangeFeed
    target: MergeTarget

    def to_json(self) -> dict[str, Any]:
        """As a job is handed it."""
        target = self.target
        return {
            "keys": list(self.feed.keys),
            "sequence_by": list(self.feed.sequence_by),
            "delete_when": self.feed.delete_when,
            "files": [{"uri": uri, "partition": dict(values)} for uri, values in target.files.items()],
            "table_schema": None if target.schema is None else json.loads(target.schema),
            "tombstones": list(target.tombstones),
        }
