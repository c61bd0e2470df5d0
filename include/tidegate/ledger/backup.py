"""A ledger's contents in a file, and back. The file is itself a ledger, in SQLite, whatever has the ledger it is of."""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, Table, delete, func, insert, select, text, update

from tidegate.ledger.database import Database
from tidegate.ledger.migrate import migrate, schema_of
from tidegate.ledger.tables import batches, definition_changes, ledger, metadata, subscriptions
from tidegate.model.counting import counted
from tidegate.model.errors import UnavailableError, UnusableLedgerError, WrongDefinitionError

_AT_ONCE = 1_000  # rows
_COPIED = tuple(table for table in metadata.sorted_tables if table is not ledger)  # a copy is another ledger
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


def back_up(url: str, file: Path) -> Contents:
    """Write the contents of the ledger at this URL, as they are at one instant, to a new file; runs may go on.

    Raises WrongDefinitionError for a file that is there already, or whose folder isn't; UnavailableError where the
    file can't be written.
    """
    if file.exists():
        raise WrongDefinitionError(f"{file} is there already, and nothing was written: name a new file")
    if not file.parent.is_dir():
        raise WrongDefinitionError(f"there is no folder {file.parent}, and nothing was written: create it")
    source = Database(url)
    migrate(source)
    try:
        with TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:  # whoever is killed leaves no half
            unfinished = Path(folder) / file.name
            target = Database(f"{_SQLITE}{unfinished}")
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


def restore(file: Path, url: str, *, replace: bool) -> Contents:
    """Put what a file has in the place of all that the ledger at this URL has.

    The file is left as it is, also if its schema is older. Steps that are under way find another ledger. Raises
    UnusableLedgerError for a file that is no ledger, or a newer Tidegate's; WrongDefinitionError for a ledger that
    isn't empty, unless it is to be replaced.
    """
    with _opened(file) as source:
        target = Database(url)
        migrate(target)
        with source.read() as reading, target.write() as writing:
            _keep_others_out(writing)
            if not replace and any(writing.execute(select(table).limit(1)).first() for table in _COPIED):
                raise WrongDefinitionError(
                    f"the ledger {target.name} isn't empty ({_contents(writing)}), and nothing was changed: back it "
                    "up, and give --replace to have the file's contents in its place"
                )
            for table in reversed(_COPIED):
                writing.execute(delete(table))
            _copy(reading, writing)
            writing.execute(update(ledger).values(identity=uuid.uuid4().hex))
            return _contents(writing)


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
        except sqlite3.Error as error:
            raise UnusableLedgerError(
                f"{file} can't be read as a ledger ({error}), and nothing was changed: name a file that `tidegate "
                "ledger backup` wrote, or a ledger in SQLite that nobody uses"
            ) from error
        database = Database(f"{_SQLITE}{copy}")
        database.name = str(file)  # as errors call it
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
