"""A table's log, in which what is published is noted together with its files, in one commit."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.model.errors import TidegateError
from tidegate.model.receipt import Receipt


class LogConflictError(TidegateError):
    """The log has gone on since the snapshot, and its record may be another now: load again, and ask again."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a table's log says last of an incarnation: the number of a batch, and the name of the note about it."""

    number: int
    note: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of rows; `partition` has the value of each partition column as text, None for null."""

    uri: str
    bytes: int
    rows: int
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as one commit left it: its own id, and what its log says last of the incarnation that was asked for.

    `handle` is the adapter's own: what a commit upon this snapshot needs.
    """

    table_id: str
    record: Record | None
    handle: object = field(default=None, compare=False, repr=False)


class TableLog(Protocol):
    """The log of tables of one format, and the notes beside it.

    A table is named by the URI of an output. Each method raises UnavailableError where the store or the catalog can't
    be reached, UnauthorizedError where it refuses, WrongDefinitionError where what is there can't be used, by name.
    """

    def folder(self, table: str) -> str:
        """The URI of the folder that the table's data lies in, or will, once it is created."""
        ...

    def load(self, table: str, incarnation: str, number: int) -> TableSnapshot | None:
        """The table as it is now; None where there is none. `number` is the one that is asked about, as a hint."""
        ...

    def schema(self, table: str) -> str | None:
        """The columns of the table, as Spark writes a struct's type in JSON; None where there is no table."""
        ...

    def require_writable(self, table: str, partition_by: Collection[str]) -> None:
        """Raise where no file that is partitioned so can be appended to the table that is there; fine without one.

        Raises PartitioningError for other partitions than the table's, WrongDefinitionError for a table that asks of
        its writers what isn't done here. Whether columns fit isn't known before there are rows.
        """
        ...

    def files(self, table: str, snapshot: TableSnapshot) -> Collection[DataFile]:
        """The files that a table has by a snapshot, for rows of them to be rewritten.

        Raises WrongDefinitionError, by name, where Parquet readers would see other rows in them than the table's.
        """
        ...

    def create(self, table: str, files: Collection[DataFile], partition_by: Collection[str]) -> None:
        """Create an empty table that these files fit into. Somebody else who has done so meanwhile is fine."""
        ...

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
        """Commit the files and the record upon the snapshot, both or neither; without files the record alone.

        The files with the URIs `removed`, as `files` names them, leave the table in the same commit, and so do all rows
        of the batch `replaced`: they are found wherever others have moved them, by their column batch_id. What others
        append meanwhile is no conflict.

        Raises, and nothing is committed, LogConflictError where a record of the incarnation has been committed since
        the snapshot, and RewrittenFilesError where a file to be removed isn't in the table. Raises MisfitError, with
        both schemas, where the files don't fit and may not be made to, and for a table that asks of its writers what
        isn't done here.
        """
        ...

    def is_undone(self, table: str, snapshot: TableSnapshot, record: Record) -> bool:
        """Whether the table was taken back to before the commit that the record came with.

        The record is the snapshot's, or an earlier one of the same incarnation. Of a commit that its log has forgotten
        each format says what it takes for true.
        """
        ...

    def put_note(self, table: str, incarnation: str, name: str, text: str) -> bool:
        """Store a text beside the table, whole, where no maintenance removes it; durable once this returns.

        False, and nothing is stored, where there is a text of that name.
        """
        ...

    def note(self, table: str, incarnation: str, name: str) -> str | None:
        """A text that was stored so; None where there is none."""
        ...

    def notes(self, table: str, incarnation: str) -> Collection[str]:
        """The names of the texts that are stored so."""
        ...

    def remove_note(self, table: str, incarnation: str, name: str) -> None:
        """Remove a text; one that is gone already is fine."""
        ...
