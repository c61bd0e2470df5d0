"""One commit of an Iceberg table: files, the record of an incarnation, and a tag at the record's snapshot.

**Why it is a compare-and-set.** The catalog replaces the table's metadata only if each requirement of the commit holds
for the metadata that it replaces. Each commit of a record moves the incarnation's tag to its own snapshot, whose id is
random, and requires (assert-ref-snapshot-id) that both `main` and that tag are where they were in the metadata that the
record was read from. So no record can have been committed since. `main` alone isn't enough: a rollback sets it to where
a sleeper once saw it, while the record stays. The table's uuid is required, too.

A property alone would be no commit to compare with: its change requires nothing of the table.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.table import Table, TableProperties, Transaction, _parse_row_filter
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from pyiceberg.table.update.snapshot import _SnapshotProducer

from tidegate.lake.iceberg.removal import Removal
from tidegate.model.errors import LostDataError
from tidegate.ports import Record

_TAG_MILLIS: Final = 7 * 24 * 3600 * 1000  # then expire_snapshots removes the tag of an incarnation that has ended
_ONE_LOOK_NO_WAIT: Final = {TableProperties.COMMIT_NUM_RETRIES: "1", TableProperties.COMMIT_MIN_RETRY_WAIT_MS: "0"}
NOTE: Final = "tidegate.note"


class RecordTransaction(Transaction):
    """A transaction upon exactly the metadata that was loaded: pyiceberg rebases others by itself.

    What is left of its retries is a look at the table after a refusal: if an answer was lost, the commit may be there.
    """

    def __init__(self, table: Table) -> None:
        self._computed: tuple[tuple[TableUpdate, ...], TableMetadata] = ((), table.metadata)
        properties = {**table.metadata.properties, **_ONE_LOOK_NO_WAIT}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        super().__init__(table)

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata with what is staged; each time it is computed all snapshots are copied, so once a change."""
        if not self._updates:
            return self._table.metadata
        if self._computed[0] is not self._updates:
            self._computed = self._updates, super().table_metadata
        return self._computed[1]

    def add_record(
        self, incarnation: str, record: Record, entries: Sequence[Entry], removal: Removal | None = None
    ) -> None:
        """Stage a snapshot with these files, be it none, the record, and the move of the incarnation's tag.

        With a removal it is one that overwrites, so that who reads snapshot by snapshot isn't handed rows once more.
        """
        tag = tag_of(incarnation)
        found = self.table_metadata.refs.get(tag)
        summary = {"tidegate.incarnation": incarnation, "tidegate.number": str(record.number), NOTE: str(record.note)}
        text = json.dumps({"number": record.number, "note": record.note})
        with self._producer(summary, removal) as snapshot:
            for entry in entries:
                snapshot.append_data_file(entry)
        self._stage(
            (
                SetPropertiesUpdate(updates={property_of(incarnation): text}),
                SetSnapshotRefUpdate.model_validate(
                    {
                        "ref-name": tag,
                        "type": SnapshotRefType.TAG,
                        "snapshot-id": snapshot.snapshot_id,
                        "max-ref-age-ms": _TAG_MILLIS,
                    }
                ),
            )
        )
        # _stage keeps one requirement of a type, and main's has it
        expected = found.snapshot_id if found else None
        self._requirements += (AssertRefSnapshotId.model_validate({"ref": tag, "snapshot-id": expected}),)

    def _producer(self, summary: dict[str, str], removal: Removal | None) -> _SnapshotProducer[Any]:
        if removal is None or not removal.removes:
            return self._append_snapshot_producer(summary)
        overwriting = self.update_snapshot(snapshot_properties=summary).overwrite()
        if removal.predicate is not None:
            overwriting.delete_by_predicate(_parse_row_filter(removal.predicate))
        for entry in removal.removes:
            overwriting.delete_data_file(entry)
        for entry in removal.adds:
            overwriting.append_data_file(entry)
        return overwriting

    def add_empty_snapshot(self) -> None:
        """Stage a snapshot without files, for a table that has none yet."""
        with self.update_snapshot().fast_append():
            pass

    def remove_snapshots(self, ids: Collection[int]) -> None:
        """Stage the end of snapshots, as long as each branch and tag is where it was when the table was loaded."""
        self._stage((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(ids)}),))
        self._requirements += tuple(
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id})
            for name, ref in self.table_metadata.refs.items()
        )

    def _rebuild_snapshot_updates(self) -> None:
        raise CommitFailedException("the table has changed")


def record_in(metadata: TableMetadata, incarnation: str, table: str) -> Record | None:
    """The incarnation's record in a table's metadata. Raises LostDataError if it can't be read."""
    text = metadata.properties.get(property_of(incarnation))
    if text is None:
        return None
    try:
        found: Mapping[str, int] = json.loads(text)
        return Record(int(found["number"]), int(found["note"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LostDataError(
            f"the property {property_of(incarnation)} of the table {table} isn't what was written ({error!r}): "
            "set it to what an earlier metadata file of the table has"
        ) from error


def is_undone(metadata: TableMetadata, record: Record) -> bool:
    """Whether the record's snapshot is there, and `main` was set back to before it.

    It is if that snapshot is younger than the oldest ancestor of main's that is left, and none of them. Of what was
    expired nothing is known.
    """
    committed = next((each for each in metadata.snapshots if _note(each) == str(record.note)), None)
    oldest = metadata.current_snapshot()
    if committed is None or oldest is None:
        return False
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    while oldest.snapshot_id != committed.snapshot_id:
        parent = by_id.get(oldest.parent_snapshot_id or -1)
        if parent is None:
            return _age(committed) > _age(oldest)
        oldest = parent
    return False


def property_of(incarnation: str) -> str:
    """The name of the table's property that has the record."""
    return f"tidegate.{incarnation}"


def tag_of(incarnation: str) -> str:
    """The name of the tag at the record's snapshot."""
    return f"tidegate-{incarnation}"


def _note(snapshot: Snapshot) -> str | None:
    return snapshot.summary.get(NOTE) if snapshot.summary else None


def _age(snapshot: Snapshot) -> tuple[int, int]:
    """What orders snapshots: format version 1 has no sequence numbers."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms
