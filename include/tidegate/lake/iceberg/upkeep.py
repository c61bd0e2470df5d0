"""The upkeep of Iceberg tables, by pyiceberg: snapshots expire, and the files go that they alone have named.

pyiceberg has no compaction, and its own expiry removes no file.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pyiceberg import exceptions as iceberg
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.properties import property_as_bool, property_as_int

from tidegate.lake.iceberg.commit import RecordTransaction
from tidegate.lake.iceberg.errors import asking
from tidegate.lake.iceberg.tables import parse_table
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports.table_upkeep import Upkeep

log = logging.getLogger(__name__)

_AT_ONCE: Final = 1_000  # pyiceberg's time grows with the square of it
_TRIES: Final = 20


class IcebergUpkeep:
    """The port `TableUpkeep` for Iceberg tables, by `history.expire.*` of the table."""

    def __init__(self, catalog_of: Callable[[str], Catalog]) -> None:
        self._catalog_of = catalog_of

    def maintain(self, table: str, *, dry_run: bool) -> Upkeep | None:
        """See `tidegate.ports.TableUpkeep`; a dry run tells no files."""
        with asking(table):
            found = self._load(table)
            if found is None:
                return None
            if not property_as_bool(found.metadata.properties, "gc.enabled", default=True):
                raise WrongDefinitionError(
                    f"the table {table} has gc.enabled=false, so others may have its files: leave out its maintenance"
                )
            expired = [each.snapshot_id for each in _expired(found.metadata, time.time_ns() // 1_000_000)]
            done = Upkeep()
            for ids in (expired[first : first + _AT_ONCE] for first in range(0, len(expired), _AT_ONCE)):
                if dry_run:
                    done = replace(done, expired=done.expired + len(ids))
                elif (removed := self._expire(table, ids)) is None:
                    return replace(done, yielded=True)
                else:
                    done = replace(done, expired=done.expired + len(ids), removed=done.removed + removed)
            return done

    def _expire(self, table: str, ids: Collection[int]) -> int | None:
        """How many files went with these snapshots; None where others have committed again and again."""
        for _ in range(_TRIES):
            found = self._load(table)
            if found is None:
                return None
            metadata = found.metadata
            going = [each for each in metadata.snapshots if each.snapshot_id in ids]
            staying = [each for each in metadata.snapshots if each.snapshot_id not in ids]
            if len(going) < len(ids) or any(each.snapshot_id in ids for each in metadata.refs.values()):
                return None
            files = list(_files_of_these_alone(found.io, going, staying))
            transaction = RecordTransaction(found)
            transaction.remove_snapshots(ids)
            try:
                transaction.commit_transaction()
            except iceberg.CommitFailedException as error:
                log.info("the table %s has changed while snapshots expired: %s", table, error)
                continue
            for path in files:
                with suppress(FileNotFoundError):
                    found.io.delete(path)
            return len(files)
        return None

    def _load(self, table: str) -> Table | None:
        connection_id, identifier = parse_table(table)
        try:
            return self._catalog_of(connection_id).load_table(identifier)
        except (iceberg.NoSuchTableError, iceberg.NoSuchNamespaceError):
            return None


def _expired(metadata: TableMetadata, now: int) -> Iterator[Snapshot]:
    """Snapshots that are older than the table keeps them, and neither a branch's last ones nor a tag's."""
    age = property_as_int(
        metadata.properties, TableProperties.MAX_SNAPSHOT_AGE_MS, TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT
    )
    least = property_as_int(
        metadata.properties, TableProperties.MIN_SNAPSHOTS_TO_KEEP, TableProperties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT
    )
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    kept = {each.snapshot_id for each in metadata.refs.values()}
    for ref in metadata.refs.values():
        of_branch, found = 0, by_id.get(ref.snapshot_id)
        while ref.snapshot_ref_type == SnapshotRefType.BRANCH and found is not None and of_branch < (least or 1):
            kept.add(found.snapshot_id)
            of_branch, found = of_branch + 1, by_id.get(found.parent_snapshot_id or -1)
    for each in metadata.snapshots:
        if each.snapshot_id not in kept and each.timestamp_ms < now - (age or 0):
            yield each


def _files_of_these_alone(io: FileIO, going: Iterable[Snapshot], staying: Iterable[Snapshot]) -> Iterator[str]:
    """The paths of files that no snapshot names any more once these are gone: data, manifests and their lists."""
    kept = {each.manifest_path: each for snapshot in staying for each in snapshot.manifests(io)}
    gone = [
        each
        for each in {each.manifest_path: each for snapshot in going for each in snapshot.manifests(io)}.values()
        if each.manifest_path not in kept
    ]
    yield from _data_files(io, gone) - _data_files(io, kept.values()) if gone else ()
    yield from (each.manifest_path for each in gone)
    yield from (each.manifest_list for each in going)


def _data_files(io: FileIO, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
    }
