"""A ledger's contents in a file, and back. The file is itself a ledger, in SQLite, whatever has the ledger it is of."""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, Table, delete, func, insert, select, text, update

from tidegate.ledger.database import SCHEMA, Database
from tidegate.ledger.migrate import migrate, schema_of
from tidegate.ledger.tables import batches, definition_changes, definitions, groups, ledger, metadata, subscriptions
from tidegate.model.counting import counted
from tidegate.model.errors import UnavailableError, UnusableLedgerError, WrongDefinitionError

_AT_ONCE = 1_000  # rows
_COPIED = tuple(table for table in metadata.sorted_tables if table is not ledger)  # a copy is another ledger
_NAMED = 5  # subscriptions
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Contents:
    """How much a ledger has, and when its newest batch was opened; None where it has none."""

    subscriptions: int
    batches: int
    open: int
    newest: datetime | None

    def __str__(self) -> str:
        """`12 batches (1 open) of 3 subscriptions, the newest of 2026-01-31 08:00:00 UTC`."""
        newest = f", the newest of {self.newest:%Y-%m-%d %H:%M:%S} UTC" if self.newest else ""
        all_batches = counted(self.batches, "batch", "batches")
        return f"{all_batches} ({self.open:,} open) of {counted(self.subscriptions, 'subscription')}{newest}"


class Replaceable(Enum):
    """What a restore may find in the ledger: nothing, only what the file's own ledger had since, or anything."""

    NOTHING = "nothing"
    OWN = "own"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a ledger had before a restore, and how many of these batches the file doesn't have."""

    contents: Contents
    forgotten: int

    def __str__(self) -> str:
        """`12 batches (1 open) of 3 subscriptions; 2 of these batches are not in the file`."""
        is_not = "is not" if self.forgotten == 1 else "are not"
        return f"{self.contents}; {self.forgotten:,} of these batches {is_not} in the file"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a ledger has after a restore, and what it had before; None for one that was empty."""

    now: Contents
    replaced: Replaced | None


def back_up(url: str, file: Path) -> Contents:
    """Write the contents of the ledger at this URL, as they are at one instant, to a new file; runs may go on.

    Raises WrongDefinitionError for a file that is there already, or whose folder isn't, and for a ledger that this
    version would have to migrate first; UnavailableError where the file can't be written.
    """
    if file.exists():
        raise WrongDefinitionError(f"{file} is there already, and nothing was written: name a new file")
    if not file.parent.is_dir():
        raise WrongDefinitionError(f"there is no folder {file.parent}, and nothing was written: create it")
    source = Database(url)
    _refuse_older(source)
    migrate(source)
    try:
        with TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:  # whoever is killed leaves no half
            unfinished = Path(folder) / file.name
            target = Database(f"{_SQLITE}{unfinished}")
            target.name = f"in the file {file}"
            migrate(target)
            with source.read() as reading, target.write() as writing:
                _copy(reading, writing)
                contents = _contents(writing)
            unfinished.rename(file)
    except OSError as error:
        raise UnavailableError(
            f"{file} can't be written ({error}): see that its folder has room and may be written"
        ) from error
    return contents


def _refuse_older(source: Database) -> None:
    """Raise WrongDefinitionError for a ledger of an older version, for which a backup by this one would be no use."""
    schema = schema_of(source)
    if schema is not None and schema < SCHEMA:
        raise WrongDefinitionError(
            f"the ledger {source.name} has schema {schema}, of an older Tidegate, which couldn't use a backup by this "
            f"one, of schema {SCHEMA}: nothing was written; copy the file, or use pg_dump"
        )


def restore(file: Path, url: str, replaceable: Replaceable = Replaceable.NOTHING) -> Restored:
    """Put what a file has in the place of all that the ledger at this URL has.

    The file is left as it is, also if its schema is older. Steps that are under way find another ledger. Raises
    UnusableLedgerError for a file that is no ledger, or a newer Tidegate's; WrongDefinitionError for a ledger that has
    what isn't replaceable.
    """
    with _opened(file) as source:
        target = Database(url)
        migrate(target)
        with source.read() as reading, target.write() as writing:
            _keep_others_out(writing)
            restored = _restored(file, reading, target.name, writing, replaceable)
            for table in reversed(_COPIED):
                writing.execute(delete(table))
            _copy(reading, writing)
            writing.execute(update(ledger).values(identity=uuid.uuid4().hex))
            return restored


def preview_restore(file: Path, url: str, replaceable: Replaceable = Replaceable.NOTHING) -> Restored:
    """What `restore` would do. Raises what it raises."""
    with _opened(file) as source:
        target = Database(url)
        migrate(target)
        with source.read() as reading, target.read() as there:
            return _restored(file, reading, target.name, there, replaceable)


def _restored(file: Path, reading: Connection, name: str, there: Connection, replaceable: Replaceable) -> Restored:
    """What is to be replaced by what. Raises WrongDefinitionError where that isn't replaceable."""
    now, before = _contents(reading), _contents(there)
    if not any(there.execute(select(table).limit(1)).first() for table in _COPIED):
        return Restored(now, None)
    if replaceable is Replaceable.NOTHING:
        has = before if before.batches else "notes of runs, or definitions"
        raise WrongDefinitionError(
            f"the ledger {name} isn't empty ({has}), and nothing was changed: back it up, and give --replace to have "
            "the file's contents in its place"
        )
    ids, kept = (set(connection.scalars(select(batches.c.id))) for connection in (there, reading))
    shares = not ids.isdisjoint(kept) or not _groups(there).isdisjoint(_groups(reading))
    if replaceable is Replaceable.OWN and not shares and _has_own(there):
        raise WrongDefinitionError(
            f"{file} shares no batch and no group with the ledger {name}, so it is another ledger's, as far as can be "
            f"seen, and nothing was changed: the ledger has {before}{_names(there)}; the file has "
            f"{now}{_names(reading)}; name a backup of this ledger, or, if another one's contents are meant, give "
            "--replace-another"
        )
    return Restored(now, Replaced(before, len(ids - kept)))


def _has_own(connection: Connection) -> bool:
    """Whether there is more than notes of runs that found no broker, which say nothing of whose ledger it is."""
    first = (connection.execute(select(table).limit(1)).first() for table in (batches, definitions))
    return any(first) or bool(_groups(connection))


def _groups(connection: Connection) -> set[tuple[str, str]]:
    """Those whose cluster is known: in another cluster the same name is another group."""
    found = select(groups.c.group_id, groups.c.cluster_id).where(groups.c.cluster_id.is_not(None))
    return {(row.group_id, row.cluster_id) for row in connection.execute(found)}


def _names(connection: Connection) -> str:
    """` (orders, sales and 3 more)`; empty without subscriptions."""
    names = connection.scalars(select(subscriptions.c.name).order_by(subscriptions.c.name)).all()
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f" ({', '.join(names[:_NAMED])}{more})" if names else ""


@contextmanager
def _opened(file: Path) -> Iterator[Database]:
    """A copy of a file that is a ledger, in this version's schema."""
    if not file.is_file():
        raise WrongDefinitionError(f"there is no file {file}, and nothing was changed: name a backup")
    with TemporaryDirectory(prefix="tidegate-restore-") as folder:
        copy = Path(folder) / "ledger.db"
        try:
            with (
                closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as given,
                closing(sqlite3.connect(copy)) as copied,
            ):
                given.backup(copied)
                ((intact,),) = copied.execute("PRAGMA integrity_check(1)")
        except sqlite3.Error as error:
            raise UnusableLedgerError(
                f"{file} can't be read as a ledger ({error}), and nothing was changed: name a file that `tidegate "
                "ledger backup` wrote, or a ledger in SQLite that nobody uses"
            ) from error
        if intact != "ok":
            raise UnusableLedgerError(f"{file} is damaged ({intact}), and nothing was changed: name another backup")
        database = Database(f"{_SQLITE}{copy}")
        database.name = f"in a copy of {file}"  # as errors call it
        if schema_of(database) is None:
            raise UnusableLedgerError(
                f"{file} is a database, but no ledger, and nothing was changed: name a file that `tidegate ledger "
                "backup` wrote"
            )
        migrate(database)
        yield database


def _copy(reading: Connection, writing: Connection) -> None:
    for table in _COPIED:
        found = reading.execute(select(table).execution_options(yield_per=_AT_ONCE))
        for rows in found.mappings().partitions():
            writing.execute(insert(table), [dict(row) for row in rows])
    _count_on(writing, definition_changes)


def _count_on(writing: Connection, table: Table) -> None:
    """PostgreSQL's sequence doesn't see the numbers that are given to it."""
    if writing.dialect.name == "postgresql":
        newest = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
        sequence = func.pg_get_serial_sequence(table.name, "id")
        writing.execute(select(func.setval(sequence, newest, text("false"))))


def _keep_others_out(writing: Connection) -> None:
    """Until the transaction ends, as SQLite does by itself."""
    if writing.dialect.name == "postgresql":
        names = ", ".join(table.name for table in metadata.sorted_tables)
        writing.execute(text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))


def _contents(connection: Connection) -> Contents:
    open_ones = func.count().filter(batches.c.closed_at.is_(None))
    counted = select(func.count(), open_ones, func.max(batches.c.opened_at)).select_from(batches)
    all_batches, opened, newest = connection.execute(counted).one()
    named = connection.scalar(select(func.count()).select_from(subscriptions))
    return Contents(named or 0, all_batches, opened, newest)
