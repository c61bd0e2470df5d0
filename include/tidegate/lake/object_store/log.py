"""Plain Parquet on an object store: a commit is one object that is created only where there is none, and names files.

`<output>/_batches/table.json` has the table's id, `<output>/_batches/<table id>/<incarnation>/<name>.json` a commit of
an incarnation. Commits are counted from 1, and names count down from 999999999999: the newest commit's comes first, so
that one page of a listing finds it, however many there are. Whoever commits creates the name after the newest that it
has seen, which one alone can.
"""

import json
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from tidegate.lake.object_store.calls import Objects, TakenError, objects_of
from tidegate.model.errors import LostDataError, UnavailableError, WrongDefinitionError, message
from tidegate.model.receipt import Receipt
from tidegate.parquet.known_stores import object_place
from tidegate.ports.table_log import DataFile, LogConflictError, Record, TableSnapshot

COMMITS: Final = "_batches"
_MARKER: Final = f"{COMMITS}/table.json"
_NOTES: Final = "_tidegate"
_FORMAT: Final = 1
_DIGITS: Final = 12
_NAMES: Final = 10**_DIGITS


@dataclass(frozen=True, slots=True)
class _Seen:
    """How many commits an incarnation had when its table was loaded."""

    commits: int


class ObjectLog:
    """The port `TableLog` for outputs `s3://connection@bucket/folder` of plain Parquet files.

    A store must list names in their order, as all general-purpose ones do; Amazon's directory buckets don't.
    """

    def folder(self, table: str) -> str:
        """See `tidegate.ports.TableLog`; the table's own URI."""
        return table.rstrip("/")

    def load(self, table: str, incarnation: str, number: int) -> TableSnapshot | None:  # noqa: ARG002 (needs no hint)
        """See `tidegate.ports.TableLog`; by three requests at most. Raises LostDataError for what is no commit."""
        objects = objects_of(table)
        table_id = table_id_of(objects, table)
        if table_id is None:
            return None
        newest = objects.first(f"{COMMITS}/{table_id}/{incarnation}/")
        if newest is None:
            return TableSnapshot(table_id, None, _Seen(0))
        found = parsed(objects.read(newest), f"{table}/{newest}")
        return TableSnapshot(table_id, Record(found["number"], found["note"]), _Seen(sequence_of(newest)))

    def schema(self, table: str) -> str | None:  # noqa: ARG002
        """See `tidegate.ports.TableLog`; files of any schema fit."""
        return None

    def require_writable(self, table: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.TableLog`; files of any partitions are appended."""
        del partition_by
        table_id_of(objects_of(table), table)

    def files(self, table: str, snapshot: TableSnapshot) -> Collection[DataFile]:
        """See `tidegate.ports.TableLog`. Raises WrongDefinitionError: a list of files isn't for rewriting."""
        del snapshot
        raise _never_replaced(table)

    def create(self, table: str, files: Collection[DataFile], partition_by: Collection[str]) -> None:  # noqa: ARG002
        """See `tidegate.ports.TableLog`; files of any schema fit."""
        marker = {"format": _FORMAT, "table_id": str(uuid.uuid4()), "partition_by": list(partition_by)}
        objects = objects_of(table)
        try:
            objects.create(_MARKER, json.dumps(marker).encode())
        except TakenError:
            return
        except UnavailableError:
            if objects.read(_MARKER) is None:
                raise

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
        """See `tidegate.ports.TableLog`; by two requests, or three where an answer was lost.

        A commit says which batch's files count no more, as nobody else moves rows.
        """
        if removed:
            raise _never_replaced(table)
        if not isinstance(snapshot.handle, _Seen):
            raise TypeError("the snapshot is another log's")
        folder = self.folder(table)
        commit = {
            "format": _FORMAT,
            "commit": uuid.uuid4().hex,
            "number": record.number,
            "note": record.note,
            "files": [_to_json(file, folder) for file in files],
            **({"replaces": {"batch_id": replaced.batch_id, "number": replaced.number}} if replaced else {}),
        }
        path = f"{COMMITS}/{snapshot.table_id}/{incarnation}/{_name(snapshot.handle.commits + 1)}"
        objects = objects_of(table)
        try:
            objects.create(path, json.dumps(commit).encode())
        except TakenError:
            if not _is_there(objects, path, commit):
                raise _overtaken(table, record) from None
        except UnavailableError as error:
            _settle(objects, path, commit, error)
        if table_id_of(objects, table) != snapshot.table_id:  # what was committed lies where nobody reads
            raise LogConflictError(
                f"{table} was removed since it was loaded, so number {record.number} isn't committed"
            )

    def is_undone(self, table: str, snapshot: TableSnapshot, record: Record) -> bool:  # noqa: ARG002
        """See `tidegate.ports.TableLog`; nothing takes a commit back."""
        return False

    def put_note(self, table: str, incarnation: str, name: str, text: str) -> bool:
        """See `tidegate.ports.TableLog`; after a lost answer False may be said of what was stored."""
        try:
            objects_of(table).create(f"{_NOTES}/{incarnation}/{name}", text.encode())
        except TakenError:
            return False
        return True

    def notes(self, table: str, incarnation: str) -> Collection[str]:
        """See `tidegate.ports.TableLog`."""
        return [path.rpartition("/")[2] for path, _ in objects_of(table).all(f"{_NOTES}/{incarnation}/")]

    def remove_note(self, table: str, incarnation: str, name: str) -> None:
        """See `tidegate.ports.TableLog`."""
        objects_of(table).remove(f"{_NOTES}/{incarnation}/{name}")

    def note(self, table: str, incarnation: str, name: str) -> str | None:
        """See `tidegate.ports.TableLog`."""
        content = objects_of(table).read(f"{_NOTES}/{incarnation}/{name}")
        return None if content is None else content.decode()


def sequence_of(path: str) -> int:
    """The number of a commit among those of its incarnation, by its path. Raises LostDataError for another's name."""
    name = path.rpartition("/")[2].removesuffix(".json")
    if len(name) != _DIGITS or not name.isdecimal():
        raise LostDataError(f"{path} is no commit of Tidegate's, and stands where commits are: move it away")
    return _NAMES - int(name)


def _never_replaced(table: str) -> WrongDefinitionError:
    return WrongDefinitionError(
        message(
            "files of Parquet on an object store are never replaced", table, "take processing.format delta or iceberg"
        )
    )


def _name(sequence: int) -> str:
    return f"{_NAMES - sequence:0{_DIGITS}}.json"


def table_id_of(objects: Objects, table: str) -> str | None:
    """The id of the table; None where there is none."""
    content = objects.read(_MARKER)
    if content is None:
        return None
    table_id: str = parsed(content, f"{table}/{_MARKER}")["table_id"]
    return table_id


def parsed(content: bytes | None, where: str) -> dict[str, Any]:
    """A marker, or a commit. Raises LostDataError for anything else, WrongDefinitionError for one of a later format."""
    try:
        found: dict[str, Any] = json.loads(content or b"")
        given = found["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise LostDataError(
            f"{where} can't be read ({error!r}): put it back as it was, by an older version of it"
        ) from error
    if given != _FORMAT:
        raise WrongDefinitionError(f"{where} is of format {given}, which a newer Tidegate writes: install that")
    return found


def _is_there(objects: Objects, path: str, commit: dict[str, Any]) -> bool:
    """Whether the commit of this name is this very one, and not somebody else's."""
    content = objects.read(path)
    return content is not None and parsed(content, path).get("commit") == commit["commit"]


def _settle(objects: Objects, path: str, commit: dict[str, Any], error: UnavailableError) -> None:
    """Find out what became of a commit whose answer was lost. Raises UnavailableError where it may yet come to be."""
    if objects.read(path) is None:
        raise error
    if not _is_there(objects, path, commit):
        raise LogConflictError(message(f"{path} is somebody else's commit", remedy="ask again")) from error


def _overtaken(table: str, record: Record) -> LogConflictError:
    return LogConflictError(
        message(f"{table} has another commit since it was loaded, so number {record.number} isn't committed")
    )


def _to_json(file: DataFile, folder: str) -> dict[str, Any]:
    below = file.uri.removeprefix(f"{folder}/")
    place = object_place(file.uri) if below == file.uri else None
    return {
        "path": place.uri if place else below,
        "bytes": file.bytes,
        "rows": file.rows,
        "partition": dict(file.partition),
    }
