"""A table's log in memory."""

import threading
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field

from tidegate.model.errors import RewrittenFilesError
from tidegate.model.receipt import Receipt
from tidegate.ports import DataFile, LogConflictError, Record, TableSnapshot


@dataclass(slots=True)
class MemoryTable:
    """A table: its id, what its log says last of each incarnation, and its files."""

    id: str
    records: dict[str, Record] = field(default_factory=dict)
    files: list[DataFile] = field(default_factory=list)


class MemoryTableLog:
    """The port `TableLog` for one process, its threads included.

    `tables` are by the URI of their output, the texts in `stored` by that, their incarnation and their name.
    """

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}
        self.stored: dict[tuple[str, str, str], str] = {}
        self._lock = threading.RLock()

    def folder(self, table: str) -> str:
        """See `tidegate.ports.TableLog`."""
        return table

    def load(self, table: str, incarnation: str, number: int) -> TableSnapshot | None:  # noqa: ARG002 (all is at hand)
        """See `tidegate.ports.TableLog`."""
        with self._lock:
            found = self.tables.get(table)
            return (
                None if found is None else TableSnapshot(found.id, found.records.get(incarnation), tuple(found.files))
            )

    def schema(self, table: str) -> str | None:  # noqa: ARG002 (no table has one)
        """See `tidegate.ports.TableLog`."""
        return None

    def require_writable(self, table: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.TableLog`; files of any partitions are appended."""

    def files(self, table: str, snapshot: TableSnapshot) -> Collection[DataFile]:
        """See `tidegate.ports.TableLog`."""
        if not isinstance(snapshot.handle, tuple):
            raise TypeError(f"{snapshot} isn't {table}'s")
        return snapshot.handle

    def create(self, table: str, files: Collection[DataFile], partition_by: Collection[str]) -> None:  # noqa: ARG002 (it has no schema)
        """See `tidegate.ports.TableLog`."""
        with self._lock:
            if table not in self.tables:
                self.tables[table] = MemoryTable(uuid.uuid4().hex)

    def append(
        self,
        table: str,
        incarnation: str,
        snapshot: TableSnapshot,
        record: Record,
        files: Collection[DataFile],
        *,
        removed: Collection[str] = (),
        replaced: Receipt | None = None,
    ) -> None:
        """See `tidegate.ports.TableLog`; a file is of the batch whose folder below `data` it lies in."""
        with self._lock:
            found = self.tables.get(table)
            if found is None or (found.id, found.records.get(incarnation)) != (snapshot.table_id, snapshot.record):
                raise LogConflictError(f"{table} has another record of {incarnation} by now")
            if gone := set(removed).difference(file.uri for file in found.files):
                raise RewrittenFilesError(f"{table} hasn't {', '.join(sorted(gone))} any more")
            found.records[incarnation] = record
            kept = [file for file in found.files if file.uri not in removed and not _is_of(file, replaced)]
            found.files = [*kept, *files]

    def is_undone(self, table: str, snapshot: TableSnapshot, record: Record) -> bool:  # noqa: ARG002 (nobody takes it back)
        """See `tidegate.ports.TableLog`."""
        return False

    def put_note(self, table: str, incarnation: str, name: str, text: str) -> bool:
        """See `tidegate.ports.TableLog`."""
        with self._lock:
            if (table, incarnation, name) in self.stored:
                return False
            self.stored[table, incarnation, name] = text
            return True

    def note(self, table: str, incarnation: str, name: str) -> str | None:
        """See `tidegate.ports.TableLog`."""
        return self.stored.get((table, incarnation, name))

    def notes(self, table: str, incarnation: str) -> Collection[str]:
        """See `tidegate.ports.TableLog`."""
        with self._lock:
            return frozenset(name for at, of, name in self.stored if (at, of) == (table, incarnation))

    def remove_note(self, table: str, incarnation: str, name: str) -> None:
        """See `tidegate.ports.TableLog`."""
        with self._lock:
            self.stored.pop((table, incarnation, name), None)


def _is_of(file: DataFile, batch: Receipt | None) -> bool:
    return batch is not None and f"/data/{batch.batch_id}-" in file.uri
